"""Limits that a lost home made: changed by the next one, and never made twice."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from support.budgets import whole
from support.ledgers import HOME, LOCAL, SOUTH, WEST, make_services, make_settings

from ledger.budgets import limit_changer
from ledger.budgets.administrator import BudgetAdministrator
from ledger.budgets.calendar import Window
from ledger.budgets.limit_changer import LimitChanger
from ledger.budgets.limit_windows import BudgetLimit, LimitStep, limit_item, lower_window
from ledger.budgets.region_access import RegionAccess
from ledger.budgets.rights import Holder, Rights, is_rights, rights_item, rights_of
from ledger.budgets.rights_items import read_budget, read_rights
from ledger.budgets.rights_plan import create
from ledger.budgets.rights_plan import raise_limit as raised_by
from ledger.core.errors import BudgetMissing, StateConflict, StoreError, Unreachable
from ledger.core.ids import EPOCH
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import Action, Outcome, Put, Rejected
from ledger.testing.clock import ManualClock

BUDGET = "key/42"


def made(limit: int, revision: int = 1) -> BudgetLimit:
    """Return a limit as the lost home wrote it."""
    return BudgetLimit(revision, (LimitStep.of(limit, {Holder(HOME): 1}),))


class Remaining:
    """Two regions that remain, `WEST` of them home; each shows a limit of the lost one, or none."""

    def __init__(self, window: str = "none", **shown: BudgetLimit | None) -> None:
        self.shown = shown
        self.window = window
        self.stores: dict[str, Store] = {region: MemoryStore(region) for region in (WEST, SOUTH)}
        self.reached = dict(self.stores)
        self.clock = ManualClock(instant=True)
        self.given_up_at = self.clock.now()
        self.is_lost = True

    async def access(self) -> RegionAccess:
        """Return what operators work with at home."""
        for region, limit in zip((WEST, SOUTH), self.shown.values(), strict=True):
            if limit is not None:
                await self.stores[region].write(Put(limit_item(limit, BUDGET)))

        async def others() -> Mapping[str, Store]:
            return {region: each for region, each in self.reached.items() if region != WEST}

        settings = make_settings(
            budgets={"key/*": {"window": self.window}},
            regions=dict.fromkeys((HOME, WEST, SOUTH), LOCAL),
        )
        terms = replace(
            settings.terms,
            home=WEST,
            regions=(WEST, SOUTH),
            lost=(HOME,) if self.is_lost else (),
            generation=2,
            given_up_at=self.given_up_at if self.is_lost else None,
        )
        live = settings.under(terms, home=WEST)
        return RegionAccess(self.stores[WEST], live, make_services(self.clock), others)

    async def copy_limit(self) -> None:
        """Let the other region show the limit as home does."""
        limit = await self.limit()
        assert limit is not None
        await self.stores[SOUTH].write(Put(limit_item(limit, BUDGET)))

    async def limit(self, region: str = WEST) -> BudgetLimit | None:
        """Return the limit that a region shows."""
        return (await read_budget(self.stores[region], BUDGET)).limit


@pytest.mark.parametrize(
    ("home", "other"), [(made(10), made(10)), (None, made(10)), (made(5), made(10, 2))]
)
async def test_a_limit_is_changed_from_the_newest_that_any_region_shows(
    home: BudgetLimit | None, other: BudgetLimit
) -> None:
    """Home writes it in its own generation: what the lost one wrote late counts no more."""
    world = Remaining(home=home, other=other)
    changer = LimitChanger(await world.access())
    assert (await changer.raise_limit(BUDGET, 5, "order-1", None)).target == 15
    assert (await changer.raise_limit(BUDGET, 5, "order-1", None)).target == 15
    assert (await changer.lower_limit(BUDGET, 3, None)).target == 3
    found = await world.limit()
    assert found is not None
    assert (found.generation, found.newest.limit) == (2, Decimal(3))
    late = replace(made(99), revision=100)
    await world.stores[WEST].write(Put(limit_item(late, BUDGET)))
    assert await world.limit() == found


async def test_a_budget_that_home_does_not_show_is_not_made_again() -> None:
    """Home writes the limit again, and mints nothing."""
    world = Remaining(home=None, other=made(10))
    administrator = BudgetAdministrator(await world.access())
    with pytest.raises(StateConflict, match="has a limit of 10 already"):
        await administrator.create(BUDGET, 20)
    assert not await administrator.create(BUDGET, 10)
    shown = await read_budget(world.stores[WEST], BUDGET)
    assert shown.limit is not None
    assert (shown.limit.generation, shown.limit.newest.limit) == (2, Decimal(10))
    assert shown.limit.revision == made(10).revision + 1  # which no other region shows yet
    assert shown.items == {}


async def test_a_limit_is_put_again_once() -> None:
    """So that spenders of every region have it; after that home's counts."""
    world = Remaining(home=made(10), other=made(12, 3))
    changer = LimitChanger(await world.access())
    for _ in range(2):
        await changer.go_on(BUDGET)
        found = await world.limit()
        assert found is not None
        assert (found.generation, found.revision, found.newest.limit) == (2, 4, Decimal(12))


@pytest.mark.parametrize("home", [None, made(10)])
async def test_while_a_region_cannot_be_reached_nothing_is_decided(
    home: BudgetLimit | None,
) -> None:
    """It may show a newer limit, or one at all."""
    world = Remaining(home=home, other=made(12, 3))
    access = await world.access()
    del world.reached[SOUTH]
    for call in (
        lambda: LimitChanger(access).raise_limit(BUDGET, 5, "order-1", None),
        lambda: LimitChanger(access).lower_limit(BUDGET, 3, None),
        lambda: BudgetAdministrator(access).create(BUDGET, 10),
    ):
        with pytest.raises(Unreachable, match=f"region {SOUTH} cannot be reached"):
            await call()
    assert await world.limit() == home


async def test_a_budget_that_no_region_shows_is_missing_and_may_be_made() -> None:
    """None of those who remain ever had it."""
    world = Remaining(home=None, other=None)
    access = await world.access()
    with pytest.raises(BudgetMissing):
        await LimitChanger(access).raise_limit(BUDGET, 5, "order-1", None)
    assert await BudgetAdministrator(access).create(BUDGET, 10)
    found = await world.limit()
    assert found is not None
    assert found.generation == 2


async def test_a_raise_of_windows_is_found_in_any_regions_limit() -> None:
    """One that two homes have written, and that is not the newest."""
    raised = replace(made(15, 2), raises={"order-1": Decimal(5)}, raised={"order-1": Decimal(0)})
    world = Remaining(window="day", home=made(15, 3), other=raised)
    changer = LimitChanger(await world.access())
    done = await changer.raise_limit(BUDGET, 5, "order-1", None)
    assert done.since is None
    found = await world.limit()
    assert found is not None
    assert found.newest.limit == 15


RAISE = "order-17"
DAY = 2 * 86_400
"""After which nothing of the lost home arrives any more."""


def with_raise(world: Remaining, limit: BudgetLimit) -> BudgetLimit:
    """Return the limit as the lost home wrote it with the raise."""
    at = Decimal(int(world.given_up_at.timestamp()))
    steps = (LimitStep.of(int(limit.newest.limit) + 5, {Holder(HOME): 1}),)
    return replace(limit, revision=2, steps=steps, raises={RAISE: Decimal(5)}, raised={RAISE: at})


async def show_rights(world: Remaining, region: str, *, is_raised: bool, minted: int = 10) -> None:
    """Let a region show the lost home's rights, with the raise or before it."""
    rights: Rights | None = create(Holder(HOME), Decimal(minted))
    if rights is not None and is_raised:
        now = int(world.given_up_at.timestamp())
        rights = raised_by(rights, Decimal(5), RAISE, now=now)
    assert rights is not None
    await world.stores[region].write(Put(rights_item(rights, counter_of(world.window))))


@pytest.mark.parametrize("region", [WEST, SOUTH])
async def test_a_raise_of_which_only_the_rights_arrived_is_in_the_limit(region: str) -> None:
    """Once, whichever region shows it, and whether it is repeated or not."""
    world = Remaining(home=made(10), other=made(10))
    changer = LimitChanger(await world.access())
    await show_rights(world, region, is_raised=True)
    state = await BudgetAdministrator(await world.access()).state(Window(BUDGET, BUDGET))
    assert state.target == (15 if region == WEST else 10)  # by what home alone shows
    for call in (changer.go_on, lambda budget: changer.raise_limit(budget, 5, RAISE, None)):
        for _ in range(2):
            assert (await call(BUDGET)).target == 15
    found = await world.limit()
    assert found is not None
    assert (found.revision, found.raises) == (2, {RAISE: Decimal(5)})
    assert Holder(WEST) not in await read_rights(world.stores[WEST], BUDGET)
    assert (await changer.lower_limit(BUDGET, 12, None)).target == 12
    assert (await changer.go_on(BUDGET)).target == 12


async def test_a_raise_of_which_only_the_limit_arrived_is_minted_once_all_is_reclaimed() -> None:
    """Not before: its rights may be on their way, or others may have taken of them."""
    world = Remaining(home=made(10), other=None)
    world.shown["other"] = with_raise(world, made(10))
    changer = LimitChanger(await world.access())
    await show_rights(world, WEST, is_raised=False)
    assert not await changer.is_torn(BUDGET)
    await changer.go_on(BUDGET, is_reclaimed=True)
    world.clock.pass_by(DAY)
    assert await changer.is_torn(BUDGET)
    for done in (await changer.go_on(BUDGET), await changer.raise_limit(BUDGET, 5, RAISE, None)):
        assert [done.limit, done.target] == [10, 15]
    for _ in range(2):
        done = await changer.go_on(BUDGET, is_reclaimed=True)
        assert [done.limit, done.target] == [15, 15]
    assert not await changer.is_torn(BUDGET)
    shown = await read_rights(world.stores[WEST], BUDGET)
    assert shown[Holder(WEST)].minted == 5
    assert shown[Holder(WEST)].raises == {RAISE: Decimal(5)}


@pytest.mark.parametrize("later", [0, 5])
async def test_a_first_raise_of_which_only_the_rights_arrived_makes_the_limit(later: int) -> None:
    """The repeat of the call that made the budget finds its raise, and what others added to it."""
    world = Remaining(home=None, other=None)
    now = int(world.given_up_at.timestamp())
    rights = raised_by(create(Holder(HOME), Decimal(0)), Decimal(10), "first", now=now)
    if rights is not None and later:
        rights = raised_by(rights, Decimal(later), RAISE, now=now)
    assert rights is not None
    await world.stores[WEST].write(Put(rights_item(rights, BUDGET)))
    administrator = BudgetAdministrator(await world.access())
    with pytest.raises(StateConflict, match=f"has rights of {10 + later} and no limit"):
        await administrator.create(BUDGET, 10 + later, raise_id="another")
    await administrator.create(BUDGET, 10, raise_id="first")
    found = await world.limit()
    assert found is not None
    assert found.newest.limit == 10 + later
    assert found.raises["first"] == 10
    assert not await administrator.create(BUDGET, 10, raise_id="first")
    assert Holder(WEST) not in await read_rights(world.stores[WEST], BUDGET)


class Written(ForwardingStore):
    """Notes what each transaction puts; `late` ones are not carried out, and have no answer."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.requests: list[Sequence[Action]] = []
        self.is_late = False

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Note it, and hand it on if it is not late."""
        self.requests.append(actions)
        if self.is_late:
            raise StoreError("no answer")
        return await super().transact(actions, token=token)

    def rights(self) -> list[Rights]:
        """Return each version of a rights item that was put, in order."""
        puts = [each.item for actions in self.requests for each in actions if isinstance(each, Put)]
        return [rights_of(item) for item in puts if is_rights(item["sk"]["S"])]


@pytest.mark.parametrize(("window", "is_made"), [("none", True), ("month", True), ("month", False)])
async def test_a_raise_that_was_lowered_since_is_not_minted_for_a_moment(
    window: str, *, is_made: bool
) -> None:
    """Whoever spends between the mint and a write that retires it has what nobody may.

    What south has of a window counts before it has made its item, too.
    """
    world, home, changer = await _lowered_after_half_a_raise(window, is_made=is_made)
    before = await rights_at(world, window)
    await changer.go_on(BUDGET, is_reclaimed=True)
    [minted] = home.rights()
    assert whole(minted.minted - before.minted, minted.retired - before.retired) == [5, 5]
    assert minted.raises == {RAISE: Decimal(5)}
    assert not await changer.is_torn(BUDGET)


@pytest.mark.parametrize("window", ["none", "month"])
async def test_a_mint_that_is_late_is_of_no_limit_that_was_lowered_since(window: str) -> None:
    """The lowering has nothing to retire, and changes the limit alone."""
    world, home, changer = await _lowered_after_half_a_raise(window, is_lowered=False)
    home.is_late = True
    with pytest.raises(StoreError):
        await changer.go_on(BUDGET, is_reclaimed=True)
    home.is_late = False
    late = home.requests[-1]
    assert home.rights()[-1].minted > 0
    assert (await changer.lower_limit(BUDGET, 10, None)).limit <= 10
    assert isinstance(await home.transact(late), Rejected)
    assert (await rights_at(world, window)).available == 0


def counter_of(window: str) -> str:
    """Return the counter of the budget, or of its window that runs."""
    return BUDGET if window == "none" else f"{BUDGET}@2026-11"


async def rights_at(world: Remaining, window: str) -> Rights:
    """Return home's item, of the window that runs."""
    return (await read_rights(world.stores[WEST], counter_of(window)))[Holder(WEST)]


async def _lowered_after_half_a_raise(
    window: str, *, is_lowered: bool = True, is_made: bool = True
) -> tuple[Remaining, Written, LimitChanger]:
    """Return what a lost home left: a raise by 5 in the limit alone, lowered to 10 since.

    The 10 are south's, all of them charged.
    """
    world = Remaining(window, home=made(10), other=None)
    raised = with_raise(world, made(10))
    if window != "none":
        step = LimitStep.of(raised.newest.limit if is_made else 10, {Holder(SOUTH): 1})
        raised = replace(raised, steps=(step,))
    if not is_made:
        later = int((world.given_up_at - EPOCH).total_seconds()) + 30 * 86_400
        step = LimitStep.of(15, {Holder(HOME): 1}, since=later)
        raised = replace(raised, steps=(*raised.steps, step))
    world.shown["other"] = raised
    home = Written(world.stores[WEST])
    world.stores[WEST] = world.reached[WEST] = home
    changer = LimitChanger(await world.access())
    counter = counter_of(window)
    spent = replace(create(Holder(SOUTH), Decimal(10)), charged=Decimal(10))
    for store in world.stores.values():
        if is_made:
            await store.write(Put(rights_item(spent, counter)))
        await store.write(Put(rights_item(create(Holder(WEST), Decimal(0)), counter)))
    world.clock.pass_by(DAY)
    await changer.go_on(BUDGET)
    if is_lowered:
        assert (await changer.lower_limit(BUDGET, 10, None)).limit == 10
    home.requests.clear()
    return world, home, changer


async def test_a_raise_whose_rights_alone_arrived_adds_to_what_the_window_is_lowered_to() -> None:
    """Else the next lowering, or a confirmation, would retire it."""
    begins = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp())
    lowered = lower_window(made(10), begins, Decimal(4))
    world = Remaining("month", home=lowered, other=lowered)
    changer = LimitChanger(await world.access())
    await show_rights(world, WEST, is_raised=True, minted=4)
    done = await changer.go_on(BUDGET)
    assert [done.limit, done.target] == [9, 9]
    found = await world.limit()
    assert found is not None
    assert found.lowered == {begins: Decimal(9)}


async def test_a_raise_that_the_limit_does_not_know_yet_is_not_retired() -> None:
    """What is above it is. The limit knows it once the lowering's step, announced, is in force."""
    begins, since = (
        int(datetime(year, month, 1, tzinfo=UTC).timestamp())
        for year, month in ((2026, 11), (2027, 1))
    )
    lowered = lower_window(made(10), begins, Decimal(4))
    lowered = replace(lowered, announced=LimitStep.of(4, {Holder(WEST): 1}, since=since))
    world = Remaining("month", home=lowered, other=lowered)
    changer = LimitChanger(await world.access())
    await show_rights(world, WEST, is_raised=True, minted=4)
    again = replace(create(Holder(WEST), Decimal(12)), reclaimed={Holder(HOME): Decimal(9)})
    await world.stores[WEST].write(Put(rights_item(again, counter_of("month"))))
    done = await changer.go_on(BUDGET)
    assert [done.limit, done.target, done.is_lowered] == [9, 4, False]
    assert not await changer.is_to_retire(Window(BUDGET, counter_of("month"), begins))
    assert (await rights_in(world, WEST, counter_of("month"))).available == 9
    for _ in range(3):
        await world.copy_limit()
        world.clock.pass_by(7_200)
        done = await changer.go_on(BUDGET)
    assert [done.limit, done.target] == [9, 9]
    assert (await rights_in(world, WEST, counter_of("month"))).available == 9


@pytest.mark.parametrize(("seconds_before", "minted"), [(0, 5), (30 * 86_400, 0)])
async def test_a_raise_of_the_running_window_is_minted_too(
    seconds_before: int, minted: int
) -> None:
    """Of which only the limit arrived; not one that was made in a window before it."""
    world = Remaining(window="month", home=made(10), other=None)
    at = Decimal(int(world.given_up_at.timestamp()) - seconds_before)
    later = int(world.given_up_at.timestamp()) + 30 * 86_400
    steps = (*made(10).steps, LimitStep.of(15, {Holder(HOME): 1}, since=later))
    world.shown["other"] = BudgetLimit(2, steps, raises={RAISE: Decimal(5)}, raised={RAISE: at})
    changer = LimitChanger(await world.access())
    await changer.go_on(BUDGET, is_reclaimed=True)
    world.clock.pass_by(DAY)
    assert (await changer.go_on(BUDGET)).limit == 10  # the lost home's share, that nobody saw
    for _ in range(2):
        assert (await changer.go_on(BUDGET, is_reclaimed=True)).limit == 10 + minted
    shown = await read_rights(world.stores[WEST], f"{BUDGET}@2026-11")
    assert sum(item.minted for item in shown.values()) == minted


@pytest.mark.parametrize("region", [WEST, SOUTH])
@pytest.mark.parametrize("is_reached", [True, False])
async def test_a_raise_whose_rights_a_region_shows_is_not_minted_again(
    region: str, *, is_reached: bool
) -> None:
    """A reclaim goes by the newest item that any region shows, and waits for all of them."""
    world = Remaining(home=made(10), other=None)
    world.shown["other"] = with_raise(world, made(10))
    changer = LimitChanger(await world.access())
    for each in (WEST, SOUTH):
        await show_rights(world, each, is_raised=each == region)
    await changer.go_on(BUDGET)
    if not is_reached:
        del world.reached[SOUTH]
    world.clock.pass_by(DAY)
    assert (await changer.go_on(BUDGET, is_reclaimed=True)).target == 15
    assert Holder(WEST) not in await read_rights(world.stores[WEST], BUDGET)


@pytest.mark.parametrize("region", [WEST, SOUTH])
async def test_a_budget_of_which_only_the_rights_arrived_is_made_without_minting(
    region: str,
) -> None:
    """By its limit alone, and that of the rights: a reclaim mints what the lost home had."""
    world = Remaining(home=None, other=None)
    administrator = BudgetAdministrator(await world.access())
    await show_rights(world, region, is_raised=True)
    with pytest.raises(StateConflict, match="rights of 15 and no limit, by a lost home"):
        await administrator.create(BUDGET, 10)
    assert await administrator.create(BUDGET, 15)
    assert not await administrator.create(BUDGET, 15)
    assert Holder(WEST) not in await read_rights(world.stores[WEST], BUDGET)
    done = await LimitChanger(await world.access()).raise_limit(BUDGET, 5, RAISE, None)
    assert [done.limit, done.target] == [15, 15]


@pytest.mark.parametrize("is_raised", [True, False])
async def test_a_budget_of_which_only_the_limit_arrived_is_minted_once_all_is_reclaimed(
    *, is_raised: bool
) -> None:
    """All of it, with its raises; not before: its rights may be on their way."""
    world = Remaining(home=None, other=made(10))
    if is_raised:
        world.shown["other"] = with_raise(world, made(10))
    limit = 15 if is_raised else 10
    changer = LimitChanger(await world.access())
    for at, has in ((0, 0), (DAY, limit), (0, limit)):
        world.clock.pass_by(at)
        done = await changer.go_on(BUDGET, is_reclaimed=True)
        assert [done.limit, done.target] == [has, limit]
    done = await changer.raise_limit(BUDGET, 5, RAISE, None)
    assert [done.limit, done.target] == [15, 15]


async def test_a_lowering_of_which_only_the_limit_arrived_goes_on() -> None:
    """What the lost home had retired was minted again by the reclaim."""
    world = Remaining(home=made(6, 2), other=made(6, 2))
    changer = LimitChanger(await world.access())
    await show_rights(world, WEST, is_raised=False)
    home = plan_of(Holder(WEST), Decimal(10), lost=Holder(HOME))
    await world.stores[WEST].write(Put(rights_item(home, BUDGET)))
    done = await changer.go_on(BUDGET)
    assert [done.limit, done.target] == [6, 6]


async def test_a_lowering_of_which_only_the_rights_arrived_is_in_the_limit() -> None:
    """After the day: before it the limit may be that of a raise whose rights are on their way."""
    world = Remaining(home=made(10), other=made(10))
    changer = LimitChanger(await world.access())
    rights = replace(create(Holder(HOME), Decimal(10)), retired=Decimal(4), version=2)
    await world.stores[SOUTH].write(Put(rights_item(rights, BUDGET)))
    for at, target in ((0, 10), (DAY, 6)):
        world.clock.pass_by(at)
        done = await changer.go_on(BUDGET, is_reclaimed=True)
        assert [done.limit, done.target] == [6, target]


async def test_a_reclaimed_share_that_nobody_saw_counts_in_a_windows_limit() -> None:
    """Else the window is lowered by less than was asked for."""
    world = Remaining(window="month", home=made(10), other=made(10))
    changer = LimitChanger(await world.access())
    home = plan_of(Holder(WEST), Decimal(10), lost=Holder(HOME))
    await world.stores[WEST].write(Put(rights_item(home, f"{BUDGET}@2026-11")))
    assert (await changer.lower_limit(BUDGET, 6, None)).limit == 6
    shown = await read_rights(world.stores[WEST], f"{BUDGET}@2026-11")
    assert shown[Holder(WEST)].available == 6


async def test_a_lowering_waits_for_what_others_have_of_a_half_that_never_arrived() -> None:
    """Of the create the limit alone arrived; south had fetched 4 of the 10, and may spend them.

    Once that is reclaimed home owes it, south's go there, and it is done.
    """
    world = Remaining(home=made(10), other=made(10))
    changer = LimitChanger(await world.access())
    fetched = replace(create(Holder(SOUTH), Decimal(0)), taken={Holder(HOME): Decimal(4)})
    for store in world.stores.values():
        await store.write(Put(rights_item(fetched, BUDGET)))
    for _ in range(2):
        done = await changer.lower_limit(BUDGET, 0, None)
        assert [done.limit, done.target] == [4, 0]
        assert (done.is_done, done.unreclaimed) == (False, (HOME,))
    state = await BudgetAdministrator(await world.access()).state(Window(BUDGET, BUDGET))
    assert {region.region: region.owed for region in state.regions}[HOME] == 4
    assert (await rights_in(world, SOUTH)).available == 4  # no less of a limit that may be raised
    await _reclaimed_at_home(world, owed=Decimal(4))
    for _ in range(2):
        done = await changer.lower_limit(BUDGET, 0, None)
        assert [done.limit, done.target, done.unreclaimed] == [0, 0, ()]
        assert done.is_done
    assert (await rights_in(world, SOUTH)).available == 0
    assert (await rights_in(world, WEST)).available == 0


@pytest.mark.parametrize("window", ["none", "month"])
async def test_a_lowering_is_not_done_before_what_the_limit_names_is_reclaimed(
    window: str,
) -> None:
    """Of a lost region's rights nothing may have arrived, and its entries may be on their way.

    The limit goes on naming it, by whichever weights it is lowered.
    """
    world = Remaining(window, home=made(10), other=made(10))
    changer = LimitChanger(await world.access())
    for weights in (None, {WEST: 1}):
        done = await changer.lower_limit(BUDGET, 0, weights)
        assert done.limit == (0 if window == "none" else 10)
        assert not done.is_done
        assert done.unreclaimed == (HOME,)
    share = Decimal(0 if window == "none" else 10)
    again = replace(create(Holder(WEST), share), reclaimed={Holder(HOME): share})
    await world.stores[WEST].write(Put(rights_item(again, counter_of(window))))
    done = await changer.lower_limit(BUDGET, 0, None)
    assert [done.limit, done.unreclaimed] == [0, ()]


@pytest.mark.parametrize(("lost", "is_named"), [(-3_600, True), (600, True), (3_600, False)])
async def test_of_a_window_that_began_after_a_loss_nobody_who_is_gone_has_any(
    lost: int, *, is_named: bool
) -> None:
    """Its share is named until others are shared: it cannot have made it, an hour later.

    So many seconds before it began a region was lost.
    """
    world = Remaining("month", home=made(10), other=made(10))
    begins = datetime(2026, 12, 1, tzinfo=UTC)
    world.given_up_at = begins - timedelta(seconds=lost)
    world.clock.pass_by((begins - world.clock.now()).total_seconds() + 7_200)
    done = await LimitChanger(await world.access()).lower_limit(BUDGET, 10, None)
    assert [done.limit, done.target] == [10, 10]
    assert done.unreclaimed == ((HOME,) if is_named else ())
    assert done.is_done != is_named
    above = await LimitChanger(await world.access()).lower_limit(BUDGET, 4, None)
    assert [above.limit, above.target] == [10, 4]
    assert above.unreclaimed == (HOME,), "its share keeps the limit above, until it is reclaimed"


@pytest.mark.parametrize("is_lowered", [True, False])
async def test_what_a_reclaim_mints_of_a_lowered_window_is_retired(*, is_lowered: bool) -> None:
    """By what a reclaim does last, or a confirmation: else it could be spent."""
    world = Remaining("month", home=made(10), other=made(10))
    changer = LimitChanger(await world.access())
    if is_lowered:
        await changer.lower_limit(BUDGET, 0, None)
    again = replace(create(Holder(WEST), Decimal(10)), reclaimed={Holder(HOME): Decimal(10)})
    await world.stores[WEST].write(Put(rights_item(again, counter_of("month"))))
    done = await changer.go_on(BUDGET)
    left = 0 if is_lowered else 10
    assert [done.limit, done.unreclaimed] == [left, ()]
    assert (await rights_in(world, WEST, counter_of("month"))).available == left


async def test_a_confirmation_stands_though_nothing_can_be_retired_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Home is slow, or the contract is read too long ago: the next one goes on."""

    async def failing(*_: object) -> None:
        raise StoreError("slow")

    world = Remaining("month", home=made(10), other=made(10))
    changer = LimitChanger(await world.access())
    await changer.lower_limit(BUDGET, 0, None)
    monkeypatch.setattr(limit_changer, "go_down", failing)
    done = await changer.go_on(BUDGET)
    assert [done.limit, done.target] == [10, 0]


async def test_a_window_goes_to_no_more_than_it_has() -> None:
    """Lowered to less than later windows have, and to more than its own limit, it keeps that."""
    since = int(datetime(2027, 1, 1, tzinfo=UTC).timestamp())
    limit = replace(made(10), announced=LimitStep.of(60, {Holder(WEST): 1}, since=since))
    world = Remaining("month", home=limit, other=limit)
    done = await LimitChanger(await world.access()).lower_limit(BUDGET, 50, None)
    assert [done.limit, done.target, done.later] == [10, 10, 50]


async def test_a_raise_is_made_whatever_was_lost() -> None:
    """It says that it is done: what a lost region had is no less, nor more, by it."""
    world = Remaining(home=made(10), other=made(10))
    changer = LimitChanger(await world.access())
    await show_rights(world, WEST, is_raised=False)
    raised = await changer.raise_limit(BUDGET, 5, "order-2", None)
    assert [raised.limit, raised.is_done] == [15, True]
    assert not (await changer.go_on(BUDGET)).is_done


async def test_a_budget_that_was_made_since_names_nobody_who_is_gone() -> None:
    """It is lowered at once."""
    world = Remaining(home=None, other=None)
    access = await world.access()
    assert await BudgetAdministrator(access).create(BUDGET, 10)
    done = await LimitChanger(access).lower_limit(BUDGET, 4, None)
    assert [done.limit, done.is_done] == [4, True]


async def test_a_lowering_pays_what_a_region_owes() -> None:
    """Else others spend beside it as much more than the limit. What is free elsewhere pays."""
    world = Remaining(home=None, other=None)
    access = await world.access()
    assert await BudgetAdministrator(access).create(BUDGET, 10)
    west = replace(await rights_in(world, WEST), sent={Holder(SOUTH): Decimal(10)}, version=2)
    await world.stores[WEST].write(Put(rights_item(west, BUDGET)))
    south = replace(create(Holder(SOUTH), Decimal(0)), taken={Holder(WEST): Decimal(10)})
    world.reached[WEST] = world.stores[WEST]
    owing = replace(west, charged=Decimal(3), version=3)
    await world.stores[WEST].write(Put(rights_item(owing, BUDGET)))
    await world.stores[SOUTH].write(Put(rights_item(south, BUDGET)))
    changer = LimitChanger(access)
    done = await changer.lower_limit(BUDGET, 8, None)
    assert [done.limit, done.is_done] == [8, True]
    assert (await rights_in(world, SOUTH)).available == 5
    assert (await rights_in(world, WEST)).available == 0


async def test_home_pays_what_another_region_owes() -> None:
    """It takes that up with its next grant, or by a pass: on its way it counts."""
    world = Remaining(home=None, other=None)
    access = await world.access()
    assert await BudgetAdministrator(access).create(BUDGET, 10)
    owing = replace(create(Holder(SOUTH), Decimal(0)), charged=Decimal(3))
    for store in world.stores.values():
        await store.write(Put(rights_item(owing, BUDGET)))
    done = await LimitChanger(access).lower_limit(BUDGET, 10, None)
    assert [done.limit, done.is_done] == [10, True]
    home = await rights_in(world, WEST)
    assert whole(home.available, *home.sent.values()) == [7, 3]


async def rights_in(world: Remaining, region: str, counter: str = BUDGET) -> Rights:
    """Return a region's own item, as it shows it."""
    return (await read_rights(world.stores[region], counter))[Holder(region)]


async def _reclaimed_at_home(world: Remaining, *, owed: Decimal) -> None:
    """Write what a reclaim leaves of a region that had spent, or given, more than it had."""
    items = await read_rights(world.stores[WEST], BUDGET)
    home = items.get(Holder(WEST), Rights(Holder(WEST)))
    again = replace(
        home,
        version=home.version + 1,
        charged=owed,
        cut={Holder(HOME): Decimal(0)},
        reclaimed={Holder(HOME): owed.copy_negate()},
    )
    await world.stores[WEST].write(Put(rights_item(again, BUDGET)))


def plan_of(holder: Holder, amount: Decimal, *, lost: Holder) -> Rights:
    """Return the item of a holder that has minted again what a lost one had."""
    return replace(create(holder, amount), reclaimed={lost: amount}, cut={lost: Decimal(0)})

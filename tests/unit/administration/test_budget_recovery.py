"""What a lost region had of budgets, as `ledger budget reclaim` looks at it and mints it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import cast

import pytest
from support.budgets import spend_item
from support.ledgers import make_services

from ledger.administration import budget_recovery
from ledger.administration.budget_recovery import BudgetRestore, RightsReclaim, lost_rights
from ledger.budgets import limit_changer
from ledger.budgets.limit_windows import BudgetLimit, LimitStep, limit_item, lower_window
from ledger.budgets.lost_stake import ARRIVED_SECONDS
from ledger.budgets.rights import GrantName, Holder, rights_item
from ledger.budgets.rights_items import read_budget, read_rights
from ledger.budgets.rights_plan import create, raise_limit
from ledger.contract.open_regions import OpenTable
from ledger.contract.view import ContractView
from ledger.core.contract import NO_HOME
from ledger.core.errors import BudgetMissing, BudgetUndecided, ContractChangeRefused, StoreError
from ledger.settings import Settings
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.reads import Query
from ledger.store.writes import Delete, Put
from ledger.testing import MemoryGlobalTable

HOME, LOST = "us-east-1", "eu-west-1"


@dataclass
class View:
    """The contract as some process sees it."""

    current: Settings
    validity: None = None

    async def renew(self) -> None:
        """Nothing has changed."""


@asynccontextmanager
async def after_a_loss(
    monkeypatch: pytest.MonkeyPatch, *, window: str = "none"
) -> AsyncIterator[RightsReclaim]:
    """Yield the rights of a table that lost a region which had spent 4 of its part of 10."""
    world = MemoryGlobalTable([HOME, LOST], budgets={"key/*": {"window": window}})
    async with world.table(HOME) as table, world.table(LOST) as other:
        await table.budget("key/42").create(10)
        world.replicate()
        assert await other.budget("key/42").spend(4)
    world.replicate()
    lost_at = world.clock.now()
    await world.clock.advance(ARRIVED_SECONDS + 3_600)

    @asynccontextmanager
    async def opened(*_: object, **__: object) -> AsyncIterator[OpenTable]:
        view = ContractView(world.store(HOME), world.settings, clock=world.clock)
        await view.open()
        yield OpenTable({HOME: world.store(HOME)}, view)

    monkeypatch.setattr(budget_recovery, "open_table", opened)
    opening = lost_rights(world.settings, LOST, services=make_services(world.clock))
    async with opening as rights:
        terms = replace(
            rights.regions.terms, regions=(HOME,), lost=(LOST,), given_up_at=lost_at, generation=2
        )
        yield replace(rights, regions=replace(rights.regions, terms=terms))


async def test_what_is_at_stake_is_minted_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one budget, or of all that a scan finds."""
    async with after_a_loss(monkeypatch) as rights:
        [window] = await rights.counters(None)
        assert [window] == await rights.counters("key/42")
        stake = await rights.stakes(window)
        assert {holder: each.amount > 0 for holder, each in stake.items()} == {Holder(LOST): True}
        minted = await rights.reclaim(window, Decimal(1))
        assert minted[Holder(LOST)].amount == 1
        assert await rights.stakes(window) == {}


async def test_a_region_that_the_limit_alone_names_is_reclaimed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of which nothing arrived: a lowering waits until an item says that it is."""
    async with after_a_loss(monkeypatch) as before:
        rights = _in_force(before)
        [window] = await rights.counters("key/42")
        for item in (await rights.home.query(Query(f"~budget~{window.counter}"))).items:
            if item["sk"]["S"] == Holder(LOST).sort_key:
                await rights.home.write(Delete((item["pk"]["S"], item["sk"]["S"])))
        home = replace(
            (await read_rights(rights.home, window.counter))[Holder(HOME)], sent={}, taken={}
        )
        await rights.home.write(Put(rights_item(home, window.counter)))
        quiet = replace(rights)
        quiet._spends = {}  # of it no entry arrived, either
        assert (await quiet.reclaim(window, None))[Holder(LOST)].amount == 0
        made = (await read_rights(rights.home, window.counter))[Holder(HOME)]
        assert made.reclaimed == {Holder(LOST): Decimal(0)}
        assert await quiet.reclaim(window, None) == {}


async def test_while_the_home_is_moved_nothing_is_reclaimed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The terms that all obey meanwhile have none, and no change that is pending has lost it."""
    world = MemoryGlobalTable([HOME, LOST], budgets={"key/*": {}})
    moving = world.settings.under(replace(world.settings.terms, home=NO_HOME), home=HOME)
    table = OpenTable({HOME: world.store(HOME)}, cast("ContractView", View(moving)))

    @asynccontextmanager
    async def opened(*_: object, **__: object) -> AsyncIterator[OpenTable]:
        yield table

    monkeypatch.setattr(budget_recovery, "open_table", opened)
    opening = lost_rights(world.settings, LOST, services=make_services(world.clock))
    async with opening as rights:
        with pytest.raises(ContractChangeRefused, match=f"must name {LOST} as lost"):
            await rights.counters("key/42")


async def test_a_window_that_the_region_may_have_made_is_at_stake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By its share, though no item of it arrived."""
    async with after_a_loss(monkeypatch, window="day") as rights:
        window = (await rights.counters("key/42"))[0]
        stake = await rights.stakes(window)
        assert stake[Holder(LOST)].amount == 5


async def test_home_s_item_of_a_window_is_made_with_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has none yet; made without, the share would be gone."""
    async with after_a_loss(monkeypatch, window="day") as before:
        rights = _in_force(before)
        window = (await rights.counters("key/42"))[0]
        assert (await rights.reclaim(window, None))[Holder(LOST)].amount == 5
        made = (await read_rights(rights.home, window.counter))[Holder(HOME)]
        assert made.minted == 5 + 5


@pytest.mark.parametrize("shared", ["as known", "forgotten", "before home was added"])
async def test_a_window_that_has_ended_is_reclaimed_for_its_entries(
    monkeypatch: pytest.MonkeyPatch, shared: str
) -> None:
    """Else they could never be merged; also if no region knows by now how it was shared."""
    async with after_a_loss(monkeypatch, window="day") as before:
        rights = _in_force(before)
        running, ended = await rights.counters("key/42")
        assert [running, ended] == await rights.counters(None)
        assert ended.ends == running.begins
        limit = await _limit(rights)
        if shared != "as known":
            alone = LimitStep.of(10, {Holder(LOST): 1})
            forgotten = replace(limit.steps[0], since=running.begins)
            steps = (forgotten if shared == "forgotten" else alone,)
            await rights.home.write(Put(limit_item(replace(limit, steps=steps), "key/42")))
        stake = (await rights.stakes(ended))[Holder(LOST)]
        assert stake.entries + stake.charged == 4
        minted = await rights.reclaim(ended, None)
        assert minted[Holder(LOST)].stake == stake
        items = await read_rights(rights.home, ended.counter)
        assert items[Holder(HOME)].reclaimed == {Holder(LOST): stake.amount}
        assert await rights.is_whole(ended)


@pytest.mark.parametrize(
    ("is_lowered", "is_raised", "left"), [(True, False, 0), (False, False, 6), (True, True, 6)]
)
async def test_what_is_minted_of_a_lowered_window_that_has_ended_is_retired(
    monkeypatch: pytest.MonkeyPatch, *, is_lowered: bool, is_raised: bool, left: int
) -> None:
    """Else it could be spent with ids of that window, as late as the pattern allows.

    Not what it was raised by since, of which the lost home's rights alone arrived.
    """
    async with after_a_loss(monkeypatch, window="day") as before:
        rights = _in_force(before)
        ended = (await rights.counters("key/42"))[1]
        limit = await _limit(rights)
        if is_lowered:
            lowered = lower_window(limit, ended.begins, Decimal(4))
            lowered = lower_window(lowered, ended.begins + 86_400, Decimal(9))
            await rights.home.write(Put(limit_item(lowered, "key/42")))
        if is_raised:
            items = await read_rights(rights.home, ended.counter)
            raised = raise_limit(items[Holder(LOST)], Decimal(6), "order-1", now=ended.begins)
            assert raised is not None
            await rights.home.write(Put(rights_item(raised, ended.counter)))
        minted = await rights.reclaim(ended, None)
        assert minted[Holder(LOST)].amount == (7 if is_raised else 1)
        assert await rights.is_whole(ended)
        home = (await read_rights(rights.home, ended.counter))[Holder(HOME)]
        assert home.available == left


async def test_an_ended_window_of_a_budget_without_a_limit_is_reclaimed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is nothing that it was lowered to."""
    async with after_a_loss(monkeypatch, window="day") as before:
        rights = _in_force(before)
        ended = (await rights.counters("key/42"))[1]
        await rights.home.write(Put(rights_item(create(Holder(HOME), Decimal(5)), ended.counter)))
        await _without_limit(rights)
        assert Holder(LOST) in await rights.reclaim(ended, None)
        assert await rights.is_whole(ended)


async def test_an_ended_window_whose_shares_are_not_decided_is_reclaimed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it was lowered to is not known then: nothing is retired, and nothing fails."""

    async def undecided(*_: object) -> bool:
        raise BudgetUndecided("a step is announced")

    monkeypatch.setattr(limit_changer, "is_free_above", undecided)
    async with after_a_loss(monkeypatch, window="day") as before:
        rights = _in_force(before)
        ended = (await rights.counters("key/42"))[1]
        assert Holder(LOST) in await rights.reclaim(ended, None)
        assert await rights.is_whole(ended)


@pytest.mark.parametrize("window", ["none", "day"])
async def test_a_reclaim_that_was_interrupted_before_it_retired_is_gone_on_with(
    monkeypatch: pytest.MonkeyPatch, window: str
) -> None:
    """What is minted above a lowered limit is found free by the next look, also once it ended."""
    async with after_a_loss(monkeypatch, window=window) as before:
        rights = _in_force(before)
        looked = (await rights.counters("key/42"))[-1]
        limit = await _limit(rights)
        lowered = lower_window(limit, looked.begins, Decimal(4))
        if window == "none":
            lowered = replace(limit, steps=(LimitStep.of(4, {Holder(HOME): 1}),))
        await rights.home.write(Put(limit_item(lowered, "key/42")))

        async def interrupted(*_: object) -> None:
            raise StoreError("interrupted")

        with monkeypatch.context() as patch:
            patch.setattr(RightsReclaim, "go_on", interrupted)
            with pytest.raises(StoreError, match="interrupted"):
                await rights.reclaim(looked, None)
        assert not await rights.is_whole(looked)
        await rights.go_on(looked)
        assert await rights.is_whole(looked)
        home = (await read_rights(rights.home, looked.counter))[Holder(HOME)]
        assert home.available == 0


async def test_a_budget_that_entries_alone_name_is_among_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its limit never arrived: what was spent of it is a debt once it is made again."""
    async with after_a_loss(monkeypatch) as before:
        rights = _in_force(before)
        await _without_limit(rights)
        [window] = await rights.counters(None)
        assert await rights.is_whole(window)
        assert (await rights.reclaim(window, None))[Holder(LOST)].amount == -4
        assert not await rights.stakes(window)


async def _limit(rights: RightsReclaim) -> BudgetLimit:
    """Return the limit as home shows it."""
    limit = (await read_budget(rights.home, "key/42")).limit
    assert limit is not None
    return limit


async def _without_limit(rights: RightsReclaim) -> None:
    page = await rights.home.query(Query("~budget~key/42"))
    for item in page.items:
        await rights.home.write(Delete((item["pk"]["S"], item["sk"]["S"])))


async def test_it_is_refused_for_what_is_no_budget_and_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before anything is read."""
    async with after_a_loss(monkeypatch) as rights:
        with pytest.raises(BudgetMissing, match="matches no pattern"):
            await rights.counters("other")
        terms = replace(rights.regions.terms, lost=(), regions=(HOME, LOST))
        early = replace(rights.regions, terms=terms)
        with pytest.raises(ContractChangeRefused, match="must name eu-west-1 as lost"):
            await replace(rights, regions=early).counters("key/42")


async def test_a_limit_that_not_every_region_shows_is_found_and_put_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A lost home made it, and the next one has not got it: a scan of each region finds it."""
    async with after_a_loss(monkeypatch) as before:
        rights = await _through_a_home_without_it(before)
        [window] = await rights.counters(None)
        assert window.budget == "key/42"
        assert not await rights.is_whole(window)
        await rights.go_on(window)
        [put] = (await rights.home.query(Query("~budget~key/42"))).items
        assert put["sk"] == {"S": "limit#0002"}


async def test_for_a_window_that_has_ended_no_limit_is_put_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is whole whatever regions show: what is due is done for the one that runs."""
    async with after_a_loss(monkeypatch, window="day") as before:
        running, ended = await before.counters("key/42")
        rights = await _through_a_home_without_it(before)
        assert [await rights.is_whole(each) for each in (running, ended)] == [False, True]
        await rights.go_on(ended)
        assert (await rights.home.query(Query("~budget~key/42"))).items == []


async def test_budgets_are_listed_in_order_whichever_region_shows_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that have a limit, then those that nothing but entries of lost grants name."""
    async with after_a_loss(monkeypatch) as before:
        rights = await _through_a_home_without_it(before)
        limit = (await read_budget(before.home, "key/42")).limit
        assert limit is not None
        await rights.home.write(Put(limit_item(limit, "key/43")))
        name, at = GrantName(Holder(LOST), 2), rights.services.clock.now()
        for counter, store in zip(
            ("key/45", "key/44"), rights.regions.stores.values(), strict=True
        ):
            await store.write(Put(spend_item(1, name, at=at, counter=counter)))
        windows = await rights.counters(None)
        assert [window.budget for window in windows] == ["key/42", "key/43", "key/44", "key/45"]


async def _through_a_home_without_it(before: RightsReclaim) -> RightsReclaim:
    """Return the rights through a home that shows none of them, and a region that shows all."""
    other, home = MemoryStore("ap-southeast-2"), MemoryStore(HOME)
    for item in (await before.home.query(Query("~budget~key/42"))).items:
        await other.write(Put(item))
    stores: dict[str, Store] = {HOME: home, other.region: other}
    view = cast("ContractView", View(_under(before)))
    return replace(
        before,
        home=home,
        regions=replace(before.regions, stores=stores),
        table=OpenTable(stores, view),
        begun=view.current.terms,
    )


def _under(rights: RightsReclaim) -> Settings:
    """Return settings under the contract that names the region as lost."""
    terms = replace(rights.regions.terms, regions=(HOME, "ap-southeast-2"))
    current = rights.table.view.current
    regions = dict.fromkeys(terms.regions, current.regions[HOME])
    return current.replace(regions=regions, home=HOME).under(terms, home=HOME)


async def test_under_another_contract_nothing_is_minted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where another region was lost meanwhile: what is at stake goes by what was read."""
    async with after_a_loss(monkeypatch) as rights:
        [window] = await rights.counters(None)
        changed = replace(rights, begun=rights.regions.terms)
        for call in (partial(changed.reclaim, window, None), partial(changed.go_on, window)):
            with pytest.raises(ContractChangeRefused, match="changed meanwhile: run this again"):
                await call()


def _in_force(before: RightsReclaim) -> RightsReclaim:
    """Return the rights of a table whose contract in force names the region as lost."""
    terms = before.regions.terms
    current = before.table.view.current
    regions = {HOME: current.regions[HOME]}
    settings = current.replace(regions=regions, home=HOME).under(terms, home=HOME)
    view = cast("ContractView", View(settings))
    return replace(
        before,
        regions=replace(before.regions, terms=settings.terms),
        table=OpenTable(before.regions.stores, view),
        begun=settings.terms,
    )


async def test_what_was_left_in_half_is_minted_once_all_is_reclaimed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not before: of what the lost region had minted for it others may have got some."""
    async with after_a_loss(monkeypatch) as before:
        rights = _in_force(before)
        await _raise_limit_alone(rights)
        [window] = await rights.counters("key/42")
        await rights.go_on(window)
        assert not await _is_minted(rights)
        assert not await rights.is_whole(window)
        assert await rights.reclaim(window, None)
        assert await _is_minted(rights)
        assert await rights.is_whole(window)


@pytest.mark.parametrize("is_reclaimed", [False, True])
async def test_a_recount_mints_a_raise_once_what_was_lost_is_reclaimed(
    monkeypatch: pytest.MonkeyPatch, *, is_reclaimed: bool
) -> None:
    """A table that was restored can have lost a region before, or since."""
    async with after_a_loss(monkeypatch) as before:
        rights = _in_force(before)
        [window] = await rights.counters("key/42")
        if is_reclaimed:
            assert await rights.reclaim(window, None)
        await _raise_limit_alone(rights)
        restored = BudgetRestore(
            rights.regions,
            rights.home,
            rights.table,
            rights.services,
            rights.begun,
        )
        await restored.recount(None)
        assert await _is_minted(rights) == is_reclaimed


async def _raise_limit_alone(rights: RightsReclaim) -> None:
    """Write the limit of a raise, of which the rights never arrived."""
    limit = (await read_budget(rights.home, "key/42")).limit
    assert limit is not None
    raised = replace(
        limit,
        steps=(LimitStep.of(15, {Holder(HOME): 1}),),
        raises={"order-1": Decimal(5)},
        raised={"order-1": Decimal(0)},
    )
    await rights.home.write(Put(limit_item(raised, "key/42")))


async def _is_minted(rights: RightsReclaim) -> bool:
    items = await read_rights(rights.home, "key/42")
    return "order-1" in items[Holder(HOME)].raises


async def test_one_budget_is_reclaimed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries of a lost grant name another one's window, which has ended."""
    async with after_a_loss(monkeypatch, window="day") as rights:
        [window] = await rights.counters("key/43")
        assert window.budget == "key/43"
        assert {each.budget for each in await rights.counters(None)} == {"key/42"}


async def test_a_home_that_was_lost_before_has_its_item_made_as_what_it_is_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With nothing, of a window that is forgotten: what it was before is another holder."""
    async with after_a_loss(monkeypatch, window="day") as before:
        terms = replace(before.regions.terms, lost=(HOME, LOST))
        rights = _in_force(replace(before, regions=replace(before.regions, terms=terms)))
        running, ended = await rights.counters("key/42")
        limit = await _limit(rights)
        steps = (replace(limit.steps[0], since=running.begins),)
        await rights.home.write(Put(limit_item(replace(limit, steps=steps), "key/42")))
        assert await rights.reclaim(ended, None)
        made = (await read_rights(rights.home, ended.counter))[Holder(HOME, 2)]
        assert made.reclaimed.keys() == {Holder(LOST)}
        assert made.minted == max(Decimal(0), *made.reclaimed.values())


async def test_home_s_share_of_a_window_is_not_known_without_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It never arrived: made with nothing, home's item could not have its share any more."""
    async with after_a_loss(monkeypatch, window="day") as before:
        rights = _in_force(before)
        window = (await rights.counters("key/42"))[0]
        await _without_limit(rights)
        lost = create(Holder(LOST), Decimal(5))
        await rights.home.write(Put(rights_item(lost, window.counter)))
        with pytest.raises(ContractChangeRefused, match="is not decided yet: run this again"):
            await rights.reclaim(window, None)


async def test_home_s_share_of_a_window_waits_until_it_is_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While a step is announced that would decide it nobody has a share, and home's is not 0."""
    async with after_a_loss(monkeypatch, window="day") as before:
        rights = _in_force(before)
        window = (await rights.counters("key/42"))[0]
        limit = await _limit(rights)
        step = LimitStep.of(20, {Holder(HOME): 1}, since=window.begins)
        await rights.home.write(Put(limit_item(replace(limit, announced=step), "key/42")))
        lost = create(Holder(LOST), Decimal(5))
        await rights.home.write(Put(rights_item(lost, window.counter)))
        with pytest.raises(ContractChangeRefused, match="is not decided yet: run this again"):
            await rights.reclaim(window, None)
        assert Holder(HOME) not in await read_rights(rights.home, window.counter)

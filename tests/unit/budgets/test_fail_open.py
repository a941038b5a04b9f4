"""Spends let through while no grant can be had: charged once, by their process or a pass."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import anyio
import pytest
from support.budgets import access_to

from ledger import Table
from ledger.budgets import fail_open as let_through_module
from ledger.budgets.calendar import Window
from ledger.budgets.fail_open import FailOpen, FailOpenSpend
from ledger.budgets.grant_closing import RegionViews, charge_open
from ledger.budgets.rights import Holder
from ledger.budgets.spend_record import spend_of
from ledger.budgets.spend_request import Granted
from ledger.core.entry import Item, key_of
from ledger.core.errors import BudgetMissing, ContractStale, DamagedItem, Unreachable
from ledger.session.ledger import budget_parts
from ledger.store.port import Store
from ledger.store.reads import Page, Query
from ledger.store.writes import Action, EachOutcome, Outcome, Rejected, Unknown, Write
from ledger.testing import MemoryGlobalTable

EAST, WEST = "us-east-1", "eu-west-1"


async def down(*_: object) -> None:
    """Answer as a region that does not."""
    raise Unreachable("down")


async def let_through(world: MemoryGlobalTable, table: Table, amount: int, name: str) -> None:
    """Spend while the control items of the table's region cannot be read."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(world.store(table.ledger.region), "query", down)
        done = await table.budget(name).spend(amount)
        assert isinstance(done, Granted)
        assert done.entry.spending is not None
        assert done.entry.spending.is_over


def unanswered(store: Store, times: int) -> Callable[..., Awaitable[Outcome]]:
    """Return a transaction that lands without an answer, so many times."""
    transact, left = store.transact, [times]

    async def lands(actions: Sequence[Action], **kwargs: Any) -> Outcome:
        outcome = await transact(actions, **kwargs)
        if left[0]:
            left[0] -= 1
            return Unknown("no answer")
        return outcome

    return lands


@pytest.mark.parametrize("times", [1, 2, 20])
async def test_what_is_charged_without_an_answer_is_charged_once(times: int) -> None:
    """However often it is not answered: the entry itself says that it is charged."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    async with world.table(EAST) as east:
        await east.budget("key/42").create(10)
        await let_through(world, east, 3, "key/42")
        store = world.store(EAST)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "transact", unanswered(store, times))
            await world.clock.advance(60)
        await world.clock.advance(10)
        state = await east.budget("key/42").state()
        assert [int(one) for one in (state.charged, state.granted, state.free)] == [3, 0, 7]
        assert not state.grants


async def test_what_is_charged_is_charged_once_by_a_process_that_stood_still() -> None:
    """However long: passes have folded the entry meanwhile.

    In the simulated worlds: seed 99001165, of a process that stood still for 20 minutes.
    """
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    async with world.table(EAST) as east:
        await east.budget("key/42").create(10)
        await let_through(world, east, 3, "key/42")
        store = world.store(EAST)
        transact, late = store.transact, [3_600.0]

        async def stands_still(actions: Sequence[Action], **kwargs: Any) -> Outcome:
            outcome = await transact(actions, **kwargs)
            if late:
                await world.clock.sleep(late.pop())
                return Unknown("no answer")
            return outcome

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "transact", stands_still)
            await world.clock.advance(10)
            assert not late
            await world.clock.advance(1_800)
            await merged(world)
            await world.clock.advance(3_600)
        state = await east.budget("key/42").state()
        assert [int(one) for one in (state.charged, state.granted, state.free)] == [3, 0, 7]
        assert not state.grants


async def test_what_is_charged_to_a_window_leaves_its_share() -> None:
    """Also where it is all that was spent there: the region's item is made with its share."""
    rule = {"on_outage": "allow", "window": "day"}
    world = MemoryGlobalTable([EAST, WEST], budgets={"key/*": rule})
    async with world.table(EAST) as east, world.table(WEST) as west:
        await east.budget("key/42").create(10)
        world.replicate()
        await let_through(world, west, 3, "key/42")
        await world.clock.advance(10)
        world.replicate()
        assert await west.budget("key/42").spend(2)
        assert await east.budget("key/42").spend(5)
        assert not await east.budget("key/42").spend(1)


@pytest.mark.parametrize("created_first", [True, False])
async def test_a_budget_may_be_created_after_something_was_let_through(
    *, created_first: bool
) -> None:
    """It is charged to a limit that there is when it would be folded; else to none, and folded.

    A pass that finds it earlier lets it wait.
    """
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    async with world.table(EAST) as east:
        budget = east.budget("key/42")
        await let_through(world, east, 3, "key/42")
        await world.clock.advance(10)
        with pytest.raises(BudgetMissing):
            await budget.state()
        report = await world.compact()
        assert report.let_through_charged == 0
        if created_first:
            await budget.create(10)
        await merged(world)
        if not created_first:
            await budget.create(10)
            await merged(world)
        assert (await budget.state()).charged == (3 if created_first else 0)
        assert await entries(world, EAST, "key/42") == []
        assert (await east.ledger.total("key/42", max_age=0)).value == -3


async def test_what_is_let_through_slowly_is_charged_too() -> None:
    """The process has dropped the budget as idle when the entry is written."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    async with world.table(EAST) as east:
        store = world.store(EAST)
        await east.budget("key/42").create(10)
        write = store.write

        async def slow(one: Write) -> Outcome:
            if not one.key[0].startswith("~"):
                await world.clock.advance(100)
            return await write(one)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "write", slow)
            await let_through(world, east, 3, "key/42")
        await world.clock.advance(10)
        assert (await east.budget("key/42").state()).charged == 3


async def entries(world: MemoryGlobalTable, region: str, counter: str) -> list[Item]:
    """Return the entries of a counter that a region shows."""
    page = await world.store(region).query(Query(counter, last="~"))
    return list(page.items)


async def merged(world: MemoryGlobalTable) -> None:
    """Let passes charge and fold whatever may be."""
    for _ in range(3):
        await world.pass_time(90_000)
        await world.merge()


async def crashed(world: MemoryGlobalTable, region: str, amount: int, *names: str) -> None:
    """Spend in an outage, in a process that crashes before it has charged that."""
    table = world.table(region)
    async with table:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(world.store(region), "query", down)
            await table.budgets(names).spend(amount)
        world.crash(table)


async def test_what_a_crashed_process_let_through_is_charged_by_a_pass() -> None:
    """To each of its budgets, once, and before it is folded."""
    world = MemoryGlobalTable([EAST, WEST], budgets={"*": {"on_outage": "allow"}})
    async with world.table(EAST) as east:
        for name in ("key/42", "team/7"):
            await east.budget(name).create(10)
        world.replicate()
        await crashed(world, WEST, 3, "key/42", "team/7")
        await crashed(world, WEST, 2, "key/42")
        await merged(world)
        for name, charged in (("key/42", 5), ("team/7", 3)):
            assert (await east.budget(name).state()).charged == charged
        assert await entries(world, EAST, "key/42") == []
        assert (await east.ledger.total("key/42", max_age=0)).value == -5


@pytest.mark.parametrize("rule", [{"window": "day"}, {"window": "month"}])
async def test_a_pass_makes_the_item_that_it_charges(rule: Mapping[str, Any]) -> None:
    """With the share of its window: nothing was ever spent in that region."""
    world = MemoryGlobalTable([EAST, WEST], budgets={"key/*": {"on_outage": "allow", **rule}})
    async with world.table(EAST) as east, world.table(WEST) as west:
        await east.budget("key/42").create(10)
        world.replicate()
        await crashed(world, WEST, 3, "key/42")
        await world.settle()
        await world.compact()
        world.replicate()
        state = await east.budget("key/42").state()
        assert [int(one) for one in (state.charged, state.limit)] == [3, 10]
        spent = 0
        for table in (east, west):
            while await table.budget("key/42").spend(1):
                spent += 1
        assert spent == 7


async def test_what_is_charged_to_a_rolling_limit_comes_back() -> None:
    """Counted from when it is charged."""
    rule = {"on_outage": "allow", "rolling": 3_600.0}
    world = MemoryGlobalTable([EAST], budgets={"key/*": rule})
    async with world.table(EAST) as east:
        budget = east.budget("key/42")
        await budget.create(10)
        await crashed(world, EAST, 3, "key/42")
        await world.settle()
        await world.compact()
        assert not await budget.spend(8)
        await world.clock.advance(10_000)
        assert await budget.spend(8)


async def test_a_pass_and_a_process_charge_once() -> None:
    """The pass has read the entry before the process marks it, and the item after that."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    async with world.table(EAST) as east:
        await east.budget("key/42").create(10)
        await let_through(world, east, 3, "key/42")
        store = world.store(EAST)
        [item] = await entries(world, EAST, "key/42")
        seen = spend_of(item)
        assert seen is not None
        await world.clock.advance(10)
        regions = RegionViews({EAST: store}, world.settings.terms, world.clock)
        assert await charge_open(regions, {key_of(item): seen}) == 0
        assert (await east.budget("key/42").state()).charged == 3


@pytest.mark.parametrize("together", [1, 2])
async def test_what_was_charged_is_not_put_again(together: int) -> None:
    """A request that was held up lands after its entry was marked: the mark stays."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    async with world.table(EAST) as east:
        await east.budget("key/42").create(10)
        store = world.store(EAST)
        write, write_each, sent = store.write, store.write_each, list[Write]()

        async def noting(action: Write) -> Outcome:
            sent.append(action)
            return await write(action)

        async def noting_each(actions: Sequence[Write]) -> EachOutcome:
            sent.extend(actions)
            return await write_each(actions)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "write", noting)
            patched.setattr(store, "write_each", noting_each)
            patched.setattr(store, "query", down)
            async with anyio.create_task_group() as group:
                for _ in range(together):
                    group.start_soon(east.budget("key/42").spend, 3)
        await world.clock.advance(10)
        puts = [action for action in sent if not action.key[0].startswith("~")]
        assert len(puts) == together
        for put in puts:
            assert isinstance(await write(put), Rejected)
        await merged(world)
        assert (await east.budget("key/42").state()).charged == 3 * together


async def test_many_are_charged_in_few_transactions() -> None:
    """As many in each as there is room for beside the items of 20 budgets."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    async with world.table(EAST) as east:
        await east.budget("key/42").create(1_000)
        store = world.store(EAST)
        transact, sizes = store.transact, list[int]()

        async def noting(actions: Sequence[Action], **kwargs: Any) -> Outcome:
            sizes.append(len(actions))
            return await transact(actions, **kwargs)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "transact", noting)
            with pytest.MonkeyPatch.context() as away:
                away.setattr(store, "query", down)
                for _ in range(100):
                    await east.budget("key/42").spend(1)
            await world.clock.advance(10)
        assert sizes == [81, 21]
        assert (await east.budget("key/42").state()).charged == 100


async def test_all_that_was_let_through_is_charged_as_a_process_ends() -> None:
    """However many transactions that takes."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    async with world.table(EAST) as east:
        await east.budget("key/42").create(1_000)
        with pytest.MonkeyPatch.context() as away:
            away.setattr(world.store(EAST), "query", down)
            for _ in range(100):
                await east.budget("key/42").spend(1)
    async with world.table(EAST) as other:
        assert (await other.budget("key/42").state()).charged == 100


async def test_in_an_outage_nothing_more_is_tried_after_one_error() -> None:
    """Of many budgets each would wait for its own."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    asked = list[str]()

    async def noted(one: Query) -> Page:
        asked.append(one.partition)
        raise Unreachable("down")

    async with world.table(EAST) as east:
        names = ["key/1", "key/2", "key/3"]
        for name in names:
            await east.budget(name).create(10)
            await let_through(world, east, 3, name)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(world.store(EAST), "query", noted)
            await east.close()
    assert {one for one in asked if one.startswith("~budget~")} == {"~budget~key/1"}


async def test_one_budget_that_is_damaged_holds_up_no_other() -> None:
    """What was let through from it is charged once its item can be read."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    async with world.table(EAST) as east:
        for name in ("key/1", "key/2"):
            await east.budget(name).create(10)
            await let_through(world, east, 3, name)
        store = world.store(EAST)
        query = store.query

        async def broken(one: Query) -> Page:
            if one.partition == "~budget~key/1":
                raise DamagedItem("no number")
            return await query(one)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "query", broken)
            await world.clock.advance(10)
            assert (await east.budget("key/2").state()).charged == 3
        await world.clock.advance(10)
        assert (await east.budget("key/1").state()).charged == 3


async def test_in_an_outage_one_read_is_tried_at_a_time() -> None:
    """However many budgets are to be charged: spends wait for one read, and are let through."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    async with world.table(EAST) as east:
        names = [f"key/{number}" for number in range(20)]
        for name in names:
            await east.budget(name).create(10)
        asked = 0

        async def slow(_: Query) -> Page:
            nonlocal asked
            asked += 1
            await world.clock.sleep(2)
            raise Unreachable("down")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(world.store(EAST), "query", slow)
            done: list[object] = []

            async def spend(name: str) -> None:
                done.append(await east.budget(name).spend(1))

            async with anyio.create_task_group() as tasks:
                for name in names:
                    tasks.start_soon(spend, name)
                await world.clock.advance(30)
            before = asked
            await world.clock.advance(12)
            assert asked - before <= 6
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(spend, "key/0")
                await world.clock.advance(8)
            assert len(done) == 21
            assert all(done)
        await world.clock.advance(10)
        for name in names:
            assert (await east.budget(name).state()).charged == 1 + (name == "key/0")


async def test_an_idle_process_renews_its_view_of_the_contract() -> None:
    """Else what it owes could be charged no more once that is too old."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    async with world.table(EAST) as east:
        await east.budget("key/42").create(10)
        await let_through(world, east, 3, "key/42")
        live, stale = budget_parts(east.ledger).settings, [True]

        async def renew(self: object) -> None:
            del self
            stale.clear()

        def current_query(*_: object) -> Awaitable[Page]:
            if stale:
                raise ContractStale("too old")
            return query(*_)  # type: ignore[arg-type]

        store = world.store(EAST)
        query = store.query
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(type(live), "renew", renew)
            patched.setattr(store, "query", current_query)
            await world.clock.advance(10)
            assert not stale
            assert (await east.budget("key/42").state()).charged == 3


@pytest.mark.parametrize("names", [("open/1", "key/1"), ("key/1", "open/1")])
async def test_one_strict_budget_of_several_refuses_in_an_outage(names: tuple[str, str]) -> None:
    """Whichever place it has: its limit holds, as if it were spent from alone."""
    world = MemoryGlobalTable([EAST], budgets={"open/*": {"on_outage": "allow"}, "key/*": {}})
    async with world.table(EAST) as east:
        for name in names:
            await east.budget(name).create(10)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(world.store(EAST), "query", down)
            with pytest.raises(Unreachable):
                await east.budgets(names).spend(3)
        await world.clock.advance(10)
        for name in names:
            assert (await east.budget(name).state()).charged == 0


@pytest.mark.parametrize("light", [False, True])
async def test_no_hold_is_let_through(*, light: bool) -> None:
    """Without a grant it could never be settled."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    async with world.table(EAST) as east:
        budget = east.budget("key/42")
        await budget.create(10)
        hold = partial(budget.hold, light=True) if light else budget.hold
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(world.store(EAST), "query", down)
            with pytest.raises(Unreachable):
                await hold(3, expires=600)
        assert (await east.ledger.total("key/42", max_age=0)).value == 0


async def test_what_is_owed_is_charged_before_anything_is_granted() -> None:
    """Else as much would be granted again."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    async with world.table(EAST) as east:
        await east.budget("key/42").create(10)
        await let_through(world, east, 3, "key/42")
        assert not await east.budget("key/42").spend(8)
        assert await east.budget("key/42").spend(7)


@pytest.mark.parametrize(
    ("amount", "is_read", "is_allowed"),
    [
        ("1E-9", False, True),
        ("1E-10", False, False),
        ("1E22", False, True),
        ("2E22", False, False),
        ("1E-10", True, True),
    ],
)
async def test_what_could_not_be_added_up_is_not_let_through(
    amount: str, *, is_read: bool, is_allowed: bool
) -> None:
    """Beside a limit that was never read: one such entry, and the total cannot be read any more."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    async with world.table(EAST) as east:
        await east.budget("key/42").create(10)
        if is_read:
            assert await east.budget("key/42").spend(10)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(world.store(EAST), "query", down)
            spent = east.budget("key/42").spend(Decimal(amount))
            if is_allowed:
                assert await spent
            else:
                with pytest.raises(Unreachable):
                    await spent
        await world.clock.advance(60)
        assert (await east.budget("key/42").state()).charged >= (
            Decimal(amount) if is_allowed else 0
        )


async def test_a_key_let_through_in_two_regions_is_charged_where_the_last_writer_is() -> None:
    """The other process finds an entry of another holder: that is not its own to charge."""
    world = MemoryGlobalTable([EAST, WEST], budgets={"key/*": {"on_outage": "allow"}})
    async with world.table(EAST) as east, world.table(WEST) as west:
        await east.budget("key/42").create(10)
        world.replicate()
        at = world.clock.now()
        for table in (east, west):
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(world.store(table.ledger.region), "query", down)
                assert await table.budget("key/42").spend(3, key="call", at=at)
            await world.clock.advance(0.001)
        world.replicate()
        await world.clock.advance(60)
        world.replicate()
        state = await west.budget("key/42").state()
        charged = {region.region: int(region.charged) for region in state.regions}
        assert charged == {EAST: 0, WEST: 3}


async def test_what_a_process_cannot_remember_is_charged_by_a_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a long outage it would remember without bound."""
    monkeypatch.setattr(let_through_module, "KEPT_MAX", 1)
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    async with world.table(EAST) as east:
        await east.budget("key/42").create(10)
        for amount in (3, 2):
            await let_through(world, east, amount, "key/42")
        await world.clock.advance(10)
        assert (await east.budget("key/42").state()).charged == 3
        await merged(world)
        assert (await east.budget("key/42").state()).charged == 5


async def test_to_a_holder_that_is_over_nothing_is_charged_by_its_process() -> None:
    """Its rights may have been minted again: a pass charges it to an item that remains."""
    world = MemoryGlobalTable([EAST, WEST], budgets={"key/*": {"on_outage": "allow"}})
    async with world.table(WEST) as west, world.table(EAST) as east:
        await east.budget("key/42").create(10)
        world.replicate()
        await crashed(world, WEST, 3, "key/42")
        [item] = await entries(world, WEST, "key/42")
        store = world.store(WEST)
        terms = replace(world.settings.terms, lost=(WEST,), generation=2)
        settings = world.settings.under(terms, home=EAST)
        kept = FailOpen(access_to(store, settings, clock=world.clock))
        window = Window("key/42", "key/42")
        kept.add(key_of(item), FailOpenSpend.of("key/42", [window], Holder(WEST)))
        await kept.charge()
        assert len(kept) == 0
        assert await entries(world, WEST, "key/42") == [item]
        assert (await west.budget("key/42").state()).charged == 0

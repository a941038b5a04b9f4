"""Spends let through while no grant can be had: charged once, by the process that wrote them."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from ledger import Table
from ledger.core.errors import BudgetMissing, ContractStale, Unreachable
from ledger.ledger import budget_parts
from ledger.limits.outcomes import Granted
from ledger.store.port import Store
from ledger.store.reads import Page
from ledger.store.writes import Outcome, Unknown, Write
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


def unanswered(store: Store, times: int) -> Callable[[Write], Awaitable[Outcome]]:
    """Return a write that lands without an answer, so many times."""
    write, left = store.write, [times]

    async def lands(one: Write) -> Outcome:
        outcome = await write(one)
        if left[0] and one.key[0].startswith("~budget~"):
            left[0] -= 1
            return Unknown("no answer")
        return outcome

    return lands


@pytest.mark.parametrize("times", [1, 2, 20])
async def test_what_is_charged_without_an_answer_is_charged_once(times: int) -> None:
    """Whichever of the writes is not answered: the charge is marked as a grant is."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    async with world.table(EAST) as east:
        await east.budget("key/42").create(10)
        await let_through(world, east, 3, "key/42")
        store = world.store(EAST)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "write", unanswered(store, times))
            await world.clock.advance(60)
        await world.clock.advance(10)
        state = await east.budget("key/42").state()
        assert [int(one) for one in (state.charged, state.granted, state.free)] == [3, 0, 7]
        assert not state.grants


async def test_what_is_charged_is_charged_once_by_a_process_that_stood_still() -> None:
    """For longer than its mark would last as a grant: passes have closed those meanwhile.

    In the simulated worlds: seed 99001165, of a process that stood still for 20 minutes.
    """
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    async with world.table(EAST) as east:
        await east.budget("key/42").create(10)
        await let_through(world, east, 3, "key/42")
        store = world.store(EAST)
        write, late = store.write, [3_600.0]

        async def stands_still(one: Write) -> Outcome:
            outcome = await write(one)
            if late and one.key[0].startswith("~budget~"):
                await world.clock.sleep(late.pop())
                return Unknown("no answer")
            return outcome

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "write", stands_still)
            await world.clock.advance(10)
            assert not late
            await world.clock.advance(1_800)
            await world.settle()
            assert (await world.compact()).is_success
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


async def test_a_budget_may_be_created_after_something_was_let_through() -> None:
    """It was not known that it had no limit; what is owed is charged once it has."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {"on_outage": "allow"}})
    async with world.table(EAST) as east:
        await let_through(world, east, 3, "key/42")
        await world.clock.advance(10)
        with pytest.raises(BudgetMissing):
            await east.budget("key/42").state()
        assert await east.budget("key/42").create(10)
        await world.clock.advance(10)
        assert (await east.budget("key/42").state()).charged == 3


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

"""Light holds: kept aside in memory, written once they are settled."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ledger import Table
from ledger.core.errors import InvalidInput, StateConflict
from ledger.limits.budget import Hold
from ledger.limits.light import LightHold
from ledger.limits.outcomes import Granted, Refused
from ledger.testing import MemoryGlobalTable

EAST, WEST = "us-east-1", "eu-west-1"


@asynccontextmanager
async def opened(limit: int = 10) -> AsyncIterator[tuple[MemoryGlobalTable, Table]]:
    """Open a table in memory, with a budget `key/42` of this limit."""
    world = MemoryGlobalTable([EAST, WEST], budgets={"key/*": {}})
    async with world.table(EAST) as east:
        assert await east.budget("key/42").create(limit)
        yield world, east


async def held(table: Table, amount: int, *, expires: float = 30) -> LightHold:
    """Hold an amount."""
    hold = await table.budget("key/42").hold(amount, expires=expires, light=True)
    assert isinstance(hold, LightHold)
    return hold


async def test_nothing_is_written_before_it_is_settled() -> None:
    """Meanwhile nobody else can spend it; what it came to less is free again at once."""
    async with opened() as (world, east):
        hold = await held(east, 8)
        assert (await east.ledger.total("key/42", max_age=0)).value == 0
        assert not await east.budget("key/42").spend(3)
        settled = await hold.settle(5)
        assert isinstance(settled, Granted)
        assert settled.entry.change == -5
        assert settled.entry.spending is not None
        assert len(settled.entry.spending.grants) == 1
        assert await hold.settle(5) == settled
        await world.clock.advance(2)
        assert await east.budget("key/42").spend(5)
        assert (await east.ledger.total("key/42", max_age=0)).value == -10


async def test_it_settles_for_more_if_there_is_more() -> None:
    """Else it is refused, and nothing is spent."""
    async with opened() as (_, east):
        first, second = await held(east, 3), await held(east, 3)
        assert await first.settle(7)
        refused = await second.settle(4)
        assert isinstance(refused, Refused)
        assert (await east.ledger.total("key/42", max_age=0)).value == -7


async def test_it_is_voided_or_expires_by_itself() -> None:
    """Then it is free again; a late settlement is refused."""
    async with opened() as (world, east):
        await (await held(east, 8)).void()
        hold = await held(east, 8, expires=5)
        await world.clock.advance(7)
        with pytest.raises(StateConflict, match="was resolved before: voided, or has expired"):
            await hold.settle(1)
        assert await east.budget("key/42").spend(10)


async def test_it_is_extended() -> None:
    """And settled after its first expiry."""
    async with opened() as (world, east):
        hold = await held(east, 8, expires=5)
        assert await hold.extend(20) is hold
        await world.clock.advance(7)
        assert await hold.settle(8)
        with pytest.raises(StateConflict, match="was resolved before: settled for 8"):
            await hold.void()


async def test_after_its_grant_it_is_spent_anew() -> None:
    """Under another grant: no request names one that has ended."""
    async with opened() as (world, east):
        hold = await held(east, 8, expires=4_000)
        world.clock.wall += (hold.expires - world.clock.now()) / 2
        settled = await hold.settle(8)
        assert isinstance(settled, Granted)
        assert settled.entry.spending is not None
        assert settled.entry.spending.grants != hold.taken.names


async def test_a_closed_table_keeps_nothing_aside() -> None:
    """What was held is free for others."""
    async with opened() as (world, east):
        await held(east, 8)
        await east.close()
        async with world.table(EAST) as other:
            assert await other.budget("key/42").spend(10)


async def test_a_light_hold_has_no_key_and_settles_for_something() -> None:
    """Nothing is written that could be repeated; for nothing it is voided."""
    async with opened() as (_, east):
        with pytest.raises(InvalidInput, match="a light hold has no key"):
            await east.budget("key/42").hold(  # type: ignore[call-overload]
                1, expires=30, light=True, key="k"
            )
        hold = await held(east, 8)
        with pytest.raises(InvalidInput, match="settles for more than 0, got 0: void it"):
            await hold.settle(0)


async def test_many_holds_have_an_outcome_each() -> None:
    """An error of one keeps back no other."""
    async with opened() as (_, east):
        budget = east.budget("key/42")
        first, second = await budget.hold(2, expires=60), await budget.hold(3, expires=60)
        light = await held(east, 1)
        assert isinstance(first, Hold)
        assert isinstance(second, Hold)
        await second.void()
        settled = await budget.settle_many([(first, 2), (second, 3), (light, 1)])
        assert [type(each).__name__ for each in settled] == ["Granted", "StateConflict", "Granted"]
        voided = await budget.void_many([second, await held(east, 1)])
        assert isinstance(voided[0], Granted)
        assert voided[1] is None
        assert await budget.settle_many([]) == []

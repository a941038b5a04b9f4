"""A budget that is made by its first delivery: that counts once, however often it is sent."""

from decimal import Decimal

import pytest

from ledger import Table
from ledger.budgets.budget import Budget
from ledger.core.errors import BudgetMissing, InvalidAmount, InvalidInput, StateConflict
from ledger.testing import MemoryGlobalTable

EAST, WEST = "us-east-1", "eu-west-1"
BUDGETS = {"key/*": {}, "day/*": {"window": "day"}, "rolling/*": {"rolling": 86_400}}
NAMES = ["key/42", "day/42", "rolling/42"]


def world_of() -> MemoryGlobalTable:
    """Return a table of two regions in which some counters may have budgets."""
    return MemoryGlobalTable([EAST, WEST], budgets=BUDGETS)


async def booked(budget: Budget, amount: int, delivery: str) -> None:
    """Book a delivery, as programs do that do not know whether it is the first."""
    try:
        await budget.raise_limit(amount, id=delivery)
    except BudgetMissing:
        await budget.create(amount, id=delivery)


async def limit_of(table: Table, name: str) -> Decimal:
    """Return the limit of a budget, or of its window that runs."""
    return (await table.budget(name).state()).limit


@pytest.mark.parametrize("name", NAMES)
async def test_a_first_delivery_that_is_sent_twice_counts_once(name: str) -> None:
    """In each region, and beside others; what it brings can be spent."""
    world = world_of()
    async with world.table(EAST) as east, world.table(WEST) as west:
        for table in (east, west, east):
            await booked(table.budget(name), 60, "delivery-1")
            world.replicate()
        assert await limit_of(east, name) == 60
        await booked(west.budget(name), 40, "delivery-2")
        await booked(east.budget(name), 60, "delivery-1")
        world.replicate()
        assert await limit_of(east, name) == 100
        assert await east.budget(name).spend(30)


@pytest.mark.parametrize("name", NAMES)
async def test_a_create_and_a_raise_of_one_id_count_once_in_either_order(name: str) -> None:
    """Each may be repeated, also once the limit is another."""
    world = world_of()
    async with world.table(EAST) as table:
        budget = table.budget(name)
        assert await budget.create(5, id="first")
        assert not await budget.create(5, id="first")
        await budget.raise_limit(5, id="first")
        assert await limit_of(table, name) == 5
        await budget.raise_limit(3, id="second")
        assert not await budget.create(3, id="second")
        assert not await budget.create(5, id="first")
        assert await limit_of(table, name) == 8
        await budget.lower_limit(to=2)
        assert not await budget.create(5, id="first")
        await budget.raise_limit(5, id="first")
        assert await limit_of(table, name) == 2


@pytest.mark.parametrize("name", NAMES)
async def test_a_budget_may_be_made_with_nothing(name: str) -> None:
    """Nothing can be spent of it until it is raised."""
    world = world_of()
    async with world.table(EAST) as table:
        budget = table.budget(name)
        assert await budget.create(0)
        assert not await budget.create(0)
        assert not await budget.spend(1)
        await budget.raise_limit(5, id="first")
        await world.clock.advance(2)
        assert await budget.spend(5)
        assert not await budget.spend(1)
        assert not await budget.create(5, id="first")


async def test_nothing_with_an_id_is_known_again() -> None:
    """As any first delivery: by its id, whatever the limit is by then."""
    world = world_of()
    async with world.table(EAST) as table:
        assert await table.budget("key/42").create(0, id="opened")
        await table.budget("key/42").raise_limit(5, id="first")
        assert not await table.budget("key/42").create(0, id="opened")
        assert await limit_of(table, "key/42") == 5


@pytest.mark.parametrize("limit", [5, 6])
async def test_another_delivery_does_not_count_as_the_first(limit: int) -> None:
    """Also one of the same amount is refused: it is to raise the limit."""
    world = world_of()
    async with world.table(EAST) as table:
        budget = table.budget("key/42")
        await budget.create(5, id="first")
        with pytest.raises(StateConflict, match="which raise 'second' has not made: raise it by"):
            await budget.create(limit, id="second")
        await booked(budget, limit, "second")
        assert await limit_of(table, "key/42") == 5 + limit


async def test_an_id_of_another_amount_is_refused() -> None:
    """It is another delivery, of a number that was used before."""
    world = world_of()
    async with world.table(EAST) as table:
        await table.budget("key/42").create(5, id="first")
        for call in (table.budget("key/42").create, table.budget("key/42").raise_limit):
            with pytest.raises(
                StateConflict, match="raise 'first' of budget 'key/42' was made by 5"
            ):
                await call(6, id="first")


async def test_what_is_no_limit_or_no_id_is_refused() -> None:
    """And nothing is made."""
    world = world_of()
    async with world.table(EAST) as table:
        with pytest.raises(InvalidAmount, match="a limit must be 0 or more, got -1"):
            await table.budget("key/42").create(-1)
        for wrong in ("", "a" * 101, "a\n"):
            with pytest.raises(InvalidInput, match="the id of a raise must be 1 to 100 printable"):
                await table.budget("key/42").create(1, id=wrong)
        with pytest.raises(BudgetMissing):
            await table.budget("key/42").state()

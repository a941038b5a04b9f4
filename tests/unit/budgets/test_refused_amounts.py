"""What a process was refused changes nothing of what it takes later."""

from decimal import Decimal
from typing import Any

import anyio
import pytest

from ledger import Hold, Table
from ledger.budgets import rights_plan
from ledger.budgets.rights import Holder, rights_item
from ledger.budgets.rights_items import read_budget
from ledger.budgets.spend_request import Granted, Refused
from ledger.core.errors import AmountOverflow, InvalidCounter, InvalidInput, NotSent
from ledger.store.writes import Outcome, Put, Write
from ledger.testing import MemoryGlobalTable

FINE = Decimal("1E-38")


async def granted(table: Table, amount: Decimal | int) -> Decimal:
    """Return what is granted for a first spend of an amount."""
    assert isinstance(await table.budget("key/42").spend(amount), Granted)
    return (await table.budget("key/42").state()).granted


@pytest.mark.parametrize("refused", [FINE, Decimal("1E+37"), Decimal(2_000)])
async def test_a_grant_is_as_large_as_without_what_was_refused(refused: Decimal) -> None:
    """Its size is by what is spent: one that is far too fine, or large, is not."""
    world = MemoryGlobalTable(["us-east-1"], budgets={"key/*": {}})
    async with world.table() as table:
        budget = table.budget("key/42")
        await budget.create(1_000)
        try:
            assert isinstance(await budget.spend(refused), Refused)
        except AmountOverflow:
            assert refused != 2_000
        assert await granted(table, 7) == 70


async def test_two_calls_at_once_are_each_checked_against_the_limit() -> None:
    """Also the one that finds the grant that the other has taken."""
    world = MemoryGlobalTable(["us-east-1"], budgets={"key/*": {}})
    async with world.table() as table:
        budget = table.budget("key/42")
        await budget.create(1_000)

        async def too_fine() -> None:
            with pytest.raises(AmountOverflow):
                await budget.spend(Decimal("1E-33"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(budget.spend, 7)
            tasks.start_soon(too_fine)


@pytest.mark.parametrize("places", [0, 4])
async def test_amounts_of_over_28_digits_are_exact(places: int) -> None:
    """Also what a refusal says is here, and what a grant is enlarged by."""

    def scaled(number: int) -> Decimal:
        return Decimal(f"{number}E-{places}")

    limit, left, piece = scaled(10**31 + 1), scaled(10**31), scaled(1)
    world = MemoryGlobalTable(["us-east-1"], budgets={"key/*": {}})
    async with world.table() as table:
        budget = table.budget("key/42")
        await budget.create(limit)
        assert isinstance(await budget.spend(piece), Granted)
        refused = await budget.spend(limit)
        assert isinstance(refused, Refused)
        assert refused.here == left
        assert isinstance(await budget.spend(left), Granted)
        assert not await budget.spend(piece)


async def test_a_spend_whose_grants_are_over_each_time_is_not_refused() -> None:
    """There is enough: each grant takes longer to be had than it lives."""
    world = MemoryGlobalTable(["us-east-1"], budgets={"key/*": {"grant_life": 1.0}})
    async with world.table() as table:
        store = world.store("us-east-1")
        await table.budget("key/42").create(10)
        write = store.write

        async def slow(one: Write) -> Outcome:
            outcome = await write(one)
            await world.clock.advance(2)
            return outcome

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "write", slow)
            with pytest.raises(NotSent, match="nothing is spent; repeat the call"):
                await table.budget("key/42").spend(1, timeout=3_600)


@pytest.mark.parametrize("order", [("key/wide", "key/small"), ("key/small", "key/wide")])
async def test_a_refused_settlement_names_the_budget_that_has_too_little(
    order: tuple[str, str],
) -> None:
    """And what is free of it here, and elsewhere as known here."""
    world = MemoryGlobalTable(["us-east-1", "eu-west-1"], budgets={"key/*": {}})
    async with world.table() as table, world.table("eu-west-1") as other:
        await table.budget("key/small").create(10)
        await table.budget("key/wide").create(1_000)
        world.replicate()
        hold = await table.budgets(order).hold(2, expires=7_200)
        assert isinstance(hold, Hold)
        assert await other.budget("key/small").spend(2)
        await world.clock.advance(120)
        world.replicate()
        state = await table.budget("key/small").state()
        refused = await hold.settle(100)
        assert isinstance(refused, Refused)
        assert refused.budget == "key/small"
        assert refused.wanted == 98
        assert refused.here + refused.elsewhere == state.free
        assert await hold.settle(2)


async def test_budgets_without_an_order_are_refused() -> None:
    """Entries are of the first: another process would make another entry under the same key."""
    world = MemoryGlobalTable(["us-east-1"], budgets={"key/*": {}})
    async with world.table() as table:
        unordered: list[Any] = [{"key/1", "key/2"}, frozenset({"key/1"}), {"key/1": 1}]
        for names in unordered:
            with pytest.raises(InvalidInput, match="must be a list of different counters"):
                table.budgets(names)


async def test_a_budget_that_could_not_be_spent_from_is_not_made() -> None:
    """With windows an `@` names one of them."""
    world = MemoryGlobalTable(["us-east-1"], budgets={"key/*": {"window": "day"}})
    async with world.table() as table:
        with pytest.raises(InvalidCounter, match="must have no '@'"):
            await table.budget("key/a@b").create(10)
        assert (await read_budget(world.store(), "key/a@b")).limit is None


async def test_one_process_too_many_is_told_that_grants_have_to_be_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is enough: with what is said of an amount alone nobody would know what to do."""
    monkeypatch.setattr(rights_plan, "GRANTS_MAX", 2)
    world = MemoryGlobalTable(["us-east-1"], budgets={"key/*": {}})
    async with world.table() as table, world.table() as other, world.table() as third:
        await table.budget("key/42").create(1_000)
        assert await table.budget("key/42").spend(1)
        assert await other.budget("key/42").spend(1)
        refused = await third.budget("key/42").spend(1)
        assert isinstance(refused, Refused)
        assert refused.crowded
        assert refused.here > 900
        too_much = await other.budget("key/42").spend(2_000)
        assert isinstance(too_much, Refused)
        assert not too_much.crowded


async def test_what_a_region_that_is_gone_had_is_not_elsewhere() -> None:
    """Nobody can fetch it: of a spend's refusal, and of a settlement's."""
    world = MemoryGlobalTable(["us-east-1", "eu-west-1"], budgets={"key/*": {}})
    async with world.table() as table:
        await table.budget("key/42").create(10)
        gone = rights_plan.create(Holder("ap-southeast-2"), Decimal(50))
        await world.store("us-east-1").write(Put(rights_item(gone, "key/42")))
        world.replicate()
        hold = await table.budget("key/42").hold(2, expires=7_200)
        assert isinstance(hold, Hold)
        for refused in (await table.budget("key/42").spend(20), await hold.settle(30)):
            assert isinstance(refused, Refused)
            assert refused.elsewhere == 0

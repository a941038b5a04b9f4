"""Rights that lie elsewhere: from whom they are fetched, how much, and what a refusal leaves."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

import anyio
import pytest
from support.budgets import whole

from ledger import Table
from ledger.budgets import rights_plan
from ledger.budgets.balance import PERIOD_SECONDS
from ledger.budgets.grant_allowance import REFUSAL_SECONDS, Allowance
from ledger.budgets.grant_keeper import GrantKeeper
from ledger.budgets.limit_changer import LimitChanger
from ledger.budgets.rights import GrantName, Holder, Rights, rights_item
from ledger.budgets.rights_fetcher import FETCH_SECONDS
from ledger.budgets.rights_items import ControlItems, read_rights
from ledger.budgets.spend_request import Refused, SpendOutcome
from ledger.core.amounts import total_wide
from ledger.core.errors import BudgetUndecided, Unreachable
from ledger.store.writes import Put
from ledger.testing import MemoryGlobalTable

HERE, SOME, MOST = "us-east-1", "eu-west-1", "sa-east-1"
REGIONS = (HERE, SOME, MOST)
BUDGET = "key/42"


@asynccontextmanager
async def having(*amounts: str) -> AsyncIterator[tuple[MemoryGlobalTable, Table]]:
    """Open a table of three regions, a budget whose rights lie there so; yield it and `HERE`."""
    world = MemoryGlobalTable(REGIONS, budgets={"key/*": {}})
    async with world.table(HERE) as table:
        assert await table.budget(BUDGET).create(total_wide(map(Decimal, amounts)))
        world.replicate()
        for region, amount in zip(REGIONS, amounts, strict=True):
            before = await rights(world, region)
            item = replace(
                rights_plan.create(before.holder, Decimal(amount)), version=before.version + 1
            )
            await world.store(region).write(Put(rights_item(item, BUDGET)))
        world.replicate()
        yield world, table


async def rights(world: MemoryGlobalTable, region: str, counter: str = BUDGET) -> Rights:
    """Return a region's item, as it has it; version 0 if there is none."""
    holder = Holder(region)
    return (await read_rights(world.store(region), counter)).get(holder, Rights(holder))


async def free(world: MemoryGlobalTable) -> Sequence[int]:
    """Return what is free in each region."""
    return whole(*[(await rights(world, region)).available for region in REGIONS])


async def test_rights_are_fetched_from_where_most_are() -> None:
    """Though another comes first by its name, and has enough: it may need its few itself."""
    async with having("0", "3", "90") as (world, table):
        assert await table.budget(BUDGET).spend(3)
        assert (await free(world))[1] == 3
        assert (await rights(world, MOST)).sent.keys() == {Holder(HERE)}


async def test_as_much_is_fetched_as_the_region_is_to_have() -> None:
    """Its share by demand, not just what this spend is short of: the next would ask again."""
    async with having("0", "0", "90") as (world, table):
        assert await table.budget(BUDGET).spend(1)
        assert (await rights(world, HERE)).taken[Holder(MOST)] > 1


async def test_all_that_is_left_is_had_in_parts_of_a_piece() -> None:
    """Half a piece in each region: it comes to just what is asked for."""
    async with having("0", "0.5", "0.5") as (world, table):
        assert await table.budget(BUDGET).spend(1)
        assert not await table.budget(BUDGET).spend(Decimal("0.1"))
        assert await free(world) == [0, 0, 0]


async def test_calls_that_wait_together_fetch_together() -> None:
    """Not one by one: each fetch is a write in the other region."""
    async with having("0", "0", "5") as (world, table):
        async with anyio.create_task_group() as calls:
            for _ in range(5):
                calls.start_soon(table.budget(BUDGET).spend, 1)
        assert (await rights(world, MOST)).sent == {Holder(HERE): 5}
        assert (await rights(world, MOST)).version == 2


async def test_a_region_that_is_refused_says_what_it_wants_now_and_then() -> None:
    """Those that have rights cannot be reached: its item asks them, once in a period."""
    async with having("0", "9", "0") as (world, table):
        world.isolate(HERE)
        before = await rights(world, HERE)
        for _ in range(3):
            refused = await table.budget(BUDGET).spend(2)
            assert isinstance(refused, Refused)
            assert refused.elsewhere == 9
            await world.clock.advance(REFUSAL_SECONDS + 1)
        asked = await rights(world, HERE)
        assert asked.version == before.version + 1
        assert asked.want == 2
        await world.clock.advance(PERIOD_SECONDS)
        assert not await table.budget(BUDGET).spend(3)
        assert (await rights(world, HERE)).want == 3


async def test_a_region_that_failed_once_is_asked_again_while_the_call_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after a request that took longer than its signature lived: a second later."""
    async with having("0", "9", "0") as (world, table):
        asked = _failing(monkeypatch, times=1)
        async with anyio.create_task_group() as calls:
            outcomes: list[SpendOutcome] = []

            async def spend() -> None:
                outcomes.append(await table.budget(BUDGET).spend(2, wait=10))

            calls.start_soon(spend)
            await world.clock.advance(4)
        assert [bool(outcome) for outcome in outcomes] == [True]
        assert len(asked) == 2


async def test_a_region_that_stays_away_is_asked_less_and_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After 1, 2, 4, 8, 16 and then every 30 seconds; once it answers it begins anew."""
    async with having("0", "9", "0") as (world, table):
        asked = _failing(monkeypatch, times=8)
        begun = world.clock.monotonic()
        for _ in range(130):
            outcome = await table.budget(BUDGET).spend(10)
            assert not outcome
            await world.clock.advance(1)
        assert [round(at - begun) for at in asked[:10]] == [0, 1, 3, 7, 15, 31, 61, 91, 121, 122]


def _failing(monkeypatch: pytest.MonkeyPatch, *, times: int) -> list[float]:
    """Let so many fetches from `SOME` fail; return a list that has when each was tried."""
    asked: list[float] = []
    change = ControlItems.change

    async def failing(self: ControlItems, *parts: Any, **options: Any) -> Any:
        if options["seconds"] != FETCH_SECONDS or parts[1] != Holder(SOME):
            return await change(self, *parts, **options)
        asked.append(self._clock.monotonic())
        if len(asked) <= times:
            raise Unreachable("no answer")
        return await change(self, *parts, **options)

    monkeypatch.setattr(ControlItems, "change", failing)
    return asked


async def test_a_refusal_makes_no_item_without_its_share() -> None:
    """Where a region has not spent of a window yet: its share of that would be gone."""
    world = MemoryGlobalTable((HERE, SOME), budgets={"key/*": {"window": "day"}})
    async with world.table(HERE) as here, world.table(SOME) as there:
        await here.budget(BUDGET).create(10)
        world.replicate()
        await world.clock.advance(86_400)
        assert await there.budget(BUDGET).spend(1)
        world.replicate()
        world.isolate(HERE)
        refused = await here.budget(BUDGET).spend(6)
        assert isinstance(refused, Refused)
        assert refused.elsewhere > 0
        assert await here.budget(BUDGET).spend(5)


async def test_a_small_budget_is_not_asked_for_more_at_each_spend() -> None:
    """Of which there is never as much as is wanted: once refused, what is left is spent."""
    async with having("40", "0", "0") as (world, table):
        budget = table.budget(BUDGET)
        hold = await budget.hold(9, expires=600)
        assert not isinstance(hold, Refused)
        assert await hold.settle(1)
        assert not await budget.spend(80)
        before = await rights(world, HERE)
        for _ in range(4):
            assert await budget.spend(1)
            await world.clock.advance(3)
        assert (await rights(world, HERE)).version == before.version


async def test_whoever_finds_a_window_undecided_goes_on_with_its_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The call is refused all the same; a later one finds the step in force, or put off."""
    went_on: list[str] = []

    async def undecided(*_: object, **__: object) -> None:
        raise BudgetUndecided("only announced")

    async def go_on(_: LimitChanger, budget: str, **__: object) -> None:
        went_on.append(budget)

    monkeypatch.setattr(GrantKeeper, "renew", undecided)
    monkeypatch.setattr(LimitChanger, "go_on", go_on)
    async with having("9", "0", "0") as (_, table):
        with pytest.raises(BudgetUndecided):
            await table.budget(BUDGET).spend(1)
        assert went_on == [BUDGET]


def test_a_grant_that_was_shrunk_is_not_written_again_and_again() -> None:
    """What a spend without an answer came to is not known: its grant stays, with as much."""
    rights = rights_plan.create(Holder(HERE), Decimal(9))
    taken = rights_plan.take(rights, amount=Decimal(5), since=0, expires=60, token="it")
    assert isinstance(taken, Rights)
    version = taken.version
    name = GrantName(Holder(HERE), version)
    allowance = Allowance(name, taken.grants[version], Decimal(5))
    assert allowance.take(Decimal(2))
    allowance.doubted()
    shrunk = allowance.close(taken)
    assert shrunk is not None
    assert shrunk.grants[version].amount == 2
    assert allowance.close(shrunk) is None


async def test_a_refusal_during_a_partition_names_no_more_than_the_limit() -> None:
    """The others are shown as they were before they gave: what was had of them is not there."""
    world = MemoryGlobalTable(REGIONS, budgets={"key/*": {}})
    async with (
        world.table(HERE) as home,
        world.table(SOME) as some,
        world.table(MOST) as most,
    ):
        assert await home.budget(BUDGET).create(60)
        world.replicate()
        for table in (some, most):
            assert await table.budget(BUDGET).spend(1)
            await table.budget(BUDGET).spend(100)
        world.isolate(HERE)
        world.replicate()
        await world.clock.advance(REFUSAL_SECONDS + 1)
        for table in (some, most):
            refused = await table.budget(BUDGET).spend(1_000)
            assert isinstance(refused, Refused)
            assert total_wide((refused.here, refused.elsewhere)) <= 60 - 2
            assert (await table.budget(BUDGET).state()).free <= 60 - 2

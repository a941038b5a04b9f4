"""Budgets of programs: what is granted, refused, repeated, and what comes back."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from support.budgets import whole
from support.decimals import strictly

from ledger import Table
from ledger.budgets.budget import Budgets, Hold
from ledger.budgets.hold_calls import expiry_of
from ledger.budgets.holdings import WAIT_SECONDS
from ledger.budgets.limit_windows import BudgetLimit, LimitStep, limit_item
from ledger.budgets.rights import Holder, Rights, key_of, rights_item, rights_of
from ledger.budgets.rights_items import read_budget, read_rights
from ledger.budgets.rights_plan import send
from ledger.budgets.spend_request import BUDGETS_MAX, NOTE_BYTES_MAX, Granted, Refused
from ledger.core import amounts
from ledger.core.entry import Item
from ledger.core.errors import (
    BudgetMissing,
    InvalidAmount,
    InvalidEntry,
    InvalidInput,
    KeyConflict,
    OutcomeUnknown,
    RetryHorizonPassed,
    StateConflict,
    Unreachable,
)
from ledger.core.ids import EPOCH
from ledger.core.values import Entry
from ledger.runtime.call_deadlines import LATE_AT_ONCE
from ledger.session.ledger import budget_parts
from ledger.store.conditions import Absent
from ledger.store.reads import Get, Page, Query
from ledger.store.writes import Outcome, Put, Rejected, Unknown, Write
from ledger.testing import MemoryGlobalTable
from ledger.testing.clock import START

EAST, WEST = "us-east-1", "eu-west-1"


@asynccontextmanager
async def opened(
    limit: int | None = 10, **rule: object
) -> AsyncIterator[tuple[MemoryGlobalTable, Table, Table]]:
    """Open a table of two regions in memory, with a budget `key/42` of this limit."""
    world = MemoryGlobalTable([EAST, WEST], budgets={"key/*": dict(rule)})
    async with world.table(EAST) as east, world.table(WEST) as west:
        if limit is not None:
            assert await east.budget("key/42").create(limit)
            world.replicate()
        yield world, east, west


async def test_a_budget_is_spent_and_not_a_bit_more() -> None:
    """In the region that has the rights, by several calls; the total is an ordinary one."""
    async with opened() as (_, east, _west):
        budget = east.budget("key/42")
        assert isinstance(await budget.spend(7), Granted)
        refused = await budget.spend(4)
        assert isinstance(refused, Refused)
        assert not refused
        assert (refused.budget, int(refused.wanted), int(refused.here)) == ("key/42", 4, 3)
        assert isinstance(await budget.spend(3), Granted)
        assert (await east.ledger.total("key/42", max_age=0)).value == -10


async def test_a_decimal_context_of_the_caller_closes_nothing() -> None:
    """The tasks behind a ledger inherit it, and calculate in contexts of their own."""
    with strictly():
        async with opened(100_000) as (world, east, _west):
            budget = east.budget("key/42")
            for amount in (12, 345, Decimal("6.7")):
                assert await budget.spend(amount)
                await world.pass_time(2)
            await world.pass_time(70)
            assert amounts.to_text((await east.ledger.total("key/42", max_age=0)).value) == "-363.7"


async def test_rights_are_fetched_from_the_region_that_has_them() -> None:
    """At once, through that region's own endpoint, before anything has replicated."""
    async with opened() as (world, east, west):
        assert await west.budget("key/42").spend(6)
        assert await east.budget("key/42").spend(4)
        assert not await west.budget("key/42").spend(1)
        assert not await east.budget("key/42").spend(1)
        world.replicate()
        assert (await east.ledger.total("key/42", max_age=0)).value == -10


async def test_parts_of_a_piece_in_each_region_make_a_whole_one() -> None:
    """What settled holds left is fetched although each region has less than is ever asked for."""
    async with opened(2) as (world, east, west):
        for table in (east, west):
            hold = await table.budget("key/42").hold(1, expires=600)
            assert not isinstance(hold, Refused)
            assert await hold.settle(Decimal("0.25"))
        world.replicate()
        for table in (east, west):
            await table.close()
        world.replicate()
        async with world.table(WEST) as again, world.table(EAST) as other:
            await world.clock.advance(31)
            assert await again.budget("key/42").spend(1)
            refused = await other.budget("key/42").spend(1)
            assert isinstance(refused, Refused)
            world.replicate()
            assert (await other.ledger.total("key/42", max_age=0)).value == Decimal("-1.50")


@pytest.mark.parametrize("expires", [None, 60])
async def test_what_is_too_late_to_repeat_uses_nothing_up(expires: int | None) -> None:
    """A key past the retry horizon, again and again: what the budget had can be spent."""
    async with opened() as (world, east, _west):
        budget = east.budget("key/42")
        spend = budget.spend if expires is None else partial(budget.hold, expires=expires)
        late = world.clock.now() - timedelta(days=1)
        for number in range(20):
            with pytest.raises(RetryHorizonPassed):
                await spend(1, key=f"job-{number}", at=late)
        assert await budget.spend(10)


async def test_a_repeat_with_its_key_spends_once() -> None:
    """Sequential or at the same time, also when the budget is spent by then."""
    key = "019ac3d8-8e80-7000-8000-000000000001"
    async with opened() as (world, east, west):
        at = world.clock.now()
        first = await east.budget("key/42").spend(6, key=key, at=at)
        again = await east.budget("key/42").spend(6, key=key, at=at)
        assert isinstance(first, Granted)
        assert isinstance(again, Granted)
        assert (first.entry.repeated, again.entry.repeated) == (False, True)
        assert await east.budget("key/42").spend(4)
        for _ in range(3):
            assert await east.budget("key/42").spend(6, key=key, at=at)
        assert not await east.budget("key/42").spend(1)
        world.replicate()
        assert await west.budget("key/42").spend(6, key=key, at=at)
        assert (await west.ledger.total("key/42", max_age=0)).value == -10


async def test_what_is_left_of_a_grant_is_free_once_the_table_is_closed() -> None:
    """And what was spent is charged, so that nothing is left open."""
    async with opened(100) as (world, east, west):
        assert await west.budget("key/42").spend(6)
        await west.close()
        world.replicate()
        state = await east.budget("key/42").state()
        assert [*map(int, (state.limit, state.charged, state.granted, state.free))] == [
            100,
            6,
            0,
            94,
        ]


async def test_several_budgets_are_spent_from_all_or_none() -> None:
    """The refusal names the one that had too little; the entry is one, and names each grant."""
    async with opened(10) as (_, east, _west):
        await east.budget("key/team").create(5)
        both = east.budgets(["key/42", "key/team"])
        granted = await both.spend(4)
        assert isinstance(granted, Granted)
        assert granted.entry.counter == "key/42"
        assert granted.entry.spending is not None
        assert [name.partition("@")[2] for name in granted.entry.spending.grants] == [
            "",
            "key/team",
        ]
        refused = await both.spend(4)
        assert isinstance(refused, Refused)
        assert (refused.budget, int(refused.here)) == ("key/team", 1)
        assert await east.budget("key/42").spend(6)
        assert (await east.ledger.total("key/team", max_age=0)).value == 0


async def test_so_many_budgets_pay_for_one_entry_as_a_hold_of_them_can_be_resolved_with() -> None:
    """By another process, in one transaction with the rights of each, whatever their names are."""
    names = [f"key/{number:0{1020}}" for number in range(BUDGETS_MAX + 1)]
    async with opened(None) as (world, east, _west), world.table(EAST) as other:
        for name in names:
            assert await east.budget(name).create(10)
        hold = await east.budgets(names[:-1]).hold(2, expires=600)
        assert isinstance(hold, Hold)
        assert await other.budgets(names[:-1]).held(hold.entry).settle(1)
        with pytest.raises(InvalidInput, match="from up to 20 budgets, got 21: spend from some"):
            east.budgets(names)


async def test_a_hold_counts_at_once_and_is_settled_once() -> None:
    """For less: the rest is free again; by another process, too."""
    async with opened(10) as (world, east, west):
        hold = await east.budget("key/42").hold(8, expires=600)
        assert not isinstance(hold, Refused)
        assert not await east.budget("key/42").spend(3)
        assert (await east.ledger.total("key/42", max_age=0)).value == -8
        settled = await hold.settle(2)
        assert isinstance(settled, Granted)
        assert settled.entry.change == -2
        repeated = await hold.settle(2)
        assert isinstance(repeated, Granted)
        assert repeated.entry.repeated
        with pytest.raises(StateConflict, match="was resolved before: settled, for 2"):
            await hold.void()
        await world.clock.advance(2)
        assert await east.budget("key/42").spend(8)
        assert not await west.budget("key/42").spend(1)
        assert (await east.ledger.total("key/42", max_age=0)).value == -10


async def test_a_hold_of_less_than_a_second_expires_in_the_future() -> None:
    """Its expiry is in whole seconds, and rounded up."""
    async with opened(10) as (world, east, _west):
        begun = world.clock.now()
        world.clock.wall += timedelta(seconds=0.7)
        hold = await east.budget("key/42").hold(1, expires=0.2)
        assert isinstance(hold, Hold)
        assert hold.entry.spending is not None
        assert hold.entry.spending.hold == begun.timestamp() + 1
        assert expiry_of(begun, begun - timedelta(seconds=5)) == begun.timestamp()


async def test_a_hold_is_voided_by_another_process_in_another_region() -> None:
    """In one transaction with the rights of the region that it was made in."""
    async with opened(10) as (world, east, west):
        hold = await east.budget("key/42").hold(8, expires=600)
        assert not isinstance(hold, Refused)
        assert await west.budget("key/42").held(hold.entry).void()
        await world.clock.advance(2)
        assert await west.budget("key/42").spend(2)
        world.replicate()
        assert (await west.ledger.total("key/42", max_age=0)).value == -2


async def test_of_a_hold_that_was_merged_it_is_not_known_how_it_was_resolved() -> None:
    """Its entry is gone: an earlier call may have done what is asked, though this one has not."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {}}, compactor={"fold_min": 1})
    async with world.table(EAST) as east:
        assert await east.budget("key/42").create(10)
        hold = await east.budget("key/42").hold(8, expires=600)
        assert isinstance(hold, Hold)
        assert await hold.settle(2)
        await world.clock.advance(120)
        await world.settle()
        assert (await world.compact()).is_success
        await world.settle()
        assert (await world.compact()).is_success
        for call in (partial(hold.settle, 2), hold.void):
            with pytest.raises(StateConflict, match="was resolved and merged") as caught:
                await call()
            assert caught.value.outcome == "unknown"


@pytest.mark.parametrize("then", ["down", "refused"])
async def test_a_settlement_that_may_be_applied_does_not_say_that_it_is_not(then: str) -> None:
    """Also if the next try of it fails for sure: the first one may land."""
    async with opened(100) as (world, east, _west), world.table(EAST) as other:
        hold = await east.budget("key/42").hold(2, expires=600)
        assert isinstance(hold, Hold)
        assert hold.entry.spending is not None
        left = budget_parts(east.ledger).holdings.at_hand(hold.entry.spending.grants[0], "key/42")
        assert left is not None
        while await other.budget("key/42").spend(1):
            pass
        store, sent = world.store(EAST), list[Write]()

        async def lost(write: Write) -> Outcome:
            if write.key[0].startswith("~"):
                return await put(write)
            sent.append(write)
            return Unknown("no answer")

        put, get = store.write, store.get

        async def down_by_then(asked: Get) -> Item | None:
            if sent and then == "down":
                raise Unreachable("down")
            return await get(asked)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "write", lost)
            patched.setattr(store, "get", down_by_then)
            with pytest.raises(OutcomeUnknown, match="the same call is harmless"):
                await settled_late(world, hold, Decimal(int(left.allowance.remaining) + 2))
        assert sent


async def settled_late(world: MemoryGlobalTable, hold: Hold, amount: Decimal) -> None:
    """Settle, while time passes."""
    errors: list[Exception] = []

    async def settle() -> None:
        try:
            await hold.settle(amount)
        except Exception as error:  # noqa: BLE001 (raised below)
            errors.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(settle)
        await world.clock.advance(30)
    raise errors[0]


@pytest.mark.parametrize("amount", [0, -1, 0.5, True, Decimal("NaN")])
async def test_an_amount_that_is_not_above_zero_is_refused(amount: object) -> None:
    """Before anything is taken."""
    async with opened(10) as (_, east, _west):
        with pytest.raises(InvalidAmount):
            await east.budget("key/42").spend(amount)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"note": 5}, "note must be a string, got 5"),
        ({"note": "\ud800"}, "cannot be encoded in UTF-8"),
        ({"note": "x" * 358_401}, "must have at most 358,400 bytes, got 358,401 bytes"),
        ({"at": START}, "at belongs to a key"),
    ],
)
async def test_what_could_not_be_written_is_no_refusal(named: dict[str, Any], said: str) -> None:
    """The error names the rule, also where nothing is left; and nothing is kept aside for it."""
    async with opened(10) as (_, east, _west):
        budget = east.budget("key/42")
        assert await budget.spend(10)
        for call in (budget.spend, partial(budget.hold, expires=60)):
            with pytest.raises(InvalidEntry, match=said):
                await call(1, **named)
        if "note" in named:
            with pytest.raises(InvalidEntry, match=said):
                await budget.hold(1, expires=60, light=True, **named)


async def test_a_hold_with_the_longest_note_is_resolved_apart() -> None:
    """There is room for the names of the items that are written with it."""
    names = [f"key/{number:0{1020}}" for number in range(BUDGETS_MAX)]
    async with opened(None) as (_, east, west):
        for name in names:
            assert await east.budget(name).create(10)
        hold = await east.budgets(names).hold(2, expires=600, note="x" * NOTE_BYTES_MAX)
        assert isinstance(hold, Hold)
        found = await west.budgets(names).held(hold.entry).settle(1)
        assert isinstance(found, Granted)


async def test_a_refusal_says_what_is_left_by_now() -> None:
    """What is left of a grant pays first what is owed, once the grant is over."""
    async with opened(100) as (world, east, _west):
        budget = east.budget("key/42")
        for _ in range(10):
            assert await budget.spend(1)
        hold = await budget.hold(1, expires=6_000)
        assert isinstance(hold, Hold)
        async with world.table(EAST) as another:
            assert await another.budget("key/42").held(hold.entry).settle(300, over=True)
        await world.pass_time(29)
        outcomes = [await budget.spend(1)]
        while outcomes[-1]:
            outcomes.append(await budget.spend(1))
        assert isinstance(outcomes[-1], Refused)
        assert whole(outcomes[-1].here, outcomes[-1].elsewhere) == [0, 0]
        await world.pass_time(31)
        late = await budget.spend(1)
        assert isinstance(late, Refused)
        assert late.here == 0


@pytest.mark.parametrize(("actual", "here"), [(1, [99, 99]), (95, [9, 5])])
async def test_of_a_grant_that_is_over_what_is_left_pays_first_what_is_owed(
    actual: int, here: list[int]
) -> None:
    """Up to the last moment at which it may be spent from it does not."""
    async with opened(100, grant_life=60) as (world, east, _west):
        budget = east.budget("key/42")
        hold = await budget.hold(1, expires=6_000)
        assert isinstance(hold, Hold)
        [grant] = (await budget.state()).grants
        async with world.table(EAST) as another:
            assert await another.budget("key/42").held(hold.entry).settle(actual, over=True)
        seconds = grant.expires - min(world.settings.write_deadline, 30)
        found: list[Decimal] = []
        for late in (0, 1):
            world.clock.wall = EPOCH + timedelta(seconds=seconds + late)
            refused = await budget.spend(500)
            assert isinstance(refused, Refused)
            found.append(refused.here)
        assert found == here


async def test_where_more_is_owed_than_is_left_nothing_is_left() -> None:
    """Also as a process says it that has no grant."""
    async with opened(10) as (world, east, _west):
        hold = await east.budget("key/42").hold(5, expires=6_000)
        assert isinstance(hold, Hold)
        async with world.table(EAST) as another:
            budget = another.budget("key/42")
            assert await budget.held(hold.entry).settle(30, over=True)
            refused = await budget.spend(1)
            assert isinstance(refused, Refused)
            assert whole(refused.here, refused.elsewhere) == [0, 0]


@pytest.mark.parametrize("wrong", ["", "x", "%", "0000-00-00", "x" * 3_000])
async def test_a_hold_of_no_entrys_id_is_refused_before_anything_is_asked(wrong: str) -> None:
    """DynamoDB's own words for it name neither the hold nor the rule."""
    async with opened() as (_, east, _west):
        with pytest.raises(InvalidInput, match=f"has the id of its entry, .*got '{wrong[:70]}"):
            east.budget("key/42").held(Entry("key/42", wrong, Decimal(0)))


@pytest.mark.parametrize("wrong", [None, 7, b"x"])
async def test_an_id_that_is_no_text_is_refused_as_one(wrong: Any) -> None:
    """By an error of the ledger, not of Python."""
    async with opened() as (_, east, _west):
        with pytest.raises(InvalidInput, match="has the id of its entry"):
            east.budget("key/42").held(Entry("key/42", wrong, Decimal(0)))


async def test_a_budget_without_a_limit_or_a_pattern_is_missing() -> None:
    """Each with what to do."""
    async with opened(None) as (_, east, _west):
        with pytest.raises(BudgetMissing, match="has no limit in us-east-1: create it"):
            await east.budget("key/42").spend(1)
        with pytest.raises(BudgetMissing, match="matches no pattern of the contract's budgets"):
            await east.budget("other").spend(1)
        assert await east.budget("key/42").create(3)
        assert not await east.budget("key/42").create(3)
        with pytest.raises(StateConflict, match="has a limit of 3 already: raise or lower that"):
            await east.budget("key/42").create(4)


async def test_a_budget_that_is_shared_by_other_weights_is_not_as_asked_for() -> None:
    """Without any it is; so is one without windows, which nobody shares."""
    half = {EAST: 1, WEST: 1}
    async with opened(None, window="day") as (_, east, _west):
        assert await east.budget("key/42").create(9, weights={EAST: 2, WEST: 1})
        assert not await east.budget("key/42").create(9, weights={EAST: 2, WEST: 1})
        assert not await east.budget("key/42").create(9)
        with pytest.raises(
            StateConflict, match="shared as eu-west-1=3, us-east-1=6: lower it to 9"
        ):
            await east.budget("key/42").create(9, weights=half)
    async with opened(None) as (_, east, _west):
        assert await east.budget("key/42").create(9)
        assert not await east.budget("key/42").create(9, weights={EAST: 1})


async def test_a_budget_of_windows_is_there_as_its_last_step_has_it() -> None:
    """What it was before is another limit; and nothing is written by one that asks."""
    async with opened(None, window="day") as (world, east, _west):
        shares = [{Holder(EAST): 2, Holder(WEST): 1}, {Holder(EAST): 1, Holder(WEST): 2}]
        steps = tuple(LimitStep.of(9 + number, each) for number, each in enumerate(shares))
        there = BudgetLimit(2, (steps[0], replace(steps[1], since=1)))
        await world.store(EAST).write(Put(limit_item(there, "key/42"), Absent()))
        budget = east.budget("key/42")
        assert not await budget.create(10, weights={EAST: 1, WEST: 2})
        with pytest.raises(StateConflict, match="has a limit of 10 already"):
            await budget.create(9)
        with pytest.raises(StateConflict, match="has other weights"):
            await budget.create(10, weights={EAST: 2, WEST: 1})
        assert (await read_budget(world.store(EAST), "key/42")).limit == there


async def test_each_window_has_the_limit_anew() -> None:
    """Regions share it by weight; the next day begins with all of it."""
    async with opened(10, window="day") as (world, east, west):
        assert await east.budget("key/42").spend(5)
        assert await west.budget("key/42").spend(5)
        assert not await west.budget("key/42").spend(1)
        await world.clock.advance(86_400)
        assert await west.budget("key/42").spend(10)
        assert not await east.budget("key/42").spend(1)
        state = await west.budget("key/42").state()
        assert state.counter == f"key/42@{world.clock.now():%Y-%m-%d}"


async def test_a_window_is_spent_from_until_its_last_moment() -> None:
    """A grant may end after the window; nothing is taken from it by then."""
    async with opened(10, window="hour") as (world, east, _west):
        await world.clock.advance(10 * 60 - 1)
        at = world.clock.now()
        assert await east.budget("key/42").spend(5)
        await world.clock.advance(2)
        with pytest.raises(StateConflict, match="has ended, and is spent from for 0 s after that"):
            await east.budget("key/42").spend(1, key="late", at=at)


async def test_no_grant_is_had_of_a_window_that_ends_while_its_rights_are_read() -> None:
    """The answer was slow: by then nothing is spent from it."""
    async with opened(10, window="hour") as (world, east, _west):
        await world.clock.advance(10 * 60 - 1)
        store = world.store(EAST)
        query = store.query

        async def slow(asked: Query) -> Page:
            world.clock.pass_by(2)
            return await query(asked)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "query", slow)
            with pytest.raises(StateConflict, match="has ended, and is spent from for 0 s after"):
                await east.budget("key/42").spend(5)


async def test_a_grant_goes_on_though_the_clock_is_set_back() -> None:
    """It ends no earlier than it did."""
    async with opened(100) as (world, east, _west):
        assert await east.budget("key/42").spend(1)
        world.clock.wall -= timedelta(seconds=5)
        assert await east.budget("key/42").spend(90)


async def test_a_hold_that_was_settled_is_the_same_for_a_repeat_of_its_call() -> None:
    """Its amount is what it came to; what the repeat took is not given back twice."""
    async with opened(10) as (world, east, west):
        at = world.clock.now()
        first = await east.budget("key/42").hold(8, expires=600, key="hold", at=at)
        assert isinstance(first, Hold)
        assert await first.settle(2)
        for _ in range(2):
            again = await east.budget("key/42").hold(8, expires=900, key="hold", at=at)
            assert isinstance(again, Hold)
            assert again.entry.repeated
            assert again.entry.spending is not None
            assert again.entry.spending.hold == at.timestamp() + 600
            assert again.entry.change == -2
            assert await east.budget("key/42").spend(4)
        assert not await west.budget("key/42").spend(1)


async def test_holds_that_share_a_request_are_not_put_over_what_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a batch, which has no conditions, one that lands late would undo how it was settled."""
    async with opened(100) as (world, east, _west):
        assert await east.budget("key/42").spend(1)
        monkeypatch.setattr(world.store(EAST), "write_batch", None)
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(partial(east.budget("key/42").hold, 2, expires=600))
        assert (await east.ledger.total("key/42", max_age=0)).value == -7


async def test_a_hold_of_a_key_in_two_regions_is_resolved_where_the_last_writer_is() -> None:
    """Its grants are of that region, whose rights are written there and nowhere else."""
    async with opened(100) as (world, east, west):
        assert await west.budget("key/42").spend(1)
        at = world.clock.now()
        first = await east.budget("key/42").hold(8, expires=600, key="hold", at=at)
        await world.clock.advance(1)
        second = await west.budget("key/42").hold(8, expires=600, key="hold", at=at)
        world.replicate()
        assert isinstance(first, Hold)
        assert isinstance(second, Hold)
        before = [await rights_in(world, region, WEST) for region in (EAST, WEST)]
        assert await first.void()
        after = [await rights_in(world, region, WEST) for region in (EAST, WEST)]
        assert after[0] == before[0]
        assert after[1] != before[1]
        world.replicate()
        assert (await east.ledger.total("key/42", max_age=0)).value == -1


async def rights_in(world: MemoryGlobalTable, region: str, of: str) -> Item | None:
    """Return the rights of a region as another one shows them."""
    return await world.store(region).get(Get(key_of("key/42", Holder(of))))


async def test_rights_on_their_way_to_a_region_are_fetched_from_there() -> None:
    """Also if nobody there takes them up."""
    world = MemoryGlobalTable([EAST, WEST, "ap-southeast-2"], budgets={"key/*": {}})
    async with world.table(EAST) as east, world.table("ap-southeast-2") as south:
        assert await east.budget("key/42").create(10)
        item = await rights_in(world, EAST, EAST)
        assert item is not None
        sent = send(rights_of(item), Holder(WEST), Decimal(4))
        assert isinstance(sent, Rights)
        await world.store(EAST).write(Put(rights_item(sent, "key/42"), None))
        world.replicate()
        assert await south.budget("key/42").spend(10)


async def test_an_outage_is_told_once_for_each_budget(caplog: pytest.LogCaptureFixture) -> None:
    """Not with each try to renew a grant."""
    async with opened(100) as (world, east, _west):
        assert await east.budget("key/42").spend(1)
        world.crash(east)
        await world.clock.advance(120)
        assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_a_crash_leaves_the_grant_open() -> None:
    """Closing gives nothing back, as if the process had died."""
    async with opened(100) as (world, east, west):
        assert await east.budget("key/42").spend(1)
        world.crash(east)
        await east.close()
        world.replicate()
        state = await west.budget("key/42").state()
        assert (int(state.charged), state.granted > 0) == (0, True)


async def test_budgets_do_not_reach_an_isolated_region() -> None:
    """Rights that lie there are fetched once it is healed."""
    async with opened(10) as (world, _east, west):
        world.isolate(WEST)
        assert not await west.budget("key/42").spend(1)
        world.heal()
        await world.pass_time(31)
        assert await west.budget("key/42").spend(10)


async def test_what_an_outage_let_through_is_charged_once_it_is_over() -> None:
    """Also where nothing more is spent, and what was owed while another part was charged."""
    async with opened(10, on_outage="allow") as (world, east, _west):
        store = world.store(EAST)
        query = store.query
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "query", down)
            granted = await east.budget("key/42").spend(3)
            assert isinstance(granted, Granted)
            assert granted.entry.spending is not None
            assert granted.entry.spending.is_over
        assert store.query == query
        await world.clock.advance(5)
        assert (await east.budget("key/42").state()).charged == 3
        await world.clock.advance(5)
        assert not await east.budget("key/42").spend(8)
        assert (await east.budget("key/42").state()).charged == 3


async def down(*_: object) -> None:
    """Answer as a region that does not."""
    raise Unreachable("down")


async def test_rights_that_were_fetched_in_vain_can_be_spent_here() -> None:
    """They were too little for the call that fetched them, and have not replicated yet."""
    async with opened(10) as (_, east, west):
        assert await east.budget("key/42").spend(7)
        assert not await west.budget("key/42").spend(4)
        items = (await west.budget("key/42").state()).regions
        assert {item.region: int(item.free) for item in items}[WEST] == 3
        assert await west.budget("key/42").spend(3)


async def test_an_unknown_hold_is_retried_in_its_region_alone() -> None:
    """Elsewhere it would be put over how it was settled."""
    async with opened(10) as (_, east, west):
        hold = await east.budget("key/42").hold(4, expires=600)
        assert isinstance(hold, Hold)
        with pytest.raises(InvalidEntry, match="is repeated there alone, not in eu-west-1"):
            await west.ledger.retry([hold.entry])
        assert await hold.void()
        (again,) = await east.ledger.retry([hold.entry])
        assert again.change == 0


@pytest.mark.parametrize("first", ["record", "spend", "hold", "both"])
@pytest.mark.parametrize("second", ["spend", "hold", "both"])
async def test_a_key_stands_for_one_kind_of_call(first: str, second: str) -> None:
    """With the same amount, too: none is taken for another, and nothing more is taken."""
    async with opened(10) as (world, east, _west):
        await east.budget("key/team").create(10)
        key, one, both = "k", east.budget("key/42"), east.budgets(["key/42", "key/team"])
        at = world.clock.now()
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "record": lambda: east.ledger.record("key/42", -2, key=key, at=at),
            "spend": lambda: one.spend(2, key=key, at=at),
            "hold": lambda: one.hold(2, expires=600, key=key, at=at),
            "both": lambda: both.spend(2, key=key, at=at),
        }
        assert await calls[first]()
        if first == second:
            assert await calls[second]()
        else:
            with pytest.raises(KeyConflict):
                await calls[second]()
        assert await one.spend(8)
        assert (await east.ledger.total("key/42", max_age=0)).value == -10


async def test_an_open_hold_is_voided_and_not_reversed() -> None:
    """What it comes to is not known; once it is settled that is taken back."""
    async with opened(10) as (world, east, _west):
        hold = await east.budget("key/42").hold(3, expires=600)
        assert isinstance(hold, Hold)
        with pytest.raises(StateConflict, match="is an open hold: void it, or settle it"):
            await east.ledger.reverse(hold.entry)
        assert await hold.settle(1)
        world.replicate()
        assert (await east.ledger.reverse(hold.entry)).change == 1


async def test_a_refusal_names_what_was_asked_for() -> None:
    """Also if it is repeated from memory."""
    async with opened(3) as (_, east, _west):
        for amount in (4, 7):
            refused = await east.budget("key/42").spend(amount)
            assert isinstance(refused, Refused)
            assert refused.wanted == amount


async def test_what_a_hold_came_to_over_what_its_region_had_is_paid_by_others() -> None:
    """So that no more is spent there than the limit."""
    async with opened(10) as (world, east, west):
        hold = await west.budget("key/42").hold(1, expires=600)
        assert isinstance(hold, Hold)
        await world.pass_time(70)  # its grant is closed
        others = await east.budget("key/42").hold(9, expires=600)
        assert isinstance(others, Hold)
        assert await hold.settle(5, over=True)
        assert await others.void()
        world.replicate()
        await world.pass_time(70)
        assert await east.budget("key/42").spend(1)
        await world.pass_time(32)
        assert await east.budget("key/42").spend(4)
        assert not await east.budget("key/42").spend(1)
        assert not await west.budget("key/42").spend(1)


async def test_a_budget_that_another_home_made_is_not_made_again() -> None:
    """Its limit is of another generation of the contract: it was taken over from a lost region."""
    async with opened(None) as (world, east, _west):
        made = BudgetLimit(1, (LimitStep.of(10, {Holder(EAST): 1}),), generation=2)
        await world.store(EAST).write(Put(limit_item(made, "key/42"), Absent()))
        assert not await east.budget("key/42").create(10)
        with pytest.raises(StateConflict, match="has a limit of 10 already"):
            await east.budget("key/42").create(20)
        assert (await east.budget("key/42").state()).limit == 0  # nothing was minted again


async def test_a_repeat_is_answered_after_its_window_has_ended() -> None:
    """It was applied before; what was not is spent no more, and what cannot be read is unknown."""
    async with opened(window="hour", late=60) as (world, east, _west):
        budget = east.budget("key/42")
        await world.clock.advance(580)
        made = world.clock.now()
        assert await budget.spend(1, key="k", at=made)
        await world.clock.advance(85)
        repeated = await budget.spend(1, key="k", at=made)
        assert isinstance(repeated, Granted)
        assert repeated.entry.repeated
        with pytest.raises(StateConflict, match="has ended, and is spent from for 60 s after that"):
            await budget.spend(1, key="other", at=made)
        with pytest.MonkeyPatch.context() as patched:

            async def down(*_: object) -> None:
                raise Unreachable("down")

            patched.setattr(world.store(EAST), "get", down)
            with pytest.raises(OutcomeUnknown, match="whether an earlier call"):
                await budget.spend(1, key="k", at=made)


async def test_of_two_calls_at_once_one_is_granted_where_there_is_too_little_for_both() -> None:
    """What others wait for is taken with it only if there is as much."""
    async with opened(10) as (_, east, _west):
        done: list[bool] = []

        async def spend() -> None:
            done.append(bool(await east.budget("key/42").spend(6)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(spend)
            tasks.start_soon(spend)
        assert sorted(done) == [False, True]


@pytest.mark.parametrize("is_answered", [True, False])
async def test_a_grant_that_goes_on_without_an_answer_goes_on_once(*, is_answered: bool) -> None:
    """The item shows that it ends later: nothing is added a second time."""
    async with opened(100) as (world, east, _west):
        budget, store = east.budget("key/42"), world.store(EAST)
        assert await budget.spend(1)
        await world.clock.advance(2)
        write, left = store.write, [not is_answered]

        async def lands(one: Write) -> Outcome:
            outcome = await write(one)
            if one.key[0].startswith("~budget~") and left[0]:
                left[0] = False
                return Unknown("no answer")
            return outcome

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "write", lands)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(budget.spend, 12)
                await world.clock.advance(0.5)
        assert (await budget.state()).granted == 25


async def test_a_grant_is_at_hand_until_it_ends() -> None:
    """A hold of it is settled in memory only by then."""
    async with opened(10) as (world, east, _west):
        hold = await east.budget("key/42").hold(1, expires=600)
        assert isinstance(hold, Hold)
        assert hold.entry.spending is not None
        holdings, (name,) = budget_parts(east.ledger).holdings, hold.entry.spending.grants
        assert holdings.at_hand(name, "key/42") is not None
        world.clock.pass_by(120)
        assert holdings.at_hand(name, "key/42") is None


async def test_spends_of_many_keys_of_a_team_do_not_race_for_its_item() -> None:
    """Each has a grant of the team's budget, and all are of one item: they are taken in turn."""
    world = MemoryGlobalTable(["us-east-1"], budgets={"*": {}})
    names = [f"key/{number}" for number in range(30)]
    async with world.table() as table:
        for name in (*names, "team/7"):
            await table.budget(name).create(1_000)
        store, refused = world.store("us-east-1"), list[Outcome]()
        write, query = store.write, store.query

        async def slow(asked: Query) -> Page:
            page = await query(asked)
            await anyio.lowlevel.checkpoint()  # others may write in between
            return page

        async def watched(one: Write) -> Outcome:
            outcome = await write(one)
            if isinstance(outcome, Rejected) and one.key[0] == "~budget~team/7":
                refused.append(outcome)
            return outcome

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "write", watched)
            patched.setattr(store, "query", slow)
            async with anyio.create_task_group() as tasks:
                for name in names:
                    tasks.start_soon(table.budgets([name, "team/7"]).spend, 1)
        assert refused == []
        assert len((await table.budget("team/7").state()).grants) == len(names)


async def test_a_spend_waits_for_no_longer_than_it_may() -> None:
    """Also where that is less than the time between two looks."""
    async with opened(10) as (world, east, _west):
        refused: list[object] = []

        async def spend() -> None:
            refused.append(await east.budget("key/42").spend(11, wait=WAIT_SECONDS / 5))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(spend)
            await world.clock.advance(WAIT_SECONDS / 2)
            assert len(refused) == 1
            await world.clock.advance(1)
        assert isinstance(refused[0], Refused)


async def test_of_spends_that_wait_a_few_look_again_in_each_round() -> None:
    """All may have waited since one moment: thousands at once would hold up all others."""
    async with opened(10) as (world, east, _west):
        looks, turn = Counter[int](), 0

        def goes_on() -> bool:
            looks[turn] += 1
            return True

        budgets = Budgets(["key/42"], partial(budget_parts, east.ledger), goes_on=goes_on)
        spends = [asyncio.create_task(budgets.spend(11, wait=2)) for _ in range(5 * LATE_AT_ONCE)]
        clock = asyncio.create_task(world.clock.advance(3))
        while not all(one.done() for one in (*spends, clock)):
            await asyncio.sleep(0)
            turn += 1
        assert looks.total() >= len(spends)
        assert max(looks.values()) <= LATE_AT_ONCE
        assert {spend.result() for spend in spends} != {None}


async def test_the_grant_of_a_window_is_closed_when_that_has_ended() -> None:
    """Not only once it is idle: it could be renewed no more."""
    async with opened(10, window="hour") as (world, east, _west):
        await world.clock.advance(10 * 60 - 1)
        window = (await east.budget("key/42").state()).counter
        assert await east.budget("key/42").spend(5)
        assert (await read_rights(world.store(EAST), window))[Holder(EAST)].grants
        await world.clock.advance(5)
        rights = (await read_rights(world.store(EAST), window))[Holder(EAST)]
        assert not rights.grants
        assert rights.charged == 5

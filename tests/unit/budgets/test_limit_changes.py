"""Limits raised and lowered while spending goes on, without windows and with them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from math import ceil

import pytest
from support.budgets import whole

from ledger import Hold, Table
from ledger.budgets import limit_changer
from ledger.budgets.grant_keeper import GrantKeeper
from ledger.budgets.limit_change import LimitChange
from ledger.budgets.limit_changer import LimitChanger
from ledger.budgets.limit_steps import CONFIRM_SECONDS
from ledger.budgets.rights_items import read_budget
from ledger.core.contract import seconds_to_wait
from ledger.core.errors import (
    AmountOverflow,
    BudgetMissing,
    BudgetUndecided,
    InvalidCounter,
    InvalidInput,
    OutcomeUnknown,
    StateConflict,
    Unreachable,
)
from ledger.testing import MemoryGlobalTable

EAST, WEST, SOUTH = "us-east-1", "eu-west-1", "ap-southeast-2"
HOUR = 3_600


@asynccontextmanager
async def opened(
    limit: int | None = 10, **rule: object
) -> AsyncIterator[tuple[MemoryGlobalTable, Table, Table]]:
    """Open a table of two regions in memory, with a budget `key/42` of this limit."""
    world = MemoryGlobalTable([EAST, WEST], budgets={"key/*": rule})
    async with world.table(EAST) as east, world.table(WEST) as west:
        if limit is not None:
            assert await east.budget("key/42").create(limit)
            world.replicate()
        yield world, east, west


async def spent(world: MemoryGlobalTable, *tables: Table) -> int:
    """Spend all that there is, one by one; return how much that was."""
    total = 0
    for table in tables:
        await world.clock.advance(2)
        while await table.budget("key/42").spend(1):
            total += 1
    return total


def waited(world: MemoryGlobalTable) -> int:
    """Return the wait of the table's contract, with the skew of two more clocks, in seconds."""
    terms = world.settings.terms
    return ceil(seconds_to_wait(terms, terms) + 2 * terms.clock_skew)


async def test_a_raise_is_made_once_for_its_id() -> None:
    """Also where it is repeated in another region; what it adds can be spent at once."""
    async with opened(10) as (world, east, west):
        assert await east.budget("key/42").spend(10)
        raised = await west.budget("key/42").raise_limit(5, id="order-1")
        assert raised.limit == raised.target == 15
        assert raised.is_done
        again = await east.budget("key/42").raise_limit(5, id="order-1")
        assert again.limit == 15
        assert await spent(world, west, east) == 5
        assert (await east.budget("key/42").raise_limit(1, id="order-2")).limit == 16


async def test_a_raise_is_found_in_the_item_that_home_was() -> None:
    """Each region's items are looked through for the id, since home may have moved."""
    async with opened(10) as (world, east, west):
        await east.budget("key/42").raise_limit(5, id="order-1")
        world.replicate()
        assert (await west.budget("key/42").raise_limit(5, id="order-1")).limit == 15


async def test_a_limit_is_lowered_as_far_as_rights_are_free() -> None:
    """Home retires what it has, others send theirs home; what is granted follows once closed."""
    async with opened(100) as (world, east, west):
        assert await west.budget("key/42").spend(30)
        world.replicate()
        lowered = await east.budget("key/42").lower_limit(to=20)
        assert lowered.target == 20
        assert 30 <= lowered.limit < 100
        assert not lowered.is_done
        await west.close()
        lowered = await east.budget("key/42").lower_limit(to=20)
        assert lowered.limit == 30  # what was spent stays spent
        assert not lowered.is_done
        await world.clock.advance(2)
        assert not await east.budget("key/42").spend(1)
        state = await east.budget("key/42").state()
        assert state.limit == 30
        assert state.target == 20
        with pytest.raises(StateConflict, match="at most 30, going to 20, which is less than 99"):
            await east.budget("key/42").lower_limit(to=99)


async def test_rights_of_other_regions_are_sent_home_and_retired() -> None:
    """By one call, through their own endpoints, before anything has replicated."""
    async with opened(100) as (world, east, west):
        assert await west.budget("key/42").spend(30)
        await west.close()
        lowered = await east.budget("key/42").lower_limit(to=40)
        assert lowered.limit == lowered.target == 40
        assert lowered.is_done
        world.replicate()
        assert await spent(world, east) == 10


async def test_a_raise_finishes_a_lowering_that_was_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of which the limit is written, and nothing is retired."""

    async def interrupted(*_: object) -> None:
        pass

    async with opened(15) as (_, east, _west):
        with monkeypatch.context() as patch:
            patch.setattr(limit_changer, "go_down", interrupted)
            lowered = await east.budget("key/42").lower_limit(to=3)
        assert whole(lowered.limit, lowered.target) == [15, 3]
        raised = await east.budget("key/42").raise_limit(7, id="x")
        assert whole(raised.limit, raised.target) == [10, 10]


async def test_no_more_is_sent_home_than_is_retired() -> None:
    """Of two regions that have as much free the first sends it, and the second keeps its own."""
    rules = {"key/*": {"window": "day"}}
    world = MemoryGlobalTable([EAST, WEST, SOUTH], budgets=rules)
    async with world.table(EAST) as east:
        await east.budget("key/42").create(20, weights={EAST: 0, SOUTH: 1, WEST: 1})
        assert (await east.budget("key/42").lower_limit(to=15)).limit == 15
        world.replicate()
        state = await east.budget("key/42").state()
        assert {region.region: region.free for region in state.regions} == {
            EAST: 0,
            SOUTH: 5,
            WEST: 10,
        }


async def test_a_limit_goes_down_to_nothing_and_up_again() -> None:
    """So a key is closed, and opened."""
    async with opened(10) as (world, east, _west):
        assert (await east.budget("key/42").lower_limit(to=0)).is_done
        assert not await east.budget("key/42").spend(1)
        await east.budget("key/42").raise_limit(3, id="again")
        await world.clock.advance(2)
        assert await east.budget("key/42").spend(3)


async def test_what_changes_no_limit_is_refused() -> None:
    """Each with what to do."""
    async with opened(10) as (_, east, _west):
        budget = east.budget("key/42")
        with pytest.raises(StateConflict, match="has a limit of 10, which is less than 11: raise"):
            await budget.lower_limit(to=11)
        with pytest.raises(InvalidInput, match="lowered to 0 or more, got -1"):
            await budget.lower_limit(to=-1)
        with pytest.raises(InvalidInput, match="above 0"):
            await budget.raise_limit(0, id="x")
        with pytest.raises(InvalidInput, match="the id of a raise must be 1 to 100 printable"):
            await budget.raise_limit(1, id="")
        with pytest.raises(BudgetMissing, match="create it first"):
            await east.budget("key/43").raise_limit(1, id="x")


async def test_a_raise_of_windows_holds_now_and_from_a_later_window_on() -> None:
    """The running one has it at once; those between the old limit; later ones the new."""
    async with opened(10, window="day") as (world, east, _west):
        budget = east.budget("key/42")
        assert await budget.spend(10)
        raised = await budget.raise_limit(4, id="order-1")
        assert raised.limit == raised.later == 14
        assert not raised.is_done
        assert raised.since is not None
        again = await budget.raise_limit(4, id="order-1")
        assert again.limit == again.later == 14
        await world.clock.advance(2)
        assert await budget.spend(4)
        assert not await budget.spend(1)
        world.replicate()
        await budget.go_on()  # every region shows it
        await world.clock.advance(HOUR)
        confirmed = await budget.go_on()
        assert confirmed.is_confirmed
        assert confirmed.since == raised.since
        assert confirmed.later == 14
        assert not confirmed.is_done  # tomorrow it is
        world.replicate()
        await world.clock.advance((raised.since - world.clock.now()).total_seconds() + HOUR)
        assert (await budget.go_on()).is_done
        assert (await budget.state()).limit == 14
        assert await budget.spend(14)
        assert not await budget.spend(1)


async def test_a_limit_of_the_day_is_raised_several_times_a_day() -> None:
    """Shortly after one another, and once the change before is in force: today and tomorrow."""
    async with opened(10, window="day") as (world, east, _west):
        budget = east.budget("key/42")
        for number, seconds in enumerate((60, HOUR, 0)):
            limit = 10 + 5 * (number + 1)
            raised = await budget.raise_limit(5, id=f"order-{number}")
            assert raised.limit == raised.later == limit
            assert await budget.spend(5)
            for _ in range(seconds // 60):
                await world.clock.advance(60)
                world.replicate()
                await budget.go_on()
        lowered = await budget.lower_limit(to=12)
        assert lowered.target == lowered.later == 12


async def test_a_step_that_nobody_confirmed_in_time_is_postponed() -> None:
    """So that its window is decided: it has the old limit."""
    async with opened(10, window="day") as (world, east, _west):
        budget = east.budget("key/42")
        raised = await budget.raise_limit(4, id="order-1")
        assert raised.since is not None
        world.replicate()
        await world.clock.advance((raised.since - world.clock.now()).total_seconds())
        later = await budget.go_on()
        assert later.later == 14
        assert later.since is not None
        assert later.since > raised.since
        assert await budget.spend(10)
        assert not await budget.spend(1)


@pytest.mark.parametrize(
    ("window", "every", "compacts", "visits_max"),
    [
        ("hour", HOUR, False, 8),  # a command, each hour
        ("hour", 600, False, 16),
        ("hour", 1_800, True, 16),  # a scheduled compactor, which searches once an hour
        ("day", 24 * HOUR, False, 12),  # a command, each day
    ],
)
async def test_a_step_is_in_force_however_seldom_anybody_comes(
    window: str, every: int, *, compacts: bool, visits_max: int
) -> None:
    """Each time that nobody came in time there is much longer, up to ten days."""
    world = MemoryGlobalTable([EAST, WEST], budgets={"key/*": {"window": window}})
    async with world.table(EAST) as east:
        await east.budget("key/42").create(60)
        world.replicate()
        await east.budget("key/42").spend(1)
        await world.clock.advance(600)
        assert (await east.budget("key/42").lower_limit(to=20)).later == 20
    for _ in range(visits_max):
        world.replicate()
        await world.clock.advance(every)
        if compacts:
            assert (await world.compact()).is_success
        else:
            async with world.table(WEST) as west:
                try:
                    await west.budget("key/42").spend(1)
                except BudgetUndecided:  # this window had the step announced, which is put off
                    world.replicate()
                    await west.budget("key/42").spend(1)
    world.replicate()
    await world.clock.advance(24 * HOUR)
    async with world.table(EAST) as east, world.table(WEST) as west:
        change = await east.budget("key/42").go_on()
        assert (change.since is None) == change.is_done
        assert not change.since or change.is_confirmed
        assert await spent(world, east, west) == 20


async def test_what_replaces_a_postponed_step_begins_with_it() -> None:
    """It is not refused for a window that is nearer: it would be for hours."""
    async with opened(10, window="hour") as (world, east, _west):
        budget = east.budget("key/42")
        first = await budget.lower_limit(to=8)
        assert first.since is not None
        world.replicate()
        await world.clock.advance((first.since - world.clock.now()).total_seconds())
        later = await budget.go_on()
        assert later.since is not None
        assert (later.since - first.since).total_seconds() > 4 * HOUR
        changed = await budget.lower_limit(to=7)
        assert changed.later == 7
        assert changed.since == later.since


async def test_each_time_that_a_step_is_put_off_there_is_longer() -> None:
    """Up to 256 hours, and no more; beside the wait, and at most a window longer."""
    async with opened(10, window="hour") as (world, east, _west):
        budget = east.budget("key/42")
        change = await budget.lower_limit(to=8)
        hours = []
        for _ in range(5):
            assert change.since is not None
            world.replicate()
            await world.clock.advance((change.since - world.clock.now()).total_seconds())
            change = await budget.go_on()
            assert change.since is not None
            hours.append((change.since - world.clock.now()).total_seconds() / HOUR)
        for there_is, least in zip(hours, [4, 16, 64, 256, 256], strict=True):
            assert least + 0.5 < there_is < least + 2


@pytest.mark.parametrize("minutes", [0, 15, 30, 45])
async def test_a_change_begins_after_its_wait_at_any_time_of_a_window(minutes: int) -> None:
    """It is not refused since the next window is too near."""
    async with opened(10, window="hour") as (world, east, _west):
        await world.clock.advance(HOUR - world.clock.wall.timestamp() % HOUR + 60 * minutes)
        change = await east.budget("key/42").lower_limit(to=8)
        assert change.since is not None
        wait = (change.since - world.clock.now()).total_seconds()
        assert waited(world) + 600 <= wait <= waited(world) + 600 + HOUR


async def test_a_change_begins_no_earlier_than_the_one_in_force() -> None:
    """With the same window, if that was put off by hours and confirmed before."""
    async with opened(10, window="hour") as (world, east, _west):
        budget = east.budget("key/42")
        change = await budget.lower_limit(to=8)
        assert change.since is not None
        await world.clock.advance((change.since - world.clock.now()).total_seconds())
        later = await budget.go_on()
        for _ in range(4):
            world.replicate()
            await world.clock.advance(1_200)
            await budget.go_on()
        assert await steps(world) == ([10, 8], False)
        assert (await budget.lower_limit(to=7)).since == later.since


async def test_a_step_is_confirmed_once_the_wait_is_over() -> None:
    """That of the contract, and as much as clocks may differ: not a second before."""
    async with opened(10, window="day") as (world, east, _west):
        budget = east.budget("key/42")
        assert (await budget.lower_limit(to=8)).since
        world.replicate()
        assert (await budget.go_on()).since
        await world.clock.advance(waited(world))
        assert (await budget.go_on()).since
        await world.clock.advance(1)
        assert (await budget.go_on()).is_confirmed


@pytest.mark.slow
async def test_a_confirmed_step_is_told_of_until_its_window_begins() -> None:
    """To the second: what begins before has the old limit."""
    async with opened(10, window="day") as (world, east, _west):
        budget = east.budget("key/42")
        since = (await budget.lower_limit(to=8)).since
        assert since is not None
        world.replicate()
        await budget.go_on()
        await world.clock.advance(waited(world) + 1)
        assert (await budget.go_on()).is_confirmed
        await world.clock.advance((since - world.clock.now()).total_seconds() - 1)
        last = await budget.go_on()
        assert (last.later, last.since, last.is_done) == (Decimal(8), since, False)
        await world.clock.advance(1)
        begun = await budget.go_on()
        assert [begun.limit, begun.later, begun.since] == [8, None, None]
        assert begun.is_done


@pytest.mark.slow
async def test_whoever_spends_confirms_an_announced_step() -> None:
    """By itself: nobody has to wait for it."""
    async with opened(10, window="day") as (world, east, _west):
        budget = east.budget("key/42")
        raised = await budget.raise_limit(90, id="order-1")
        for _ in range(45):
            await budget.spend(1)
            world.replicate()
            await world.clock.advance(60)
        item = await east.budget("key/42").go_on()
        assert item.is_confirmed
        assert raised.since is not None


async def test_a_step_is_gone_on_with_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a process that knows of it, until it is in force; without one nothing is asked."""
    calls: list[str] = []
    go_on = LimitChanger.go_on

    async def counted(changer: LimitChanger, budget: str) -> LimitChange:
        calls.append(budget)
        return await go_on(changer, budget)

    monkeypatch.setattr(LimitChanger, "go_on", counted)
    async with opened(10, window="day") as (world, east, west):
        assert await west.budget("key/42").spend(1)
        await world.pass_time(300)
        await west.close()
        assert not calls
        assert (await east.budget("key/42").raise_limit(5, id="order-1")).later == 15
        assert await east.budget("key/42").spend(1)
        for _ in range(30):
            await world.clock.advance(20)
        assert 8 <= len(calls) <= 11
        world.replicate()
        await world.pass_time(120)
        await world.pass_time(waited(world))
        await world.pass_time(120)
        assert await steps(world) == ([10, 15], False)
        calls.clear()
        await world.pass_time(600)
        await east.close()
        assert not calls


async def test_a_lower_limit_of_windows_is_that_of_the_running_one_too() -> None:
    """As far as it is not spent."""
    async with opened(10, window="day") as (_, east, _west):
        budget = east.budget("key/42")
        assert await budget.spend(Decimal("2.5"))
        lowered = await budget.lower_limit(to=6)
        assert lowered.target == lowered.later == 6
        assert lowered.limit <= 10
        assert not await budget.spend(6)


async def test_a_raise_of_windows_goes_by_the_lowering_before_it() -> None:
    """What was spent kept the running one above: it is raised from what it was lowered to."""
    async with opened(60, window="day") as (world, east, _west):
        budget = east.budget("key/42")
        assert await budget.spend(56)
        lowered = await budget.lower_limit(to=30)
        assert whole(lowered.limit, lowered.target) == [56, 30]
        raised = await budget.raise_limit(40, id="x")
        assert [raised.limit, raised.target, raised.later] == [70, 70, 70]
        assert raised.is_lowered
        world.replicate()
        assert await spent(world, east) == 14


async def test_a_window_keeps_the_limit_that_it_began_with_until_it_is_lowered_itself() -> None:
    """It began before the step: a raise adds to what it has, and a confirmation leaves it."""
    async with opened(60, window="hour") as (world, east, _west):
        budget = east.budget("key/42")
        now = world.clock.now()
        begins = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        await world.clock.advance((begins - now).total_seconds() - 60)
        lowered = await budget.lower_limit(to=30)
        assert [lowered.limit, lowered.target, lowered.later] == [30, 30, 30]
        assert lowered.since == begins + timedelta(hours=1)
        await world.clock.advance(120)
        again = await budget.go_on()
        assert [again.limit, again.target, again.later] == [60, 60, 30]
        raised = await budget.raise_limit(10, id="x")
        assert [raised.limit, raised.target, raised.later] == [70, 70, 40]
        state = await budget.state()
        assert [state.limit, state.target] == [70, 70]
        lowered = await budget.lower_limit(to=40)
        assert [lowered.limit, lowered.target, lowered.later] == [40, 40, 40]
        raised = await budget.raise_limit(5, id="y")
        assert [raised.limit, raised.target, raised.later] == [45, 45, 45]


async def test_a_running_window_says_where_it_is_going() -> None:
    """To whoever asks, also where the call that lowered it is not repeated."""
    async with opened(60, window="month") as (world, east, _west):
        budget = east.budget("key/42")
        hold = await budget.hold(56, expires=600)
        assert isinstance(hold, Hold)
        for again in range(2):
            lowered = await budget.lower_limit(to=30)
            assert [lowered.limit, lowered.target, lowered.is_lowered] == [56, 30, False], again
        gone_on = await budget.go_on()
        assert [gone_on.limit, gone_on.target, gone_on.is_lowered] == [56, 30, False]
        world.replicate()
        state = await budget.state()
        assert [state.limit, state.target] == [56, 30]
        assert await hold.void()
        await world.clock.advance(300)  # its grant is closed
        lowered = await budget.lower_limit(to=30)
        assert [lowered.limit, lowered.target, lowered.is_lowered] == [30, 30, True]


async def test_later_windows_are_shared_anew() -> None:
    """To the limit as it is, by other weights; once."""
    async with opened(10, window="day") as (_, east, _west):
        budget = east.budget("key/42")
        assert (await budget.lower_limit(to=10)).since is None
        shared = await budget.lower_limit(to=10, weights={EAST: 4, WEST: 1})
        assert shared.limit == shared.later == 10
        again = await budget.lower_limit(to=10, weights={EAST: 4, WEST: 1})
        assert again == shared


@pytest.mark.parametrize("weights", [{"mars": 1}, {EAST: 10**40}, {EAST: 0}, {}])
async def test_weights_are_checked_where_nothing_is_shared_by_them(weights: dict[str, int]) -> None:
    """Of a budget without windows, and of one whose limit stays."""
    async with opened(10) as (_, east, _west):
        budget = east.budget("key/42")
        with pytest.raises(InvalidInput, match="weights"):
            await budget.lower_limit(to=10, weights=weights)
        with pytest.raises(InvalidInput, match="weights"):
            await budget.raise_limit(1, id="more", weights=weights)
        assert (await budget.state()).limit == 10


def test_there_is_time_to_confirm() -> None:
    """More than a spending process lets pass between two looks."""
    assert CONFIRM_SECONDS > 2 * 60


async def test_a_spend_is_not_unknown_since_its_limit_s_step_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing was spent, whatever becomes of the step that the call tries to put in force."""

    async def undecided(*_: object, **__: object) -> None:
        raise BudgetUndecided("only announced")

    async def unanswered(*_: object) -> None:
        raise OutcomeUnknown("the limit", entries=[], retryable=True)

    monkeypatch.setattr(GrantKeeper, "renew", undecided)
    monkeypatch.setattr(LimitChanger, "go_on", unanswered)
    async with opened(10) as (_, east, _west):
        with pytest.raises(BudgetUndecided):
            await east.budget("key/42").spend(1)


async def test_a_raise_is_seen_at_once_by_the_process_that_made_it() -> None:
    """Another that was refused just now answers from memory for a second, for as much or more."""
    async with opened(10) as (world, east, _west), world.table(EAST) as other:
        assert await east.budget("key/42").spend(10)
        for table in (east, other):
            assert not await table.budget("key/42").spend(2)
        await east.budget("key/42").raise_limit(7, id="more")
        assert await east.budget("key/42").spend(2)
        assert not await other.budget("key/42").spend(3)
        assert await other.budget("key/42").spend(1)
        await world.clock.advance(1)
        assert await other.budget("key/42").spend(3)


async def test_a_raise_that_is_not_read_after_it_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And not an error of a call that wrote nothing: with a new id it would be made twice."""
    async with opened(10) as (_, east, _west):

        async def now(*_: object) -> LimitChange:
            raise Unreachable("home")

        with monkeypatch.context() as patch:
            patch.setattr(limit_changer, "change_now", now)
            with pytest.raises(OutcomeUnknown, match="is raised, and not read after it"):
                await east.budget("key/42").raise_limit(5, id="x")
        assert (await east.budget("key/42").raise_limit(5, id="x")).limit == 15


async def test_a_raise_above_what_fine_amounts_allow_is_refused() -> None:
    """Sums of both would have over 38 digits: grants could not be closed, nor the total told."""
    async with opened(10) as (world, east, _west):
        budget = east.budget("key/42")
        assert await budget.spend(Decimal("1e-30"))
        with pytest.raises(AmountOverflow, match=r"to 1000000000010: amounts .* below 1000, and"):
            await budget.raise_limit(10**12, id="x")
        with pytest.raises(AmountOverflow, match="cannot be raised to 10"):
            await budget.raise_limit(Decimal("1e-32"), id="x")
        assert (await budget.raise_limit(85, id="x")).limit == 95
        await world.clock.advance(2)
        assert await budget.spend(90)


async def test_amounts_are_no_finer_than_the_highest_limit_allows() -> None:
    """What was spent under it is still charged once it is lower."""
    async with opened() as (world, east, _west):
        budget = east.budget("key/43")
        await budget.create(10**12)
        await budget.spend(10**11)
        await budget.lower_limit(to=10)
        await world.clock.advance(2)
        with pytest.raises(AmountOverflow, match="beside a limit of 1000000000000"):
            await budget.spend(Decimal("1e-30"))


async def test_what_a_hold_came_to_is_charged_to_the_last_digit() -> None:
    """Of more than the 28 digits that arithmetic of decimals has by default."""
    async with opened(10) as (_, east, west):
        hold = await east.budget("key/42").hold(1, expires=60)
        assert isinstance(hold, Hold)
        assert await hold.settle(Decimal("1e-30"))
        await east.close()
        assert (await west.budget("key/42").lower_limit(to=0)).limit == Decimal("1e-30")


async def steps(world: MemoryGlobalTable, budget: str = "key/42") -> tuple[list[int], bool]:
    """Return the limits in force, as home shows them, and whether another is announced."""
    limit = (await read_budget(world.store(), budget)).limit
    assert limit is not None
    return [int(step.limit) for step in limit.steps], limit.announced is not None


async def test_a_step_comes_in_force_where_nobody_spends() -> None:
    """By passes, which a search leads to it."""
    async with opened(10, window="day") as (world, east, _west):
        assert (await east.budget("key/42").lower_limit(to=4)).later == 4
        world.replicate()
    for _ in range(18):
        await world.compact()
        await world.pass_time(600)
        world.replicate()
    assert await steps(world) == ([10, 4], False)
    async with world.table(EAST) as east:
        await world.pass_time(86_400)
        assert (await east.budget("key/42").state()).limit == 4


async def test_a_step_comes_in_force_where_little_is_spent() -> None:
    """A process that knows of it goes on with it, though its budget is idle."""
    async with opened(10, window="day") as (world, east, west):
        assert (await east.budget("key/42").raise_limit(5, id="order-1")).later == 15
        world.replicate()
        assert await west.budget("key/42").spend(1)
        for _ in range(90):
            world.replicate()
            await world.pass_time(60)
        assert await steps(world) == ([10, 15], False)
        grants = (await west.budget("key/42").state()).grants
        assert grants == ()


async def test_a_step_is_not_in_force_before_every_region_shows_it() -> None:
    """One that does not would share a window by the older one, beside those that do."""
    world = MemoryGlobalTable([EAST, WEST, "sa-east-1"], budgets={"key/*": {"window": "day"}})
    async with world.table(EAST) as east:
        await east.budget("key/42").create(10)
        world.replicate()
        world.pause(EAST, "sa-east-1")
        assert (await east.budget("key/42").lower_limit(to=4)).later == 4
        for _ in range(12):
            world.replicate()
            await world.pass_time(600)
            assert (await east.budget("key/42").go_on()).later == 4
        assert await steps(world) == ([10], True)
        world.heal()
        world.replicate()
        for _ in range(2):
            await east.budget("key/42").go_on()
            await world.pass_time(3_600)
        await east.budget("key/42").go_on()
        assert await steps(world) == ([10, 4], False)


async def test_what_a_window_is_limited_to_may_be_undecided() -> None:
    """Then it is said to go to what is announced: nothing is free of it before."""
    async with opened(10, window="day") as (world, east, _west):
        change = await east.budget("key/42").lower_limit(to=4)
        assert change.since is not None
        state = await east.budget("key/42").state(at=change.since)
        assert (int(state.limit), int(state.target), int(state.free)) == (0, 4, 0)
        said = await east.budget("key/42").explain(at=change.since)
        del world
        assert "limit 0, 4 once the step that is announced is in force" in said


async def test_a_lowering_counts_what_a_region_that_is_away_has() -> None:
    """As home shows it."""
    async with opened(10, window="day") as (world, east, west):
        assert await west.budget("key/42").spend(1)
        assert await east.budget("key/42").spend(1)
        world.replicate()
        world.isolate(WEST)
        assert (await east.budget("key/42").raise_limit(3, id="order-1")).limit == 13


async def test_a_key_that_would_be_too_long_with_its_window_is_refused() -> None:
    """Its entries are those of the window's counter."""
    async with opened(None, window="hour") as (_, east, _west):
        with pytest.raises(InvalidCounter, match="bytes"):
            await east.budget("key/" + "x" * 1_010).create(10)

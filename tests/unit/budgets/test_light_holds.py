"""Light holds: kept aside in memory, written once they are settled."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from decimal import Decimal
from functools import partial

import anyio
import pytest

from ledger import Table
from ledger.budgets.budget import Hold
from ledger.budgets.grant_allowance import Allowance
from ledger.budgets.memory_hold import LightHold
from ledger.budgets.rights_items import read_rights
from ledger.budgets.spend_request import Granted, Refused
from ledger.core.errors import (
    AmountOverflow,
    InvalidInput,
    OutcomeUnknown,
    RetryHorizonPassed,
    StateConflict,
    Throttled,
    Unreachable,
)
from ledger.store.writes import Outcome, Unknown, Write
from ledger.testing import MemoryGlobalTable

EAST, WEST = "us-east-1", "eu-west-1"


@asynccontextmanager
async def opened(limit: int = 10, **rule: object) -> AsyncIterator[tuple[MemoryGlobalTable, Table]]:
    """Open a table in memory, with a budget `key/42` of this limit."""
    world = MemoryGlobalTable([EAST, WEST], budgets={"key/*": rule})
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


async def test_a_refusal_leaves_it_open() -> None:
    """What was held stays kept aside: nobody else spends it, and it settles for that."""
    async with opened() as (_, east):
        hold = await held(east, 4)
        refused = await hold.settle(50)
        assert isinstance(refused, Refused)
        assert (int(refused.wanted), int(refused.here)) == (46, 6)
        assert not await east.budget("key/42").spend(7)
        assert await east.budget("key/42").spend(6)
        assert await hold.settle(4)
        assert (await east.ledger.total("key/42", max_age=0)).value == -10


async def test_more_is_not_taken_from_a_grant_that_was_replaced() -> None:
    """What was left of it was given back, and is spent by others: the limit holds."""
    async with opened(100, grant_life=400) as (world, east):
        budget = east.budget("key/42")
        assert await budget.spend(2)
        hold = await held(east, 4, expires=3_600)
        world.clock.wall += timedelta(seconds=310)
        assert hold.taken.allowances[0].remaining > 0
        assert await budget.spend(int(hold.taken.allowances[0].remaining) + 1)
        while await budget.spend(1):
            pass
        assert not await hold.settle(5)
        assert (await east.ledger.total("key/42", max_age=0)).value == -96
        assert await hold.settle(4)


async def test_of_a_grant_that_was_replaced_it_settles_for_more_anew() -> None:
    """All of it under another grant; what was held is free once more."""
    async with opened(100, grant_life=400) as (world, east):
        hold = await held(east, 4, expires=3_600)
        world.clock.wall += timedelta(seconds=310)
        assert await east.budget("key/42").spend(int(hold.taken.allowances[0].remaining) + 1)
        settled = await hold.settle(6)
        assert isinstance(settled, Granted)
        assert settled.entry.spending is not None
        assert settled.entry.spending.grants != hold.taken.names
        assert hold.taken.allowances[0].is_quiet


async def test_more_is_not_taken_where_the_grant_of_one_budget_was_replaced() -> None:
    """That of the other is at hand still: both are named anew, or neither."""
    async with opened(100, grant_life=400) as (world, east):
        assert await east.budget("key/team").create(100)
        assert await east.budget("key/42").spend(2)
        world.clock.wall += timedelta(seconds=100)
        both = east.budgets(["key/42", "key/team"])
        hold = await both.hold(4, expires=3_600, light=True)
        assert isinstance(hold, LightHold)
        world.clock.wall += timedelta(seconds=210)
        old, other = hold.taken.allowances
        assert await east.budget("key/42").spend(int(old.remaining) + 1)
        assert old.remaining > 1
        settled = await hold.settle(5)
        assert isinstance(settled, Granted)
        assert settled.entry.spending is not None
        [first, second] = settled.entry.spending.grants
        assert first != str(old.name)
        assert second == str(other.name)


async def test_a_voided_hold_is_free_though_its_grant_is_left_to_be_closed_by_reading() -> None:
    """The grant was replaced, and a spend with a key may be another region's, too."""
    async with opened(100, grant_life=400) as (world, east):
        budget = east.budget("key/42")
        assert await budget.spend(2, key="order-7", at=world.clock.now())
        hold = await held(east, 4, expires=3_600)
        [kept] = hold.taken.allowances
        world.clock.wall += timedelta(seconds=310)
        assert await budget.spend(int(kept.remaining) + 1)
        assert await granted(world, kept) == 6
        await hold.void()
        await world.clock.advance(2)
        assert await granted(world, kept) == 2


async def granted(world: MemoryGlobalTable, allowance: Allowance) -> Decimal:
    """Return what a grant has, as its region shows it."""
    rights = await read_rights(world.store(EAST), "key/42")
    return rights[allowance.name.holder].grants[allowance.name.version].amount


async def test_an_amount_too_fine_for_the_limit_leaves_it_open() -> None:
    """As it could not be spent."""
    async with opened() as (_, east):
        hold = await held(east, 4)
        with pytest.raises(AmountOverflow, match=r"multiple of 1E-30 beside a limit of 10"):
            await hold.settle(Decimal(f"3.{'0' * 30}1"))
        assert await hold.settle(4)


@contextmanager
def answering(world: MemoryGlobalTable, how: str) -> Iterator[None]:
    """Let writes of entries be throttled (at once, or "slow"), lost, applied, or hang."""
    store = world.store(EAST)
    write = store.write

    async def answered(one: Write) -> Outcome:
        if one.key[0].startswith("~"):
            return await write(one)
        if how == "slow":
            await world.clock.sleep(10)
        if how in {"slow", "throttled"}:
            raise Throttled("slower")
        if how == "hangs":
            await anyio.sleep_forever()
        if how == "applied":
            await write(one)
        return Unknown("no answer")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store, "write", answered)
        yield


async def settle(world: MemoryGlobalTable, hold: LightHold, amount: int) -> Exception | None:
    """Settle, and let time pass; return the error."""
    found: list[Exception | None] = []

    async def settled() -> None:
        try:
            await hold.settle(amount)
            found.append(None)
        except Exception as error:  # noqa: BLE001 (the test says which it is)
            found.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(settled)
        await world.clock.advance(30)
    return found[0]


@pytest.mark.parametrize("amount", [2, 4, 6])
async def test_what_was_not_applied_leaves_it_open(amount: int) -> None:
    """As much as was held stays kept aside, whatever it was to be settled for."""
    async with opened() as (world, east):
        hold = await held(east, 4)
        with answering(world, "throttled"), pytest.raises(Throttled):
            await hold.settle(amount)
        assert not await east.budget("key/42").spend(7)
        assert await hold.settle(3)
        await world.clock.advance(2)  # the refusal is repeated from memory
        assert await east.budget("key/42").spend(7)
        assert (await east.ledger.total("key/42", max_age=0)).value == -10


@pytest.mark.parametrize("how", ["lost", "applied", "hangs"])
@pytest.mark.parametrize("amount", [2, 4, 6])
async def test_an_unknown_settlement_is_repeated_by_the_same_call(how: str, amount: int) -> None:
    """It is the very same entry, also once the hold has expired; nothing else can be done."""
    async with opened(grant_life=600) as (world, east):
        hold = await held(east, 4, expires=20)
        with answering(world, how):
            if how == "hangs":
                with anyio.move_on_after(0.001):
                    await hold.settle(amount)
            else:
                error = await settle(world, hold, amount)
                assert isinstance(error, OutcomeUnknown)
                assert (error.retryable, len(error.entries)) == (True, 1)
        await world.clock.advance(30)
        said = f"is being settled for {amount}, outcome unknown: repeat that"
        for other in (partial(hold.settle, 3), hold.void, partial(hold.extend, 3_600)):
            with pytest.raises(StateConflict, match=said):
                await other()
        with answering(world, "throttled"), pytest.raises(OutcomeUnknown, match="slower"):
            await hold.settle(amount)
        for _ in range(2):
            settled = await hold.settle(amount)
            assert isinstance(settled, Granted)
            assert settled.entry.repeated is (how == "applied")
        assert await east.budget("key/42").spend(10 - amount)
        assert not await east.budget("key/42").spend(1)
        assert (await east.ledger.total("key/42", max_age=0)).value == -10


async def test_an_unknown_settlement_is_found_after_its_grant() -> None:
    """Nothing more is sent then; if it is not there that is still unknown."""
    async with opened() as (world, east):
        there, lost = await held(east, 4, expires=300), await held(east, 4, expires=300)
        with answering(world, "applied"):
            assert isinstance(await settle(world, there, 4), OutcomeUnknown)
        with answering(world, "lost"):
            assert isinstance(await settle(world, lost, 4), OutcomeUnknown)
        await world.clock.advance(120)
        assert await there.settle(4)
        with pytest.raises(OutcomeUnknown, match="the same call is harmless"):
            await lost.settle(4)


async def test_past_the_retry_horizon_the_same_call_is_not_harmless_any_more() -> None:
    """It cannot be answered, and is not to be repeated for ever."""
    async with opened() as (world, east):
        hold = await held(east, 4, expires=300)
        with answering(world, "lost"):
            assert isinstance(await settle(world, hold, 4), OutcomeUnknown)
        world.clock.wall += timedelta(seconds=world.settings.retry_horizon + 1)
        with pytest.raises(RetryHorizonPassed):
            await hold.settle(4)


@pytest.mark.parametrize("how", ["lost", "applied"])
async def test_a_settlement_that_was_let_through_is_repeated_by_the_same_call(how: str) -> None:
    """After its grant, in an outage: no grant bounds its repeat."""
    async with opened(on_outage="allow") as (world, east):
        hold = await held(east, 4, expires=4_000)
        world.clock.wall += timedelta(seconds=120)
        with pytest.MonkeyPatch.context() as patched, answering(world, how):
            patched.setattr(world.store(EAST), "query", down)
            assert isinstance(await settle(world, hold, 4), OutcomeUnknown)
        settled = await hold.settle(4)
        assert isinstance(settled, Granted)
        assert settled.entry.repeated is (how == "applied")
        assert (await east.ledger.total("key/42", max_age=0)).value == -4


async def down(*_: object) -> None:
    """Answer as a region that does not."""
    raise Unreachable("down")


async def test_it_expires_though_its_settlement_failed_after_its_expiry() -> None:
    """The call was in time, the next one is not; what was held is free again."""
    async with opened() as (world, east):
        hold = await held(east, 4, expires=5)
        with answering(world, "slow"):
            assert isinstance(await settle(world, hold, 4), Throttled)
        with pytest.raises(StateConflict, match="was resolved before: voided, or has expired"):
            await hold.settle(4)
        assert await east.budget("key/42").spend(10)


async def test_calls_at_the_same_time_settle_it_once() -> None:
    """The same amount is the same settlement."""
    async with opened() as (_, east):
        hold = await held(east, 4)
        results: dict[int, object] = {}

        async def one(place: int, amount: int) -> None:
            try:
                results[place] = await hold.settle(amount)
            except StateConflict as error:
                results[place] = str(error)

        async with anyio.create_task_group() as tasks:
            for place, amount in enumerate((4, 4, 3)):
                tasks.start_soon(one, place, amount)
        assert results[0] == results[1]
        assert results[2] == "the hold of 'key/42' was resolved before: settled for 4"


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


async def test_refused_after_its_grant_it_is_open_and_keeps_nothing() -> None:
    """It is given back once, and can be settled as long as there is as much."""
    async with opened() as (world, east):
        void, settled = await held(east, 2, expires=4_000), await held(east, 2, expires=4_000)
        allowance = void.taken.allowances[0]
        world.clock.wall += timedelta(seconds=120)
        for hold in (void, settled):
            assert not await hold.settle(50)
        await void.void()
        assert (allowance.in_flight, allowance.remaining) == (0, allowance.grant.amount)
        assert await settled.settle(4)
        assert await east.budget("key/42").spend(6)
        assert (await east.ledger.total("key/42", max_age=0)).value == -10


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


async def test_it_is_voided_again_and_extended_to_the_same_time() -> None:
    """Either does nothing: calls may be repeated."""
    async with opened() as (_, east):
        hold = await held(east, 8, expires=30)
        assert await hold.extend(hold.expires) is hold
        await hold.void()
        await hold.void()
        assert await east.budget("key/42").spend(10)


async def test_it_is_extended_to_no_earlier_time() -> None:
    """And stays open as it was."""
    async with opened() as (world, east):
        hold = await held(east, 8, expires=30)
        with pytest.raises(InvalidInput, match="extended to a later expiry"):
            await hold.extend(20)
        await world.clock.advance(25)
        assert await hold.settle(8)


async def test_expired_it_does_not_settle_before_it_is_given_back() -> None:
    """Its process looks once a second: between its expiry and that nothing can be settled."""
    async with opened() as (world, east):
        hold = await held(east, 8, expires=30)
        world.clock.pass_by(31)
        with pytest.raises(StateConflict, match="resolved before: expired"):
            await hold.settle(8)
        assert (await east.ledger.total("key/42", max_age=0)).value == 0


async def test_until_its_expiry_it_settles() -> None:
    """The moment itself counts."""
    async with opened() as (world, east):
        hold = await held(east, 8, expires=30)
        world.clock.wall = hold.expires
        assert not hold.has_expired
        assert await hold.settle(8)


async def test_shortly_before_the_end_of_its_grant_it_is_spent_anew() -> None:
    """Else the grant could end before the write is given up, and what is sent again is too late."""
    async with opened(100, grant_life=400) as (world, east):
        hold = await held(east, 4, expires=3_600)
        left = timedelta(seconds=world.settings.write_deadline / 2)
        world.clock.wall = hold.kept_until - left
        settled = await hold.settle(4)
        assert isinstance(settled, Granted)
        assert settled.entry.spending is not None
        assert settled.entry.spending.grants != hold.taken.names

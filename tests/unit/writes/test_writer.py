"""Writing through every kind of failure: each change once, or the caller knows it is not sure."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.failing import always, faulty, land_all, many
from support.ledgers import (
    AWAY,
    HOME,
    changes,
    count_items,
    make_settings,
    make_writer,
    two_regions,
)

from ledger.core.entry import Item
from ledger.core.errors import (
    AccessDenied,
    DamagedItem,
    InvalidAmount,
    InvalidInput,
    KeyConflict,
    LedgerError,
    OutcomeUnknown,
    RetryHorizonPassed,
    StoreError,
    Throttled,
    Unreachable,
)
from ledger.core.values import Entry
from ledger.store.memory import MemoryStore
from ledger.store.reads import Get
from ledger.store.wrappers.faults import (
    Fault,
    FaultCall,
    FaultyStore,
    InOrder,
    Late,
    Lost,
    NeverArrived,
    Raises,
    Seeded,
)
from ledger.store.writes import Outcome, Rejected, Write
from ledger.testing.clock import START, ManualClock
from ledger.writes.entry_plan import Change
from ledger.writes.writer import Writer

SLOW_DOWN = Raises(Throttled("slow down"))
NO_CONNECTION = Raises(Unreachable("no connection"))
UNKNOWNS = (Lost(), NeverArrived(), Late())


# One change


@pytest.mark.parametrize("first", UNKNOWNS, ids=str)
@pytest.mark.parametrize("second", [None, *UNKNOWNS], ids=str)
async def test_lost_answers_count_a_change_once(first: Fault, second: Fault | None) -> None:
    """A change whose answers were lost, in whatever way, is there once when `record` returns."""
    store, table = faulty(first, second)

    entry = await make_writer(store).record(Change("c", 5))
    await land_all(store)

    assert changes(table, "c") == [Decimal(5)]
    assert table.get(("c", entry.id)) is not None


async def test_a_naive_repeat_counts_twice() -> None:
    """The mutant: a repeat under a new id counts the change whose answer was lost twice."""
    store, table = faulty(Lost())
    writer = make_writer(store, write_deadline=0)

    with pytest.raises(OutcomeUnknown):
        await writer.record(Change("c", 5))
    await writer.record(Change("c", 5))

    assert changes(table, "c") == [Decimal(5), Decimal(5)]


async def test_same_call_again_changes_nothing() -> None:
    """The same key and time again, from any region, leave the item as it was first written."""
    world = two_regions()
    home, away = world.replicas.values()
    change = Change("c", 5, key="order-17", at=START, note="refund")

    first = await make_writer(home).record(change)
    before = dict(home.table.get(("c", first.id)) or {})
    second = await make_writer(home, seed=8).record(change)
    world.deliver()
    third = await make_writer(away).record(change)

    assert (first.id, second.id) == (third.id, third.id)
    assert third.region == HOME
    assert home.table.get(("c", first.id)) == before
    assert changes(away.table, "c") == [Decimal(5)]


async def test_same_call_in_two_regions_at_once_converges_to_one() -> None:
    """The same keyed call in two regions before either sees the other is one change everywhere."""
    world = two_regions()
    home, away = world.replicas.values()
    change = Change("c", 5, key="order-17", at=START)

    await make_writer(home).record(change)
    await make_writer(away).record(change)
    world.deliver()

    assert changes(home.table, "c") == changes(away.table, "c") == [Decimal(5)]


async def test_a_key_that_carries_its_time_needs_no_other() -> None:
    """A UUIDv7 alone makes the id: the same in each try, whenever it is, and in each region."""
    world, clock = two_regions(), ManualClock(instant=True)
    home, away = world.replicas.values()
    key = str(UUID(int=int(START.timestamp() * 1000) << 80 | 7 << 76 | 2 << 62))

    first = await make_writer(home, clock=clock).record(Change("c", 5, key=key))
    clock.pass_by(250.0)
    again = await make_writer(home, clock=clock).record(Change("c", 5, key=key))
    world.deliver()
    there = await make_writer(away, clock=clock).record(Change("c", 5, key=key))
    clock.pass_by(51.0)
    with pytest.raises(RetryHorizonPassed):
        await make_writer(home, clock=clock).record(Change("c", 5, key=key))

    assert first.at == START
    assert first.id == again.id == there.id
    assert changes(home.table, "c") == changes(away.table, "c") == [Decimal(5)]


async def test_a_key_with_the_time_of_each_try_counts_each() -> None:
    """The wrong use, which the docstring of `record` shows: another time is another change."""
    store, table = faulty()
    for second in range(2):
        at = START + timedelta(seconds=second)
        await make_writer(store).record(Change("c", 5, key="order-17", at=at))
    assert changes(table, "c") == [Decimal(5)] * 2


async def many_of_one(writer: Writer, change: Change) -> object:
    """Record a change as one of many."""
    return await writer.record_many([Change("d", 1), change])


async def one_of_a_transaction(writer: Writer, change: Change) -> object:
    """Record a change together with another."""
    return await writer.record_together([Change("d", 1), change])


@pytest.mark.parametrize("write", [Writer.record, many_of_one, one_of_a_transaction])
async def test_a_key_of_another_region_is_refused_for_another_change(
    write: Callable[[Writer, Change], Awaitable[object]],
) -> None:
    """Once the first change is visible in a region, its key is refused there for another amount."""
    world = two_regions()
    home, away = world.replicas.values()
    await make_writer(home).record(Change("c", 5, key="order-17", at=START))
    world.deliver()

    with pytest.raises(KeyConflict, match=r"refused change 6, .*stands for change 5"):
        await write(make_writer(away), Change("c", 6, key="order-17", at=START))
    assert changes(away.table, "c") == [Decimal(5)]


async def test_a_key_of_two_regions_at_once_is_refused_to_the_loser() -> None:
    """Of two amounts written before either region saw the other's one stays, and names the other.

    Whoever repeats the call that lost is told, in each region.
    """
    world = two_regions()
    home, away = world.replicas.values()
    await make_writer(home).record(Change("c", 5, key="order-17", at=START))
    await make_writer(away).record(Change("c", 6, key="order-17", at=START))
    world.deliver()
    [kept] = changes(home.table, "c")
    lost = Decimal(11) - kept

    assert changes(away.table, "c") == [kept]
    for replica in (home, away):
        await make_writer(replica).record(Change("c", kept, key="order-17", at=START))
        with pytest.raises(KeyConflict):
            await make_writer(replica).record(Change("c", lost, key="order-17", at=START))


async def test_a_uuid_is_the_same_key_in_either_case() -> None:
    """As its standard has it: what passed through other software repeats, and counts once."""
    store, table = faulty()
    writer, key = make_writer(store), str(UUID(int=1_795_244_400_000 << 80 | 7 << 76 | 2 << 62))
    for spelling in (key, key.upper()):
        await writer.record(Change("c", 5, key=spelling, at=START))
    assert changes(table, "c") == [Decimal(5)]


async def test_same_key_for_another_change_is_refused() -> None:
    """A key that stands for another change is an error that holds both; the first one stays."""
    store, table = faulty(Lost())
    writer = make_writer(store)
    theirs = await writer.record(Change("c", 5, key="k", at=START))

    with pytest.raises(KeyConflict, match=r"refused change 6 .*already stands for change 5") as e:
        await writer.record(Change("c", 6, key="k", at=START, note="n"))

    assert e.value.ours.change == Decimal(6)
    assert e.value.ours.note == "n"
    assert e.value.theirs == theirs
    assert changes(table, "c") == [Decimal(5)]


async def test_the_deadline_ends_in_an_unknown_outcome() -> None:
    """After the deadline the caller gets the entry to ask again with, after bounded tries."""
    store, table = always(NeverArrived())
    clock = ManualClock(instant=True)

    with pytest.raises(OutcomeUnknown, match="may or may not be there") as caught:
        await make_writer(store, clock=clock, write_deadline=10).record(Change("c", 5))

    (entry,) = caught.value.entries
    assert not caught.value.together
    assert clock.elapsed <= 10
    assert store.calls < 100
    assert count_items(table) == 0
    store.decide = InOrder()
    assert await make_writer(store, clock=clock).retry([entry], together=False) == [entry]
    assert changes(table, "c") == [Decimal(5)]


@pytest.mark.parametrize("fate", UNKNOWNS, ids=str)
async def test_retry_makes_an_unknown_change_exactly_one(fate: Fault) -> None:
    """Whatever became of an unknown change, and however late, `retry` leaves it there once."""
    store, table = always(fate)
    writer = make_writer(store, write_deadline=5)

    with pytest.raises(OutcomeUnknown) as caught:
        await writer.record(Change("c", 5))
    store.decide = InOrder(Lost())
    await writer.retry(caught.value.entries, together=False)
    await land_all(store)
    await writer.retry(caught.value.entries, together=False)

    assert changes(table, "c") == [Decimal(5)]


async def test_retry_past_the_horizon_is_refused() -> None:
    """An unknown change is not written again once it may have been merged."""
    store, table = always(NeverArrived())
    clock = ManualClock(instant=True)
    writer = make_writer(store, clock=clock, write_deadline=5)
    with pytest.raises(OutcomeUnknown) as caught:
        await writer.record(Change("c", 5))
    store.decide = InOrder()

    clock.pass_by(300)

    with pytest.raises(RetryHorizonPassed, match="count it twice"):
        await writer.retry(caught.value.entries, together=False)
    assert count_items(table) == 0


async def test_tries_end_at_the_horizon_before_the_deadline_does() -> None:
    """An old change with a key is not tried past its horizon, however patient the caller is."""
    clock = ManualClock(instant=True)
    tried_at: list[float] = []

    def fail(_call: FaultCall) -> Fault:
        tried_at.append(clock.elapsed)
        return NeverArrived()

    store = FaultyStore(MemoryStore(HOME), fail)
    with pytest.raises(OutcomeUnknown):
        await make_writer(store, clock=clock, write_deadline=30).record(
            Change("c", 5, key="k", at=START - timedelta(seconds=295))
        )

    assert len(tried_at) > 1
    assert tried_at[-1] <= 5


@pytest.mark.parametrize("after", [SLOW_DOWN, NO_CONNECTION, Raises(AccessDenied("no"))], ids=str)
async def test_failure_after_an_unknown_try_is_no_definite_failure(after: Fault) -> None:
    """A store error after a lost answer is no proof that nothing was written: it was, see table."""
    store, table = faulty(Lost(), *[after] * 100)

    with pytest.raises(OutcomeUnknown) as caught:
        await make_writer(store).record(Change("c", 5))

    assert changes(table, "c") == [Decimal(5)]
    assert len(caught.value.entries) == 1


@pytest.mark.parametrize("error", [Throttled("slow down"), Unreachable("no"), AccessDenied("no")])
async def test_failure_of_the_first_try_is_definite(error: StoreError) -> None:
    """A store error without an unknown try before it is raised as it is; nothing was written."""
    store, table = faulty(Raises(error))

    with pytest.raises(type(error)) as caught:
        await make_writer(store).record(Change("c", 5))

    assert caught.value is error
    assert count_items(table) == 0
    assert store.calls == 1


async def test_crash_goes_through() -> None:
    """An error that is not the store's is not taken for an outcome."""
    store, _ = faulty(Raises(ZeroDivisionError(), applied=True))

    with pytest.raises(ZeroDivisionError):
        await make_writer(store).record(Change("c", 5))


@given(seed=st.integers(0, 2**32), share=st.floats(0, 0.9), calls=st.integers(1, 8))
async def test_property_each_change_once(seed: int, share: float, calls: int) -> None:
    """Under any faults a recorded change is there once, a refused one not at all, in each region.

    Every change has a key and is recorded twice, in one region and then in the other, which may or
    may not have seen it; what stayed unknown is retried; requests in flight land at the end.
    """
    world = two_regions()
    home, away = world.replicas.values()
    stores = [FaultyStore(home, Seeded(seed, share=share)), FaultyStore(away, Seeded(seed + 1))]
    clock = ManualClock(instant=True)
    writers = [make_writer(store, clock=clock, seed=seed + 2, write_deadline=5) for store in stores]
    maybe: dict[str, Entry] = {}
    certain: set[Decimal] = set()
    for number in range(calls):
        change = Change("c", number + 1, key=f"k{number}", at=START)
        for place in ((seed >> number) & 1, 1 - ((seed >> number) & 1)):
            try:
                await writers[place].record(change)
                certain.add(Decimal(number + 1))
            except OutcomeUnknown as error:
                maybe |= {entry.id: entry for entry in error.entries}
            except StoreError:
                pass
        if seed % 3 == number % 3:
            world.deliver()
    for store in stores:
        store.decide = InOrder()
    await writers[seed % 2].retry(list(maybe.values()), together=False)
    for store in stores:
        await land_all(store)
    world.deliver()

    expected = certain | {entry.change for entry in maybe.values()}
    assert changes(home.table, "c") == changes(away.table, "c") == sorted(expected)


# Refusals


@pytest.mark.parametrize(
    "bad",
    [
        Change("c", 1.5),  # type: ignore[arg-type]
        Change("c", True),  # noqa: FBT003
        Change("c", int("9" * 39)),
        Change("", 1),
        Change("~x", 1),
        Change("a\tb", 1),
        Change("x" * 1025, 1),
        Change("c", 1, note="n" * 410_000),
        Change("c", 1, key="k", at=START + timedelta(days=1)),
        Change("c", 1, key="k", at=START - timedelta(seconds=301)),
        Change("c", 1, key="k"),
    ],
    ids=range(11),
)
@pytest.mark.parametrize("method", ["record", "record_many", "record_together"])
async def test_refused_change_leaves_nothing(bad: Change, method: str) -> None:
    """One bad change among good ones: an error, no request, an empty table."""
    store, table = faulty()
    call: Any = getattr(make_writer(store), method)
    asked = bad if method == "record" else [*many(30), bad]

    with pytest.raises(InvalidInput):
        await call(asked)

    assert store.calls == 0
    assert count_items(table) == 0


async def test_amount_in_a_batch_is_named() -> None:
    """Among many changes the error still names the one amount that is wrong."""
    store, _ = faulty()

    with pytest.raises(InvalidAmount, match=r"got 7\.25 \(float\)"):
        await make_writer(store).record_many([*many(3), Change("c", 7.25)])  # type: ignore[arg-type]


def test_errors_a_caller_may_meet_have_one_root() -> None:
    """Everything above can be caught as `LedgerError`."""
    for error in (InvalidInput, KeyConflict, OutcomeUnknown, StoreError, DamagedItem):
        assert issubclass(error, LedgerError)


async def test_entries_say_where_they_were_written() -> None:
    """Each region's writer signs its entries with the region's name."""
    world = two_regions()
    home, away = world.replicas.values()

    written: list[Entry] = []
    for store in (home, away):
        writer: Writer = make_writer(store)
        written += await writer.record_many([Change("c", 1)])

    assert [entry.region for entry in written] == [HOME, AWAY]


# The last moment of a retry


class SilentStore(MemoryStore):
    """A store that takes a write and never says what became of it."""

    async def write(self, write: Write) -> Outcome:
        """Wait until cancelled."""
        del write
        await anyio.sleep_forever()
        raise AssertionError("no one wakes it")


async def test_a_keyed_try_is_cut_off_at_the_retry_horizon() -> None:
    """The store's own repeats end at the horizon, when `settle` takes the id for dead."""
    clock = ManualClock(instant=True)
    writer = make_writer(SilentStore(HOME), clock=clock)
    at = clock.now() - timedelta(seconds=make_settings().retry_horizon) + timedelta(seconds=0.05)

    with pytest.raises(OutcomeUnknown, match="cut off at the retry horizon"):
        await writer.record(Change("c", 1, key="k", at=at))


class ForgetfulStore(MemoryStore):
    """A store like an engine that does not hand back the item that was in the way."""

    async def write(self, write: Write) -> Outcome:
        """Write, but tell nothing of what failed."""
        outcome = await super().write(write)
        return Rejected(found={0: None}) if isinstance(outcome, Rejected) else outcome


async def test_a_conflict_shows_even_if_the_engine_hands_back_no_item() -> None:
    """The item in the way is read, not taken for our own."""
    writer, at = make_writer(ForgetfulStore(HOME)), START
    await writer.record(Change("c", 1, key="k", at=at))

    assert (await writer.record(Change("c", 1, key="k", at=at))).change == 1
    with pytest.raises(KeyConflict):
        await writer.record(Change("c", 2, key="k", at=at))


class UnreadableStore(ForgetfulStore):
    """The same, and the item cannot be read either."""

    async def get(self, get: Get) -> Item | None:
        """Fail as a throttled read does."""
        raise Throttled(f"{get.key} is throttled")


async def test_an_item_in_the_way_that_cannot_be_read_leaves_the_outcome_unknown() -> None:
    """The change may be there by an earlier try: "nothing was written" would be a guess."""
    writer = make_writer(UnreadableStore(HOME))
    change = Change("c", 1, key="k", at=START)
    first = await writer.record(change)
    with pytest.raises(OutcomeUnknown, match="under its key and could not be read") as raised:
        await writer.record(change)
    assert raised.value.entries == (first,)

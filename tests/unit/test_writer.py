"""Writing through every kind of failure: each change once, or the caller knows it is not sure."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ledgers import (
    AWAY,
    HOME,
    START,
    InstantClock,
    amounts_of,
    changes,
    count_items,
    make_settings,
    make_writer,
    replicate,
    two_regions,
)

from ledger.core.entry import Entry
from ledger.core.errors import (
    AccessDenied,
    DamagedItem,
    InvalidAmount,
    InvalidEntry,
    InvalidInput,
    KeyConflict,
    LedgerError,
    OutcomeUnknown,
    RetryHorizonPassed,
    StoreError,
    Throttled,
    Unreachable,
)
from ledger.planning import Change
from ledger.store.faults import (
    Call,
    Fault,
    FaultyStore,
    InOrder,
    Late,
    Lost,
    NeverArrived,
    Partial,
    Raises,
    Seeded,
    Slow,
)
from ledger.store.memory import MemoryStore, Table
from ledger.store.port import Outcome, Rejected, Write
from ledger.writer import Writer

SLOW_DOWN = Raises(Throttled("slow down"))
NO_CONNECTION = Raises(Unreachable("no connection"))
UNKNOWNS = (Lost(), NeverArrived(), Late())


def faulty(*faults: Fault | None) -> tuple[FaultyStore, Table]:
    """Return a store whose calls go wrong in this order, and the table behind it."""
    inner = MemoryStore(HOME)
    return FaultyStore(inner, InOrder(*faults), clock=InstantClock()), inner.table


def always(fault: Fault) -> tuple[FaultyStore, Table]:
    """Return a store all whose calls go wrong."""
    inner = MemoryStore(HOME)
    return FaultyStore(inner, lambda _call: fault), inner.table


def many(count: int, counter: str = "c") -> list[Change]:
    """Return changes 1, 2, 3 and so on: every sum of a part of them tells on it."""
    return [Change(counter, n + 1) for n in range(count)]


async def land_all(store: FaultyStore) -> None:
    """Let everything in flight reach the table."""
    while store.flying:
        await store.land()


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
    """The negative twin: a repeat under a new id counts the change whose answer was lost twice."""
    store, table = faulty(Lost())
    writer = make_writer(store, patience=0)

    with pytest.raises(OutcomeUnknown):
        await writer.record(Change("c", 5))
    await writer.record(Change("c", 5))

    assert changes(table, "c") == [Decimal(5), Decimal(5)]


async def test_same_call_again_changes_nothing() -> None:
    """The same key and time again, from any region, leave the item as it was first written."""
    home, away = two_regions()
    change = Change("c", 5, key="order-17", at=START, note="refund")

    first = await make_writer(home).record(change)
    before = dict(home.table.get(("c", first.id)) or {})
    second = await make_writer(home, seed=8).record(change)
    replicate(home.table, away.table)
    third = await make_writer(away).record(change)

    assert (first.id, second.id) == (third.id, third.id)
    assert third.region == HOME
    assert home.table.get(("c", first.id)) == before
    assert changes(away.table, "c") == [Decimal(5)]


async def test_same_call_in_two_regions_at_once_converges_to_one() -> None:
    """The same keyed call in two regions before either sees the other is one change everywhere."""
    home, away = two_regions()
    change = Change("c", 5, key="order-17", at=START)

    await make_writer(home).record(change)
    await make_writer(away).record(change)
    replicate(home.table, away.table)

    assert changes(home.table, "c") == changes(away.table, "c") == [Decimal(5)]


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


async def test_patience_ends_in_an_unknown_outcome() -> None:
    """When patience ends the caller gets the entry to ask again with, after bounded tries."""
    store, table = always(NeverArrived())
    clock = InstantClock()

    with pytest.raises(OutcomeUnknown, match="may or may not be there") as caught:
        await make_writer(store, clock=clock, patience=10).record(Change("c", 5))

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
    writer = make_writer(store, patience=5)

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
    clock = InstantClock()
    writer = make_writer(store, clock=clock, patience=5)
    with pytest.raises(OutcomeUnknown) as caught:
        await writer.record(Change("c", 5))
    store.decide = InOrder()

    clock.pass_by(300)

    with pytest.raises(RetryHorizonPassed, match="count it twice"):
        await writer.retry(caught.value.entries, together=False)
    assert count_items(table) == 0


async def test_tries_end_at_the_horizon_before_patience_does() -> None:
    """An old change with a key is not tried past its horizon, however patient the caller is."""
    clock = InstantClock()
    tried_at: list[float] = []

    def fail(_call: Call) -> Fault:
        tried_at.append(clock.elapsed)
        return NeverArrived()

    store = FaultyStore(MemoryStore(HOME), fail)
    with pytest.raises(OutcomeUnknown):
        await make_writer(store, clock=clock, patience=30).record(
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
    home, away = two_regions()
    stores = [FaultyStore(home, Seeded(seed, share=share)), FaultyStore(away, Seeded(seed + 1))]
    clock = InstantClock()
    writers = [make_writer(store, clock=clock, seed=seed + 2, patience=5) for store in stores]
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
            replicate(home.table, away.table)
    for store in stores:
        store.decide = InOrder()
    await writers[seed % 2].retry(list(maybe.values()), together=False)
    for store in stores:
        await land_all(store)
    replicate(home.table, away.table)

    expected = certain | {entry.change for entry in maybe.values()}
    assert changes(home.table, "c") == changes(away.table, "c") == sorted(expected)


# Many changes


async def test_many_go_in_batches_of_25() -> None:
    """Changes without keys are written 25 at a time, all of them, in the order of the answer."""
    store, table = faulty()

    entries = await make_writer(store).record_many(many(60))

    assert [entry.change for entry in entries] == amounts_of(60)
    assert changes(table, "c") == amounts_of(60)
    assert store.calls == 3


async def test_nothing_is_no_request() -> None:
    """An empty list of changes is written without a request."""
    store, _ = faulty()
    writer = make_writer(store)

    assert await writer.record_many([]) == await writer.record_together([]) == []
    assert await writer.retry([], together=False) == await writer.retry([], together=True) == []
    assert store.calls == 0


async def test_partial_batches_are_completed() -> None:
    """What a batch left undone or unanswered is sent again, and only that; all is there once."""
    store, table = faulty(
        Partial(unprocessed=(0, 1), lost=(2, 3), never_arrived=(4,)),
        Partial(unprocessed=(0,), never_arrived=(1,)),
        SLOW_DOWN,
        NeverArrived(),
    )

    await make_writer(store).record_many(many(25))

    assert changes(table, "c") == amounts_of(25)
    assert store.calls == 5


@given(seed=st.integers(0, 2**32), share=st.floats(0, 1), count=st.integers(1, 80))
async def test_property_many_are_once_or_named(seed: int, share: float, count: int) -> None:
    """Under any faults each change of `record_many` is there once, or named as not confirmed.

    A store error means that none is there; a retry of the named ones completes the rest.
    """
    home = MemoryStore(HOME)
    store = FaultyStore(home, Seeded(seed, share=share))
    writer = make_writer(store, seed=seed, patience=2)
    named: set[Decimal] = set()
    try:
        await writer.record_many(many(count))
    except OutcomeUnknown as error:
        entries = error.entries
        named = {entry.change for entry in entries}
        assert len(named) == len(entries)
        found = changes(home.table, "c")
        assert set(found) >= set(amounts_of(count)) - named
        store.decide = InOrder()
        await writer.retry(entries, together=False)
    except StoreError:
        assert count_items(home.table) == 0
        return
    await land_all(store)

    assert changes(home.table, "c") == amounts_of(count)


async def test_store_error_beside_an_unknown_part_is_unknown() -> None:
    """If one batch may be there and the other is refused, no store error says none was written."""

    def by_size(call: Call) -> Fault:
        return Lost() if call.size == 25 else SLOW_DOWN

    home = MemoryStore(HOME)
    store = FaultyStore(home, by_size)

    with pytest.raises(OutcomeUnknown, match="30 of 30 changes are not confirmed") as caught:
        await make_writer(store, patience=5).record_many(many(30))

    assert len(changes(home.table, "c")) == 25
    store.decide = InOrder()
    await make_writer(store).retry(caught.value.entries, together=False)
    assert changes(home.table, "c") == amounts_of(30)


async def test_store_error_for_all_is_raised_as_it_is() -> None:
    """If every part is refused at its first try nothing is there, and the error says why."""
    store, table = always(SLOW_DOWN)

    with pytest.raises(Throttled, match="slow down"):
        await make_writer(store).record_many(many(300))

    assert count_items(table) == 0
    assert store.calls <= 12


async def test_refusal_in_the_middle_names_what_is_not_confirmed() -> None:
    """After a refused part the others are not sent; they are named, the written ones are not."""
    store, table = faulty(*[None] * 4, *[SLOW_DOWN] * 100)

    with pytest.raises(OutcomeUnknown, match=r"200 of 300 .*slow down") as caught:
        await make_writer(store).record_many(many(300))

    named = {entry.change for entry in caught.value.entries}
    assert sorted({*changes(table, "c"), *named}) == amounts_of(300)
    assert not named & set(changes(table, "c"))


async def test_conflict_stops_no_other_change() -> None:
    """A key that stands for another change is an error after all others were written."""
    store, table = faulty()
    writer = make_writer(store)
    await writer.record(Change("c", 100, key="k", at=START))

    with pytest.raises(KeyConflict) as caught:
        await writer.record_many([Change("c", 200, key="k", at=START), *many(30)])

    assert caught.value.ours.change == 200
    assert changes(table, "c") == [*amounts_of(30), Decimal(100)]


async def test_conflict_beside_an_unknown_part_is_not_forgotten() -> None:
    """A change refused for its key is named among the unconfirmed, so that a retry shows it."""
    home = MemoryStore(HOME)
    store = FaultyStore(home, lambda call: NeverArrived() if call.size == 25 else None)
    writer = make_writer(store, patience=2)
    await writer.record(Change("c", 100, key="k", at=START))

    with pytest.raises(OutcomeUnknown) as caught:
        await writer.record_many([Change("c", 200, key="k", at=START), *many(25)])
    store.decide = InOrder()

    assert Decimal(200) in {entry.change for entry in caught.value.entries}
    with pytest.raises(KeyConflict):
        await writer.retry(caught.value.entries, together=False)
    assert changes(home.table, "c") == [*amounts_of(25), Decimal(100)]


async def test_damaged_item_stops_no_other_change() -> None:
    """An unreadable item under a change's id is named after all others were written."""

    def slow_batches(call: Call) -> Fault | None:
        return Slow(1, 1, Slow(1, 1)) if call.operation == "write_batch" else None

    home = MemoryStore(HOME)
    table, store = home.table, FaultyStore(home, slow_batches, clock=InstantClock())
    writer = make_writer(store)
    entry = await writer.record(Change("d", 1, key="k", at=START))
    table.set(("d", entry.id), {**(table.get(("d", entry.id)) or {}), "change": {"S": "one"}})

    with pytest.raises(DamagedItem, match="'d' is damaged"):
        await writer.record_many([Change("d", 1, key="k", at=START), *many(30)])

    assert changes(table, "c") == amounts_of(30)


async def test_large_write_does_not_repeat_keys_past_the_horizon() -> None:
    """Of a long write, keyed changes whose turn comes past the horizon are named, not written.

    Another process may have written them, and the compactor merged them, long ago.
    """
    clock = InstantClock()
    home = MemoryStore(HOME)
    store = FaultyStore(home, lambda _call: Slow(before_seconds=20), clock=clock)
    keyed = [Change("c", n + 1, key=f"k{n}", at=START) for n in range(40)]

    with pytest.raises(OutcomeUnknown, match="horizon passed before its turn") as caught:
        await make_writer(store, clock=clock).record_many(keyed)

    written = set(changes(home.table, "c"))
    assert 0 < len(written) < 40
    assert {entry.change for entry in caught.value.entries} == set(amounts_of(40)) - written


async def test_large_write_of_new_changes_outlives_the_horizon() -> None:
    """Changes without keys are new, so the first try of a late batch is as safe as any."""
    clock = InstantClock()
    home = MemoryStore(HOME)
    store = FaultyStore(home, lambda _call: Slow(before_seconds=100), clock=clock)

    await make_writer(store, clock=clock).record_many(many(300))

    assert clock.elapsed > 600
    assert changes(home.table, "c") == amounts_of(300)


# Together


@pytest.mark.parametrize("faults", [(), *[(one, two) for one in UNKNOWNS for two in UNKNOWNS]])
async def test_together_is_all_once(faults: tuple[Fault, ...]) -> None:
    """All changes of a transaction are there once, however many of its answers were lost."""
    store, table = faulty(*faults)

    entries = await make_writer(store).record_together(many(100))
    await land_all(store)

    assert len(entries) == 100
    assert changes(table, "c") == amounts_of(100)


@pytest.mark.parametrize("fate", UNKNOWNS, ids=str)
async def test_together_unknown_is_retried_together(fate: Fault) -> None:
    """A transaction of unknown outcome says so, and its retry makes it whole, once."""
    store, table = always(fate)
    writer = make_writer(store, patience=2)

    with pytest.raises(OutcomeUnknown, match="and 4 more") as caught:
        await writer.record_together(many(5))
    assert caught.value.together
    assert len(changes(table, "c")) in {0, 5}
    store.decide = InOrder()
    await writer.retry(caught.value.entries, together=caught.value.together)
    await land_all(store)

    assert changes(table, "c") == amounts_of(5)


async def test_together_conflict_writes_none() -> None:
    """One key that stands for another change keeps the whole transaction out."""
    store, table = faulty()
    writer = make_writer(store)
    await writer.record(Change("c", 100, key="k", at=START))

    with pytest.raises(KeyConflict):
        await writer.record_together([*many(5), Change("c", 200, key="k", at=START)])

    assert changes(table, "c") == [Decimal(100)]


async def test_together_completes_what_arrived_in_part_from_elsewhere() -> None:
    """Entries of the same call that came from another region are kept; the rest joins them."""
    home, away = two_regions()
    asked = [Change("c", n + 1, key=f"k{n}", at=START) for n in range(5)]
    entries = await make_writer(home).record_together(asked)
    for entry in entries[:2]:
        away.table.set(("c", entry.id), home.table.get(("c", entry.id)))

    again = await make_writer(away).record_together(asked)
    assert [entry.id for entry in again] == [entry.id for entry in entries]
    assert changes(away.table, "c") == amounts_of(5)

    replicate(home.table, away.table)
    assert changes(home.table, "c") == changes(away.table, "c") == amounts_of(5)


async def test_together_conflict_of_a_part_from_elsewhere_writes_none() -> None:
    """If one of the entries that are there is another change, the rest is not written."""
    home, away = two_regions()
    asked = [Change("c", n + 1, key=f"k{n}", at=START) for n in range(5)]
    await make_writer(away).record(asked[0])
    await make_writer(away).record(Change("c", 99, key="k3", at=START))

    with pytest.raises(KeyConflict):
        await make_writer(away).record_together(asked)

    assert changes(away.table, "c") == [Decimal(1), Decimal(99)]
    assert count_items(home.table) == 0


@given(seed=st.integers(0, 2**32), share=st.floats(0, 0.9))
async def test_property_together_is_all_or_none(seed: int, share: float) -> None:
    """At every moment, under any faults, a transaction is wholly there or not at all."""
    home = MemoryStore(HOME)
    store = FaultyStore(home, Seeded(seed, share=share))
    writer = make_writer(store, seed=seed, patience=2)
    expected = amounts_of(7)
    try:
        await writer.record_together(many(7))
    except OutcomeUnknown as error:
        assert changes(home.table, "c") in ([], expected)
        store.decide = InOrder()
        await writer.retry(error.entries, together=True)
    except StoreError:
        expected = []
    assert changes(home.table, "c") == expected
    await land_all(store)
    assert changes(home.table, "c") == expected


async def test_together_is_bounded() -> None:
    """101 changes, or over 4 MB of them, are refused by an error that names both numbers."""
    store, table = faulty()
    writer = make_writer(store)

    with pytest.raises(InvalidEntry, match=r"101 changes together: .*up to 100"):
        await writer.record_together(many(101))
    with pytest.raises(InvalidEntry, match=r"bytes together: .*up to 4,194,304"):
        await writer.record_together([Change("c", 1, note="n" * 400_000)] * 11)

    assert count_items(table) == 0
    assert store.calls == 0


async def test_together_counts_what_is_left_of_duplicates() -> None:
    """101 changes of which two are the same keyed call are 100, and are written."""
    store, table = faulty()
    twice = Change("c", 1000, key="k", at=START)

    await make_writer(store).record_together([twice, *many(99), twice])

    assert len(changes(table, "c")) == 100


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

    with pytest.raises(InvalidAmount, match=r"7\.25 is a float"):
        await make_writer(store).record_many([*many(3), Change("c", 7.25)])  # type: ignore[arg-type]


def test_errors_a_caller_may_meet_have_one_root() -> None:
    """Everything above can be caught as `LedgerError`."""
    for error in (InvalidInput, KeyConflict, OutcomeUnknown, StoreError, DamagedItem):
        assert issubclass(error, LedgerError)


async def test_entries_say_where_they_were_written() -> None:
    """Each region's writer signs its entries with the region's name."""
    home, away = two_regions()

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
        raise AssertionError("nobody wakes it")


async def test_a_keyed_try_is_cut_off_at_the_retry_horizon() -> None:
    """The store's own repeats end at the horizon, when `settle` takes the id for dead."""
    clock = InstantClock()
    writer = make_writer(SilentStore(HOME), clock=clock)
    at = clock.now() - timedelta(seconds=make_settings().retry_horizon) + timedelta(seconds=0.05)

    with pytest.raises(OutcomeUnknown, match="cut off at the retry horizon"):
        await writer.record(Change("c", 1, key="k", at=at))


class ForgetfulStore(MemoryStore):
    """A store like an engine that does not hand back the item that was in the way."""

    async def write(self, write: Write) -> Outcome:
        """Write, but tell nothing of what failed."""
        outcome = await super().write(write)
        return Rejected({0: None}) if isinstance(outcome, Rejected) else outcome


async def test_a_conflict_shows_even_if_the_engine_hands_back_no_item() -> None:
    """The item in the way is read, not taken for our own."""
    writer, at = make_writer(ForgetfulStore(HOME)), START
    await writer.record(Change("c", 1, key="k", at=at))

    assert (await writer.record(Change("c", 1, key="k", at=at))).change == 1
    with pytest.raises(KeyConflict):
        await writer.record(Change("c", 2, key="k", at=at))

"""Writing many changes, each on its own: each once, or named as not confirmed."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.failing import always, faulty, land_all, many
from support.ledgers import HOME, amounts_of, changes, count_items, make_writer
from support.sharing import GatedStore

from ledger.core.errors import (
    DamagedItem,
    KeyConflict,
    OutcomeUnknown,
    StoreError,
    Throttled,
    Unreachable,
)
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import (
    Fault,
    FaultCall,
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
from ledger.testing.clock import START, ManualClock
from ledger.writes.bulk_write import WRITES_AT_ONCE
from ledger.writes.entry_plan import Change

SLOW_DOWN = Raises(Throttled("slow down"))
NO_CONNECTION = Raises(Unreachable("no connection"))
UNKNOWNS = (Lost(), NeverArrived(), Late())


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
    writer = make_writer(store, seed=seed, write_deadline=2)
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

    def by_size(call: FaultCall) -> Fault:
        return Lost() if call.size == 25 else SLOW_DOWN

    home = MemoryStore(HOME)
    store = FaultyStore(home, by_size)

    with pytest.raises(OutcomeUnknown, match="30 of 30 changes are not confirmed") as caught:
        await make_writer(store, write_deadline=5).record_many(many(30))

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


async def test_what_was_not_in_flight_when_one_was_not_answered_is_not_sent() -> None:
    """Each further part could wait for its whole deadline; all are in the error."""
    store, table = always(Lost())

    with pytest.raises(OutcomeUnknown) as caught:
        await make_writer(store).record_many(many(1000))

    assert len(caught.value.entries) == 1000
    assert count_items(table) == WRITES_AT_ONCE * 25


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
    writer = make_writer(store, write_deadline=2)
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

    def slow_batches(call: FaultCall) -> Fault | None:
        return Slow(1, 1, Slow(1, 1)) if call.operation == "write_batch" else None

    home = MemoryStore(HOME)
    table, store = home.table, FaultyStore(home, slow_batches, clock=ManualClock(instant=True))
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
    clock = ManualClock(instant=True)
    home = MemoryStore(HOME)
    store = FaultyStore(home, lambda _call: Slow(before_seconds=20), clock=clock)
    keyed = [Change("c", n + 1, key=f"k{n}", at=START) for n in range(500)]

    with pytest.raises(OutcomeUnknown, match="horizon passed before its turn") as caught:
        await make_writer(store, clock=clock).record_many(keyed)

    written = set(changes(home.table, "c"))
    assert 0 < len(written) < 500
    assert {entry.change for entry in caught.value.entries} == set(amounts_of(500)) - written


async def test_keyed_changes_share_requests_and_a_repeat_writes_nothing() -> None:
    """Sixty changes with keys take three requests; all of them again are the same entries."""
    store = GatedStore()
    writer = make_writer(store)
    keyed = [Change("c", n + 1, key=f"k{n}", at=START) for n in range(60)]
    first = await writer.record_many(keyed)
    assert store.sizes == [25, 25, 10]
    again = await writer.record_many(keyed)
    assert [entry.id for entry in again] == [entry.id for entry in first]
    assert changes(store.table, "c") == amounts_of(60)


async def test_a_conflict_among_keyed_changes_is_that_ones_alone() -> None:
    """Of changes in one request only the one whose key stands for another amount is refused."""
    store, table = faulty()
    writer = make_writer(store)
    await writer.record(Change("c", 100, key="k3", at=START))
    keyed = [Change("c", n + 1, key=f"k{n}", at=START) for n in range(10)]

    with pytest.raises(KeyConflict) as caught:
        await writer.record_many(keyed)

    found = caught.value.theirs
    assert [caught.value.ours.change, found and found.change] == [4, 100]
    assert changes(table, "c") == sorted([*set(amounts_of(10)) - {4}, Decimal(100)])


async def test_large_write_of_new_changes_outlives_the_horizon() -> None:
    """Changes without keys are new, so the first try of a late batch is as safe as any."""
    clock = ManualClock(instant=True)
    home = MemoryStore(HOME)
    store = FaultyStore(home, lambda _call: Slow(before_seconds=100), clock=clock)

    await make_writer(store, clock=clock).record_many(many(300))

    assert clock.elapsed > 600
    assert changes(home.table, "c") == amounts_of(300)

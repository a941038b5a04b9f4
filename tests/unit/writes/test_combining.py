"""Changes combined: one entry for many, no more and no less than all of them."""

import anyio
import pytest
from support.ledgers import HOME, changes, make_writer
from support.sharing import GatedStore, ones, record, record_all, sharing, turns

from ledger.core.entry import entry_of
from ledger.core.errors import AmountOverflow, OutcomeUnknown
from ledger.core.values import Entry
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import FaultyStore, InOrder, Lost
from ledger.testing.clock import ManualClock
from ledger.writes.entry_plan import Change
from ledger.writes.writer import Writer

LARGEST = 10**38 - 1


async def test_changes_of_one_counter_become_one_entry() -> None:
    """One item holds their sum and count; every caller is given that entry."""
    store = GatedStore()
    async with sharing(store, combine=["visits-*"]) as writer:
        told = await record_all(writer, ones(100, "visits-home"))
    assert store.sizes == [1]
    (item,) = store.table.items()
    assert item["change"] == {"N": "5050"}
    assert item["count"] == {"N": "100"}
    assert set(told) == {entry_of(item)}


async def test_what_must_stay_itself_is_not_combined() -> None:
    """Changes with a key, a note or a date, and counters not named, are entries of their own."""
    store, clock = GatedStore(), ManualClock(instant=True)
    today = clock.now().date()
    asked = [
        Change("visits", 1),
        Change("visits", 2),
        Change("visits", 4, note="refund"),
        Change("visits", 8, effective=today),
        Change("visits", 16, key="k", at=clock.now()),
        Change("other", 32),
        Change("other", 64),
    ]
    async with sharing(store, clock=clock, combine=["visits"]) as writer:
        told = await record_all(writer, asked)
    assert [entry.count for entry in told if isinstance(entry, Entry)] == [2, 2, 1, 1, 1, 1, 1]
    assert changes(store.table, "visits") == [3, 4, 8, 16]
    assert changes(store.table, "other") == [32, 64]


async def test_a_sum_that_does_not_fit_is_taken_apart() -> None:
    """Amounts that fit on their own are written on their own where their sum has 39 digits."""
    store = GatedStore()
    async with sharing(store, combine=["c"]) as writer:
        told = await record_all(writer, [Change("c", LARGEST), Change("c", LARGEST)])
    assert changes(store.table, "c") == [LARGEST, LARGEST]
    assert [entry.count for entry in told if isinstance(entry, Entry)] == [1, 1]
    with pytest.raises(AmountOverflow):
        await make_writer(store).record(Change("c", LARGEST * 10 + 1))


async def test_a_cancelled_change_is_left_out_of_a_sum() -> None:
    """A caller that gives up before the sum is made is not in it."""
    store = GatedStore()
    store.shut()
    scope = anyio.CancelScope()

    async def gives_up(writer: Writer) -> None:
        with scope:
            await writer.record(Change("c", 100))

    limits = {"in_flight": 1}
    sharing_sums = sharing(store, combine=["c"], writer=limits)
    async with sharing_sums as writer, anyio.create_task_group() as tasks:
        tasks.start_soon(record, writer, Change("other", 7))
        await turns()
        tasks.start_soon(gives_up, writer)
        tasks.start_soon(record, writer, Change("c", 1))
        await turns()
        scope.cancel()
        await turns()
        store.gate.set()
    assert changes(store.table, "c") == [1]


async def test_an_unknown_sum_is_retried_as_one() -> None:
    """All callers of a sum get its entry; anyone who retries, it counts once."""
    inner = MemoryStore(HOME)
    store = FaultyStore(inner, lambda _call: Lost())
    async with sharing(store, combine=["c"]) as writer:
        told = await record_all(writer, ones(3))
        store.decide = InOrder()
        for one in told:
            assert isinstance(one, OutcomeUnknown)
            await writer.retry(one.entries, together=one.together)
    (item,) = inner.table.items()
    assert (item["change"], item["count"]) == ({"N": "6"}, {"N": "3"})

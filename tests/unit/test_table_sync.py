"""The same parts of a table without async; none is missing."""

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from support.ledgers import AWAY, HOME, make_settings
from support.tables import changes_file, make_table, trades

from ledger import (
    Book,
    LeaseLost,
    Ledger,
    LedgerError,
    sync,
)
from ledger.core.entry import Item
from ledger.pipeline.stages.worker import LaneWorker
from ledger.primitives.counters import Counter, ItemCounter
from ledger.primitives.leases import Lease, LeaseGrant, NotHeld
from ledger.primitives.leases.lease_rules import LeaseRecord, record_item
from ledger.primitives.sequences import CounterSequence, Numbered, SortKeySequence
from ledger.primitives.versions import (
    Adopted,
    Busy,
    ConditionGuard,
    DeadLetter,
    DeadLetters,
    Event,
    Handled,
    LockGuard,
    Skipped,
)
from ledger.store.memory import MemoryStore
from ledger.store.writes import Action, Applied, Put, Rejected
from ledger.table import Table
from ledger.testing.clock import ManualClock
from ledger.writes.imports import Importer

SECONDS_MAX = 10.0
RECORD: Item = {"pk": {"S": "record~7"}, "sk": {"S": "address"}}


@pytest.fixture
def plain() -> Iterator[sync.Table]:
    """A table without async, open; its thread is gone at the end."""
    before = set(threading.enumerate())
    with sync.Table(make_table()) as table:
        yield table
    left = [thread for thread in threading.enumerate() if thread not in before]
    assert [thread for thread in left if "anyio" not in thread.name.lower()] == []


def test_all_of_it_without_async(plain: sync.Table, tmp_path: Path) -> None:
    """The same parts with plain calls: ledger, counter, sequences, versions, pipeline."""
    plain.ledger.record("c", 3)
    assert plain.ledger.total("c", max_age=0).value == 3
    assert [entry.change for entry in plain.ledger.history("c")] == [3]

    stock = plain.counter("stock", method="marker", minimum=0)
    assert stock.add(2, token="t") == Applied()
    assert stock.add(2, token="t") == Rejected("applied before")
    assert stock.value(consistent=False) == 2
    assert "Exact" in stock.guarantees.unknown
    assert stock.add(8, spread=False) == Applied()
    plain.convert_counter("stock", method="atomic", shards=3)
    stock.convert(shards=2)
    assert (stock.shards(), stock.even_out()) == (2, True)
    assert stock.value() == 10

    orders = plain.sequence("orders", kept_seconds=60)
    assert [orders.next(), orders.next(token="cart-1")] == [Numbered(1), Numbered(2)]
    assert orders.next(token="cart-1") == Numbered(2)
    place = {"pk": {"S": "order"}, "sk": {"S": "3"}}
    assert orders.put_next(lambda _: place, token="cart-2") == Numbered(3)
    tickets = plain.sequence("tickets", method="sort-key")
    assert tickets.append({"title": {"S": "slow"}}) == Numbered(1)
    assert (tickets.highest(), tickets.read(1)) == (1, {"title": {"S": "slow"}})
    assert tickets.append_many([{"title": {"S": "x"}}] * 2, token="mail") == Numbered(2, 2)

    guard = plain.versions()
    assert guard.put(RECORD, version=4) == Handled(4)
    assert guard.handle(Event("customer", 2), [Put({**RECORD, "sk": {"S": "x"}})]) == Handled(2)

    report = plain.importer().run_file(changes_file(tmp_path))
    assert report is not None
    assert report.rows == 3

    letters = tmp_path / "dead"
    with plain.pipeline("trades", str(trades(tmp_path)), dead_letters=str(letters)) as pipeline:
        pipeline.run()
    assert pipeline.position
    assert plain.ledger.total("desk/x", max_age=0).value == Decimal("8.5")


def test_a_lease_without_async(plain: sync.Table) -> None:
    """`with` holds and releases it; fenced writes and heartbeats go through the same lease."""
    one, two = plain.lease("nightly"), plain.lease("nightly")
    with one.held(wait_seconds=0, data={"part": {"N": "1"}}) as held:
        assert isinstance(held, LeaseGrant)
        assert isinstance(two.acquire(0), NotHeld)
        one.check()
        assert one.fence() == held.fence()
        assert one.transact([Put(RECORD)])
        assert one.heartbeat()
        assert not one.lost
    with pytest.raises(LeaseLost):
        one.check()
    record = two.look()
    assert record is not None
    assert record.released
    assert isinstance(two.acquire(0), LeaseGrant)
    assert two.hand_over(AWAY)
    assert one.release()


def test_what_cannot_be_called_is_refused_without_async(plain: sync.Table) -> None:
    """Neither a handler nor the function of a watch waits for its first call to fail."""
    lock = plain.versions(method="lock")
    with pytest.raises(LedgerError, match="handler must be callable, got None"):
        lock.handle(Event("customer", 1), None)  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="call of a watch must be callable, got 'x'"):
        plain.ledger.watch("stock-*", below=10, call="x")  # type: ignore[arg-type]


def test_a_lock_without_async_runs_its_handler_in_a_thread(plain: sync.Table) -> None:
    """The handler may wait, and use the lease, while the loop goes on."""
    here, seen = threading.get_ident(), list[int]()

    def handler(event: Event, lease: sync.Lease) -> Sequence[Action]:
        lease.check()
        seen.append(threading.get_ident())
        return [Put({**RECORD, "sk": {"S": str(event.version)}})]

    lock = plain.versions(method="lock", owner="worker-3")
    assert lock.handle(Event("customer", 2), handler) == Handled(2)
    assert lock.handle(Event("customer", 1), handler, wait_seconds=1) == Skipped(1, 2)
    assert len(seen) == 1
    assert seen[0] != here


def test_guards_and_dead_letters_without_async(plain: sync.Table) -> None:
    """Deletes, adoption and dead letters, with the options of the table, by plain calls."""
    guard = plain.versions(repeats="handle", tombstone_seconds=60, failures_max=1)
    key = ("record~7", "address")
    assert guard.put(RECORD, version=1) == guard.put(RECORD, version=1) == Handled(1)
    assert guard.delete(key, version=2) == Handled(2)
    assert guard.read(key) is None
    assert guard.adopt(key, version=1) == Skipped(1, 2)
    other: Item = {"pk": {"S": "other"}, "sk": {"S": "x"}}
    assert guard.handle(Event("customer", 1), [Put(other)]) == Handled(1)
    assert guard.adopt(("other", "x"), version=1) == Adopted(1)

    def fails(event: Event, _: sync.Lease) -> Sequence[Action]:
        raise LookupError(f"no {event.subject}")

    lock = plain.versions(method="lock", failures_max=1, waiting_max=10)
    letter = lock.handle(Event("customer", 9, body=b"nine"), fails)
    assert isinstance(letter, DeadLetter)
    assert letter.causes == ("LookupError: no customer",)
    assert list(guard.dead_letters.letters()) == [letter]
    assert lock.dead_letters.find(Event("customer", 9)) == letter
    assert guard.dead_letters.release(letter.event)
    assert guard.dead_letters.failed(Event("customer", 8), "why") is not None


@pytest.mark.parametrize("wait_seconds", [0.0, 3.0])
def test_a_lock_without_async_waits_as_long_as_it_is_asked_to(wait_seconds: float) -> None:
    """While another holds the lock a call waits for `wait_seconds`, not for the default."""
    clock, store, event = ManualClock(instant=True), MemoryStore(HOME), Event("customer", 2)
    partition, name = event.lock_key
    held = LeaseRecord(
        name, "other", "1", lease_seconds=60, epoch=1, home=HOME, partition=partition
    )
    store.table.set(event.lock_key, record_item(held))

    def handler(event: Event, lease: sync.Lease) -> Sequence[Action]:
        pytest.fail(f"handled {event} under {lease}")

    with sync.Table(make_table(store, clock=clock)) as table:
        before = clock.monotonic()
        lock = table.versions(method="lock")
        assert lock.handle(event, handler, wait_seconds=wait_seconds) == Busy("other")
        assert clock.monotonic() - before == pytest.approx(wait_seconds, abs=0.01)


def test_without_async_a_table_is_opened_once() -> None:
    """The ledger of an open table is open as well; a part of a closed table says that it is."""
    table = sync.Table(make_table())
    with table:
        table.ledger.close()
        counter = table.counter("stock")
        with pytest.raises(LedgerError, match="already open"):
            table.ledger.__enter__()
        counter.add(1)
    with pytest.raises(LedgerError, match="not open"):
        counter.add(1)
    assert isinstance(sync.Table.open(make_settings(), region=AWAY), sync.Table)


def loops() -> list[threading.Thread]:
    """Return the threads of event loops."""
    return [thread for thread in threading.enumerate() if thread.name == "ledger loop"]


@pytest.mark.parametrize(
    "make",
    [
        lambda table: table.counter("stock"),
        lambda table: table.lease("job").held(),
        lambda table: table.ledger.history("c"),
    ],
)
def test_a_table_that_is_dropped_open_is_closed(make: Callable[[sync.Table], object]) -> None:
    """With the last of what was made from it; its thread ends, and a warning says so."""
    table = sync.Table(make_table()).__enter__()
    held = [make(table)]
    del table
    (thread,) = loops()
    thread.join(0.01)
    assert thread.is_alive()
    with pytest.warns(ResourceWarning, match="dropped while it was open: use it in `with`"):
        held.clear()
    thread.join(SECONDS_MAX)
    assert loops() == []


def test_a_table_that_its_own_thread_drops_is_closed() -> None:
    """Where the collector runs in the thread of the loop, nothing waits for itself."""
    table = sync.Table(make_table()).__enter__()
    (thread,) = loops()
    portal, held = table._loop.portal, [table]
    del table
    with pytest.warns(ResourceWarning, match="dropped"):
        portal.call(held.clear)
    thread.join(SECONDS_MAX)
    assert loops() == []


PAIRS = [
    (sync.Ledger, Ledger),
    (sync.Counter, Counter),
    (sync.ItemCounter, ItemCounter),
    (sync.CounterSequence, CounterSequence),
    (sync.SortKeySequence, SortKeySequence),
    (sync.Lease, Lease),
    (sync.ConditionGuard, ConditionGuard),
    (sync.LockGuard, LockGuard),
    (sync.DeadLetters, DeadLetters),
    (sync.Book, Book),
    (sync.Importer, Importer),
    (sync.Pipeline, LaneWorker),
    (sync.Table, Table),
]
ITEMS_OWN = {
    "add_parts",
    "corrections",
    "item",
    "key",
    "knows",
    "outcome",
    "share",
    "value_in",
    "value_of",
}
ASYNC_ONLY = {"store", "beats", "held_until", "marker_key", "keeping", *ITEMS_OWN}
"""The store port, what the compactor measures lag by, and what counters are made of."""


@pytest.mark.parametrize(("without", "behind"), PAIRS, ids=lambda one: one.__name__)
def test_nothing_is_missing_without_async(without: type, behind: type) -> None:
    """Each class has the public methods of its async namesake, documented, none a coroutine."""
    wanted = {
        name
        for name, member in inspect.getmembers(behind)
        if not name.startswith("_") and (callable(member) or isinstance(member, property))
    }
    assert wanted - set(dir(without)) <= ASYNC_ONLY
    for name in wanted - ASYNC_ONLY:
        member = getattr(without, name)
        assert inspect.getdoc(member), name
        assert not inspect.iscoroutinefunction(member), name

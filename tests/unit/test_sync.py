"""The ledger without async: the same answers and errors, from any thread."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from itertools import islice

import pytest
from prometheus_client import CollectorRegistry
from support.ledgers import AWAY, HOME, make_settings, sample, seeded

from ledger.core.errors import (
    InvalidAmount,
    InvalidCounter,
    KeyConflict,
    LedgerError,
    OutcomeUnknown,
    SettingsError,
    Throttled,
)
from ledger.core.watches import Crossing
from ledger.runtime.services import Services
from ledger.session.assembly import Assembly, GivenConnections
from ledger.session.ledger import Ledger as AsyncLedger
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.wrappers.faults import FaultyStore, InOrder, Lost, NeverArrived, Raises
from ledger.sync import Ledger
from ledger.testing.clock import START, ManualClock
from ledger.writes.entry_plan import Change

WAIT_SECONDS_MAX = 10.0


def make_ledger(store: Store | None = None) -> Ledger:
    """Return a ledger over a store in memory."""
    behind = AsyncLedger(
        make_settings(write_deadline=1, shards={"wide": 4}),
        region=HOME,
        services=Services.of(clock=ManualClock(instant=True), randomness=seeded()),
        given=GivenConnections(store=store or MemoryStore(HOME, page_items_max=2)),
    )
    return Ledger(behind)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Every test gives back the thread of its event loop."""
    before = set(threading.enumerate())
    yield
    left = [thread for thread in threading.enumerate() if thread not in before]
    assert [thread for thread in left if "anyio" not in thread.name.lower()] == []


def test_every_call_gives_what_the_other_ledger_gives() -> None:
    """Record, together, many, total, history: all without a word of async."""
    with make_ledger() as book:
        first = book.record("c", 3, note="refund")
        book.record_many([("c", 4), ("d", Decimal("2.50"))])
        book.record_together([("c", -5), Change("d", 5)])
        again = book.record("c", 7, key="k", at=START)
        assert book.record("c", 7, key="k", at=START).id == again.id

        assert book.total("c", max_age=0).value == 9
        assert book.total("c").cached
        assert {name: one.value for name, one in book.totals(["d", "c"]).items()} == {
            "d": Decimal("7.50"),
            "c": Decimal(9),
        }
        assert first in list(book.history("c"))


def test_threads_share_a_ledger() -> None:
    """From eight threads every change counts once, and totals never miss one acknowledged."""
    late: list[Decimal] = []

    def work(number: int) -> None:
        for step in range(20):
            book.record("wide", 1)
            total = book.total("wide", max_age=0)
            if total.value <= step:
                late.append(total.value)
        book.record_many([(f"own{number}", 1)] * 30)

    with make_ledger() as book:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(work, range(8)))

        assert late == []
        assert book.total("wide", max_age=0).value == 160
        assert [book.total(f"own{number}").value for number in range(8)] == [30] * 8


def test_errors_are_the_same_and_plain() -> None:
    """Errors come out as themselves, with what they hold."""
    store = FaultyStore(MemoryStore(HOME), InOrder())
    with make_ledger(store) as book:
        with pytest.raises(InvalidAmount):
            book.record("c", 0.5)  # type: ignore[arg-type]
        with pytest.raises(InvalidCounter):
            list(book.history("~x"))
        entry = book.record("c", 1, key="k", at=START)
        with pytest.raises(KeyConflict) as conflict:
            book.record("c", 2, key="k", at=START)
        assert conflict.value.theirs == entry
        store.decide = InOrder(Raises(Throttled("slow down")))
        with pytest.raises(Throttled):
            book.total("c", max_age=0)


def test_unknown_outcome_then_retry() -> None:
    """An unknown outcome is caught, kept and retried as in the other ledger."""
    store = FaultyStore(MemoryStore(HOME), lambda _: NeverArrived())
    with make_ledger(store) as book:
        with pytest.raises(OutcomeUnknown) as caught:
            book.record_together([("a", 1), ("b", 2)])
        store.decide = InOrder(Lost())
        book.retry(caught.value.entries, together=caught.value.together)

        assert [book.total(counter, max_age=0).value for counter in "ab"] == [1, 2]


def test_history_in_order_and_given_up_half_way() -> None:
    """A history comes in order, page by page; who stops early leaves nothing behind."""
    with make_ledger() as book:
        for number in range(9):
            book.record("wide", number, key=f"k{number}", at=START)
        entries = list(book.history("wide"))
        first = list(islice(book.history("wide"), 2))
        rest = list(book.history("wide", after=first[-1].id))

    assert sorted(entry.change for entry in entries) == list(range(9))
    assert [entry.id for entry in entries] == sorted(entry.id for entry in entries)
    assert first + rest == entries


def test_closed_ledger_says_so() -> None:
    """Before opening and after closing, which may be done twice, every call says why it fails."""
    book = make_ledger()
    with pytest.raises(LedgerError, match="not open"):
        book.record("c", 1)
    with book:
        book.record("c", 1)
        half = book.history("c")
        book.close()
        book.close()
        with pytest.raises(LedgerError, match="not open"):
            next(half)
    with pytest.raises(LedgerError, match="not open"):
        book.total("c")
    with book:
        assert book.total("c", max_age=0).value == 1


def test_error_inside_comes_out_plain() -> None:
    """An error of the block is raised as itself, and the thread is given back."""
    error = KeyError("mine")

    with pytest.raises(KeyError) as caught, make_ledger():
        raise error

    assert caught.value is error


def test_open_takes_settings_and_registry() -> None:
    """Opening by settings takes the home region unless one is named, and the host's registry."""
    registry = CollectorRegistry()
    book = Ledger.open(make_settings(), region=AWAY, registry=registry)

    assert book._behind.region == AWAY
    assert Ledger.open(make_settings())._behind.region == HOME
    assert sample(book._behind.metrics, "ledger_errors_total") == 0
    assert "ledger_errors" in {family.name for family in registry.collect()}
    with pytest.raises(SettingsError):
        Ledger.open(make_settings(), region="us-west-9")


def test_failed_opening_gives_the_thread_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the ledger behind cannot be opened its error comes out and no thread stays."""

    async def fail(*_: object) -> None:
        raise LedgerError("no store")

    monkeypatch.setattr(Assembly, "open", fail)
    book = make_ledger()

    with pytest.raises(LedgerError, match="no store"):
        book.__enter__()
    with pytest.raises(LedgerError, match="not open"):
        book.total("c")


def test_a_loop_that_cannot_be_made_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a file left for an event loop opening fails, and nothing waits for its thread."""

    def fail(*_: object, **__: object) -> None:
        raise OSError("Too many open files")

    book = make_ledger()
    with monkeypatch.context() as patched:
        patched.setattr("anyio.run", fail)
        with pytest.raises(OSError, match="Too many open files"):
            book.__enter__()
    with book:
        book.record("c", 1)


def test_a_watch_calls_a_plain_function_that_may_use_the_ledger() -> None:
    """In a thread of its own, so that the loop goes on: here it records, and reads again."""
    seen: list[str] = []
    ordered = threading.Event()
    with make_ledger() as book:

        def order(crossing: Crossing) -> None:
            book.record("orders", 1, note=crossing.id)
            seen.append(f"{crossing.value} {book.total('orders', max_age=0).value}")
            ordered.set()

        book.watch("stock-*", below=10, call=order)
        book.record("stock-7", 9)
        book.total("stock-7", max_age=0)
        assert ordered.wait(WAIT_SECONDS_MAX)
    assert seen == ["9 1"]

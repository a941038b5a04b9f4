"""The public face: what callers see, what is counted."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from support.ledgers import AWAY, HOME, make_ledger, sample, seeded

from ledger.core import keys
from ledger.core.contract import CONTRACT_LIFE
from ledger.core.errors import (
    ContractStale,
    InvalidAmount,
    InvalidCounter,
    InvalidInput,
    KeyConflict,
    LedgerError,
    OutcomeUnknown,
    Unreachable,
)
from ledger.runtime.metrics import Metrics
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import (
    Decide,
    Fault,
    FaultCall,
    FaultyStore,
    InOrder,
    Lost,
    NeverArrived,
    Raises,
    Seeded,
)
from ledger.store.wrappers.meter import MeteredStore
from ledger.testing import MemoryGlobalTable
from ledger.testing.clock import START, ManualClock
from ledger.writes.change_list import ChangeLike
from ledger.writes.entry_plan import Change


async def test_what_is_recorded_is_in_the_total_and_the_history() -> None:
    """The first lines of every program: record, total, history."""
    async with make_ledger() as book:
        refund = await book.record("customer1", 3, note="refund")
        await book.record_many([("customer1", 4), ("customer2", Decimal("2.50"))])
        moved: list[ChangeLike] = [("customer1", -5), Change("customer2", 5, note="moved")]
        await book.record_together(iter(moved))

        total = await book.total("customer1", max_age=0)
        both = await book.totals(["customer2", "customer1", "customer2"], max_age=0)
        entries = [entry async for entry in book.history("customer1")]

    assert (total.value, total.entries, total.region) == (Decimal(2), 3, HOME)
    assert list(both) == ["customer2", "customer1"]
    assert both["customer2"].value == Decimal("7.50")
    assert replace(both["customer1"], as_of=total.as_of) == total
    assert refund in entries
    assert sum(entry.change for entry in entries) == 2


async def test_a_counter_of_another_spelling_is_read_and_settled_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An id in no normal form, of another tool: no call adds to it, it can come to 0."""
    old = "cafe\u0301"
    async with make_ledger() as book:
        with monkeypatch.context() as earlier:
            earlier.setattr(keys, "checked_new_counter", keys.checked_counter)
            entry = await book.record(old, 5)
            await book.record(old, 2)
        calls = (
            lambda: book.record(old, 1),
            lambda: book.record(old, 1, note="n"),
            lambda: book.record_many([(old, 1)]),
            lambda: book.record_many([Change(old, 1, note="n")]),
            lambda: book.record_together([(old, 1), ("b", 1)]),
        )
        for call in calls:
            with pytest.raises(InvalidCounter, match="NFC"):
                await call()
        assert (await book.total(old, max_age=0)).value == 7
        await book.reverse(entry)
        await book.reconcile(old, counted=0)
        assert (await book.total(old, max_age=0)).value == 0
        assert (await book.total("b", max_age=0)).changes == 0


@pytest.mark.parametrize("max_age", [-1, -0.001, float("nan"), "1"])
async def test_bad_max_age_is_named(max_age: Any) -> None:
    """An age that is no number of 0 or more seconds is refused by name."""
    async with make_ledger() as book:
        with pytest.raises(InvalidInput, match=r"max_age must be 0 or more seconds, got"):
            await book.total("c", max_age=max_age)
        with pytest.raises(InvalidInput, match=r"max_age must be 0 or more seconds, got"):
            await book.totals(["c"], max_age=max_age)


async def test_one_text_is_no_list_of_counters() -> None:
    """Asked for the totals of a str, the ledger does not take each letter for a counter."""
    async with make_ledger() as book:
        with pytest.raises(InvalidInput, match="got the str 'visits'"):
            await book.totals("visits")


@pytest.mark.parametrize("counter", ["", "~lease", "a\nb", "x" * 1025, 5])
async def test_bad_counter_is_refused_by_reads_as_well(counter: Any) -> None:
    """A total and a history of what can be no counter are errors, not zero."""
    async with make_ledger() as book:
        with pytest.raises(InvalidCounter):
            await book.total(counter)
        with pytest.raises(InvalidCounter):
            await book.totals(["a", counter])
        with pytest.raises(InvalidCounter):
            await anext(book.history(counter))


@pytest.mark.parametrize("asked", [5, None])
async def test_what_is_no_list_is_named(asked: Any) -> None:
    """Many changes and many counters come in a list."""
    async with make_ledger() as book:
        for method in (book.record_many, book.record_together):
            with pytest.raises(InvalidInput, match=f"changes must be a list, got {asked!r}"):
                await method(asked)
        with pytest.raises(InvalidInput, match=f"counters must be a list, got {asked!r}"):
            await book.totals(asked)


@pytest.mark.parametrize("asked", [5, ("a",), ("a", 1, "note"), None])
async def test_what_is_no_change_is_named(asked: Any) -> None:
    """A list of changes takes changes and pairs; anything else is named, and none is written."""
    store = MemoryStore(HOME)
    async with make_ledger(store) as book:
        for method in (book.record_many, book.record_together):
            with pytest.raises(InvalidInput, match="must be a Change or a pair"):
                await method([("a", 1), asked])

    assert store.table.partitions == {}


@pytest.mark.parametrize("entries", [["x"], "x", [None], 5, Change("c", 1)])
async def test_only_entries_are_retried(entries: Any) -> None:
    """What is no list of entries is named, before anything is sent."""
    store = MemoryStore(HOME)
    async with make_ledger(store) as book:
        for together in (True, False):
            with pytest.raises(
                InvalidInput, match="entries must be a list of the entries of an Outcome"
            ):
                await book.retry(entries, together=together)
    assert not store.table.partitions


async def test_unknown_outcome_then_retry() -> None:
    """The way out that the documentation names: catch, keep the entries, retry, exactly one."""
    store = FaultyStore(MemoryStore(HOME), lambda _: NeverArrived())
    async with make_ledger(store, write_deadline=1) as book:
        with pytest.raises(OutcomeUnknown) as caught:
            await book.record_together([("a", 1), ("b", 2)])
        store.decide = InOrder(Lost())
        await book.retry(caught.value.entries, together=caught.value.together)

        assert (await book.total("a", max_age=0)).value == 1
        assert (await book.total("b", max_age=0)).value == 2


@given(seed=st.integers(0, 2**32))
async def test_property_max_age_zero_shows_every_acknowledged_change(seed: int) -> None:
    """Of many tasks on a bad connection each finds its own change in the total, and no more."""
    store = FaultyStore(MemoryStore(HOME), faults_of_writes(seed), clock=ManualClock(instant=True))
    acknowledged, asked = 0, 0

    async def work(book: Ledger, amount: int) -> None:
        nonlocal acknowledged, asked
        asked += amount
        try:
            await book.record("c", amount)
        except LedgerError:
            return
        acknowledged += amount
        due = acknowledged
        await checkpoint()
        total = await book.total("c", max_age=0)
        assert due <= total.value <= asked

    book = make_ledger(store, seed=seed, write_deadline=1)
    async with book, anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(work, book, 10**number)


def faults_of_writes(seed: int) -> Decide:
    """Return faults that spare the reads."""
    draw = Seeded(seed, share=0.5)
    return lambda call: draw(call) if call.operation == "write" else None


@pytest.mark.slow
async def test_a_thousand_readers_cost_two_queries() -> None:
    """A thousand totals asked for at once, the freshest wanted, are answered by two queries."""
    store = FaultyStore(MemoryStore(HOME), lambda _: None)
    async with make_ledger(store) as book, anyio.create_task_group() as tasks:
        for _ in range(1000):
            tasks.start_soon(lambda: book.total("c", max_age=0))

    assert 1 <= store.calls <= 2


@pytest.mark.parametrize("timeout", [None, 5.0])
async def test_no_total_is_returned_once_the_contract_cannot_be_read(timeout: float | None) -> None:
    """A kept total may be recent enough, but whether its terms still hold is read first."""
    world = MemoryGlobalTable(cache={"max_age": 86_400.0})
    is_cut = False

    def cut(_call: FaultCall) -> Fault | None:
        return Raises(Unreachable("cut off")) if is_cut else None

    store = FaultyStore(world.store(), cut)
    services = Services.of(clock=world.clock, randomness=seeded())
    connections = GivenConnections(store=store, contract=True)
    async with Ledger(world.settings, region=HOME, services=services, given=connections) as book:
        await book.total("c")
        is_cut = True
        await world.pass_time(CONTRACT_LIFE - 1)
        assert (await book.total("c", timeout=timeout)).cached
        await world.pass_time(10)
        with pytest.raises(ContractStale):
            await book.total("c", timeout=timeout)
        is_cut = False
        await world.pass_time(1)
        assert (await book.total("c", timeout=timeout)).cached


# What is counted

LABELS = {
    "ledger_writes": {"region", "operation", "outcome"},
    "ledger_write_duration_seconds": {"region", "operation"},
    "ledger_group_entries": {"region"},
    "ledger_queued_entries": {"region"},
    "ledger_cache_hits": {"region"},
    "ledger_cache_misses": {"region"},
    "ledger_cache_shared": {"region"},
    "ledger_cache_age_seconds": {"region"},
    "ledger_cache_counters": {"region"},
    "ledger_read_duration_seconds": {"region"},
    "ledger_read_pages": {"region"},
    "ledger_read_restarts": {"region"},
    "ledger_consumed_units": {"region", "operation", "kind"},
    "ledger_retries": {"region", "operation", "cause"},
    "ledger_errors": {"region", "kind"},
}


async def test_metrics_have_their_names_and_labels() -> None:
    """A registry that was handed in shows every metric under its documented name and labels."""
    registry = CollectorRegistry()
    metrics = Metrics.of(registry)
    inner = FaultyStore(MemoryStore(HOME), InOrder(NeverArrived()))
    store = MeteredStore(inner, metrics=metrics, clock=ManualClock(instant=True))
    async with make_ledger(store, registry=registry) as book:
        await book.record("c", 1)
        await book.total("c")
        await book.total("c")
        with pytest.raises(InvalidAmount):
            await book.record("c", 0.5)  # type: ignore[arg-type]
    metrics.retry(HOME, "put_item", "throttled")
    metrics.cache_share(HOME)
    metrics.read(HOME, pages=1, restarts=1, seconds=1)

    found: dict[str, set[str]] = {}
    for family in registry.collect():
        for one in family.samples:
            if not one.name.endswith("_created"):
                found.setdefault(family.name, set()).update(set(one.labels) - {"le"})
    assert found == LABELS
    assert sample(metrics, "ledger_writes_total", region=HOME, outcome="unknown") == 1
    assert sample(metrics, "ledger_writes_total", region=HOME, outcome="applied") == 1
    assert sample(metrics, "ledger_cache_hits_total", region=HOME) == 1
    assert sample(metrics, "ledger_errors_total", region=HOME, kind="InvalidAmount") == 1


async def test_every_error_is_counted_by_kind() -> None:
    """An error that a caller gets to see is counted under the name of its class."""
    book = make_ledger()
    async with book:
        await book.record("c", 1, key="k", at=START)
        for _ in range(2):
            with pytest.raises(KeyConflict):
                await book.record("c", 2, key="k", at=START)

    assert sample(book.metrics, "ledger_errors_total", region=HOME, kind="KeyConflict") == 2
    assert sample(book.metrics, "ledger_errors_total") == 2


async def test_two_ledgers_share_a_registry() -> None:
    """Two ledgers of one process count into one registry, told apart by their regions."""
    registry = CollectorRegistry()
    home = make_ledger(registry=registry)
    away = make_ledger(region=AWAY, registry=registry)
    async with home, away:
        for book in (home, away, away):
            await book.total("c", max_age=0)

    assert home.metrics is away.metrics
    assert sample(home.metrics, "ledger_cache_misses_total", region=HOME) == 1
    assert sample(home.metrics, "ledger_cache_misses_total", region=AWAY) == 2
    assert generate_latest(registry).count(b"# HELP ledger_cache_misses_total ") == 1


async def test_ledgers_without_a_registry_count_apart() -> None:
    """Without a registry each ledger keeps its own counts, and nothing is registered globally."""
    one, two = make_ledger(), make_ledger()
    async with one, two:
        await one.total("c")

    assert sample(one.metrics, "ledger_cache_misses_total") == 1
    assert sample(two.metrics, "ledger_cache_misses_total") == 0

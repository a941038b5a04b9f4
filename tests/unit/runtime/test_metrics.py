import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

import ledger
from compactor.metrics import CompactorMetrics
from ledger import Ledger
from ledger.core.errors import SettingsError, Unreachable
from ledger.runtime.metrics import Metrics, program_registry, summed
from ledger.testing import MemoryGlobalTable

LEDGER_NAMES = {
    "ledger_writes_total", "ledger_write_duration_seconds", "ledger_group_entries", "ledger_parts",
    "ledger_queued_entries", "ledger_cache_hits_total",
    "ledger_cache_misses_total", "ledger_cache_shared_total", "ledger_cache_age_seconds",
    "ledger_cache_counters", "ledger_read_duration_seconds", "ledger_read_pages",
    "ledger_read_restarts_total", "ledger_consumed_units_total", "ledger_retries_total",
    "ledger_errors_total", "ledger_hints_total", "ledger_clock_offset_seconds",
    "ledger_crossings_total", "ledger_budget_spends_total", "ledger_budget_over_total",
    "ledger_budget_grants", "ledger_budget_renewals_total",
    "ledger_budget_credit_seconds",
    "ledger_budget_credits_oldest_seconds",
    "ledger_budget_credits_total",
    "ledger_budget_credits_waiting",
    "ledger_budget_fetches_total",
    "ledger_book_transfers_total",
}  # fmt: skip
COMPACTOR_NAMES = {
    "compactor_leader", "compactor_epoch", "compactor_replication_lag_seconds",
    "compactor_backlog_entries", "compactor_due_collections", "compactor_folds_total",
    "compactor_damaged_collections", "compactor_waiting", "compactor_slices",
    "compactor_late_seconds", "compactor_drain_seconds",
    "compactor_entries_merged_total", "compactor_entries_deleted_total",
    "compactor_pass_duration_seconds", "compactor_passes_total",
    "compactor_last_success_timestamp_seconds", "compactor_region_unreadable_total",
    "compactor_scan_pages_total", "compactor_errors_total", "compactor_hints_total",
    "compactor_archive_objects_total", "compactor_archive_entries_total",
    "compactor_archive_bytes_total", "compactor_archive_waits_total",
    "compactor_archive_waiting_seconds", "compactor_scheduled", "compactor_region_not_read",
    "compactor_budget_grants", "compactor_budget_grants_closed_total",
    "compactor_budget_grants_exceeded_total", "compactor_budget_holds_expired_total",
    "compactor_budget_let_through_charged_total",
    "compactor_budget_transfers_total", "compactor_signed_nets", "compactor_undeleted_entries",
    "compactor_book_accounts_bytes_max", "compactor_books_full",
}  # fmt: skip

HITS = 10_000


def names(registry: CollectorRegistry) -> set[str]:
    """Give the names in a registry as a Prometheus server sees them."""
    helps = [line.split()[2] for line in generate_latest(registry).decode().splitlines()
             if line.startswith("# HELP")]  # fmt: skip
    return {name for name in helps if not name.endswith("_created")}


def test_a_program_exposes_no_times_of_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which would be one more series for each counter and histogram."""
    monkeypatch.setattr(prometheus_client.metrics, "_use_created", True)
    registry = program_registry()
    Metrics(registry).writes.labels("us-east-1", "record", "applied").inc()
    shown = generate_latest(registry).decode()
    assert "ledger_writes_total{" in shown
    assert "_created" not in shown


def test_what_a_users_program_exposes_stays_its_own_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The switch is of the whole process."""
    monkeypatch.setattr(prometheus_client.metrics, "_use_created", True)
    registry = CollectorRegistry()
    Metrics(registry).writes.labels("us-east-1", "record", "applied").inc()
    assert "ledger_writes_created{" in generate_latest(registry).decode()


def test_every_program_takes_its_registry_from_one_place() -> None:
    """None makes one itself, with those series in it."""
    root = Path(ledger.__file__).parent.parent
    rooms = ("ledger/commands", "ledger/service", "ledger/webhooks", "compactor")
    made = [
        str(path.relative_to(root))
        for room in rooms
        for path in sorted((root / room).rglob("*.py"))
        if "CollectorRegistry()" in path.read_text(encoding="utf-8")
    ]
    assert made == []


@pytest.mark.parametrize(
    ("make", "expected"), [(Metrics, LEDGER_NAMES), (CompactorMetrics, COMPACTOR_NAMES)]
)
def test_the_metrics_have_the_published_names(
    make: Callable[[CollectorRegistry], object], expected: set[str]
) -> None:
    """Dashboards and alerts rest on these names, no more and no fewer."""
    registry = CollectorRegistry()
    make(registry)
    assert names(registry) == expected


def test_each_method_moves_its_metrics() -> None:
    """What the ledger notes is what a scrape shows, with labels in their places."""
    registry = CollectorRegistry()
    metrics = Metrics.of(registry)
    metrics.write("eu-west-1", "record", "applied", 3, 0.2)
    metrics.read("eu-west-1", pages=2, restarts=1, seconds=0.3)
    metrics.consumed("eu-west-1", "Query", "read", 1.5)
    metrics.retry("eu-west-1", "PutItem", "throttled")
    metrics.error("eu-west-1", Unreachable("gone"))
    metrics.cache_hits.add("eu-west-1", 0.4)
    metrics.cache_miss("eu-west-1")
    metrics.cache_share("eu-west-1")
    metrics.cache_size("eu-west-1", 12)
    metrics.clock_offset("eu-west-1", -0.25)
    shown = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in registry.collect()
        for sample in family.samples
    }
    region = ("region", "eu-west-1")
    operation = ("operation", "record")
    expected = {
        ("ledger_writes_total", operation, ("outcome", "applied"), region): 3,
        ("ledger_write_duration_seconds_sum", operation, region): 0.2,
        ("ledger_read_duration_seconds_sum", region): 0.3,
        ("ledger_read_pages_sum", region): 2,
        ("ledger_read_restarts_total", region): 1,
        ("ledger_consumed_units_total", ("kind", "read"), ("operation", "Query"), region): 1.5,
        ("ledger_retries_total", ("cause", "throttled"), ("operation", "PutItem"), region): 1,
        ("ledger_errors_total", ("kind", "Unreachable"), region): 1,
        ("ledger_cache_hits_total", region): 1,
        ("ledger_cache_age_seconds_sum", region): 0.4,
        ("ledger_cache_misses_total", region): 1,
        ("ledger_cache_shared_total", region): 1,
        ("ledger_cache_counters", region): 12,
        ("ledger_clock_offset_seconds", region): -0.25,
    }
    assert {key: shown.get(key) for key in expected} == expected


def test_each_method_of_the_compactor_moves_its_metrics() -> None:
    """The compactor's notes are what a scrape shows."""
    registry = CollectorRegistry()
    metrics = CompactorMetrics.of(registry)
    metrics.leads("us-east-1", leading=True, epoch=4)
    metrics.lag({"eu-west-1": 0.8})
    metrics.searched(backlog_entries=70, due_collections=2)
    metrics.signed({"former": 1})
    metrics.signed({"k1": 5, "": 2})
    metrics.scanned(3)
    metrics.fold("applied", merged=40)
    metrics.fold("rejected")
    metrics.deleted(25)
    metrics.unreadable("eu-west-1")
    metrics.waits("clock")
    metrics.passed("done", seconds=21, succeeded_at=1_900_000_000)
    metrics.error(Unreachable("gone"))
    shown: dict[tuple[Any, ...], float] = {
        (sample.name, *sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
    }
    expected = {
        ("compactor_leader", "us-east-1"): 1,
        ("compactor_epoch",): 4,
        ("compactor_replication_lag_seconds", "eu-west-1"): 0.8,
        ("compactor_backlog_entries",): 70,
        ("compactor_due_collections",): 2,
        ("compactor_signed_nets", "k1"): 5,
        ("compactor_signed_nets", ""): 2,
        ("compactor_signed_nets", "former"): None,
        ("compactor_scan_pages_total",): 3,
        ("compactor_folds_total", "applied"): 1,
        ("compactor_folds_total", "rejected"): 1,
        ("compactor_entries_merged_total",): 40,
        ("compactor_entries_deleted_total",): 25,
        ("compactor_region_unreadable_total", "eu-west-1"): 1,
        ("compactor_waiting", "clock"): 1,
        ("compactor_waiting", "replicas"): 0,
        ("compactor_passes_total", "done"): 1,
        ("compactor_pass_duration_seconds_sum",): 21,
        ("compactor_last_success_timestamp_seconds",): 1_900_000_000,
        ("compactor_errors_total", "Unreachable"): 1,
    }
    assert {key: shown.get(key) for key in expected} == expected


@pytest.mark.parametrize("kind", [Metrics, CompactorMetrics])
def test_one_registry_has_one_instance(kind: type[Metrics | CompactorMetrics]) -> None:
    """Two ledgers in one process share a registry without a clash; None is always private."""
    registry = CollectorRegistry()
    assert kind.of(registry) is kind.of(registry)
    assert kind.of(CollectorRegistry()) is not kind.of(registry)
    assert kind.of(None) is not kind.of(None)


@pytest.mark.parametrize("kind", [Metrics, CompactorMetrics])
def test_a_registry_is_not_kept_alive(kind: type[Metrics | CompactorMetrics]) -> None:
    """A host application that drops its registry gets the memory back."""
    registry = CollectorRegistry()
    kind.of(registry)
    dropped = weakref.ref(registry)
    del registry
    gc.collect()
    assert dropped() is None


def test_crossings_begin_at_none() -> None:
    """Prometheus sees no increase in a series that begins at 1: the first would not be shown."""
    registry = CollectorRegistry()
    table = MemoryGlobalTable(["eu-west-1"])
    watches = {"low": {"counters": "stock", "below": 3}}
    Ledger.open(table.settings.replace(watches=watches), registry=registry).watch(
        "other", call=lambda _crossing: None, above=1, name="high"
    )
    begun = {
        sample.labels["watch"]: sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "ledger_crossings_total"
    }
    assert begun == {"low": 0, "high": 0}


@pytest.mark.parametrize("name", ["PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir"])
@pytest.mark.parametrize("folder", ["missing", "a file", ""])
def test_a_folder_of_several_processes_that_is_none_is_named(
    name: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable and the rule are said, not the file of some metric."""
    (tmp_path / "a file").touch()
    monkeypatch.setenv(name, str(tmp_path / folder) if folder else "")
    with pytest.raises(SettingsError, match=rf"^{name} must name a folder .* or unset"):
        Metrics()


def test_a_folder_of_several_processes_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the library's to use."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    Metrics()


def test_hits_of_the_cache_are_shown_as_by_the_client_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own counts differ in nothing from its counter and histogram, bounds of buckets included.

    It counts itself where several processes share a folder.
    """
    monkeypatch.setattr(prometheus_client.metrics, "_use_created", False)
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    counted = Metrics(ours)
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    by_library = Metrics(theirs)
    assert type(counted.cache_hits) is not type(by_library.cache_hits)
    for age in (0.0, 0.01, 0.011, 0.25, 0.25, 7.5, 300.0, 300.5):
        for region in ("eu-west-1", "us-east-1")[: 1 + (age > 0.1)]:
            counted.cache_hits.add(region, age)
            by_library.cache_hits.add(region, age)
    assert generate_latest(ours) == generate_latest(theirs)


def test_hits_are_counted_while_another_thread_reads_them() -> None:
    """A thread of its own answers a scrape, and ledgers of several loops share a registry."""
    registry = CollectorRegistry()
    hits = Metrics.of(registry).cache_hits

    def count() -> None:
        for number in range(HITS):
            hits.add(f"region-{number}", 0.5)

    with ThreadPoolExecutor() as threads:
        counting = threads.submit(count)
        while not counting.done():
            assert len(list(hits.collect())) == 2
    assert summed(registry, "ledger_cache_hits_total") == HITS


def test_hits_of_several_processes_are_in_the_folder_that_they_share(tmp_path: Path) -> None:
    """There the client library finds nothing but its own metrics."""
    written = (
        "from ledger.runtime.metrics import Metrics\nMetrics().cache_hits.add('eu-west-1', 0.4)\n"
    )
    shared = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for _ in range(2):
        subprocess.run([sys.executable, "-c", written], env=shared, check=True)
    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(tmp_path))  # type: ignore[no-untyped-call]
    assert summed(registry, "ledger_cache_hits_total", region="eu-west-1") == 2
    assert summed(registry, "ledger_cache_age_seconds_sum", region="eu-west-1") == 0.8

"""The compactor's metrics for Prometheus.

Names begin with `compactor_`. Alert on three of them: a growing backlog, a last success long ago,
and an unreadable region (merging waits, totals stay correct).

Metrics of a pass that ends with its process, which Prometheus cannot scrape.

A file for the textfile collector of node_exporter, or a push to a Pushgateway, or both. Each pass
replaces the previous output, except the time of the last success, which stays until there is a
later one. Counters start again with each process, so the alerts on this form use gauges.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ledger.core.errors import InvalidInput, LedgerError
from ledger.core.urls import without_passwords
from ledger.runtime.metrics import MetricMaker, RegistryMetrics

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

PASS_BUCKETS_SECONDS = (1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
"""A pass takes at least `observation_delay` (20 s by default) once anything is due."""

LAST_SUCCESS = "compactor_last_success_timestamp_seconds"
WAIT_REASONS = ("clock", "replicas", "home")
"""Why merging waits: a clock that is off, wrong replicas, or a home that is being moved."""


class CompactorMetrics(RegistryMetrics):
    """The compactor's metrics in one registry."""

    def _define(self, make: MetricMaker) -> None:
        self._define_leader(make)
        self._define_backlog(make)
        self._define_work(make)
        self._define_archive(make)
        self._define_budgets(make)
        self._define_passes(make)

    def _define_leader(self, make: MetricMaker) -> None:
        self.leader = make.gauge(
            "compactor_leader",
            "1 while this process holds the compactor's lease, else 0; region is the home region.",
            ("region",),
        )
        self.slices_led = make.gauge(
            "compactor_slices",
            "Slices of the collections that this process leads; those of all processes add up to"
            " 64.",
        )
        self.scheduled = make.gauge(
            "compactor_scheduled",
            "1 if this process does one pass and ends (`compactor run --once`), else 0.",
        )
        self.epoch = make.gauge(
            "compactor_epoch",
            "Epoch of the lease last held or seen: begins at the time in milliseconds, grows by"
            " one at each change of owner.",
        )
        self.replication_lag = make.gauge(
            "compactor_replication_lag_seconds",
            "Time that a heartbeat of the lease took to be seen in the region, in seconds.",
            ("region",),
        )

    def _define_backlog(self, make: MetricMaker) -> None:
        self.backlog = make.gauge(
            "compactor_backlog_entries",
            "Entries not merged yet, as the last search saw them.",
        )
        self.late = make.gauge(
            "compactor_late_seconds",
            "How late merging is: what the last pass took, or how long entries wait that had no"
            " room in it, in seconds.",
        )
        self.drain = make.gauge(
            "compactor_drain_seconds",
            "Time until merging has caught up, at the pace of the last passes, in seconds: 0 while"
            " it keeps up, infinite while it falls behind.",
        )
        self.due = make.gauge(
            "compactor_due_collections",
            "Item collections with enough settled entries to merge, as the last search saw them.",
        )
        self.nets_signed = make.gauge(
            "compactor_signed_nets",
            "Net changes that the last search saw, by the name of the key that signed them: empty"
            " for none. Only where nets are signed.",
            ("key",),
        )
        self.damaged = make.gauge(
            "compactor_damaged_collections",
            "Collections that the last pass left as they are: an item in them cannot be counted.",
        )
        self.undeleted = make.gauge(
            "compactor_undeleted_entries",
            "Merged entries, of the collections that the last pass visited, that were deleted at"
            " home over an hour ago and that another region still shows.",
        )
        self.accounts_bytes = make.gauge(
            "compactor_book_accounts_bytes_max",
            "Size of the accounts of the largest book that the last search saw, in bytes: over"
            " 153,600 no account is opened.",
        )
        self.books_full = make.gauge(
            "compactor_books_full",
            "Collections of books of which the last pass merged nothing, because their accounts"
            " have no room.",
        )
        self.hints = make.counter(
            "compactor_hints_total",
            "Hints that counters may need merging: read, left by the search, deleted as served.",
            ("action",),
        )
        self.scan_pages = make.counter(
            "compactor_scan_pages_total",
            "Pages that the search for collections has read.",
        )

    def _define_work(self, make: MetricMaker) -> None:
        self.folds = make.counter(
            "compactor_folds_total",
            "Transactions that put a net change, by how they ended.",
            ("outcome",),
        )
        self.entries_merged = make.counter(
            "compactor_entries_merged_total",
            "Entries added into a net change.",
        )
        self.entries_deleted = make.counter(
            "compactor_entries_deleted_total",
            "Merged entries deleted.",
        )

    def _define_archive(self, make: MetricMaker) -> None:
        self.archive_objects = make.counter(
            "compactor_archive_objects_total",
            "Objects that were put in every place of the archive, and read back.",
        )
        self.archive_entries = make.counter(
            "compactor_archive_entries_total",
            "Entries in these objects.",
        )
        self.archive_bytes = make.counter(
            "compactor_archive_bytes_total",
            "Bytes of these objects, each counted once, in however many places it is.",
        )
        self.archive_waited = make.counter(
            "compactor_archive_waits_total",
            "Folds that were not sent because a place of the archive did not accept their entries.",
        )
        self.archive_waiting = make.gauge(
            "compactor_archive_waiting_seconds",
            "How long the oldest fold has waited for the archive, in seconds: 0 while none does.",
        )

    def _define_budgets(self, make: MetricMaker) -> None:
        self.grants_now = make.gauge(
            "compactor_budget_grants",
            "Grants of the budgets that the last pass looked at: open, and waiting, those that are"
            " over and cannot be closed yet.",
            ("state",),
        )
        self.grants_closed = make.counter(
            "compactor_budget_grants_closed_total",
            "Grants closed by their entries: agreed, as all regions show them, or unagreed, as"
            " their own region does.",
            ("how",),
        )
        for how in ("agreed", "unagreed"):  # shown before the first
            self.grants_closed.labels(how)
        self.grants_exceeded = make.counter(
            "compactor_budget_grants_exceeded_total",
            "Grants whose entries add up to more than they had: each was used twice.",
        )
        self.holds_expired = make.counter(
            "compactor_budget_holds_expired_total",
            "Holds that expired and were resolved.",
        )
        self.let_through_charged = make.counter(
            "compactor_budget_let_through_charged_total",
            "Spends charged that an outage let through, and their process had not charged.",
        )
        self.transfers = make.counter(
            "compactor_budget_transfers_total",
            "Transfers of rights between regions, sent and taken up.",
            ("action",),
        )
        for action in ("sent", "taken"):  # from 0 on, so that an increase shows the first
            self.transfers.labels(action)

    def _define_passes(self, make: MetricMaker) -> None:
        self.pass_duration = make.histogram(
            "compactor_pass_duration_seconds",
            "Duration of one pass over the table, in seconds.",
            buckets=PASS_BUCKETS_SECONDS,
        )
        self.passes = make.counter(
            "compactor_passes_total",
            "Passes over the table, by how they ended.",
            ("outcome",),
        )
        self.last_success = make.gauge(
            LAST_SUCCESS,
            "When the last pass ended without an error, in seconds since 1970.",
        )
        self.region_unreadable = make.counter(
            "compactor_region_unreadable_total",
            "Times that merging waited because the region could not be read.",
            ("region",),
        )
        self.unreadable_now = make.gauge(
            "compactor_region_not_read",
            "1 if the last pass could not read the region, so that merging waited, else absent.",
            ("region",),
        )
        self.waiting = make.gauge(
            "compactor_waiting",
            "1 if the last pass merged nothing for this reason: clock, replicas or home.",
            ("reason",),
        )
        self.errors = make.counter(
            "compactor_errors_total",
            "Errors met by the compactor, by kind.",
            ("kind",),
        )

    def leads(self, region: str, *, leading: bool, epoch: int | None = None) -> None:
        """Record whether this process leads, and the epoch of the lease where it is known."""
        self.leader.labels(region).set(1 if leading else 0)
        if epoch is not None:
            self.epoch.set(epoch)

    def slices(self, led: int) -> None:
        """Record how many slices this process leads."""
        self.slices_led.set(led)

    def lag(self, seconds: Mapping[str, float]) -> None:
        """Record the replication lag of each region."""
        for region, lag_seconds in seconds.items():
            self.replication_lag.labels(region).set(lag_seconds)

    def searched(self, *, backlog_entries: int, due_collections: int) -> None:
        """Record what a search for collections to merge found."""
        self.backlog.set(backlog_entries)
        self.due.set(due_collections)

    def signed(self, nets: Mapping[str, int]) -> None:
        """Record how many nets a search saw by the key that signed them."""
        self.nets_signed.clear()
        for name, count in nets.items():
            self.nets_signed.labels(name).set(count)

    def quarantined(self, collections: int) -> None:
        """Record how many damaged collections a pass has left."""
        self.damaged.set(collections)

    def scanned(self, pages: int = 1) -> None:
        """Count pages that the search has read."""
        self.scan_pages.inc(pages)

    def hinted(self, action: str, hints: int) -> None:
        """Count hints; `action` is "read", "left" or "deleted"."""
        if hints:
            self.hints.labels(action).inc(hints)

    def fold(self, outcome: str, *, merged: int = 0) -> None:
        """Count one transaction that puts a net change; `merged` entries if it was applied."""
        self.folds.labels(outcome).inc()
        self.entries_merged.inc(merged)

    def deleted(self, entries: int) -> None:
        """Count merged entries deleted."""
        self.entries_deleted.inc(entries)

    def archived(self, *, entries: int, size: int) -> None:
        """Count an object that is in every place of the archive."""
        self.archive_objects.inc()
        self.archive_entries.inc(entries)
        self.archive_bytes.inc(size)

    def grants(self, *, open_grants: int, waiting: int) -> None:
        """Record how many grants a pass has left open, and how many of them wait."""
        self.grants_now.labels("open").set(open_grants)
        self.grants_now.labels("waiting").set(waiting)

    def moved(self, *, sent: int, taken: int) -> None:
        """Count transfers of rights."""
        for action, count in (("sent", sent), ("taken", taken)):
            if count:
                self.transfers.labels(action).inc(count)

    def unreadable(self, region: str) -> None:
        """Record that merging waits for a region."""
        self.region_unreadable.labels(region).inc()
        self.unreadable_now.clear()
        self.unreadable_now.labels(region).set(1)

    def readable(self) -> None:
        """Record that a pass could read every region."""
        self.unreadable_now.clear()

    def waits(self, reason: str | None) -> None:
        """Record for which of `WAIT_REASONS` the last pass merged nothing, None for none."""
        for why in WAIT_REASONS:
            self.waiting.labels(why).set(int(why == reason))

    def passed(self, outcome: str, *, seconds: float, succeeded_at: float | None = None) -> None:
        """Record the end of a pass; `succeeded_at`, seconds since 1970, if it had no error."""
        self.passes.labels(outcome).inc()
        self.pass_duration.observe(seconds)
        if succeeded_at is not None:
            self.last_success.set(succeeded_at)

    def pace(self, late_seconds: float, drain_seconds: float) -> None:
        """Record how late merging is, and in how long it will have caught up."""
        self.late.set(late_seconds)
        self.drain.set(drain_seconds)

    def error(self, error: BaseException) -> None:
        """Record an error; its kind is the name of its class."""
        self.errors.labels(type(error).__name__).inc()


JOB = "ledger-compactor"
"""The label `job` of the push; a later push replaces it."""
SUFFIX = ".prom"
PUSH_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class PushedMetrics:
    """Where the metrics of a pass go: to a file, a gateway, both or neither."""

    registry: "CollectorRegistry"
    file: Path | None = None
    gateway: str | None = None

    @contextmanager
    def left(self) -> Iterator[None]:
        """Leave the metrics behind at the end, however it comes.

        Raises:
            InvalidInput: the collector would not read the file, or its folder is missing.
            LedgerError: the file cannot be written, or the gateway does not accept the metrics.
        """
        metrics = CompactorMetrics.of(self.registry)
        metrics.scheduled.set(1)
        if self.file is not None:
            _check_file(self.file)
            metrics.last_success.set(_last_success_in(self.file))
        try:
            yield
        except BaseException:
            with suppress(LedgerError):  # the pending error says more
                self._leave()
            raise
        self._leave()

    def _leave(self) -> None:
        # Imported here, as everywhere: not every program needs the client library.
        from http.client import HTTPException  # noqa: PLC0415

        from prometheus_client import exposition  # noqa: PLC0415

        if self.file is not None:
            try:
                exposition.write_to_textfile(str(self.file), self.registry)
            except OSError as error:
                raise LedgerError(
                    f"{self.file} cannot be written: {error.strerror or error}"
                ) from None
        if self.gateway is not None:
            try:
                exposition.pushadd_to_gateway(
                    self.gateway, JOB, _WithoutFirst(self.registry), timeout=PUSH_SECONDS_MAX
                )
            except (OSError, ValueError, HTTPException) as error:
                raise LedgerError(
                    f"metrics cannot be pushed to {without_passwords(self.gateway)}:"
                    f" {without_passwords(str(error))}"
                ) from None


class _WithoutFirst:
    """A registry without the time of the last success if there is none: the former one stays."""

    def __init__(self, registry: "CollectorRegistry") -> None:
        self._registry = registry

    def collect(self) -> "Iterator[Metric]":
        return (
            family
            for family in self._registry.collect()
            if family.name != LAST_SUCCESS or any(sample.value for sample in family.samples)
        )


def _check_file(path: Path) -> None:
    if path.suffix != SUFFIX:
        raise InvalidInput(
            f"--metrics-file must end in {SUFFIX}, as the textfile collector requires, got {path}"
        )
    if not path.parent.is_dir():
        raise InvalidInput(f"--metrics-file {path}: there is no folder {path.parent}")


def _last_success_in(path: Path) -> float:
    """Return the time of the last success that an earlier pass left, 0 if none did."""
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

    try:
        for family in text_string_to_metric_families(path.read_text(encoding="utf-8")):
            if family.name == LAST_SUCCESS:
                return float(family.samples[0].value)
    except (OSError, ValueError, IndexError):  # missing, or not metrics: it is written again
        return 0.0
    return 0.0

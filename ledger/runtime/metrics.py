"""The ledger's metrics for Prometheus.

Names begin with `ledger_`, units are seconds, and every metric has the region. A host
application passes its own registry to `Metrics.of`; nothing is registered globally.
"""

import os
import threading
import weakref
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ledger.core.errors import InvalidInput, SettingsError
from ledger.runtime.budget_metrics import AGE_BUCKETS_SECONDS, BudgetMetrics

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric

LATENCY_BUCKETS_SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
"""From a request to a local engine to the default `write_deadline` of a call."""
PAGES_BUCKETS = (1, 2, 3, 5, 10, 20, 50, 100, 200)
"""The first is one page; each further page is up to 1 MB read."""
MULTIPROCESS_VARIABLES = ("PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir")
"""Where prometheus_client keeps the metrics of several processes; it still reads the latter."""
_WRITABLE = os.W_OK | os.X_OK
GROUP_BUCKETS = (1, 2, 5, 10, 15, 20, 25)
PARTS_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500)


HITS = "ledger_cache_hits_total", "Totals returned from the cache without a request.", ("region",)
AGES = (
    "ledger_cache_age_seconds",
    "Age of the totals returned from the cache, in seconds.",
    ("region",),
)


class CacheHits(ABC):
    """Counts the totals that a cache returns, by region, and their ages."""

    @abstractmethod
    def add(self, region: str, age_seconds: float) -> None:
        """Count a total of this age."""

    @abstractmethod
    def collect(self) -> "Iterator[Metric]":
        """Yield the counts as families of samples."""


class _Ages:
    """How many totals of a region were in each bucket, and the sum of their ages."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(AGE_BUCKETS_SECONDS) + 1)
        self.seconds = 0.0


class _CountedHits(CacheHits):
    """Plain numbers, which become samples when the registry is read.

    The client library would take as long to count a hit as the cache to find it. Source: its
    "Custom Collectors" (https://prometheus.github.io/client_python/collector/custom/).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # caches of other threads may share the registry
        self._of: dict[str, _Ages] = {}

    def add(self, region: str, age_seconds: float) -> None:
        """Count a total of this age."""
        with self._lock:
            ages = self._of.get(region)
            if ages is None:
                ages = self._of[region] = _Ages()
            ages.counts[bisect_left(AGE_BUCKETS_SECONDS, age_seconds)] += 1
            ages.seconds += age_seconds

    def collect(self) -> "Iterator[Metric]":
        """Yield the counts as families of samples."""
        from prometheus_client import core  # noqa: PLC0415 (as below)

        hits = core.CounterMetricFamily(*HITS[:2], labels=HITS[2])
        ages = core.HistogramMetricFamily(*AGES[:2], labels=AGES[2])
        bounds = [*map(str, AGE_BUCKETS_SECONDS), "+Inf"]
        with self._lock:
            for region, found in self._of.items():
                up_to = list(accumulate(found.counts))
                hits.add_metric([region], up_to[-1])
                buckets = list(zip(bounds, map(float, up_to), strict=True))
                ages.add_metric([region], buckets, found.seconds)
        yield from (hits, ages)

    describe = collect


class _LibraryHits(CacheHits):
    """Metrics of the client library, where it gathers those of several processes in files.

    It finds nothing else there. Source: https://prometheus.github.io/client_python/multiprocess/
    """

    def __init__(self, make: "MetricMaker") -> None:
        self._hits = make.counter(*HITS)
        self._ages = make.histogram(*AGES, buckets=AGE_BUCKETS_SECONDS)

    def add(self, region: str, age_seconds: float) -> None:
        """Count a total of this age."""
        self._hits.labels(region).inc()
        self._ages.labels(region).observe(age_seconds)

    def collect(self) -> "Iterator[Metric]":
        """Yield the counts as families of samples."""
        yield from (*self._hits.collect(), *self._ages.collect())


class MetricMaker:
    """Makes metrics in one registry, a private one if none is given."""

    def __init__(self, registry: "CollectorRegistry | None") -> None:
        # Imported here: the client library brings an HTTP server, which not every program needs.
        import prometheus_client as library  # noqa: PLC0415

        _check_multiprocess_folder(os.environ)
        self._library = library
        self._registry = library.CollectorRegistry() if registry is None else registry

    def cache_hits(self) -> CacheHits:
        """Make what counts hits of the cache."""
        if any(name in os.environ for name in MULTIPROCESS_VARIABLES):
            return _LibraryHits(self)
        hits = _CountedHits()
        self._registry.register(hits)
        return hits

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> "Counter":
        """Make a counter."""
        return self._library.Counter(name, text, labels, registry=self._registry)

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> "Gauge":
        """Make a gauge."""
        return self._library.Gauge(name, text, labels, registry=self._registry)

    def histogram(
        self, name: str, text: str, labels: Sequence[str] = (), *, buckets: Sequence[float]
    ) -> "Histogram":
        """Make a histogram."""
        return self._library.Histogram(name, text, labels, buckets=buckets, registry=self._registry)


def _check_multiprocess_folder(environment: Mapping[str, str]) -> None:
    """Refuse a folder for the metrics of several processes that cannot take them.

    The library neither makes it nor reports the variable: each metric would fail with the name of a
    file. Source: https://prometheus.github.io/client_python/multiprocess/

    Raises:
        SettingsError: it is not there, or cannot be written to.
    """
    for name in MULTIPROCESS_VARIABLES:
        folder = environment.get(name)
        if folder is None:
            continue
        # An empty text would be the current folder.
        if not (folder and Path(folder).is_dir() and os.access(folder, _WRITABLE)):
            raise SettingsError(
                f"{name} must name a folder that this process can write to, got {folder!r}: make"
                " it, or unset the variable"
            )


class RegistryMetrics(ABC):
    """Metrics in one registry: a private one of their own if none is given.

    Two of one kind in one registry would clash: parts that share a registry use `of`.
    """

    _shared: "ClassVar[weakref.WeakKeyDictionary[CollectorRegistry, Any]]"
    _shared_lock: ClassVar[threading.Lock]

    def __init_subclass__(cls) -> None:
        """Give each kind of metrics its own instances."""
        super().__init_subclass__()
        cls._shared = weakref.WeakKeyDictionary()
        cls._shared_lock = threading.Lock()

    def __init__(self, registry: "CollectorRegistry | None" = None) -> None:
        # The registry is not kept as an attribute: `of` holds registries weakly.
        self._define(MetricMaker(registry))

    @abstractmethod
    def _define(self, make: MetricMaker) -> None:
        """Make the metrics."""

    @classmethod
    def of(cls, registry: "CollectorRegistry | None") -> Self:
        """Return the one instance of a registry; a new one with its own registry for None.

        Raises:
            InvalidInput: it is not a registry of prometheus_client.
        """
        if registry is None:
            return cls()
        _check_registry(registry)
        with cls._shared_lock:
            found: Self | None = cls._shared.get(registry)
            if found is None:
                found = cls._shared[registry] = cls(registry)
            return found


def program_registry() -> "CollectorRegistry":
    """Return the registry of a program of ours.

    The client library adds to each counter and histogram when it was made, as one more series
    (`_created`), which nothing here reads. It is switched off for the whole process, so only our
    programs do so: what a user's program exposes is its own choice.
    """
    from prometheus_client import CollectorRegistry, disable_created_metrics  # noqa: PLC0415

    disable_created_metrics()  # type: ignore[no-untyped-call]
    return CollectorRegistry()


def _check_registry(registry: object) -> None:
    # Imported here, as above.
    from prometheus_client import CollectorRegistry  # noqa: PLC0415

    if not isinstance(registry, CollectorRegistry):
        raise InvalidInput(f"registry must be a CollectorRegistry, got {registry!r}")


class Metrics(RegistryMetrics, BudgetMetrics):
    """The ledger's metrics in one registry."""

    def _define(self, make: MetricMaker) -> None:
        self.writes: Counter = make.counter(
            "ledger_writes_total",
            "Changes written, by how the write ended.",
            ("region", "operation", "outcome"),
        )
        self.write_duration: Histogram = make.histogram(
            "ledger_write_duration_seconds",
            "Duration of one call that writes, tries included, in seconds.",
            ("region", "operation"),
            buckets=LATENCY_BUCKETS_SECONDS,
        )
        self.group_entries: Histogram = make.histogram(
            "ledger_group_entries",
            "Entries written by one request on behalf of calls made at the same time.",
            ("region",),
            buckets=GROUP_BUCKETS,
        )
        self.parts: Histogram = make.histogram(
            "ledger_parts",
            "Changes of calls made at the same time that share an item, in each such item.",
            ("region",),
            buckets=PARTS_BUCKETS,
        )
        self.queued: Gauge = make.gauge(
            "ledger_queued_entries",
            "Entries that waited to be sent at the last observation.",
            ("region",),
        )
        # Looked up at each request: `labels` takes a lock, and time.
        self._writes_of = cache(self.writes.labels)
        self._duration_of = cache(self.write_duration.labels)
        self._group_entries_of = cache(self.group_entries.labels)
        self._parts_of = cache(self.parts.labels)
        self._queued_of = cache(self.queued.labels)
        self._define_cache(make)
        self._define_reads(make)
        self._define_requests(make)
        self._define_hints(make)
        self._define_budgets(make)

    def _define_cache(self, make: MetricMaker) -> None:
        self.cache_hits: CacheHits = make.cache_hits()
        self.cache_misses: Counter = make.counter(
            "ledger_cache_misses_total",
            "Totals that had to be read from the table.",
            ("region",),
        )
        self.cache_shared: Counter = make.counter(
            "ledger_cache_shared_total",
            "Totals that waited for a read which another call had begun.",
            ("region",),
        )
        self.cache_counters: Gauge = make.gauge(
            "ledger_cache_counters",
            "Counters whose total the cache holds now.",
            ("region",),
        )
        self._cache_misses_of = cache(self.cache_misses.labels)
        self._cache_shared_of = cache(self.cache_shared.labels)
        self._cache_counters_of = cache(self.cache_counters.labels)

    def _define_reads(self, make: MetricMaker) -> None:
        self.read_duration: Histogram = make.histogram(
            "ledger_read_duration_seconds",
            "Duration of reading one total from the table, restarts included, in seconds.",
            ("region",),
            buckets=LATENCY_BUCKETS_SECONDS,
        )
        self.read_pages: Histogram = make.histogram(
            "ledger_read_pages",
            "Pages of up to 1 MB that one total was read from, over all shards.",
            ("region",),
            buckets=PAGES_BUCKETS,
        )
        self.read_restarts: Counter = make.counter(
            "ledger_read_restarts_total",
            "Reads begun again because their pages took longer than read_deadline.",
            ("region",),
        )
        self._read_duration_of = cache(self.read_duration.labels)
        self._read_pages_of = cache(self.read_pages.labels)

    def _define_requests(self, make: MetricMaker) -> None:
        self.consumed_units: Counter = make.counter(
            "ledger_consumed_units_total",
            "Write and read units that the requests cost by DynamoDB's documented rules.",
            ("region", "operation", "kind"),
        )
        self._units_of = cache(self.consumed_units.labels)
        self.retries: Counter = make.counter(
            "ledger_retries_total",
            "Requests sent again, by the cause.",
            ("region", "operation", "cause"),
        )
        self.errors: Counter = make.counter(
            "ledger_errors_total",
            "Errors raised to the caller, by kind.",
            ("region", "kind"),
        )
        self.clock_offsets: Gauge = make.gauge(
            "ledger_clock_offset_seconds",
            "By how much this machine's clock is ahead of the region's, by the Date of its answers;"
            " to half a second.",
            ("region",),
        )

    def _define_hints(self, make: MetricMaker) -> None:
        self.hints: Counter = make.counter(
            "ledger_hints_total",
            "Hints to the compactor that a counter may need merging: left, or dropped.",
            ("region", "outcome"),
        )
        self.crossings: Counter = make.counter(
            "ledger_crossings_total",
            "Crossings of a watch that this process has delivered, repeated deliveries included.",
            ("region", "watch"),
        )

        self.book_transfers: Counter = make.counter(
            "ledger_book_transfers_total",
            "Transfers, by the contract's pattern of their book and by outcome: applied, repeated,"
            " refused, unknown or failed.",
            ("region", "pattern", "outcome"),
        )

    def write(self, region: str, operation: str, outcome: str, count: int, seconds: float) -> None:
        """Record the end of one call that wrote `count` changes."""
        self._writes_of(region, operation, outcome).inc(count)
        self._duration_of(region, operation).observe(seconds)

    def group(self, region: str, entries: int, queued: int, parts: Iterable[int]) -> None:
        """Count one request of a group of calls, and how many entries wait behind it.

        `parts` are the numbers of changes of those of its items that calls share.
        """
        self._group_entries_of(region).observe(entries)
        self._queued_of(region).set(queued)
        for count in parts:
            self._parts_of(region).observe(count)

    def read(self, region: str, *, pages: int, restarts: int, seconds: float) -> None:
        """Count one total read from the table."""
        self._read_duration_of(region).observe(seconds)
        self._read_pages_of(region).observe(pages)
        if restarts:
            self.read_restarts.labels(region).inc(restarts)

    def consumed(self, region: str, operation: str, kind: str, units: float) -> None:
        """Record the units of one request; `kind` is "read" or "write"."""
        self._units_of(region, operation, kind).inc(units)

    def retry(self, region: str, operation: str, cause: str) -> None:
        """Count one repeated request."""
        self.retries.labels(region, operation, cause).inc()

    def error(self, region: str, error: BaseException) -> None:
        """Record an error raised to the caller; its kind is the name of its class."""
        self.errors.labels(region, type(error).__name__).inc()

    def clock_offset(self, region: str, seconds: float) -> None:
        """Record how far this machine's clock is ahead of a region's."""
        self.clock_offsets.labels(region).set(seconds)

    def hinted(self, region: str, outcome: str, count: int = 1) -> None:
        """Count hints to the compactor; `outcome` is "left" or "dropped"."""
        if count:
            self.hints.labels(region, outcome).inc(count)

    def watched(self, region: str, watch: str) -> None:
        """Start the count of a watch's crossings at 0, so that an increase shows the first."""
        self.crossings.labels(region, watch)

    def crossed(self, region: str, watch: str) -> None:
        """Count one delivery of a crossing."""
        self.crossings.labels(region, watch).inc()

    def transferred(self, region: str, pattern: str, outcome: str, count: int = 1) -> None:
        """Count transfers; they were applied, repeated, refused, unknown, or failed."""
        self.book_transfers.labels(region, pattern, outcome).inc(count)

    def cache_miss(self, region: str, count: int = 1) -> None:
        """Record totals that the cache did not have, or not recent enough."""
        self._cache_misses_of(region).inc(count)

    def cache_share(self, region: str, count: int = 1) -> None:
        """Record calls that waited for another call's read."""
        self._cache_shared_of(region).inc(count)

    def cache_size(self, region: str, counters: int) -> None:
        """Record how many counters the cache holds."""
        self._cache_counters_of(region).set(counters)


def summed(registry: "CollectorRegistry", name: str, **labels: str) -> float:
    """Return the sum of a registry's samples of this name that have these labels."""
    return sum(
        sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )

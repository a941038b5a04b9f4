"""The pipeline's metrics for Prometheus; names begin with `ledger_pipeline_`."""

from typing import TYPE_CHECKING

from ledger.runtime.metrics import MetricMaker, RegistryMetrics

if TYPE_CHECKING:
    from prometheus_client import Counter, Gauge, Histogram

BATCH_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
_LABELS = ("region", "stage")


class PipelineMetrics(RegistryMetrics):
    """The pipeline's metrics in one registry.

    `stage` is state, map or reduce. What comes in and goes out are records and changed records in
    state, changed records and map items in map, map items and ledger entries in reduce.
    """

    def _define(self, make: MetricMaker) -> None:
        self.taken: Counter = make.counter(
            "ledger_pipeline_in_total", "What came into a stage.", _LABELS
        )
        self.given: Counter = make.counter(
            "ledger_pipeline_out_total", "What a stage made of it.", _LABELS
        )
        self.left_out: Counter = make.counter(
            "ledger_pipeline_left_out_total",
            "What changed nothing: duplicate, stale or dead (kept as a dead letter).",
            (*_LABELS, "reason"),
        )
        self.retried: Counter = make.counter(
            "ledger_pipeline_retried_total",
            "Requests made again, after a failure or because another was faster.",
            _LABELS,
        )
        self.restarts: Counter = make.counter(
            "ledger_pipeline_restarts_total",
            "Times that a lane restarted at its committed position, by cause.",
            ("region", "lane", "cause"),
        )
        self.batch: Histogram = make.histogram(
            "ledger_pipeline_batch_size",
            "What one batch of a stage held.",
            _LABELS,
            buckets=BATCH_BUCKETS,
        )
        self.lag: Gauge = make.gauge(
            "ledger_pipeline_lag_seconds",
            "Age of the oldest record read that no total shows yet, in seconds; 0 if none.",
            ("region", "lane"),
        )
        self.left_bytes: Gauge = make.gauge(
            "ledger_pipeline_lag_bytes",
            "Bytes of a lane's file that no total shows yet; not of compressed files.",
            ("region", "lane"),
        )
        self.left_records: Gauge = make.gauge(
            "ledger_pipeline_lag_records",
            "Offsets of a lane's Kafka partition that no total shows yet.",
            ("region", "lane"),
        )
        self.behind: Gauge = make.gauge(
            "ledger_pipeline_lag_source_seconds",
            "By how much reading is behind the end of a lane's Kinesis shard, in seconds.",
            ("region", "lane"),
        )


class StageMetrics:
    """The metrics of one stage in one region."""

    def __init__(self, metrics: PipelineMetrics, region: str, stage: str) -> None:
        self._labels = region, stage
        self._metrics = metrics
        self._taken = metrics.taken.labels(*self._labels)
        self._given = metrics.given.labels(*self._labels)
        self._retried = metrics.retried.labels(*self._labels)
        self._batch = metrics.batch.labels(*self._labels)

    def batch(self, *, taken: int, given: int) -> None:
        """Record a batch that is through."""
        self._taken.inc(taken)
        self._given.inc(given)
        self._batch.observe(taken)

    def leave_out(self, reason: str, count: int = 1) -> None:
        """Count what changed nothing."""
        if count:
            self._metrics.left_out.labels(*self._labels, reason).inc(count)

    def retry(self, _operation: str = "", _cause: str = "") -> None:
        """Record a request made again, as a `Retrier` does."""
        self._retried.inc()

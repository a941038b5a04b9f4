"""Metrics of requests to the archive's places, and of where segments were found."""

from functools import cache

from ledger.runtime.metrics import MetricMaker, RegistryMetrics

DURATION_BUCKETS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""From a local folder to the read timeout of S3's client."""
DONE = "done"
CACHE, PLACE, DAMAGED = "cache", "place", "damaged"
"""Where a segment was found; damaged if no place has it as its pointer says."""


class ArchiveMetrics(RegistryMetrics):
    """The archive's metrics in one registry, of readers and of the compactor."""

    def _define(self, make: MetricMaker) -> None:
        self.requests = make.counter(
            "ledger_archive_requests_total",
            "Requests to places of the archive, by outcome: done, or the reason.",
            ("region", "place", "operation", "outcome"),
        )
        self.bytes = make.counter(
            "ledger_archive_bytes_total",
            "Bytes of objects that were put in a place of the archive, or read from it.",
            ("region", "place", "operation"),
        )
        self.duration = make.histogram(
            "ledger_archive_duration_seconds",
            "Duration of one request to a place of the archive, in seconds.",
            ("region", "place", "operation"),
            buckets=DURATION_BUCKETS_SECONDS,
        )
        self.segments = make.counter(
            "ledger_archive_segments_total",
            "Segments read: from the cache, from a place, or damaged (or missing) in every place.",
            ("region", "source"),
        )
        # Looked up at each request: `labels` takes a lock, and time.
        self._requests_of = cache(self.requests.labels)
        self._bytes_of = cache(self.bytes.labels)
        self._duration_of = cache(self.duration.labels)
        self._segments_of = cache(self.segments.labels)

    def asked(
        self, region: str, place: str, operation: str, *, outcome: str = DONE, seconds: float
    ) -> None:
        """Record the end of one request."""
        self._requests_of(region, place, operation, outcome).inc()
        self._duration_of(region, place, operation).observe(seconds)

    def moved(self, region: str, place: str, operation: str, size: int) -> None:
        """Count the bytes of an object that was put or read."""
        self._bytes_of(region, place, operation).inc(size)

    def segment(self, region: str, source: str) -> None:
        """Count a segment by where it was found."""
        self._segments_of(region, source).inc()

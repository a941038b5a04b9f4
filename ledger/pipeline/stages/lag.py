"""How far a lane is behind: the age of the oldest record that was read and is in no total yet.

It grows for as long as a batch is held up, whatever holds it up, and is 0 once all that was read
is counted. A record's age is by its own time, else by when it came to its source or was read.

Beside the age stands what the source says lies after the last position that the totals show: bytes
of a file, records of a partition, or, of a shard, seconds by which reading is behind.
"""

from collections import deque
from datetime import datetime

from ledger.pipeline.metrics import PipelineMetrics
from ledger.pipeline.sources.source import Measured
from ledger.runtime.clock import Clock


class Lag:
    """The lag of one lane, as a gauge that is computed whenever it is read."""

    def __init__(
        self,
        metrics: PipelineMetrics,
        region: str,
        lane: str,
        clock: Clock,
        source: object = None,
    ) -> None:
        self._clock = clock
        self._batches: deque[tuple[datetime, str]] = deque()
        self._metrics = metrics
        self._labels = region, lane
        self._source = source
        self._shown = ""
        metrics.lag.labels(region, lane).set_function(self.seconds)

    def begin(self, position: str = "") -> None:
        """Forget the batches of an earlier beginning: they are read again, after a position."""
        self._batches.clear()
        self._shown = position
        self._measure()

    def read(self, first: datetime | None, upto: str) -> None:
        """Note a batch that was read up to a position, by the time of its first record."""
        self._batches.append((first or self._clock.now(), upto))

    def counted(self, upto: str) -> None:
        """Note that the totals show all up to a position; of a batch in parts that may be one."""
        self._shown = upto
        while self._batches and self._batches[0][1] <= upto:
            self._batches.popleft()

    def seconds(self) -> float:
        """Return the lag now; 0 for a record whose time is in the future."""
        try:
            oldest, _ = self._batches[0]
        except IndexError:  # emptied meanwhile, by another thread than the scrape's
            return 0.0
        return max(0.0, (self._clock.now() - oldest).total_seconds())

    def _measure(self) -> None:
        """Have each scrape show the source's own lag, in the gauge of its unit."""
        source = self._source
        if isinstance(source, Measured) and (unit := source.lag_unit) is not None:
            gauge = {
                "bytes": self._metrics.left_bytes,
                "records": self._metrics.left_records,
                "seconds": self._metrics.behind,
            }[unit]
            gauge.labels(*self._labels).set_function(lambda: source.lag_after(self._shown))

"""How far a lane is behind: the age of the oldest record that was read and is in no total yet.

It grows for as long as a batch is held up, whatever holds it up, and is 0 once all that was read
is counted. A record's age is by its own time, else by when it came to its source or was read.
"""

from collections import deque
from datetime import datetime

from ledger.pipeline.metrics import PipelineMetrics
from ledger.runtime.clock import Clock


class Lag:
    """The lag of one lane, as a gauge that is computed whenever it is read."""

    def __init__(self, metrics: PipelineMetrics, region: str, lane: str, clock: Clock) -> None:
        self._clock = clock
        self._batches: deque[tuple[datetime, str]] = deque()
        metrics.lag.labels(region, lane).set_function(self.seconds)

    def begin(self) -> None:
        """Forget the batches of an earlier beginning: they are read again."""
        self._batches.clear()

    def read(self, first: datetime | None, upto: str) -> None:
        """Note a batch that was read up to a position, by the time of its first record."""
        self._batches.append((first or self._clock.now(), upto))

    def counted(self, upto: str) -> None:
        """Note that the totals show all up to a position; of a batch in parts that may be one."""
        while self._batches and self._batches[0][1] <= upto:
            self._batches.popleft()

    def seconds(self) -> float:
        """Return the lag now; 0 for a record whose time lies ahead."""
        try:
            oldest, _ = self._batches[0]
        except IndexError:  # emptied meanwhile, by another thread than the scrape's
            return 0.0
        return max(0.0, (self._clock.now() - oldest).total_seconds())

"""Latencies of any number of calls in bounded memory.

Pure: no clock, no randomness, no I/O.
"""

import math
from array import array

_SHORTEST_SECONDS = 1e-6
_BUCKETS_PER_E_FOLD = 50
"""Each bucket is 2 % wider than the one before."""
_BUCKETS = 1_250
"""From a microsecond to most of a day."""


class LatencyRecorder:
    """Counts latencies in buckets of 2 %; the worst is kept exactly."""

    def __init__(self) -> None:
        self.worst = 0.0
        """The longest in seconds; 0 without any."""
        self._counts = array("Q", bytes(8 * _BUCKETS))
        self._log = math.log

    @property
    def p50(self) -> float:
        """The median in seconds."""
        return self.quantile(0.5)

    @property
    def p99(self) -> float:
        """The seconds that 99 in 100 calls took at most."""
        return self.quantile(0.99)

    def add(self, seconds: float, count: int = 1) -> None:
        """Record that `count` calls took this long; a negative duration counts as 0."""
        seconds = max(seconds, 0.0)
        bucket = int(self._log(seconds / _SHORTEST_SECONDS + 1) * _BUCKETS_PER_E_FOLD)
        self._counts[min(bucket, _BUCKETS - 1)] += count
        self.worst = max(self.worst, seconds)

    def quantile(self, share: float) -> float:
        """Return the seconds that this share of the calls took at most; 0 without any."""
        left = share * sum(self._counts)
        for bucket, count in enumerate(self._counts):
            left -= count
            if left <= 0 < count:
                middle = _SHORTEST_SECONDS * math.expm1((bucket + 0.5) / _BUCKETS_PER_E_FOLD)
                return min(middle, self.worst)
        return 0.0

"""How long messages took, as counts by the millisecond: bounded, and exact to one.

Pure: no clock, no randomness, no I/O.
"""

from collections import Counter


class Latencies:
    """Times of many messages."""

    def __init__(self) -> None:
        self.count = 0
        self._counts: Counter[int] = Counter()

    def add(self, seconds: float, count: int = 1) -> None:
        """Note what so many messages took."""
        self._counts[max(0, round(seconds * 1000))] += count
        self.count += count

    def at(self, share: float) -> float:
        """Return the seconds within which this share of the messages was through; 0 for none."""
        wanted, seen, milliseconds = share * self.count, 0, 0
        for milliseconds in sorted(self._counts):
            seen += self._counts[milliseconds]
            if seen >= wanted:
                break
        return milliseconds / 1000

"""How often a lane reads an endless source: seldom enough that records share costs.

A batch costs units of its own, for its commit and for each category that it changes. Of a source
that hands over whatever has come, a few records at a time, batches would cost more than their
records. So the next read waits until about `TOGETHER` records have come, by the rate of the last
ones, for `longest` seconds at most.

Pure: no clock, no randomness, no I/O.
"""

TOGETHER = 120
"""Records of a batch that are waited for."""
WAIT_TIMES = 4
"""How many times as long batches are gathered for a reduce."""


class ReadPace:
    """The pace of one lane, which began to read `at` this time."""

    def __init__(self, longest: float, *, at: float) -> None:
        self._longest = longest
        self._since = at
        self._at = at
        self._records = 0

    def read(self, records: int, *, at: float) -> None:
        """Take in that a read gave records at this time."""
        self._records += records
        self._at = at

    def next(self) -> float:
        """Return when to read next, after a read that gave all that had come."""
        passed, records = self._at - self._since, self._records
        self._since, self._records = self._at, 0
        return self._at + min(self._longest, passed * TOGETHER / max(1, records))

"""How often a waiting contender looks at a lease, so that a crowd does not look all at once.

::

    released       x
    contenders   |   | |    |      |   |     each at its own moment: few look between the
    the next          take ─ lands           first one's look and the landing of its write

Each contender draws its pauses, so contenders that began together do not stay together. Of those
that see a free lease before the first of them has it, one gets it, and the others' writes are
rejected at the price of a write; each of these then looks half as often, as long as the lease
changes hands, up to `SLOWER_MAX`.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass

SHORTEST_SHARE = 0.5
"""The shortest pause, as a share of the longest."""
SLOWER_MAX = 4.0


@dataclass(slots=True)
class PollPace:
    """The pauses of one contender; `slower` is by how much they are stretched."""

    poll_seconds: float
    slower: float = 1.0
    _epoch: int | None = None

    def looked(self, epoch: int | None) -> None:
        """Take in the epoch that a look showed: one that stays the same ends the rush."""
        if epoch is not None and epoch == self._epoch:
            self.slower = max(1.0, self.slower / 2)
        self._epoch = epoch

    def beaten(self) -> None:
        """Take in that another took the lease between our look and our write."""
        self.slower = min(SLOWER_MAX, self.slower * 2)

    def pause_seconds(self, draw: float) -> float:
        """Return the next pause; `draw` is random, from 0 to under 1."""
        longest = self.poll_seconds * self.slower
        return longest * (SHORTEST_SHARE + (1 - SHORTEST_SHARE) * draw)

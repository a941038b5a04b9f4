"""Which counters are written and read: a few at a time, the next once one is full; pure.

A counter tells up to 36 changes apart; over time there are many. Every fourth lies in two shards.
"""

from random import Random

from ledger.chaos.judge import Place
from ledger.digits import CHANGES_MAX

OPEN_COUNTERS = 8
RECENT_COUNTERS = 40
RECENT_SHARE = 0.85
"""Of the reads: where merging goes on."""
WIDE_EVERY = 4
SHARDS = {"wide-*": 2}


class Counters:
    """Hands out changes to be made, and counters to be read."""

    def __init__(self, random: Random) -> None:
        self.names: list[str] = []
        self._random = random
        self._open: dict[str, int] = {}

    def take(self, changes: int) -> tuple[Place, ...]:
        """Return this many changes that nobody has made yet."""
        return tuple(self._next() for _ in range(changes))

    def to_read(self) -> str:
        """Return a counter to be read, most often one of the latest."""
        if not self.names:
            self._fill()
        recent = self._random.random() < RECENT_SHARE
        return self._random.choice(self.names[-RECENT_COUNTERS:] if recent else self.names)

    def _next(self) -> Place:
        self._fill()
        counter = self._random.choice(list(self._open))
        number = self._open[counter]
        self._open[counter] += 1
        if self._open[counter] == CHANGES_MAX:
            del self._open[counter]
        return counter, number

    def _fill(self) -> None:
        while len(self._open) < OPEN_COUNTERS:
            place = len(self.names)
            name = f"{'plain' if place % WIDE_EVERY else 'wide'}-{place:04d}"
            self.names.append(name)
            self._open[name] = 0

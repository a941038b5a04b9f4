"""Which counters are written and read: a few at a time, the next once one is full.

A counter has up to 36 changes; over time there are many. By its name a counter has two shards
(`wide`), or changes of it that wait together become one entry (`busy`).
"""

from random import Random

from ledger.demo.harness.digit_tags import CHANGES_MAX, TaggedChange

OPEN_COUNTERS = 8
RECENT_COUNTERS = 40
RECENT_SHARE = 0.85
"""Of the reads: where merging goes on."""
NAMES = ("wide", "plain", "busy", "plain")
SHARDS = {"wide-*": 2}
COMBINED = ("busy-*",)


class Counters:
    """Hands out changes to be made, and counters to be read."""

    def __init__(self, random: Random) -> None:
        self.names: list[str] = []
        self._random = random
        self._open: dict[str, int] = {}

    def take(self, changes: int) -> tuple[TaggedChange, ...]:
        """Return this many changes that were not made before."""
        return tuple(self._next() for _ in range(changes))

    def take_of_one(self, changes: int) -> tuple[TaggedChange, ...]:
        """Return up to this many changes of one counter that were not made before."""
        first = self._next()
        places = [first]
        while len(places) < changes and first[0] in self._open:
            places.append(self._number(first[0]))
        return tuple(places)

    def to_read(self, recent: int = RECENT_COUNTERS) -> str:
        """Return a counter to be read, most often one of the latest so many."""
        if not self.names:
            self._fill()
        is_recent = self._random.random() < RECENT_SHARE
        return self._random.choice(self.names[-recent:] if is_recent else self.names)

    def _next(self) -> TaggedChange:
        self._fill()
        return self._number(self._random.choice(list(self._open)))

    def _number(self, counter: str) -> TaggedChange:
        number = self._open[counter]
        self._open[counter] += 1
        if self._open[counter] == CHANGES_MAX:
            del self._open[counter]
        return counter, number

    def _fill(self) -> None:
        while len(self._open) < OPEN_COUNTERS:
            place = len(self.names)
            name = f"{NAMES[place % len(NAMES)]}-{place:04d}"
            self.names.append(name)
            self._open[name] = 0

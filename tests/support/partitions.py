"""A table's partitions, second by second: what each takes, what is throttled, and where it splits.

As AWS describes them: a partition takes 1,000 write units a second, what it left unused in the last
five minutes comes on top, and one that is busy for long splits by its keys' hashes; a single key
never does. A new table has four. Sources: Amazon DynamoDB Developer Guide, "Burst and adaptive
capacity", "DynamoDB on-demand capacity mode".
"""

from bisect import bisect_right
from collections.abc import Mapping
from random import Random

CAPACITY = 1_000.0
BURST_SECONDS = 300.0
BUSY_SECONDS = 120
"""A partition that throttles for so long splits."""


class Partitions:
    """Keys lie at random places; a partition has those from one bound to the next."""

    def __init__(self, keys: Mapping[str, float], randomness: Random, *, count: int = 4) -> None:
        self.asked = 0.0
        self.throttled = 0.0
        self._places = sorted((randomness.random(), units) for units in keys.values())
        self._bounds = [number / count for number in range(count)]
        self._spare = [0.0] * count
        self._busy = [0] * count

    @property
    def count(self) -> int:
        """How many partitions there are by now."""
        return len(self._bounds)

    def run(self, seconds: int) -> float:
        """Let time pass; return the share of units that was throttled in it."""
        asked, throttled = self.asked, self.throttled
        for _ in range(seconds):
            self._second()
        return (self.throttled - throttled) / (self.asked - asked)

    def _second(self) -> None:
        for place, load in enumerate(self._loads()):
            self.asked += load
            room = CAPACITY + self._spare[place]
            self.throttled += max(0.0, load - room)
            left = max(0.0, room - load)
            self._spare[place] = min(left, CAPACITY * BURST_SECONDS)
            self._busy[place] = self._busy[place] + 1 if load > room else 0
        for place in reversed(range(self.count)):
            if self._busy[place] >= BUSY_SECONDS:
                self._split(place)

    def _loads(self) -> list[float]:
        loads = [0.0] * self.count
        for hashed, units in self._places:
            loads[bisect_right(self._bounds, hashed) - 1] += units
        return loads

    def _split(self, place: int) -> None:
        first = self._bounds[place]
        last = self._bounds[place + 1] if place + 1 < self.count else 1.0
        own = [hashed for hashed, _ in self._places if first <= hashed < last]
        self._busy[place] = 0
        if len(own) < 2:
            return
        middle = own[len(own) // 2]
        self._bounds.insert(place + 1, middle)
        self._spare.insert(place + 1, 0.0)
        self._busy.insert(place + 1, 0)

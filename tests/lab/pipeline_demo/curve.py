"""Throughput, latency and backlog of a run over time, and whether its rate was held.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

MEAN_SECONDS = 20
"""Throughput and latency are means of so many seconds, as of the published pipeline."""
HELD_SECONDS_MIN = 6
"""Of a shorter run is not said whether it held its rate."""
GROWTH_SECONDS_MAX = 0.25
"""Of the rate: by so much the backlog may grow from the second third of a run to the last."""
SENT_SHARE_MIN = 0.98
"""Of the messages that were due, those that the producer must have sent."""


@dataclass(slots=True)
class _Second:
    sent: int = 0
    counted: int = 0
    latency: float = 0.0
    worst: float = 0.0


@dataclass(frozen=True, slots=True)
class Point:
    """One second of a run: latencies are of the messages that were counted in it.

    `throughput` and `latency` are means over the last `MEAN_SECONDS`; a latency is None where
    nothing was counted. `backlog` is what was sent and not counted at the end of the second.
    """

    second: int
    sent: int
    counted: int
    backlog: int
    worst: float
    throughput: float
    latency: float | None


class Curve:
    """Takes down what happens in each second of a run; takes memory by seconds, not messages."""

    def __init__(self) -> None:
        self._seconds: list[_Second] = []

    def send(self, messages: int, *, at: float) -> None:
        """Record messages that were sent, so many seconds after the beginning."""
        self._at(at).sent += messages

    def count(self, messages: int, *, at: float, latency: float) -> None:
        """Record messages that were counted after the beginning, each of this latency."""
        second = self._at(at)
        second.counted += messages
        second.latency += messages * latency
        second.worst = max(second.worst, latency)

    def points(self) -> list[Point]:
        """Return all seconds in order."""
        found, backlog = [], 0
        for place, one in enumerate(self._seconds):
            backlog += one.sent - one.counted
            last = self._seconds[max(0, place + 1 - MEAN_SECONDS) : place + 1]
            counted = sum(second.counted for second in last)
            latency = sum(second.latency for second in last)
            found.append(
                Point(
                    *(place, one.sent, one.counted, backlog, one.worst),
                    throughput=counted / len(last),
                    latency=latency / counted if counted else None,
                )
            )
        return found

    def _at(self, seconds: float) -> _Second:
        place = max(0, int(seconds))
        while len(self._seconds) <= place:
            self._seconds.append(_Second())
        return self._seconds[place]


def is_held(points: Sequence[Point], *, rate: float, seconds: float) -> bool | None:
    """Return whether a rate was held for the seconds of sending: the backlog did not grow.

    Its mean over the last third is at most `GROWTH_SECONDS_MAX` of the rate above that of the
    second third, and the producer sent what was due. None if it was too short to say.
    """
    whole = points[: int(seconds)]
    if len(whole) < HELD_SECONDS_MIN:
        return None
    third = len(whole) // 3
    before = fmean(point.backlog for point in whole[-2 * third : -third])
    last = fmean(point.backlog for point in whole[-third:])
    sent = sum(point.sent for point in whole)
    grows = last - before > rate * GROWTH_SECONDS_MAX
    return not grows and sent >= rate * len(whole) * SENT_SHARE_MIN

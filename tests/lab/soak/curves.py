"""What is measured over time: latencies, results, memory, by intervals of the run.

Pure: no clock, no randomness, no I/O.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from lab.harness.latency import LatencyRecorder

Sample = tuple[float, int]
"""A moment of the run in seconds, and bytes."""
QUARTERS = 4
FAILED = "500"
"""From here on, in the order of text, a result is no answer: words come after digits."""


@dataclass(slots=True)
class Interval:
    """A part of the run: calls by kind with their latencies, and attempts by result.

    A latency counts from when the call was due to its end, with all its attempts.
    """

    latencies: Mapping[str, LatencyRecorder] = field(
        default_factory=lambda: {"write": LatencyRecorder(), "read": LatencyRecorder()}
    )
    calls: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    attempts: Counter[str] = field(default_factory=Counter)

    @property
    def failed(self) -> Counter[str]:
        """The attempts that were not answered, or by a failure of the server."""
        return Counter({name: many for name, many in self.attempts.items() if name >= FAILED})


@dataclass(frozen=True, slots=True)
class Growth:
    """The memory of a process: means of the first and of the last quarter of the run, and peak."""

    first_bytes: float
    last_bytes: float
    peak_bytes: int
    restarts: int

    @property
    def share(self) -> float:
        """By which part it grew."""
        return self.last_bytes / self.first_bytes - 1


class Curves:
    """The measurements of one run, in intervals of so many seconds."""

    def __init__(self, interval_seconds: float) -> None:
        self.interval_seconds = interval_seconds
        self.intervals: list[Interval] = []
        self.memory: dict[str, list[Sample]] = defaultdict(list)

    def at(self, seconds: float) -> Interval:
        """Return the interval of a moment of the run."""
        place = int(seconds / self.interval_seconds)
        while len(self.intervals) <= place:
            self.intervals.append(Interval())
        return self.intervals[place]

    def growth(self, starts: Mapping[str, int]) -> Mapping[str, Growth]:
        """Return how the memory of each process grew; `starts` says how often each was started."""
        return {
            name: growth_of(samples, starts.get(name, 1) - 1)
            for name, samples in self.memory.items()
            if samples
        }


def growth_of(samples: Sequence[Sample], restarts: int = 0) -> Growth:
    """Return how the memory of a process grew from the first quarter of its samples' time on."""
    begins, ends = samples[0][0], samples[-1][0]
    quarter = (ends - begins) / QUARTERS
    return Growth(
        fmean(size for at, size in samples if at <= begins + quarter),
        fmean(size for at, size in samples if at >= ends - quarter),
        max(size for _, size in samples),
        restarts,
    )

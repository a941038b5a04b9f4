"""What a case measures in its own process: time, processor time, latencies, memory.

It reads clocks, and the kernel's figures of this process.
"""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from time import perf_counter, process_time

from lab.harness.latency import LatencyRecorder

_STATM = Path("/proc/self/statm")
"""The kernel's figures in pages; the second is what is resident."""
_KILOBYTE = 1024
SAMPLE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Measured:
    """One round of one case. `work` is changes written, or entries read."""

    work: int
    calls: int
    seconds: float
    cpu_seconds: float
    p50_seconds: float
    p99_seconds: float
    requests: int = 0
    items: int = 0
    units: float = 0.0
    """Of DynamoDB, as charged in one region: write units of writes, read units of reads."""
    stub_cpu_seconds: float = 0.0
    rejected: int = 0
    """Calls that were offered and not begun."""
    extra: dict[str, float] = field(default_factory=dict)
    """Further figures of the case, by name."""


class Meter:
    """Counts calls; `begin` starts a window of time, while the sum covers all windows.

    `now` tells the seconds, by default real ones.
    """

    def __init__(self, now: Callable[[], float] = perf_counter) -> None:
        self.now = now
        self.amount = 0
        """Sum of all acknowledged changes, inside windows and outside."""
        self.changes = 0
        """How many of them."""
        self.begin()

    def begin(self) -> None:
        """Start a window: time and latencies from now on."""
        self.calls = self.rejected = 0
        self.latencies = LatencyRecorder()
        self._changes_before = self.changes
        self._cpu_before = process_time()
        self._before = self.now()

    def note(self, seconds: float, changes: int, amount: int) -> None:
        """Count one acknowledged call."""
        self.calls += 1
        self.changes += changes
        self.amount += amount
        self.latencies.add(seconds)

    def end(self) -> Measured:
        """Return what the window measured, without the figures of the endpoint."""
        seconds, cpu_seconds = self.now() - self._before, process_time() - self._cpu_before
        return Measured(
            work=self.changes - self._changes_before,
            calls=self.calls,
            seconds=seconds,
            cpu_seconds=cpu_seconds,
            p50_seconds=self.latencies.p50,
            p99_seconds=self.latencies.p99,
            rejected=self.rejected,
        )


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """Sample this process's memory from a thread until the block ends; yields its peak in bytes."""
    peak, ended = [memory_bytes()], Event()

    def watch() -> None:
        while not ended.wait(SAMPLE_SECONDS):
            peak[0] = max(peak[0], memory_bytes())

    watching = Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield peak
    finally:
        ended.set()
        watching.join()


def memory_bytes() -> int:
    """Return the resident memory of this process; on systems other than Linux, its peak so far."""
    try:
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KILOBYTE

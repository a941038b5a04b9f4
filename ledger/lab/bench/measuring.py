"""What a case measures in its own process: time, processor time, latencies, memory.

It reads clocks, and what the kernel tells of this process.
"""

import math
import resource
from array import array
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
_KILOBYTE = 1024
_SHORTEST_SECONDS = 1e-6
_BUCKETS_PER_E_FOLD = 50
"""Each bucket is 2 % wider than the one before."""
_BUCKETS = 1_250
"""From a microsecond to most of a day."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One round of one case. `work` is changes written, or entries read."""

    work: int
    calls: int
    seconds: float
    cpu_seconds: float
    p50_seconds: float
    p99_seconds: float
    memory_bytes: int
    """Growth of the peak resident memory over what it was when the round began."""
    requests: int = 0
    units: float = 0.0
    """Of DynamoDB, as charged in one region: write units of writes, read units of reads."""
    stub_cpu_seconds: float = 0.0
    extra: dict[str, float] = field(default_factory=dict)
    samples: dict[str, list[float]] = field(default_factory=dict)
    """Series over time, by name."""


class Latencies:
    """Counts of latencies in buckets of 2 %: the same memory for ten calls and for a billion."""

    def __init__(self) -> None:
        self._counts = array("Q", bytes(8 * _BUCKETS))
        self._log = math.log

    def note(self, seconds: float) -> None:
        """Count one."""
        bucket = int(self._log(seconds / _SHORTEST_SECONDS + 1) * _BUCKETS_PER_E_FOLD)
        self._counts[min(bucket, _BUCKETS - 1)] += 1

    def quantile(self, share: float) -> float:
        """Return the seconds that this share of the calls took at most; 0 without any."""
        left = share * sum(self._counts)
        for bucket, count in enumerate(self._counts):
            left -= count
            if left <= 0 < count:
                return _SHORTEST_SECONDS * math.exp((bucket + 0.5) / _BUCKETS_PER_E_FOLD)
        return 0.0


class Meter:
    """Counts calls while they are made; `begin` starts a window, the sum goes on over all."""

    def __init__(self) -> None:
        self.amount = 0
        """Sum of all changes that were acknowledged, in and outside of windows."""
        self.changes = 0
        """How many of them."""
        self.begin()

    def begin(self) -> None:
        """Start a window: time, memory and latencies from now on."""
        self.calls = 0
        self.latencies = Latencies()
        self._changes_before = self.changes
        self._memory_before = _reset_peak()
        self._cpu_before = process_time()
        self._before = perf_counter()

    def note(self, seconds: float, changes: int, amount: int) -> None:
        """Count one acknowledged call."""
        self.calls += 1
        self.changes += changes
        self.amount += amount
        self.latencies.note(seconds)

    def end(self) -> Measured:
        """Return what the window measured, without what only others can know."""
        seconds, cpu_seconds = perf_counter() - self._before, process_time() - self._cpu_before
        return Measured(
            work=self.changes - self._changes_before,
            calls=self.calls,
            seconds=seconds,
            cpu_seconds=cpu_seconds,
            p50_seconds=self.latencies.quantile(0.5),
            p99_seconds=self.latencies.quantile(0.99),
            memory_bytes=max(0, _status_bytes("VmHWM") - self._memory_before),
        )


def memory_bytes() -> int:
    """Return the resident memory of this process now."""
    return _status_bytes("VmRSS")


def _reset_peak() -> int:
    """Let the peak of the resident memory begin anew, and return what it is now."""
    with suppress(OSError):  # without it the peak is that of the whole process so far
        _CLEAR.write_text(_RESET_PEAK)
        return memory_bytes()
    return _status_bytes("VmHWM")


def _status_bytes(name: str) -> int:
    """Read a line of the kernel's; elsewhere than on Linux the peak that the system tells."""
    try:
        text = _STATUS.read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KILOBYTE
    line = next(line for line in text.splitlines() if line.startswith(name + ":"))
    return int(line.split()[1]) * _KILOBYTE

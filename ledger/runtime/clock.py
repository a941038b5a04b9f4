"""Time and randomness as arguments, and the one module that reads the real ones.

Everything else in the ledger receives a `Clock` and a `random.Random`, so tests and simulations
control both. Entry points (`Ledger.open`, the compactor's job, the commands) pass `SystemClock()`
and `system_random()`.
"""

import os
import random
import struct
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Protocol

import anyio

STOCK_BYTES = 4096
MISSED_SECONDS_MIN = 0.001
"""A smaller lead of the wall time is the noise of two clocks, not a suspension."""
_WORD = struct.Struct("<Q")
_COUNTING: int | None = (
    time.CLOCK_MONOTONIC if sys.platform == "darwin" else getattr(time, "CLOCK_BOOTTIME", None)
)
"""The system's monotonic clock that counts suspension, if it has one.

Source: `time.monotonic` is `CLOCK_MONOTONIC` on Linux, which stops during a suspension, by
clock_gettime(2); on macOS it is `mach_absolute_time`, which does so too, but the `CLOCK_MONOTONIC`
of its clock_gettime(3) does not.
"""


class Clock(Protocol):
    """Returns the time of day, measures elapsed time, and waits."""

    def now(self) -> datetime:
        """Return the time of day, aware, in UTC, to the microsecond; it may jump either way."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment; never falls. For elapsed time only.

        Never faster than real time. A suspension of the machine counts if the system has a clock
        that counts it; where that must be certain, use `ElapsedTime`.
        """

    async def sleep(self, seconds: float) -> None:
        """Wait this long by the monotonic clock; return at once for zero; a cancellation point."""


class ElapsedTime:
    """Elapsed time that counts a suspension: at each look the larger of monotonic and wall time.

    A suspended machine stops its monotonic clock, except `CLOCK_BOOTTIME`, and a virtual machine
    suspended by its host may stop that as well; the wall clock is then corrected. Never less than
    monotonic time. A wall clock that is set forward makes it too long, permanently, so it is for
    limits that may be found exceeded too early, never for waits. If both clocks stop, the time is
    not seen at all: `docs/internals/contract.md` says what that may cost.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._missed = 0.0
        self.monotonic = clock.monotonic()
        """The monotonic clock at the last look."""
        self.at = clock.now()
        """The time of day at the last look."""

    @property
    def last(self) -> float:
        """The value that `seconds` last returned, or would have returned at creation."""
        return self.monotonic + self._missed

    def seconds(self) -> float:
        """Return seconds since an arbitrary moment; never falls."""
        monotonic, wall = self._clock.monotonic(), self._clock.now()
        missed = (wall - self.at).total_seconds() - (monotonic - self.monotonic)
        if missed > MISSED_SECONDS_MIN:
            self._missed += missed
        self.monotonic, self.at = monotonic, wall
        return monotonic + self._missed


class SystemClock:
    """The machine's clocks and the event loop's timer; the monotonic one counts suspension."""

    def now(self) -> datetime:
        """Return the time of day, aware, in UTC, to the microsecond; it may jump either way."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment; never falls. For elapsed time only."""
        return time.monotonic() if _COUNTING is None else time.clock_gettime(_COUNTING)

    async def sleep(self, seconds: float) -> None:
        """Wait this long; return at once for zero; a cancellation point.

        The event loop's timers stop while the machine is suspended, which makes the wait longer.
        """
        await anyio.sleep(seconds)


def system_random() -> random.Random:
    """Return the operating system's randomness.

    Ids of changes come from it: two processes, forked or started alike, must not draw the same.
    """
    return _StockedRandom()


class _StockedRandom(random.SystemRandom):
    """The operating system's randomness, fetched in bulk, because each call of it is slow.

    A value is taken in one step that no thread can share, and a forked child discards the stock.
    """

    _stock: Iterator[tuple[int]] = iter(())
    _owner = 0

    def getrandbits(self, k: int, /) -> int:
        """Return a whole number of `k` random bits; 64 of them, as ids take, come from stock."""
        if k != _WORD.size * 8:
            return super().getrandbits(k)
        if self._owner != os.getpid():
            self._stock, self._owner = iter(()), os.getpid()
        while True:
            for (word,) in self._stock:
                return word
            self._stock = _WORD.iter_unpack(os.urandom(STOCK_BYTES))


def blocking_sleep(seconds: float) -> None:
    """Wait in a thread without an event loop, as in the commands around boto3."""
    time.sleep(seconds)

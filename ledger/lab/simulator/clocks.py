"""The clocks of one process: its own zero, its own rate, a wall clock that is off and steps.

Any two wall clocks differ by at most `clock_skew` of the settings at every moment, which is what
the rules of merging assume; within that they may jump either way at any time.
"""

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Protocol

from anyio.lowlevel import checkpoint

START = datetime(2026, 11, 21, 6, 50, tzinfo=UTC)
RATE_OFF_MAX = 0.005
"""How far the rate of a monotonic clock may be off, as a share; quartz is far better."""
STEPS_MAX = 4
ZERO_SECONDS_MAX = 100_000.0


class Running(Protocol):
    """What a clock needs of its process."""

    @property
    def local(self) -> float:
        """The moment at which the process is, later than the world's while it is stalled."""

    @property
    def is_over(self) -> bool:
        """Whether the world has ended and everything is to unwind."""

    def step(self) -> None:
        """Note one step of the process, at which it may crash or stall."""

    async def until(self, moment: float) -> None:
        """Wait until this moment of the world."""


class ProcessClock:
    """A `Clock` for one process; `span` is how many seconds its wall clock's steps spread over."""

    def __init__(
        self, process: Running, *, randomness: Random, skew_seconds: float, span: float
    ) -> None:
        self._process = process
        self._rate = 1 + randomness.uniform(-RATE_OFF_MAX, RATE_OFF_MAX)
        self._zero = randomness.uniform(0, ZERO_SECONDS_MAX)
        steps = randomness.randrange(STEPS_MAX)
        self._steps_at = sorted(randomness.uniform(0, span) for _ in range(steps))
        half = skew_seconds / 2
        self._off = [randomness.uniform(-half, half) for _ in range(steps + 1)]

    def now(self) -> datetime:
        """Return the time of day, off by up to half of the skew."""
        self._process.step()
        return self.wall(self._process.local)

    def wall(self, moment: float) -> datetime:
        """Return what the wall clock shows at a moment of the world."""
        off = self._off[bisect_right(self._steps_at, moment)]
        return START + timedelta(seconds=moment + off)

    def monotonic(self) -> float:
        """Return seconds at our own rate since our own zero."""
        self._process.step()
        return self._zero + self._process.local * self._rate

    async def sleep(self, seconds: float) -> None:
        """Wait this many of our own seconds."""
        if self._process.is_over:
            await checkpoint()
            return
        self._process.step()
        await self._process.until(self._process.local + max(0.0, seconds) / self._rate)

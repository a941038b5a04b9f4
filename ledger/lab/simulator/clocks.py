"""The clocks of one process: a monotonic clock with its own zero and rate, a skewed wall clock.

Any two wall clocks differ by at most `clock_skew` of the settings at every moment, as the rules of
merging assume; within that bound they may jump in either direction at any time.
"""

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Protocol

from anyio.lowlevel import checkpoint

START = datetime(2026, 11, 21, 6, 50, tzinfo=UTC)
RATE_OFF_MAX = 0.005
"""The largest relative error of a monotonic clock's rate; quartz is far better."""
STEPS_MAX = 4
ZERO_SECONDS_MAX = 100_000.0


class Running(Protocol):
    """What a clock needs of its process."""

    @property
    def local(self) -> float:
        """The moment that the process has reached: later than the world's while it is stalled."""

    @property
    def is_over(self) -> bool:
        """Whether the world has ended and every task must unwind."""

    def step(self) -> None:
        """Count one step of the process; it may crash or stall at it."""

    async def until(self, moment: float) -> None:
        """Wait until the world reaches a moment."""


class ProcessClock:
    """The `Clock` of one process; the steps of its wall clock spread over `span` seconds."""

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
        """Return the time of day, wrong by up to half of the skew."""
        self._process.step()
        return self.wall(self._process.local)

    def wall(self, moment: float) -> datetime:
        """Return what the wall clock shows at a moment of the world."""
        off = self._off[bisect_right(self._steps_at, moment)]
        return START + timedelta(seconds=moment + off)

    def monotonic(self) -> float:
        """Return seconds since this clock's zero, at this clock's rate."""
        self._process.step()
        return self._zero + self._process.local * self._rate

    async def sleep(self, seconds: float) -> None:
        """Wait this many seconds of this clock."""
        if self._process.is_over:
            await checkpoint()
            return
        self._process.step()
        await self._process.until(self._process.local + max(0.0, seconds) / self._rate)

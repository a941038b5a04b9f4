"""The clocks of one process: a monotonic clock with its own zero and rate, a skewed wall clock.

Any two wall clocks differ by at most `clock_skew` of the settings at every moment, as the rules of
merging assume; within that bound they may jump in either direction at any time. In the worlds
in which only refusals must hold a process may be off by more, for as long as it runs. A
process that stalls may be suspended, which stops its monotonic clock, its wall clock, or both.
"""

import math
from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Literal, Protocol

import anyio

START = datetime(2026, 11, 21, 6, 50, tzinfo=UTC)
RATE_OFF_MAX = 0.005
"""The largest relative error of a monotonic clock's rate; quartz is far better."""
STEPS_MAX = 4
ZERO_SECONDS_MAX = 100_000.0
Stop = Literal["none", "monotonic", "wall", "both"]
"""Which clocks stand still while a process is stalled."""
STOPS: tuple[Stop, ...] = ("none", "none", "monotonic", "monotonic", "wall", "both")
BOTH_SECONDS_MAX = 3.0
"""Two clocks that stand still cannot be told from no time: assumed to be less than a read has to
spare, `observation_delay` - `read_deadline` (`internals/contract.md` names it)."""
STOPPED_APART_SECONDS_MIN = 60.0
"""So far from a stop neither clock stops again, and the wall clock does not step: within one read
they would hide more together than each alone."""


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
        self,
        process: Running,
        *,
        randomness: Random,
        skew_seconds: float,
        span: float,
        off_seconds: float = 0.0,
    ) -> None:
        self._process = process
        self._rate = 1 + randomness.uniform(-RATE_OFF_MAX, RATE_OFF_MAX)
        self._zero = randomness.uniform(0, ZERO_SECONDS_MAX)
        steps = randomness.randrange(STEPS_MAX)
        self._steps_at = sorted(randomness.uniform(0, span) for _ in range(steps))
        self._half = skew_seconds / 2
        self._off = [randomness.uniform(-self._half, self._half) for _ in range(steps + 1)]
        self._off_seconds = off_seconds
        self._stopped_at = -math.inf
        self._lost_seconds = 0.0
        self._behind_seconds = 0.0
        self._behind_upto = -math.inf

    def now(self) -> datetime:
        """Return the time of day, wrong by up to half of the skew, or by more."""
        self._process.step()
        return self.wall(self._process.local)

    def wall(self, moment: float) -> datetime:
        """Return what the wall clock shows at a moment of the world."""
        off = self._off[bisect_right(self._steps_at, moment)]
        if moment < self._behind_upto:
            off = max(off - self._behind_seconds, -self._half)
        return START + timedelta(seconds=moment + off + self._off_seconds)

    def monotonic(self) -> float:
        """Return seconds since this clock's zero, at this clock's rate."""
        self._process.step()
        return self._zero + (self._process.local - self._lost_seconds) * self._rate

    def may_stop(self, begins: float, seconds: float) -> bool:
        """Return whether clocks may stop for so long: no step or other stop is near."""
        first = begins - STOPPED_APART_SECONDS_MIN
        last = begins + seconds + STOPPED_APART_SECONDS_MIN
        is_calm = bisect_right(self._steps_at, first) == bisect_right(self._steps_at, last)
        return is_calm and self._stopped_at < first

    def stop(self, stop: Stop, begins: float, seconds: float) -> None:
        """Stop clocks for some seconds; the wall clock falls behind within the skew at most.

        It stays behind until its next step.
        """
        self._stopped_at = begins + seconds
        if stop in {"monotonic", "both"}:
            self._lost_seconds += seconds
        if stop in {"wall", "both"}:
            place = bisect_right(self._steps_at, begins)
            was_behind = self._behind_seconds if begins < self._behind_upto else 0.0
            self._behind_seconds = was_behind + seconds
            self._behind_upto = [*self._steps_at, math.inf][place]

    async def sleep(self, seconds: float) -> None:
        """Wait this many seconds of this clock."""
        if self._process.is_over:  # what is not cancelled goes on for a while, and must not spin
            await anyio.sleep(max(0.0, seconds))
            return
        self._process.step()
        await self._process.until(self._process.local + max(0.0, seconds) / self._rate)

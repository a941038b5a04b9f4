"""A process in the world: it can crash, and it can stall between any two of its steps.

Every call of a store or a clock is a step. A stalled process is ahead of the world: its clocks show
the moment at which it will wake, but for those that stood still, and none of its tasks runs, and
none of its requests is sent, before the world has reached that moment. A crashed process never
continues; requests that it had sent may still land.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import anyio

from ledger.core.errors import Unreachable
from proof.simulator.clocks import BOTH_SECONDS_MAX, STOPS, ProcessClock
from proof.simulator.world import World


@dataclass(frozen=True, slots=True)
class Reliability:
    """How often a process fails, and how.

    `steps_per_fault` is the mean number of steps between two faults. A share of `crash_share` of
    them are crashes, the others stalls of up to one of `stall_seconds_max`.
    """

    steps_per_fault: float
    crash_share: float = 0.3
    stall_seconds_max: tuple[float, ...] = (30.0, 300.0, 1800.0)


RELIABLE = Reliability(steps_per_fault=float("inf"))


class Process:
    """One process of one region, with its own clocks."""

    def __init__(
        self,
        name: str,
        *,
        world: World,
        randomness: Random,
        reliability: Reliability,
        skew_seconds: float,
        span: float,
        off_seconds: float = 0.0,
    ) -> None:
        self.name = name
        self.world = world
        self.random = randomness
        self.is_dead = False
        self.on_crash: Callable[[], None] = lambda: None
        self.clock = ProcessClock(
            self,
            randomness=randomness,
            skew_seconds=skew_seconds,
            span=span,
            off_seconds=off_seconds,
        )
        self._loop = world.loop
        self._reliability = reliability
        self._awake_at = 0.0
        self._freeze_seconds = 0.0
        self._steps_left = self._draw_steps()

    @property
    def local(self) -> float:
        """The moment at which the process is: later than the world's while it is stalled."""
        return max(self._loop.time(), self._awake_at)

    @property
    def is_over(self) -> bool:
        """Whether the world has ended."""
        return self.world.is_over

    def step(self, weight: int = 1) -> None:
        """Count one step; the process may crash or stall at it."""
        self._steps_left -= weight
        if self._steps_left <= 0:
            self._fail()

    def crash(self) -> None:
        """Crash: no task of this process continues."""
        if not self.is_dead:
            self.is_dead = True
            self.world.note(lambda: f"{self.name} crashes")
            self._loop.call_soon(self.on_crash)

    def freeze_before_entry(self, seconds: float) -> None:
        """Stall before the next put of an entry, once, for so many seconds."""
        self._freeze_seconds = seconds

    async def begin(self, weight: int = 1, *, is_entry: bool = False) -> None:
        """Begin a call of a store: return only while the process is alive and awake.

        A process that was stalled still sends its request, even if a timer has expired meanwhile:
        the event loop of a frozen process runs only after that.

        Raises:
            Unreachable: the world is over; everything unwinds.
        """
        if self.is_over:
            raise Unreachable("the world is over")
        self.step(weight)
        if is_entry and self._freeze_seconds and not self.is_dead:
            seconds, self._freeze_seconds = self._freeze_seconds, 0.0
            self._stall(seconds)
        if self.is_dead or self._awake_at > self._loop.time():
            with anyio.CancelScope(shield=True):
                await self.until(self._awake_at)
        if self.is_over:
            raise Unreachable("the world is over")

    async def until(self, moment: float) -> None:
        """Wait until the world reaches a moment."""
        future = self._loop.create_future()
        self.wake_at(moment, future, None)
        await future

    def wake_at(self, moment: float, future: "asyncio.Future[Any]", result: object) -> None:
        """Resume a waiting task of this process at a moment, with a result or an error."""
        self._loop.call_at(moment, self._wake, future, result)

    def _wake(self, future: "asyncio.Future[Any]", result: object) -> None:
        if future.done():
            return
        if not self.is_over:
            if self.is_dead:
                self.world.at_end.append(lambda: self._wake(future, result))
                return
            if self._awake_at > self._loop.time():
                self.wake_at(self._awake_at, future, result)
                return
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)

    def _fail(self) -> None:
        self._steps_left = self._draw_steps()
        if self.world.is_healed or self.is_dead:
            return
        if self.random.random() < self._reliability.crash_share:
            self.crash()
            return
        self._stall(self.random.choice(self._reliability.stall_seconds_max) * self.random.random())

    def _stall(self, seconds: float) -> None:
        if self.world.is_healed:
            return
        stop = self.random.choice(STOPS)
        if not self.clock.may_stop(self.local, seconds):
            stop = "none"
        if stop == "both":
            seconds = min(seconds, BOTH_SECONDS_MAX)
        if stop != "none":
            self.clock.stop(stop, self.local, seconds)
        self._awake_at = self.local + seconds
        self.world.note(lambda: f"{self.name} stalls for {seconds:.1f} s; stopped clocks: {stop}")

    def _draw_steps(self) -> float:
        mean = self._reliability.steps_per_fault
        return mean if mean == float("inf") else 1 + self.random.expovariate(1 / mean)

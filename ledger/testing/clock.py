"""A clock controlled by tests: time moves only when a test moves it.

On an `instant` clock it also moves whenever a task sleeps.
"""

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta

import anyio
from anyio.lowlevel import checkpoint

START = datetime(2026, 11, 21, 6, 50, tzinfo=UTC)
# Every task that a moment wakes runs to its next sleep within this many turns of the loop: the
# stores under test answer from memory.
TURNS_MAX = 60


class ManualClock:
    """Virtual time: `advance` wakes the sleepers of each moment, in order, and lets them run.

    On an `instant` clock every sleep ends at once, having taken its time. A clock with a `base`
    is another machine's view of the same time: with a zero, a rate and a wall clock of its own.
    """

    def __init__(
        self,
        start: datetime = START,
        *,
        instant: bool = False,
        base: "ManualClock | None" = None,
        rate: float = 1.0,
        zero: float = 0.0,
    ) -> None:
        self.elapsed: float = 0.0
        self.wall: datetime = start
        self._instant = instant
        self._base = base or self
        self._rate = rate
        self._zero = zero
        self._sleepers: list[tuple[float, int, anyio.Event]] = []
        self._order = itertools.count()

    def now(self) -> datetime:
        """Return the time of day; tests may set `wall` to any other."""
        return self._base.wall

    def monotonic(self) -> float:
        """Return the seconds that have passed, by this clock's zero and rate."""
        return self._zero + self._base.elapsed * self._rate

    async def sleep(self, seconds: float) -> None:
        """Wait until time has moved by this many of this clock's seconds."""
        await self._base._wait(seconds / self._rate)  # noqa: SLF001 (its own kind)

    async def advance(self, seconds: float) -> None:
        """Move time on, stopping at each sleeper's moment until all that it wakes sleep again."""
        end = self.elapsed + seconds
        await self.run_pending()
        while self._sleepers and self._sleepers[0][0] <= end:
            due = self._sleepers[0][0]
            self._move(due)
            while self._sleepers and self._sleepers[0][0] <= due:
                heapq.heappop(self._sleepers)[2].set()
            await self.run_pending()
        self._move(max(end, self.elapsed))
        await self.run_pending()

    async def run_pending(self) -> None:
        """Let every task run until it sleeps."""
        # What asyncio's loop is about to run. No public name tells it, and uvloop has none at all.
        ready = getattr(asyncio.get_running_loop(), "_ready", None)
        for _ in range(TURNS_MAX):
            await checkpoint()
            if ready is not None and not ready:
                return

    def pass_by(self, seconds: float) -> None:
        """Move time on without waking any task."""
        self._move(self.elapsed + seconds)

    def suspend(self, seconds: float) -> None:
        """Advance only the wall clock, as while a machine is suspended."""
        self.wall += timedelta(seconds=seconds)

    async def _wait(self, seconds: float) -> None:
        due = self.elapsed + seconds
        if self._instant or due <= self.elapsed:
            await checkpoint()
            self.pass_by(max(0.0, seconds) if self._instant else 0.0)
            return
        awake = anyio.Event()
        heapq.heappush(self._sleepers, (due, next(self._order), awake))
        await awake.wait()

    def _move(self, to: float) -> None:
        self.wall += timedelta(seconds=to - self.elapsed)
        self.elapsed = to

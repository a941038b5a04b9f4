"""A clock that the tests own: time moves only when a test moves it."""

import heapq
import itertools
from datetime import UTC, datetime, timedelta

import anyio
from anyio.lowlevel import checkpoint

# Every task that a moment wakes runs to its next sleep within this many turns of the loop: the
# stores under test answer from memory.
TURNS_MAX = 60


class FakeClock:
    """Virtual time: `advance` wakes the sleepers of each moment, in order, and lets them run."""

    def __init__(self, start: datetime = datetime(2026, 11, 21, tzinfo=UTC)) -> None:
        self.elapsed = 0.0
        self.wall = start
        self._sleepers: list[tuple[float, int, anyio.Event]] = []
        self._order = itertools.count()

    def now(self) -> datetime:
        """Return the time of day; tests may set `wall` to any other."""
        return self.wall

    def monotonic(self) -> float:
        """Return the seconds that were advanced."""
        return self.elapsed

    async def sleep(self, seconds: float) -> None:
        """Wait until `advance` has moved time this far."""
        due = self.elapsed + seconds
        if due <= self.elapsed:
            await checkpoint()
            return
        awake = anyio.Event()
        heapq.heappush(self._sleepers, (due, next(self._order), awake))
        await awake.wait()

    async def advance(self, seconds: float) -> None:
        """Move time on, stopping at each sleeper's moment until everybody it wakes sleeps again."""
        end = self.elapsed + seconds
        await self.run_pending()
        while self._sleepers and self._sleepers[0][0] <= end:
            due = self._sleepers[0][0]
            self._move(due)
            while self._sleepers and self._sleepers[0][0] <= due:
                heapq.heappop(self._sleepers)[2].set()
            await self.run_pending()
        self._move(end)
        await self.run_pending()

    async def run_pending(self) -> None:
        """Let every task run until it sleeps."""
        for _ in range(TURNS_MAX):
            await checkpoint()

    def _move(self, to: float) -> None:
        self.wall += timedelta(seconds=to - self.elapsed)
        self.elapsed = to


class SkewedClock:
    """Another machine's view of the same time: its own zero, its own rate, its own wall clock."""

    def __init__(
        self,
        base: FakeClock,
        *,
        rate: float = 1.0,
        zero: float = 0.0,
        wall_off: timedelta = timedelta(0),
    ) -> None:
        self.base = base
        self.rate = rate
        self.zero = zero
        self.wall_off = wall_off

    def now(self) -> datetime:
        """Return the time of day, wrong by `wall_off`."""
        return self.base.now() + self.wall_off

    def monotonic(self) -> float:
        """Return seconds at our own rate."""
        return self.zero + self.base.monotonic() * self.rate

    async def sleep(self, seconds: float) -> None:
        """Wait this many of our own seconds."""
        await self.base.sleep(seconds / self.rate)

"""Cached totals, and reads that are shared by calls for the same counter.

A call may share a read only if that read began at most `max_age` ago: with `max_age=0` a total
includes every change that was acknowledged to the caller before the call. So each counter has at
most one read running and one waiting to start after it, which every later call joins::

    calls    a          b   c  d
    reads    |--- a ---||--- b, c, d ---|

The reads run in the cache's own tasks: cancelling a caller cancels none of them. Ages count the
time for which the machine was suspended (`ElapsedTime`).
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial

import anyio
from anyio.abc import TaskGroup

from ledger.core.errors import LedgerError
from ledger.runtime.clock import Clock, ElapsedTime
from ledger.runtime.metrics import Metrics
from ledger.runtime.tasks import run_all
from ledger.settings.groups import CacheSettings
from ledger.totals.reader import Total

TOTALS_AT_ONCE = 16
"""Totals of one call that are read concurrently, each from up to `SHARDS_AT_ONCE` shards."""


class _Flight:
    """One read of one counter, which any number of calls wait for."""

    def __init__(self) -> None:
        self.started: float | None = None
        self.done = anyio.Event()
        self.total: Total | None = None
        self.error: Exception | None = None

    async def result(self) -> Total:
        await self.done.wait()
        if self.total is None:
            raise self.error or LedgerError("the ledger was closed during a read")
        return self.total


class _Flights:
    """The reads of one counter: one running, one to follow."""

    def __init__(self) -> None:
        self.running: _Flight | None = None
        self.waiting: _Flight | None = None


class TotalCache:
    """Totals by counter, at most `counters_max`; the least recently used are evicted first."""

    def __init__(
        self,
        read: Callable[[str], Awaitable[Total]],
        *,
        region: str,
        settings: CacheSettings,
        clock: Clock,
        metrics: Metrics,
        tasks: TaskGroup,
    ) -> None:
        self._read = read
        self._region = region
        self._settings = settings
        self._elapsed = ElapsedTime(clock)
        self._metrics = metrics
        self._tasks = tasks
        self._totals: OrderedDict[str, tuple[float, Total]] = OrderedDict()
        self._flights: dict[str, _Flights] = {}

    async def total(self, counter: str, max_age: float | None = None) -> Total:
        """Return a total whose read began at most `max_age` seconds ago.

        With `stale_max` set, a total up to that much older is returned at once while a new one is
        read in the background; an explicit `max_age` turns that off.
        """
        limit = self._settings.max_age if max_age is None else max_age
        stale = self._settings.stale_max if max_age is None else 0.0
        kept = self._kept(counter)
        if kept is not None:
            age, total = kept
            if age <= limit + stale and limit + stale > 0:
                if age > limit:
                    self._join(counter, limit)
                self._metrics.cache_hit(self._region, age_seconds=age)
                return replace(total, cached=True)
        flight, shared = self._join(counter, limit)
        if shared:
            self._metrics.cache_share(self._region)
        else:
            self._metrics.cache_miss(self._region)
        return await flight.result()

    async def totals(
        self, counters: Iterable[str], max_age: float | None = None
    ) -> dict[str, Total]:
        """Return the totals of many counters in the given order, each as by `total`.

        If a read fails, its error is raised; with several counters its message names the counter.
        """
        wanted = list(dict.fromkeys(counters))
        read = self._named if len(wanted) > 1 else self.total
        reads = [partial(read, counter, max_age) for counter in wanted]
        found = await run_all(reads, at_once=TOTALS_AT_ONCE)
        return dict(zip(wanted, found, strict=True))

    async def _named(self, counter: str, max_age: float | None) -> Total:
        try:
            return await self.total(counter, max_age)
        except LedgerError as error:
            if repr(counter) in str(error):
                raise
            # A new error: calls that share a read share the original.
            raise type(error)(f"total of {counter!r}: {error}") from error

    def _kept(self, counter: str) -> tuple[float, Total] | None:
        found = self._totals.get(counter)
        if found is None:
            return None
        self._totals.move_to_end(counter)
        return self._elapsed.seconds() - found[0], found[1]

    def _join(self, counter: str, max_age: float) -> tuple[_Flight, bool]:
        """Return a read that is recent enough, starting one if needed, and whether it is shared."""
        flights = self._flights.get(counter)
        if flights is None:
            flights = self._flights[counter] = _Flights()
            flights.waiting = _Flight()
            self._tasks.start_soon(self._fly, counter, flights)
            return flights.waiting, False
        running = flights.running
        if running is not None and running.started is not None:
            age = self._elapsed.seconds() - running.started
            if age <= max_age and max_age > 0:
                return running, True
        if flights.waiting is not None:
            return flights.waiting, True
        flights.waiting = _Flight()
        return flights.waiting, False

    async def _fly(self, counter: str, flights: _Flights) -> None:
        """Run a counter's reads one after the other until no call waits for another."""
        try:
            while flights.waiting is not None:
                flight, flights.waiting = flights.waiting, None
                flights.running = flight
                await self._fly_once(counter, flight)
                flights.running = None
        finally:
            del self._flights[counter]
            for left in (flights.running, flights.waiting):
                if left is not None:
                    left.done.set()

    async def _fly_once(self, counter: str, flight: _Flight) -> None:
        flight.started = self._elapsed.seconds()
        try:
            flight.total = await self._read(counter)
        except Exception as error:  # noqa: BLE001 (passed to every call that waits for it)
            flight.error = error
        else:
            self._keep(counter, flight.started, flight.total)
        flight.done.set()

    def _keep(self, counter: str, started: float, total: Total) -> None:
        self._totals[counter] = (started, total)
        self._totals.move_to_end(counter)
        while len(self._totals) > self._settings.counters_max:
            self._totals.popitem(last=False)
        self._metrics.cache_size(self._region, len(self._totals))

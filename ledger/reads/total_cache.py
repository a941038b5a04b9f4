"""Cached totals, and reads shared by calls for the same counter.

A call may share a read only if that read began at most `max_age` ago: with `max_age=0` a total
includes every change that was acknowledged to the caller before the call. So each counter has at
most one read running and one waiting to start after it, which every later call joins::

    calls    a          b   c  d
    reads    |--- a ---||--- b, c, d ---|

The reads run in the cache's own tasks, at most `READS_AT_ONCE`, in the order in which they were
requested: cancelling a caller cancels none of them. Ages include the time for which the machine was
suspended (`ElapsedTime`).
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from anyio.abc import TaskGroup

from ledger.core.errors import LedgerError
from ledger.reads.total import Total
from ledger.runtime.clock import ElapsedTime
from ledger.runtime.services import Services
from ledger.settings.groups import CacheSettings

if TYPE_CHECKING:
    from ledger.runtime.tracing.shared import SharedSpans

READS_AT_ONCE = 64
"""Counters read concurrently, as many as a region has connections; each of up to
`SHARDS_AT_ONCE` shards."""
AHEAD_MAX = 2 * READS_AT_ONCE
"""Reads that one call has under way or waiting: what it leaves behind if it is cancelled."""
_CLOSED = "the ledger was closed during a read"
REFILL_LEFT = AHEAD_MAX - READS_AT_ONCE // 2
"""The number of remaining reads at which it adds more, so that no worker runs idle."""


class _Flight:
    """One read of one counter, which any number of calls wait for."""

    __slots__ = ("__weakref__", "_then", "error", "started", "total")

    def __init__(self) -> None:
        self.started: float | None = None
        self.total: Total | None = None
        self.error: Exception | None = None
        self._then: list[Callable[[_Flight], None]] | None = []

    def then(self, call: Callable[["_Flight"], None]) -> None:
        """Call this once the read has ended."""
        if self._then is None:
            call(self)
        else:
            self._then.append(call)

    def end(self) -> None:
        """Wake the waiting calls; without a total or an error the ledger was closed."""
        calls, self._then = self._then or (), None
        for call in calls:
            call(self)

    def result(self) -> Total:
        """Return the total; what failed is raised anew in each call that waits for it."""
        if self.total is None:
            error = self.error or LedgerError(_CLOSED)
            raise copy(error) if isinstance(error, LedgerError) else error
        return self.total


class _Gathering:
    """The reads that one call for many totals waits for."""

    def __init__(self) -> None:
        self.totals: dict[str, Total] = {}
        self._left = 0
        self._left_max = 0
        self._error: Exception | None = None
        self._woken = asyncio.Event()

    def add(self, counter: str, flight: _Flight) -> None:
        self._left += 1
        flight.then(partial(self._ended, counter))

    def _ended(self, counter: str, flight: _Flight) -> None:
        self._left -= 1
        try:
            self.totals[counter] = flight.result()
        except Exception as error:  # noqa: BLE001 (raised to the call that waits)
            # Without this frame, which holds what holds the error.
            self._error = self._error or name_counter(counter, error.with_traceback(None))
        if self._error is not None or self._left <= self._left_max:
            self._woken.set()

    @property
    def is_full(self) -> bool:
        return self._left >= AHEAD_MAX

    async def wait(self, left_max: int) -> None:
        """Wait until at most `reads` reads are left.

        Raises:
            LedgerError: one of them failed.
        """
        self._left_max = left_max
        while self._error is None and self._left > left_max:
            self._woken = asyncio.Event()
            await self._woken.wait()
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # whose traceback holds this frame


Error = TypeVar("Error", bound=Exception)


def name_counter(counter: str, error: Error) -> Error:
    """Return an error of one of several totals; a `LedgerError`'s message names the counter."""
    if not isinstance(error, LedgerError) or repr(counter) in str(error):
        return error
    # A new error: calls that share a read share the original.
    named = type(error)(f"total of {counter!r}: {error}")
    named.__cause__ = error
    return named


class _Flights:
    """The reads of one counter: one running, one to follow."""

    __slots__ = ("running", "waiting")

    def __init__(self) -> None:
        self.running: _Flight | None = None
        self.waiting: _Flight | None = None

    def begin(self) -> _Flight:
        """Return the waiting read, which is now running."""
        if self.waiting is None:
            raise LedgerError("a read is due that no call waits for")
        flight = self.running = self.waiting
        self.waiting = None
        return flight

    def ended(self) -> bool:
        """Mark the current read as ended; return whether another waits."""
        self.running = None
        return self.waiting is not None

    def end(self) -> None:
        """End both, read or not."""
        for left in (self.running, self.waiting):
            if left is not None:
                left.end()


def _ignored(_total: Total) -> None:
    """Do nothing with a total."""


class TotalCache:
    """Totals by counter, at most `counters_max`; the least recently used are evicted first."""

    def __init__(
        self,
        read: Callable[[str], Awaitable[Total]],
        *,
        region: str,
        settings: CacheSettings,
        services: Services,
        tasks: TaskGroup,
        on_read: Callable[[Total], None] = _ignored,
        spans: "SharedSpans | None" = None,
    ) -> None:
        """Take the function that reads a total, and one that is called with each total read.

        With `spans` each read is a span, linked to the calls that wait for it when it begins.
        """
        self._spans = spans
        self._read = read
        self._on_read = on_read
        self._region = region
        self._settings = settings
        self.elapsed = ElapsedTime(services.clock)
        """The time by which ages are measured."""
        self._metrics = services.metrics
        self._tasks = tasks
        self._totals: OrderedDict[str, tuple[float, Total]] = OrderedDict()
        self._flights: dict[str, _Flights] = {}
        self._due: deque[str] = deque()
        self._workers = 0
        self._missed = self._shared = self._counted_size = 0

    async def total(self, counter: str, max_age: float | None = None) -> Total:
        """Return a total whose read began at most `max_age` seconds ago.

        With `stale_max` set, a total up to that much older is returned immediately while a new one
        is read in the background; an explicit `max_age` disables that.
        """
        found = self._find(counter, max_age)
        if isinstance(found, Total):
            return found
        self._count()
        ended = asyncio.Event()
        found.then(lambda _flight: ended.set())
        await ended.wait()
        return found.result()

    async def totals(
        self, counters: Iterable[str], max_age: float | None = None
    ) -> dict[str, Total]:
        """Return the totals of many counters in the given order, each as by `total`.

        If a read fails, its error is raised; with several counters its message names the counter.
        """
        wanted = dict.fromkeys(counters)
        if len(wanted) == 1:
            return {counter: await self.total(counter, max_age) for counter in wanted}
        gathering = _Gathering()
        for counter in wanted:
            found = self._find(counter, max_age)
            if isinstance(found, Total):
                gathering.totals[counter] = found
                continue
            gathering.add(counter, found)
            if gathering.is_full:
                self._count()
                await gathering.wait(REFILL_LEFT)
        self._count()
        await gathering.wait(0)
        return {counter: gathering.totals[counter] for counter in wanted}

    def recent(self, counter: str, max_age: float | None, seconds: float) -> Total | None:
        """Return the cached total if it is recent enough at a time of `elapsed`, as `total` does.

        One that is older than `max_age` is read again in the background.
        """
        kept = self._totals.get(counter)
        if kept is None:
            return None
        limit = self._settings.max_age if max_age is None else max_age
        longest = limit + self._settings.stale_max if max_age is None else limit
        if longest <= 0:
            return None
        self._totals.move_to_end(counter)
        started, total = kept
        age = seconds - started
        if age > longest:
            return None
        if age > limit:
            self._join(counter, limit)
        if not total.cached:  # the first time: later calls return the same object
            total = replace(total, cached=True)
            self._totals[counter] = started, total
        self._metrics.cache_hits.add(self._region, age)
        return total

    def _find(self, counter: str, max_age: float | None) -> Total | _Flight:
        """Return a cached total that is recent enough, or a read of it."""
        found = self.recent(counter, max_age, self.elapsed.seconds())
        if found is not None:
            return found
        limit = self._settings.max_age if max_age is None else max_age
        flight, shared = self._join(counter, limit)
        if self._spans is not None:
            self._spans.waits(flight)
        if shared:
            self._shared += 1
        else:
            self._missed += 1
        return flight

    def _count(self) -> None:
        """Count the reads that were begun or joined, many at a time."""
        if self._missed:
            self._metrics.cache_miss(self._region, self._missed)
        if self._shared:
            self._metrics.cache_share(self._region, self._shared)
        self._missed = self._shared = 0

    def _join(self, counter: str, max_age: float) -> tuple[_Flight, bool]:
        """Return a read that is recent enough, starting one if needed, and whether it is shared."""
        flights = self._flights.get(counter)
        if flights is None:
            flights = self._flights[counter] = _Flights()
            flights.waiting = _Flight()
            self._due.append(counter)
            if self._workers < READS_AT_ONCE:
                self._workers += 1
                self._tasks.start_soon(self._work)
            return flights.waiting, False
        running = flights.running
        if running is not None and running.started is not None:
            age = self.elapsed.seconds() - running.started
            if age <= max_age and max_age > 0:
                return running, True
        if flights.waiting is not None:
            return flights.waiting, True
        flights.waiting = _Flight()
        return flights.waiting, False

    async def _work(self) -> None:
        """Do the reads that are due, in turn, until none is."""
        try:
            while self._due:
                await self._fly(self._due.popleft())
        finally:
            self._workers -= 1
            if not self._workers:  # otherwise the cache was closed
                left, self._flights = self._flights, {}
                self._due.clear()
                for flights in left.values():
                    flights.end()

    async def _fly(self, counter: str) -> None:
        flights = self._flights[counter]
        flight = flights.begin()
        flight.started = self.elapsed.seconds()
        try:
            if self._spans is None:
                total = await self._read(counter)
            else:
                with self._spans.span("ledger.read", [flight]):
                    total = await self._read(counter)
            self._on_read(total)
        except Exception as error:  # noqa: BLE001 (passed to every call that waits for it)
            flight.error = error
        else:
            flight.total = total
            self._keep(counter, flight.started, total)
        if flights.ended():
            self._due.append(counter)  # after the others, however often this one is requested
        else:
            del self._flights[counter]
        flight.end()
        del flight  # it holds the error, whose traceback holds this frame

    def _keep(self, counter: str, started: float, total: Total) -> None:
        self._totals[counter] = (started, total)
        self._totals.move_to_end(counter)
        while len(self._totals) > self._settings.counters_max:
            self._totals.popitem(last=False)
        if len(self._totals) != self._counted_size:
            self._counted_size = len(self._totals)
            self._metrics.cache_size(self._region, self._counted_size)

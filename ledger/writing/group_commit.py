"""Group commit: changes recorded at the same time share requests, each caller is told of its own.

::

    call a ──┐                    ┌─ batch of up to 25 ── applied ──> a, b durable
    call b ──┼─ queue ── linger ──┤
    call c ──┘                    └─ part unprocessed ── again ─────> c, when it is

A call that comes alone is sent at once. While requests are under way, or calls come fast, the next
batch waits a little for company: never longer than `linger`, nor than it takes to fill at the pace
of late. The queue is bounded: once `queue_max` calls wait for their outcome, further ones wait for
room. An entry stands in one request at a time, so what is known of a change is what is known of
its request: the guarantees are those of a single put. A caller that is cancelled takes nobody
along; its own change is not sent if it has not been yet, else its outcome is unknown.

Combining goes further, for counters that the settings name: changes of one counter that wait
together become one entry with their sum and count. Batching saves time of clients and servers, but
no write units; combining saves both, at the price of one entry standing for many changes.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from typing import TypeVarTuple, Unpack

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from ledger.core import amounts
from ledger.core.errors import AmountOverflow, LedgerError, OutcomeUnknown
from ledger.core.values import Entry
from ledger.runtime.clock import Clock
from ledger.settings.groups import WriterSettings
from ledger.store.writes import BATCH_WRITES_MAX
from ledger.writing.plan import Planned

_NOTHING = Decimal(0)
PACE_WEIGHT = 0.5
"""How much the latest pause between calls counts in the pace of late."""

Arguments = TypeVarTuple("Arguments")
Settle = Callable[[Sequence[Planned]], None]
"""Is told which entries are durable, as soon as that is known."""
WriteGroup = Callable[[Sequence[Planned], Settle], Awaitable[None]]
PlanGroup = Callable[[Sequence[tuple[str, Decimal, int]]], Sequence[Planned]]
"""Plans entries of counter, change and count that are written together."""
OnGroup = Callable[[int, int], None]


class _Place:
    """One change that waits or is under way as an entry, and who waits for it."""

    __slots__ = ("change", "counter", "planned", "waiter")

    count = 1

    def __init__(
        self,
        counter: str,
        change: Decimal,
        waiter: "asyncio.Future[Entry] | None",
        planned: Planned | None = None,
    ) -> None:
        self.counter = counter
        self.change = change
        self.waiter = waiter
        self.planned = planned

    def is_wanted(self) -> bool:
        """Tell whether anybody still waits."""
        return self.waiter is not None and not self.waiter.done()

    def tell(self, entry: Entry) -> int:
        """Give the entry to those who wait, once; returns how many had not been told before."""
        waiter, self.waiter = self.waiter, None
        if waiter is None:
            return 0
        if not waiter.done():
            waiter.set_result(entry)
        return 1

    def fail(self, error: BaseException | None) -> int:
        """Raise the error where somebody waits, as `tell`; without one nobody does any more."""
        waiter, self.waiter = self.waiter, None
        if waiter is None:
            return 0
        if error is not None and not waiter.done():
            waiter.set_exception(_again(error))
        return 1


class _Sum(_Place):
    """Changes of one counter that become one entry."""

    __slots__ = ("changes", "count", "since", "waiters")

    def __init__(self, counter: str, since: float) -> None:
        super().__init__(counter, _NOTHING, None)
        self.count = 0
        self.since = since
        self.changes: list[Decimal] = []
        self.waiters: list[asyncio.Future[Entry]] = []

    def is_wanted(self) -> bool:
        """Tell whether anybody still waits."""
        for waiter in self.waiters:  # noqa: SIM110 (a generator takes longer than all the rest)
            if not waiter.done():
                return True
        return False

    def tell(self, entry: Entry) -> int:
        """Give the entry to all who wait."""
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(entry)
        return len(waiters)

    def fail(self, error: BaseException | None) -> int:
        """Raise the error wherever somebody waits."""
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if error is not None and not waiter.done():
                waiter.set_exception(_again(error))
        return len(waiters)


class GroupCommit:
    """Gathers changes into batches; made inside a running event loop."""

    def __init__(
        self,
        write: WriteGroup,
        plan_group: PlanGroup,
        *,
        tasks: TaskGroup,
        clock: Clock,
        settings: WriterSettings,
        on_group: OnGroup,
    ) -> None:
        self._write = write
        self._plan_group = plan_group
        self._tasks = tasks
        self._clock = clock
        self._settings = settings
        self._on_group = on_group
        self._loop = asyncio.get_running_loop()
        self._waiting = 0
        self._doors: deque[asyncio.Future[None]] = deque()
        self._queue: deque[_Place] = deque()
        self._open_sums: dict[str, _Sum] = {}
        self._flying: set[_Place] = set()
        self._flights = 0
        self._landed: anyio.Event | None = None
        self._is_sending = False
        self._is_closed = False
        self._arrived = 0
        self._looked_at = clock.monotonic()
        self._pause_seconds = settings.linger

    def record(self, counter: str, change: Decimal) -> Awaitable[Entry]:
        """Write one change with others; its id is made when its batch is.

        Raises:
            OutcomeUnknown: as for a single write, with this entry alone.
            StoreError: nothing of this change was written.
        """
        if self._has_room():
            return self._enter(counter, change)
        return self._enter_later(self._enter, counter, change)

    def record_planned(self, plan: Callable[[], Planned]) -> Awaitable[Entry]:
        """Write one change that is more than an amount; it is planned once there is room.

        Raises:
            As `record`, and what the plan raises.
        """
        return self._plan(plan) if self._has_room() else self._enter_later(self._plan, plan)

    def combine(self, counter: str, change: Decimal) -> Awaitable[Entry]:
        """Write a change as part of an entry that stands for all that wait with it.

        Raises:
            As `record`; the entry in the error is the whole one, the same for all its callers.
        """
        if self._has_room():
            return self._add(counter, change)
        return self._enter_later(self._add, counter, change)

    def close(self) -> None:
        """Let nobody wait for ever: what is under way is unknown, what still waits is not sent."""
        self._is_closed = True
        unsent = LedgerError("the ledger was closed before the change was sent: it is not written")
        for place in self._queue:
            self._free(place.fail(unsent))
        self._queue.clear()
        for place in self._flying:
            self._free(place.fail(_closed(place)))

    def _enter(
        self, counter: str, change: Decimal, planned: Planned | None = None
    ) -> "asyncio.Future[Entry]":
        waiter = self._wait()
        self._queue.append(_Place(counter, change, waiter, planned))
        return waiter

    def _plan(self, plan: Callable[[], Planned]) -> "asyncio.Future[Entry]":
        planned = plan()
        return self._enter(planned.entry.counter, planned.entry.change, planned)

    def _add(self, counter: str, change: Decimal) -> "asyncio.Future[Entry]":
        waiter = self._wait()
        place = self._open_sums.get(counter)
        if place is None:
            place = _Sum(counter, self._clock.monotonic())
            self._open_sums[counter] = place
            self._queue.append(place)
        place.waiters.append(waiter)
        place.changes.append(change)
        return waiter

    def _has_room(self) -> bool:
        return self._waiting < self._settings.queue_max and not self._doors

    async def _enter_later(
        self,
        enter: Callable[[Unpack[Arguments]], "asyncio.Future[Entry]"],
        *arguments: *Arguments,
    ) -> Entry:
        """Wait for room, first come first served, and go in."""
        door: asyncio.Future[None] = self._loop.create_future()
        self._doors.append(door)
        try:
            await door
        except asyncio.CancelledError:
            if door.done() and not door.cancelled():  # the room came too late
                self._free(1)
            raise
        self._waiting -= 1  # the room that was kept: taken again at once
        try:
            waiter = enter(*arguments)
        except LedgerError:
            self._free(0)
            raise
        return await waiter

    def _free(self, room: int) -> None:
        """Give room to those who wait at the doors."""
        self._waiting -= room
        while self._doors and self._waiting < self._settings.queue_max:
            door = self._doors.popleft()
            if not door.done():
                self._waiting += 1
                door.set_result(None)

    def _wait(self) -> "asyncio.Future[Entry]":
        """Return what a caller waits for; a sender is started if none is at work."""
        if self._is_closed:
            raise LedgerError("the ledger was closed: the change is not written")
        self._arrived += 1
        self._waiting += 1
        if not self._is_sending:
            self._is_sending = True
            self._tasks.start_soon(self._send)
        return self._loop.create_future()

    async def _send(self) -> None:
        """Send what waits, batch by batch, until nothing does."""
        try:
            # Everybody who is about to call in this turn of the loop is in the first batch.
            await anyio.lowlevel.checkpoint()
            while self._queue:
                await self._linger()
                while self._flights >= self._settings.in_flight:
                    self._landed = anyio.Event()
                    await self._landed.wait()
                group = self._next_group()
                if group:
                    self._flights += 1
                    self._tasks.start_soon(self._fly, group)
        finally:
            self._is_sending = False

    async def _linger(self) -> None:
        """Wait for company as long as that pays."""
        now = self._clock.monotonic()
        if self._arrived:
            # Beyond the linger all paces are one; a long one would take long to be forgotten.
            pause = min((now - self._looked_at) / self._arrived, 2 * self._settings.linger)
            self._pause_seconds += PACE_WEIGHT * (pause - self._pause_seconds)
            self._looked_at, self._arrived = now, 0
        first = self._queue[0]
        wait = linger_seconds(
            self._settings.linger,
            pause_seconds=self._pause_seconds,
            waiting=len(self._queue),
            is_idle=self._flights == 0,
            combining_since=now - first.since if isinstance(first, _Sum) else None,
        )
        if wait > 0:
            await self._clock.sleep(wait)

    def _next_group(self) -> list[_Place]:
        """Take the next up to 25 entries; those whose callers have all gone are left out."""
        group: list[_Place] = []
        while self._queue and len(group) < BATCH_WRITES_MAX:
            place = self._queue.popleft()
            if isinstance(place, _Sum):
                self._close_sum(place)
            if place.is_wanted():
                group.append(place)
            else:
                self._free(place.fail(None))
        self._plan_all([place for place in group if place.planned is None])
        self._flying.update(group)
        return group

    def _plan_all(self, places: Sequence[_Place]) -> None:
        if places:
            asked = [(place.counter, place.change, place.count) for place in places]
            for place, planned in zip(places, self._plan_group(asked), strict=True):
                place.planned = planned

    def _close_sum(self, place: _Sum) -> None:
        """Sum the changes whose callers still wait."""
        del self._open_sums[place.counter]
        pairs = list(zip(place.changes, place.waiters, strict=True))
        wanted = [(change, waiter) for change, waiter in pairs if not waiter.done()]
        try:
            place.change = amounts.total(change for change, _ in wanted)
            place.count = len(wanted)
        except AmountOverflow:
            # Each change fits, their sum does not: each is an entry of its own.
            place.waiters = [waiter for _, waiter in pairs if waiter.done()]
            for change, waiter in wanted:
                self._queue.append(_Place(place.counter, change, waiter))

    async def _fly(self, group: list[_Place]) -> None:
        """Write a batch, and the next one as long as a full one waits."""
        try:
            while group:
                await self._write_one(group)
                group = self._next_group() if len(self._queue) >= BATCH_WRITES_MAX else []
        finally:
            self._flights -= 1
            if self._landed is not None:
                self._landed.set()

    async def _write_one(self, group: list[_Place]) -> None:
        """Write one batch and tell each caller of its own change."""
        planned = [place.planned for place in group if place.planned is not None]

        def settle(applied: Sequence[Planned]) -> None:
            if len(applied) < len(group):
                done = set(map(id, applied))
                told = [place for place in group if id(place.planned) in done]
            else:
                told = group
            room = 0
            for place, one in zip(told, applied, strict=True):
                room += place.tell(one.entry)
            self._free(room)

        self._on_group(len(group), len(self._queue))
        try:
            await self._write(planned, settle)
        except OutcomeUnknown as error:
            unknown = set(error.entries)
            for place, one in zip(group, planned, strict=True):
                if one.entry in unknown:
                    own = OutcomeUnknown(str(error), entries=[one.entry])
                    self._free(place.fail(own))
        except Exception as error:  # noqa: BLE001 (handed on to every caller that waits for it)
            for place in group:
                self._free(place.fail(error))
        finally:
            self._flying.difference_update(group)


def linger_seconds(
    longest: float,
    *,
    pause_seconds: float,
    waiting: int,
    is_idle: bool,
    combining_since: float | None,
) -> float:
    """Return how long the next batch waits for more changes.

    `pause_seconds` lies between two calls of late; where they come more rarely than `longest`,
    nobody would come. `combining_since` is for how long the first sum has been open, None if the
    first is no sum: sums wait their whole time, since each further change in them costs nothing.
    """
    if pause_seconds >= longest:
        return 0.0
    if combining_since is not None:
        return max(0.0, longest - combining_since)
    missing = BATCH_WRITES_MAX - waiting
    if is_idle or missing <= 0:
        return 0.0
    return min(longest, pause_seconds * missing)


def _again(error: BaseException) -> BaseException:
    """Return the same error for another caller: one that is raised twice holds two tracebacks."""
    twin = type(error).__new__(type(error), *error.args)
    twin.__dict__.update(error.__dict__)
    return twin


def _closed(place: _Place) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the ledger was closed while a change of {place.counter!r} was under way: it may or may"
        " not be there; Ledger.retry is safe until the retry horizon",
        entries=[place.planned.entry] if place.planned else [],
    )

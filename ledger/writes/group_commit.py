"""Group commit: concurrent calls share requests, and each gets the outcome of its own change.

::

    call a ──┐                    ┌─ batch of up to 25 ── applied ──> a, b durable
    call b ──┼─ queue ── linger ──┤
    call c ──┘                    └─ part unprocessed ── again ─────> c, when it is

A call that comes alone is sent at once. While requests are in flight, or calls come fast, the next
batch waits a little for more: never longer than `linger`, nor than it takes to fill at the recent
arrival rate. The queue is bounded: once `queue_max` calls wait for their outcome, further ones wait
for room. An entry is in one request at a time, so what is known of a change is what is known of its
request: the guarantees are those of a single put. If one of the changes has a key, all puts of the
request are conditional, each with its own outcome. Cancelling a caller does not affect others; its
own change is not sent if it has not been yet, otherwise its outcome is unknown. The same holds for
a caller whose time is over (`end`), and its error says which of the two it is.

Combining goes further, for counters that the contract names: changes of one counter that wait
together share an item, and each caller gets an entry of its own (`ledger.core.parts`). Batching
saves time of clients and servers, but no write units; combining saves both.

    call after a pause ── at once ──> item 1 ──────────── answered
    calls of its turn, 20 ms ─────── wait ──> item 2 ──── answered
    calls of the next turn ───────────────── wait ──────> item 3

A counter takes turns from its first call on, until one passes without a call. Turns of all counters
end together, so their items share requests. Changes that come within a turn are sent at its end, in
one item, once the item before is answered; after five turns in any case. An item that is full is
sent at once.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, TypeVarTuple, Unpack

import anyio.lowlevel
from anyio.abc import TaskGroup

from ledger.core.entry import Key
from ledger.core.errors import LedgerError, NotSent, OutcomeUnknown
from ledger.core.parts import Part
from ledger.core.values import Entry
from ledger.runtime.call_deadlines import LATE_AT_ONCE, NEVER, TIMEOUT, bounded, not_sent
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import Turns
from ledger.settings.groups import WriterSettings
from ledger.store.writes import BATCH_WRITES_MAX
from ledger.writes.entry_plan import Change, PlannedEntry
from ledger.writes.pending_entries import PendingEntry, PendingParts
from ledger.writes.planner import Planner
from ledger.writes.sender import Result, Sender

if TYPE_CHECKING:
    from ledger.runtime.tracing.shared import SharedSpans

ARRIVAL_WEIGHT = 0.5
"""Weight of the latest gap between calls in the recent arrival rate."""
TURN_SECONDS = 0.02
"""How long changes of a combined counter wait for more, unless `linger` is longer."""
TURNS_MAX = 5
"""Turns after which an item is sent although the one before is not answered."""

Arguments = TypeVarTuple("Arguments")
Entered = tuple["asyncio.Future[Entry]", PendingEntry]
OnGroup = Callable[[int, int, Sequence[int]], None]


def _unchecked() -> None:
    """Refuse nothing."""


class GroupCommit:
    """Gathers changes into batches; made inside a running event loop."""

    def __init__(
        self,
        sender: Sender,
        planner: Planner,
        *,
        tasks: TaskGroup,
        clock: Clock,
        settings: WriterSettings,
        on_group: OnGroup,
        check: Callable[[], None] = _unchecked,
        spans: "SharedSpans | None" = None,
    ) -> None:
        """Take the sender and the planner; `check` may refuse ids by raising a `LedgerError`.

        With `spans` each batch is a span, linked to the calls that share it.
        """
        self._spans = spans
        self._check = check
        self._sender = sender
        self._planner = planner
        self._tasks = tasks
        self._clock = clock
        self._settings = settings
        self._on_group = on_group
        self._loop = asyncio.get_running_loop()
        self._queue_max = settings.queue_max
        self._waiting = 0
        self._room_waiters: deque[asyncio.Future[None]] = deque()
        self._queue: deque[PendingEntry] = deque()
        self._open: dict[str, PendingParts] = {}
        self._takes_turns: dict[str, PendingParts] = {}
        self._in_flight: set[PendingEntry] = set()
        self._awaited: dict[asyncio.Future[Entry], PendingEntry] = {}
        """What each caller waits for whose time may end."""
        self._ends = Turns(self._loop.call_soon, LATE_AT_ONCE)
        self._requests = 0
        self._request_done: asyncio.Event | None = None
        self._is_forming = False
        self._is_closed = False
        self._arrived = 0
        self._looked_at = clock.monotonic()
        self._gap_seconds = settings.linger

    def record(self, counter: str, change: Decimal, end: float = NEVER) -> Awaitable[Entry]:
        """Write one change with others; its id is made when its batch is.

        Raises:
            OutcomeUnknown: as for a single write, with only this entry; or `end` came.
            NotSent: closed, or `end` came, before its request was made.
            StoreError: nothing of this change was written.
        """
        if end == NEVER and self._waiting < self._queue_max and not self._room_waiters:
            return self._enter(counter, change)[0]
        return self._enter_later(end, self._enter, counter, change)

    def record_change(self, change: Change, end: float = NEVER) -> Awaitable[Entry]:
        """Write one change that is more than an amount; it is planned once there is room.

        Raises:
            As `record`, and InvalidInput if the change breaks a rule.
        """
        if end == NEVER and self._waiting < self._queue_max and not self._room_waiters:
            return self._enter_planned(change)[0]
        return self._enter_later(end, self._enter_planned, change)

    def record_planned(self, planned: PlannedEntry, end: float = NEVER) -> Awaitable[Entry]:
        """Write an entry that was planned by its caller.

        Raises:
            As `record`.
        """
        entry = planned.entry
        if end == NEVER and self._waiting < self._queue_max and not self._room_waiters:
            return self._enter(entry.counter, entry.change, planned)[0]
        return self._enter_later(end, self._enter, entry.counter, entry.change, planned)

    def combine(self, counter: str, change: Part, end: float = NEVER) -> Awaitable[Entry]:
        """Write a change in one item with all of its counter that wait with it.

        Raises:
            As `record`; to repeat the entry in the error repeats the whole item.
        """
        if end == NEVER and self._waiting < self._queue_max and not self._room_waiters:
            return self._enter_part(counter, change)[0]
        return self._enter_later(end, self._enter_part, counter, change)

    def close(self) -> None:
        """End every wait: what is in flight is unknown, what still waits is not sent."""
        self._is_closed = True
        unsent = NotSent("the ledger was closed before the change was sent: it is not written")
        for pending in (*self._queue, *self._open.values()):
            self._free(pending.fail(unsent))
        self._queue.clear()
        self._open.clear()
        for pending in self._in_flight:
            self._free(pending.fail(pending.unknown("the ledger was closed")))

    def _enter(self, counter: str, change: Decimal, planned: PlannedEntry | None = None) -> Entered:
        waiter = self._wait()
        pending = PendingEntry(counter, change, waiter, planned)
        self._queue.append(pending)
        return waiter, pending

    def _enter_planned(self, change: Change) -> Entered:
        planned = self._planner.plan(change)
        return self._enter(planned.entry.counter, planned.entry.change, planned)

    def _enter_part(self, counter: str, change: Part) -> Entered:
        waiter = self._wait()
        pending = self._open.get(counter)
        if pending is not None and pending.take(change, waiter):
            return waiter, pending
        if pending is not None and not pending.is_due:
            self._send_parts(pending)
        self._open[counter] = pending = PendingParts(counter, change, waiter)
        if counter not in self._takes_turns:
            if not self._takes_turns:
                self._tasks.start_soon(self._take_turns)
            self._takes_turns[counter] = pending
            self._send_parts(pending)
        return waiter, pending

    def _send_parts(self, pending: PendingParts) -> None:
        """Let an item be sent with the next batch; until then it takes more changes."""
        pending.is_due = True
        self._queue.append(pending)
        if not self._is_forming:
            self._begin_forming()

    async def _take_turns(self) -> None:
        """Send what came in each turn, of all counters together, until no counter takes turns."""
        seconds = max(TURN_SECONDS, self._settings.linger)
        while self._takes_turns:
            await self._clock.sleep(seconds)
            for counter, sent in list(self._takes_turns.items()):
                pending = self._open.get(counter)
                if pending is None or pending.is_due:
                    self._end_turn(sent)
                else:
                    pending.turns += 1
                    if not sent.waiters or pending.turns >= TURNS_MAX:
                        self._takes_turns[counter] = pending
                        self._send_parts(pending)

    def _end_turn(self, sent: PendingParts) -> None:
        """Let a counter take no more turns once a whole one has passed without a call."""
        if sent.has_passed_turn:
            del self._takes_turns[sent.counter]
        sent.has_passed_turn = True

    async def _enter_later(
        self,
        end: float,
        enter: Callable[[Unpack[Arguments]], Entered],
        *arguments: *Arguments,
    ) -> Entry:
        """Enter once there is room, and wait for the outcome; `end` reports what is known then.

        Raises:
            As `record`.
        """
        if self._waiting >= self._queue_max or self._room_waiters:
            await bounded(end, self._room(), not_sent)
        try:
            waiter, pending = enter(*arguments)
        except LedgerError:
            self._free(0)
            raise
        timer = None
        if end != NEVER:
            self._awaited[waiter] = pending
            timer = self._loop.call_at(end, self._ends.enter, None, partial(self._expire, waiter))
        del pending
        try:
            return await waiter
        finally:
            if timer is not None:
                timer.cancel()
                del self._awaited[waiter]
            del waiter  # it holds the error, whose traceback holds this frame

    async def _room(self) -> None:
        """Wait for room, first come first served; it must be taken at once."""
        room: asyncio.Future[None] = self._loop.create_future()
        self._room_waiters.append(room)
        try:
            await room
        except asyncio.CancelledError:
            if room.done() and not room.cancelled():  # the room came too late
                self._free(1)
            raise
        self._waiting -= 1

    def _expire(self, waiter: "asyncio.Future[Entry]") -> None:
        """End the wait of a caller whose time is over."""
        pending = self._awaited.get(waiter)
        if pending is not None and not waiter.done():
            is_sent = pending in self._in_flight
            waiter.set_exception(pending.unknown(TIMEOUT, waiter) if is_sent else not_sent())

    def _free(self, room: int) -> None:
        """Give room back, and pass it on to the calls that wait for it."""
        self._waiting -= room
        while self._room_waiters and self._waiting < self._queue_max:
            waiter = self._room_waiters.popleft()
            if not waiter.done():
                self._waiting += 1
                waiter.set_result(None)

    def _wait(self) -> "asyncio.Future[Entry]":
        """Return the future of a caller; a task that forms batches is started if none runs."""
        if self._is_closed:
            raise NotSent("the ledger was closed: the change is not written")
        self._arrived += 1
        self._waiting += 1
        if not self._is_forming:
            self._begin_forming()
        waiter: asyncio.Future[Entry] = self._loop.create_future()
        if self._spans is not None:
            self._spans.waits(waiter)
        return waiter

    def _begin_forming(self) -> None:
        self._is_forming = True
        self._tasks.start_soon(self._form_batches)

    async def _form_batches(self) -> None:
        """Form batches of what waits, and start sending them, until nothing waits."""
        try:
            # Every call that is made in this turn of the loop is in the first batch.
            await anyio.lowlevel.checkpoint()
            while self._queue:
                await self._linger()
                while self._requests >= self._settings.in_flight:
                    self._request_done = asyncio.Event()
                    await self._request_done.wait()
                group = self._next_group()
                if group:
                    self._requests += 1
                    self._tasks.start_soon(self._send_batches, group)
        finally:
            self._is_forming = False

    async def _linger(self) -> None:
        """Wait for more calls as long as it is worthwhile."""
        now = self._clock.monotonic()
        if self._arrived:
            # Gaps beyond the linger count alike; a long one would take long to be forgotten.
            gap = min((now - self._looked_at) / self._arrived, 2 * self._settings.linger)
            self._gap_seconds += ARRIVAL_WEIGHT * (gap - self._gap_seconds)
            self._looked_at, self._arrived = now, 0
        wait = linger_seconds(
            self._settings.linger,
            gap_seconds=self._gap_seconds,
            waiting=len(self._queue),
            is_idle=self._requests == 0,
        )
        if wait > 0:
            await self._clock.sleep(wait)

    def _next_group(self) -> list[PendingEntry]:
        """Take the next up to 25 entries; those whose callers have all gone are left out."""
        group: list[PendingEntry] = []
        keyed: set[Key] = set()
        queue = self._queue
        while queue and len(group) < BATCH_WRITES_MAX:
            pending = queue[0]
            planned = pending.planned
            if planned is not None and planned.keyed:
                if planned.put.key in keyed:  # a request may contain an item only once
                    break
                keyed.add(planned.put.key)
            queue.popleft()
            if isinstance(pending, PendingParts):
                pending = self._closed(pending)
            if pending.is_wanted():
                group.append(pending)
            else:
                self._free(pending.fail(None))
        self._plan_all([pending for pending in group if pending.planned is None])
        group = [pending for pending in group if pending.planned is not None]
        self._in_flight.update(group)
        return group

    def _plan_all(self, pendings: Sequence[PendingEntry]) -> None:
        """Plan entries not planned yet; those that may no longer be written fail their callers."""
        if not pendings:
            return
        try:
            self._check()
            planned = self._planner.plan_group([pending.grouped for pending in pendings])
        except LedgerError as error:
            for pending in pendings:
                self._free(pending.fail(error))
            return
        for pending, one in zip(pendings, planned, strict=True):
            pending.planned = one

    def _closed(self, pending: PendingParts) -> PendingParts:
        """Return what is sent of an item, which takes no more changes from now on."""
        if self._open.get(pending.counter) is pending:
            del self._open[pending.counter]
        sent = pending.without_gone()
        if not sent or sent[0] is pending:
            return pending
        self._free(pending.fail(None))
        for one in sent:
            self._awaited.update((waiter, one) for waiter in one.callers if waiter in self._awaited)
        self._queue.extend(sent[1:])
        return sent[0]

    async def _send_batches(self, group: list[PendingEntry]) -> None:
        """Send a batch, and the next one as long as a full one waits."""
        try:
            while group:
                await self._send_traced(group)
                group = self._next_group() if len(self._queue) >= BATCH_WRITES_MAX else []
        finally:
            self._requests -= 1
            if self._request_done is not None:
                self._request_done.set()

    async def _send_traced(self, group: list[PendingEntry]) -> None:
        """Send one batch, in a span of its own if spans are made."""
        if self._spans is None:
            await self._send_batch(group)
            return
        callers = [waiter for pending in group for waiter in pending.callers]
        counts = {"ledger.batch.entries": len(group), "ledger.batch.calls": len(callers)}
        with self._spans.span("ledger.batch", callers, attributes=counts):
            await self._send_batch(group)

    async def _send_batch(self, group: list[PendingEntry]) -> None:
        """Send one batch and give each caller the outcome of its own change."""
        planned = [pending.planned for pending in group if pending.planned is not None]

        report_durable = partial(self._report_durable, group)
        shared = [change.entry.count for change in planned if change.entry.parts]
        self._on_group(len(group), len(self._queue), shared)
        try:
            if len(planned) == 1:
                entry = await self._sender.put(planned[0])
                self._free(group[0].resolve(entry))
            elif any(change.is_conditional for change in planned):
                by_change = dict(zip(map(id, planned), group, strict=True))
                await self._sender.each(planned, partial(self._report_result, by_change))
            else:
                await self._sender.batch(planned, report_durable)
        except OutcomeUnknown as error:
            unknown = set(error.entries)
            for pending, change in zip(group, planned, strict=True):
                if change.entry in unknown:
                    own = OutcomeUnknown(str(error), entries=[change.entry], retryable=change.keyed)
                    self._free(pending.fail(own))
        except Exception as error:  # noqa: BLE001 (raised in every caller that waits)
            for pending in group:
                self._free(pending.fail(error))
        finally:
            self._in_flight.difference_update(group)

    def _report_durable(self, group: list[PendingEntry], durable: Sequence[PlannedEntry]) -> None:
        if len(durable) < len(group):
            done = set(map(id, durable))
            group = [pending for pending in group if id(pending.planned) in done]
        room = 0
        for pending, change in zip(group, durable, strict=True):
            room += pending.resolve(change.entry)
        self._free(room)

    def _report_result(
        self, group: Mapping[int, PendingEntry], change: PlannedEntry, result: Result
    ) -> None:
        pending = group[id(change)]
        room = pending.resolve(result) if isinstance(result, Entry) else pending.fail(result)
        self._free(room)


def linger_seconds(
    longest: float,
    *,
    gap_seconds: float,
    waiting: int,
    is_idle: bool,
) -> float:
    """Return how long the next batch waits for more changes.

    `gap_seconds` lies between two recent calls; if they come more rarely than `longest`, none
    would come in time.
    """
    if gap_seconds >= longest:
        return 0.0
    missing = BATCH_WRITES_MAX - waiting
    if is_idle or missing <= 0:
        return 0.0
    return min(longest, gap_seconds * missing)

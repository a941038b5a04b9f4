"""Writing changes: each becomes an entry, whose id is made once and reused by every retry.

::

    Writer ──┬── GroupCommit    concurrent calls share batches
             ├── bulk_write     many changes of one call
             ├── Planner        a change to an entry with its id
             └── Sender         requests, until the outcome of each entry is known, or the end

`GroupCommit` and `bulk_write` are built on `Sender`, which knows neither.

A call ends early when the ledger closes, or at the caller's deadline. What is durable by then
counts as written. The outcome of other entries in flight is unknown, so the call raises
`OutcomeUnknown` with those entries; entries not yet sent are never sent (`NotSent`). No call goes
on sending over closed connections.
"""

from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from anyio.abc import TaskGroup

from ledger.core import amounts, keys
from ledger.core.clock_offset import check_offset
from ledger.core.transfers import is_text
from ledger.core.values import Entry, Spending
from ledger.runtime.call_deadlines import NEVER
from ledger.runtime.services import Services
from ledger.runtime.tasks import in_portions
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.writes import bulk_write
from ledger.writes.asked_parts import (
    AskedParts,
    ListedChanges,
    plan_again,
    plan_changes,
    shared_legs,
)
from ledger.writes.book_rules import check_book, check_not_book
from ledger.writes.entry_plan import Change, PlannedEntry
from ledger.writes.group_commit import GroupCommit, OnGroup
from ledger.writes.insert_store import inserting
from ledger.writes.planner import Planner
from ledger.writes.sender import Sender

if TYPE_CHECKING:
    from ledger.runtime.tracing.shared import SharedSpans
from copy import copy
from functools import partial
from typing import TypeVar

import anyio

from ledger.core.errors import NotSent, OutcomeUnknown, safe_repeat
from ledger.runtime.call_deadlines import TIMEOUT, has_come
from ledger.writes.sender import ReportDurable, ReportResult, Result

Returned = TypeVar("Returned")


class _Calls:
    """The calls of a sender that are under way."""

    def __init__(self) -> None:
        self.scopes: set[anyio.CancelScope] = set()
        self.is_closed = False


class ClosableSender(Sender):
    """A sender whose calls end when it is closed, or at a deadline."""

    def __init__(self, store: Store, *, settings: LiveSettings, services: Services) -> None:
        super().__init__(store, settings=settings, services=services)
        self._calls = _Calls()
        self._end = NEVER

    def until(self, end: float) -> "ClosableSender":
        """Return this sender for calls that also end at a time of the event loop."""
        bounded: ClosableSender = copy(self)
        bounded._end = end
        return bounded

    def close(self) -> None:
        """End every call, and those that begin later, without waiting for them."""
        self._calls.is_closed = True
        for scope in self._calls.scopes:
            scope.cancel()

    async def put(self, planned: PlannedEntry) -> Entry:
        """Send one entry, as `Sender.put`.

        Raises:
            OutcomeUnknown, NotSent: ended during the call, or before it.
            And as `Sender.put`.
        """
        return await self._until_end(partial(super().put, planned), [planned])

    async def batch(
        self, planned: Sequence[PlannedEntry], report_durable: ReportDurable = lambda _durable: None
    ) -> None:
        """Send up to 25 entries, as `Sender.batch`.

        Raises:
            OutcomeUnknown: ended meanwhile; with the entries that were not reported.
            NotSent: ended before the call.
            And as `Sender.batch`.
        """
        left = list(planned)

        def report(durable: Sequence[PlannedEntry]) -> None:
            done = set(map(id, durable))
            left[:] = [change for change in left if id(change) not in done]
            report_durable(durable)

        await self._until_end(partial(super().batch, planned, report), left)

    async def each(self, planned: Sequence[PlannedEntry], report: ReportResult) -> None:
        """Send up to 25 different entries, as `Sender.each`; what is open at the end is unknown."""
        left = {id(change): change for change in planned}

        def noted(change: PlannedEntry, result: Result) -> None:
            if left.pop(id(change), None) is not None:
                report(change, result)

        try:
            await self._until_end(partial(super().each, planned, noted), planned)
        except (OutcomeUnknown, NotSent) as error:
            is_sent = isinstance(error, OutcomeUnknown)
            for change in list(left.values()):
                noted(change, self._unknown([change]) if is_sent else error)

    async def transaction(self, planned: Sequence[PlannedEntry]) -> list[Entry]:
        """Send up to 100 entries, all or none, as `Sender.transaction`.

        Raises:
            OutcomeUnknown, NotSent: ended during the call, or before it.
            And as `Sender.transaction`.
        """
        call = partial(super().transaction, planned)
        return await self._until_end(call, planned, together=True)

    async def _until_end(
        self,
        call: Callable[[], Awaitable[Returned]],
        planned: Sequence[PlannedEntry],
        *,
        together: bool = False,
    ) -> Returned:
        if self._calls.is_closed or has_come(self._end):
            raise NotSent(f"{self._why} before {_changes(planned)} sent: not written")
        with anyio.CancelScope(deadline=self._end) as scope:
            self._calls.scopes.add(scope)
            try:
                return await call()
            finally:
                self._calls.scopes.discard(scope)
        raise self._unknown(planned, together=together)

    def _unknown(
        self, planned: Sequence[PlannedEntry], *, together: bool = False
    ) -> OutcomeUnknown:
        is_keyed = all(change.keyed for change in planned)
        return OutcomeUnknown(
            f"{self._why} before {_changes(planned)} confirmed: the change may or may not be there;"
            f" {safe_repeat(is_named=is_keyed)} is safe until the retry horizon",
            entries=[change.entry for change in planned],
            together=together,
            retryable=is_keyed,
        )

    @property
    def _why(self) -> str:
        return "the ledger was closed" if self._calls.is_closed else TIMEOUT


def _changes(planned: Sequence[PlannedEntry]) -> str:
    return f"{len(planned)} change{'s were' if len(planned) != 1 else ' was'}"


class Writer:
    """Writes changes in one region."""

    def __init__(
        self,
        store: Store,
        *,
        settings: LiveSettings,
        services: Services,
        has_own_keys: bool = False,
    ) -> None:
        store = inserting(store, is_strict=settings.current.writer.strict)
        self._store = store
        self._live = settings
        self._settings = settings.current
        self._clock = services.clock
        self._planner = Planner(
            store.region, settings=settings, services=services, has_own_keys=has_own_keys
        )
        self._sender = Sender(store, settings=settings, services=services)
        self._direct = ClosableSender(store, settings=settings, services=services)
        self._group: GroupCommit | None = None

    def share(
        self, tasks: TaskGroup, *, on_group: OnGroup, spans: "SharedSpans | None" = None
    ) -> None:
        """Start to share batches between concurrent calls; before this each is sent by itself.

        `tasks` runs the sending. `on_group` is called with the size of each batch, how many calls
        wait, and how many changes those of its items have that calls share. With `spans` each batch
        is a span.
        """
        self._group = GroupCommit(
            self._sender,
            self._planner,
            tasks=tasks,
            clock=self._clock,
            settings=self._settings.writer,
            on_group=on_group,
            check=self.check_clock,
            spans=spans,
        )

    def close(self) -> None:
        """End every call: what is in flight is unknown, what waits to be shared is not sent."""
        self._direct.close()
        if self._group is not None:
            self._group.close()

    def record(self, change: Change, *, end: float = NEVER) -> Awaitable[Entry]:
        """Write one change; see `Ledger.record`. A broken rule is refused before any wait.

        `end` is the event loop's time at which this call ends, here and in all other calls.
        """
        self.check_clock()
        if self._group is None:
            return self._direct.until(end).put(self._planner.plan(change))
        if change.is_plain:
            return self.add(change.counter, change.change, end=end)
        legs = shared_legs(change, self._live.current)
        if legs is not None:
            return self._group.combine(keys.checked_new_counter(change.counter), legs, end)
        return self._group.record_change(change, end)

    def spend(
        self,
        change: Change,
        spending: Spending,
        *,
        end: float = NEVER,
        noted: Callable[[Entry], None] | None = None,
    ) -> Awaitable[Entry]:
        """Write a change that grants pay for, as `record` does; never past `spending.until`.

        `noted` is told the entry before it is sent.
        """
        planned = self.planned(change, spending)
        if noted is not None:
            noted(planned.entry)
        return self.put(planned, end=end)

    def planned(self, change: Change, spending: Spending) -> PlannedEntry:
        """Return the entry that a change will be written as, for `put`.

        Raises:
            InvalidInput, ContractConflict, ClockOff: as `record`.
        """
        self.check_clock()
        return self._planner.plan(change, spending=spending)

    def put(self, planned: PlannedEntry, *, end: float = NEVER) -> Awaitable[Entry]:
        """Write an entry that was planned just now, as `record` does."""
        if self._group is None:
            return self._direct.until(end).put(planned)
        return self._group.record_planned(planned, end)

    def add(self, counter: str, change: int | Decimal, *, end: float = NEVER) -> Awaitable[Entry]:
        """Write a change that is only an amount, as `record` does.

        The clock is read when its id is made, together with the calls that share its request.
        """
        if self._group is None:
            self.check_clock()
            return self._direct.until(end).put(self._planner.plan(Change(counter, change)))
        counter, amount = keys.checked_new_counter(counter), amounts.addend(change)
        settings = self._live.current
        if settings.books:
            check_not_book(counter, settings)
        if settings.combines(counter):
            return self._group.combine(counter, amount, end)
        return self._group.record(counter, amount, end)

    async def record_many(self, changes: Sequence[Change], *, end: float = NEVER) -> list[Entry]:
        """Write many changes, each independently; see `Ledger.record_many`."""
        self.check_clock()
        settings = self._live.current
        if settings.books:
            for change in changes:
                if change.is_plain:  # others are checked one by one, as they are planned
                    check_not_book(keys.checked_counter(change.counter), settings)
        asked = plan_changes(changes, self._planner, settings)
        return await asked.answered(bulk_write.send_all(self._direct.until(end), asked.planned))

    async def record_listed(self, listed: ListedChanges, *, end: float = NEVER) -> list[Entry]:
        """Write changes that have one key together; see `Ledger.record_many`."""
        self.check_clock()
        for counter, is_book in {(one.counter, is_text(one.parts)) for one in listed.items}:
            (check_book if is_book else check_not_book)(counter, self._live.current)
        asked = AskedParts(self._planner.replan(listed.items), listed.places)
        return await asked.answered(bulk_write.send_all(self._direct.until(end), asked.planned))

    async def record_together(
        self, changes: Sequence[Change], *, end: float = NEVER
    ) -> list[Entry]:
        """Write up to 100 changes, all or none; see `Ledger.record_together`."""
        self.check_clock()
        planned = [self._planner.plan(change) for change in changes]
        return await self._direct.until(end).transaction(planned)

    async def retry(
        self, entries: Sequence[Entry], *, together: bool, end: float = NEVER
    ) -> list[Entry]:
        """Write the same entries again; see `Ledger.retry`."""
        self.check_clock()
        asked, sender = (
            await in_portions(plan_again(entries, self._planner)),
            self._direct.until(end),
        )
        if together:
            return await asked.answered(sender.transaction(asked.planned))
        return await asked.answered(bulk_write.send_all(sender, asked.planned))

    def check_clock(self) -> None:
        """Refuse to make or judge ids by a clock that is off.

        Raises:
            ClockOff: nothing was written.
        """
        skew = self._live.current.clock_skew
        check_offset(self._store.clock_offset, skew=skew, region=self._store.region)

"""Writing changes: each becomes an entry, whose id is made once and reused by every retry.

::

    Writer ──┬── GroupCommit    concurrent calls share batches
             ├── large_write    many changes of one call
             ├── Planner        a change to an entry with its id
             └── Sender         requests, until the outcome of each entry is known, or the end

`GroupCommit` and `large_write` are built on `Sender`, which knows neither.
"""

from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

from anyio.abc import TaskGroup

from ledger.core import amounts, keys
from ledger.core.clock_offset import check_offset
from ledger.core.values import Entry, Spending
from ledger.runtime.call_deadlines import NEVER
from ledger.runtime.services import Services
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.writing import large_write
from ledger.writing.closing import ClosableSender
from ledger.writing.group_commit import GroupCommit, OnGroup
from ledger.writing.inserting import inserting
from ledger.writing.plan import Change, Planned
from ledger.writing.planner import Planner
from ledger.writing.sender import Sender

if TYPE_CHECKING:
    from ledger.runtime.tracing.shared import SharedSpans

COMBINES_MAX = 10_000
"""Counters for which a writer remembers whether their changes are combined."""


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
        self._combines = lru_cache(COMBINES_MAX)(self._settings.combines)
        self._group: GroupCommit | None = None

    def share(
        self, tasks: TaskGroup, *, on_group: OnGroup, spans: "SharedSpans | None" = None
    ) -> None:
        """Start to share batches between concurrent calls; before this each is sent by itself.

        `tasks` runs the sending. `on_group` is called with the size of each batch, and how many
        calls wait. With `spans` each batch is a span.
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

    def planned(self, change: Change, spending: Spending) -> Planned:
        """Return the entry that a change will be written as, for `put`.

        Raises:
            InvalidInput, ContractConflict, ClockOff: as `record`.
        """
        self.check_clock()
        return self._planner.plan(change, spending=spending)

    def put(self, planned: Planned, *, end: float = NEVER) -> Awaitable[Entry]:
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
        if self._settings.combine and self._combines(counter):
            return self._group.combine(counter, amount, end)
        return self._group.record(counter, amount, end)

    async def record_many(self, changes: Sequence[Change], *, end: float = NEVER) -> list[Entry]:
        """Write many changes, each independently; see `Ledger.record_many`."""
        self.check_clock()
        planned = self._planner.plan_many(changes)
        return await large_write.send_all(self._direct.until(end), planned)

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
        planned = self._planner.replan(entries)
        if together:
            return await self._direct.until(end).transaction(planned)
        return await large_write.send_all(self._direct.until(end), planned)

    def check_clock(self) -> None:
        """Refuse to make or judge ids by a clock that is off.

        Raises:
            ClockOff: nothing was written.
        """
        skew = self._live.current.clock_skew
        check_offset(self._store.clock_offset, skew=skew, region=self._store.region)

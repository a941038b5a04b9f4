"""`Ledger`: writer, reader and cache of one region, the public face of the library."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ledger.budgets.components import BudgetComponents
from ledger.core.amounts import check_bool
from ledger.core.errors import LedgerError, RetryHorizonPassed
from ledger.core.reconciliation import Reconciled
from ledger.core.values import Entry
from ledger.core.watches import Watch
from ledger.reads.archive.metrics import ArchiveMetrics
from ledger.runtime.call_deadlines import NEVER, bounded, deadline_of, not_sent
from ledger.runtime.metrics import Metrics
from ledger.runtime.services import Services
from ledger.runtime.supervisor import Supervised
from ledger.runtime.tracing.choice import tracing_of
from ledger.session.arguments import counters_named
from ledger.session.assembly import Assembly, GivenConnections
from ledger.session.components import CALLS, WRITES, Components
from ledger.session.feed import SessionFeed
from ledger.session.listings import SessionListings
from ledger.session.reads import SessionReads
from ledger.settings import Settings, checked_settings
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.watches.crossings import Call, CrossingCall, checked_call
from ledger.watches.watcher import Watches
from ledger.writes.asked_parts import ListedChanges
from ledger.writes.change_list import ChangeLike, parse_changes
from ledger.writes.entry_plan import Change
from ledger.writes.reversal import ReversalRequest

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class Ledger(SessionReads, SessionListings, SessionFeed):
    """Counters and balances of one region.

    Writes go to this region and are durable here when they return; global tables replicate them
    to the others. Totals count each change that has reached this region exactly once, merged or
    not.

    Any number of tasks of one asyncio event loop may use a ledger::

        async with Ledger.open(Settings.load(), region="eu-west-1") as ledger:
            await ledger.record("customer1-balance", 3, note="refund")
            total = await ledger.total("customer1-balance", max_age=0)

    Any task may enter it and any other may leave or `close` it, as fixtures and notebooks do
    (`await ledger.__aenter__()`). Only one opening is active at a time; after closing it may be
    opened again. An error of a background task, which would be a defect, closes the ledger: later
    calls fail with that error as their cause, and closing raises it. A forked child process must
    open it again.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        region: str,
        registry: "CollectorRegistry | None" = None,
        services: Services | None = None,
        given: GivenConnections | None = None,
    ) -> None:
        checked_settings(settings).region(region)
        self.settings = settings
        self.region = region
        self._services = services or Services.of(registry=registry)
        self.metrics: Metrics = self._services.metrics
        self._watches = Watches(settings)
        for name in settings.watches:
            self.metrics.watched(region, name)
        self._view = None
        self._opening = Supervised(self._opened)
        self._parts_opening = Assembly(
            settings=settings,
            region=region,
            services=self._services,
            archive_metrics=ArchiveMetrics.of(registry),
            watches=self._watches,
            given=given or GivenConnections(),
        )
        tracing = tracing_of(settings.tracing)
        if tracing is not None:
            from ledger.runtime.tracing.calls import trace_calls  # noqa: PLC0415 (an extra)

            trace_calls(
                self, CALLS, tracing, region=region, writes=WRITES, counters_of=counters_named
            )

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        region: str | None = None,
        registry: "CollectorRegistry | None" = None,
    ) -> Self:
        """Return a ledger of this region (by default `settings.home`), to be used in `async with`.

        `registry` receives the metrics, to be served with those of the application.

        Raises:
            SettingsError: not a `Settings`, or the region is not in them.
            InvalidInput: `registry` is not a registry of prometheus_client.
        """
        chosen = checked_settings(settings).home if region is None else region
        return cls(settings, region=chosen, registry=registry)

    async def __aenter__(self) -> Self:
        await self._opening.open()
        return self

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Components]:
        """Open the parts, and close them in reverse order."""
        async with AsyncExitStack() as stack:
            parts, self._view = await self._parts_opening.open(stack)
            yield parts

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections and end calls under way in other tasks; idempotent.

        Reads under way fail; writes under way return if they are durable by now, or raise
        `OutcomeUnknown` with the entries that may not be. Leaving `async with` closes as well. Any
        task of the event loop that opened the ledger may call it; cancelling that task cuts short
        the last writes for the compactor.

        Raises:
            LedgerError: another event loop opened it.
            Any error of a background task.
        """
        await self._opening.close()

    async def record(
        self,
        counter: str,
        change: int | Decimal,
        *,
        note: str | None = None,
        effective: date | None = None,
        key: str | None = None,
        at: datetime | None = None,
        metadata: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Entry:
        """Add `change` to a counter; durable in this region when it returns.

        Calls without a key that are made at the same time share requests; each returns the outcome
        of its own change. Those of a counter that the contract combines wait up to about 20 ms for
        each other, unless they come after a pause, and share an item; the id says which of its
        changes an entry is: `ID.000`, `ID.001`.

        Without a key each call is a separate change; lost answers are retried within the call.
        With a `key` that is a UUIDv7 or a ULID, or with any `key` plus an aware time `at`,
        repeating the call changes nothing, in any process and region: until that time is older
        than `retry_horizon`, and with an archive for as long as the archive is kept. Choose key and
        time once, and keep them for all attempts::

            order.key = str(uuid7())  # when the order is made
            await ledger.record("stock", -1, key=order.key)
            await ledger.record("stock", -1, key="order-17", at=order.made_at)  # the same

            await ledger.record("stock", -1, key="order-17", at=datetime.now(UTC))  # WRONG:
            # a repeat has another time, hence another id, and counts a second time

        The id of an entry is a key with a time, too, and names another change than that entry:
        `retry` writes the entry itself again.

        A key for another change is refused wherever the first one is visible; if two regions use it
        before either sees the other's, one of the changes is kept.

        With `timeout`, in seconds, the call ends then and reports what is known: `NotSent`, or
        `OutcomeUnknown` with the entry to `retry`. An `asyncio.timeout` around the call instead
        cancels it and loses the id it generated: pass `timeout`, or a key of your own.

        `metadata` are up to 20 texts by name, of 2 KB together, for whoever reads the history.

        Raises:
            InvalidAmount, AmountOverflow, InvalidCounter, InvalidEntry: nothing was written.
            RetryHorizonPassed: `at` is too old; nothing was written. Whether an earlier call wrote
                it is not known: there is no archive, or some changes of that time are not merged
                yet.
            NeverApplied: the archive shows that it was never applied; a new key is safe.
            KeyConflict: the key already stands for another change.
            OutcomeUnknown: no answer within `write_deadline`, or `timeout`; see `retry`.
            NotSent: one of them ended while the contract was read, `timeout` otherwise, or the
                ledger was closed, before it was sent.
            ClockOff: this machine's clock is off by more than `clock_skew`; nothing was written.
            StoreError: DynamoDB could not do it; nothing was written.
        """
        asked = None
        if not (note is None and effective is None and key is None and at is None and not metadata):
            asked = Change(counter, change, note, effective, key, at, None, metadata)
        return await self._record(counter, change, asked, timeout)

    async def _record(
        self, counter: str, change: int | Decimal, asked: Change | None, timeout: float | None
    ) -> Entry:
        """Write one change: what is `asked`, or one that is only an amount."""
        parts, view = self._opening.here(), self._view
        end = NEVER if timeout is None else deadline_of(timeout)
        try:
            if view is not None and view.is_due():  # rarely waits
                end = min(end, deadline_of(view.current.write_deadline))
                await bounded(end, view.renew(), not_sent)
            if asked is None:
                entry = await parts.writer.add(counter, change, end=end)
            else:
                if asked.legs is not None:
                    await bounded(end, parts.room.check([asked]), not_sent)
                entry = await parts.writer.record(asked, end=end)
        except RetryHorizonPassed as error:
            late = error  # if `timeout` ends, whether it was applied is unknown
            return await self._counted(bounded(end, parts.late.applied(error), lambda: late))
        except LedgerError as error:
            self.metrics.error(self.region, error)
            raise
        parts.hints.wrote(entry)
        return entry

    async def record_many(
        self,
        changes: Iterable[ChangeLike],
        *,
        key: str | None = None,
        at: datetime | None = None,
        timeout: float | None = None,
    ) -> list[Entry]:
        """Record many changes, each independently, in batches; all are checked before any is sent.

        A change is a `Change`, or a pair of counter and amount. `timeout` as in `record`.

        With a `key` and its time, as in `record`, the call may be repeated with the same list: each
        change counts once. Then each is an amount, or the legs of a transfer, alone. Changes of one
        counter share items, up to 100 in each, so that they cost a hundredth; the key says nothing
        of how many of the items are there, so repeat the whole list::

            await ledger.record_many(batch, key=f"{file}:{offset}", at=file_made_at)

        Raises:
            RetryHorizonPassed, NeverApplied: with a key, as in `record`.
            OutcomeUnknown: some are not confirmed: pass its `entries` to `retry`; all others are
                durable.
            KeyConflict: the key of one stands for another change; of several its `outcome` is
                unknown, since the others may be written: repeat only those that have keys.
            As `record`; a `StoreError` or `NotSent` means that none was written.
        """
        asked, parts, end = parse_changes(changes), self._open_parts, deadline_of(timeout)
        end = await self._renew_by(end)
        with self._transfers(asked) as made:
            await self._check_room(asked, end, is_listed=key is not None)
            if key is None and at is None:
                entries = await self._counted(parts.writer.record_many(asked, end=end))
            else:
                entries = await self._record_listed(ListedChanges.of(asked, key, at), end)
            made.extend(entries)
        parts.hints.wrote_all(entries)
        return entries

    async def _check_room(
        self, changes: Sequence[Change], end: float, *, is_listed: bool = False
    ) -> None:
        """Refuse transfers for whose accounts a book has no room; only where there are books."""
        parts = self._open_parts
        if parts.settings.current.books:
            checked = parts.room.check(changes, is_listed=is_listed)
            await self._counted(bounded(end, checked, not_sent))

    async def _record_listed(self, listed: ListedChanges, end: float) -> list[Entry]:
        parts = self._open_parts
        try:
            return await parts.writer.record_listed(listed, end=end)
        except RetryHorizonPassed as error:
            late = error
            known = parts.late.all_applied(error, listed.entries())
            return await self._counted(bounded(end, known, lambda: late))
        except LedgerError as error:
            self.metrics.error(self.region, error)
            raise

    async def record_together(
        self, changes: Iterable[ChangeLike], *, timeout: float | None = None
    ) -> list[Entry]:
        """Record up to 100 changes in one transaction: all or none in this region.

        Other regions receive them one by one, as global tables replicate. Costs twice the write
        units of single changes. `timeout` as in `record`.

        Raises:
            As `record`.
        """
        asked, parts, end = parse_changes(changes), self._open_parts, deadline_of(timeout)
        end = await self._renew_by(end)
        with self._transfers(asked) as made:
            await self._check_room(asked, end)
            entries = await self._counted(parts.writer.record_together(asked, end=end))
            made.extend(entries)
        parts.hints.wrote_all(entries)
        return entries

    async def retry(
        self,
        entries: Sequence[Entry],
        *,
        together: bool = False,
        timeout: float | None = None,
    ) -> list[Entry]:
        """Write the entries of an `OutcomeUnknown` again, under the same ids.

        Each counts once afterwards, whether the first attempt was applied or not. `together` as in
        the error, `timeout` as in `record`; after `NotSent` the outcome of the first attempt is
        still unknown.

        Raises:
            InvalidInput: `entries` is not a list of entries; nothing was written.
            RetryHorizonPassed: it is too late to be sure. With an archive all of them are looked up
                instead, and nothing is written.
            And as `record`.
        """
        parts, end = self._open_parts, deadline_of(timeout)
        check_bool("together", together)
        end = await self._renew_by(end)
        try:
            written = await parts.writer.retry(entries, together=together, end=end)
        except RetryHorizonPassed as error:
            late = error
            known = parts.late.all_applied(error, entries)
            return await self._counted(bounded(end, known, lambda: late))
        except LedgerError as error:
            self.metrics.error(self.region, error)
            raise
        parts.hints.wrote_all(written)
        return written

    async def reconcile(
        self,
        counter: str,
        *,
        counted: int | Decimal,
        at: datetime | None = None,
        reason: str | None = None,
        token: str | None = None,
        timeout: float | None = None,
    ) -> Reconciled:
        """Correct a total to a physical count, in the home region, by an entry of the difference.

        `counted` is the quantity found `at` a moment, by default now; the difference is taken from
        the total as of that moment, of what has reached home. `reason` becomes the entry's note.
        `token` names the count, by default `at` does: a repeat changes nothing more, and returns
        the first correction as long as that is in the table, or in its archive. Without both, each
        call is a separate count. All regions are read. A count that fits leaves an entry of 0.

        Raises:
            InvalidInput: `at` is earlier than single entries still show (at least `settle` ago), or
                not later than a count already taken into account; the token stands for another
                count; this is not the home region. Nothing was written.
            StateConflict: whether an earlier call with the token corrected the total is not known:
                its entry is in neither table nor archive, or may be on its way from a lost region.
            OutcomeUnknown: no answer, in time or within `timeout` seconds; repeat the call with the
                token in the message.
            And as `record` and `total`.
        """
        reconciler, end = self._open_parts.reconciler, deadline_of(timeout)
        end = await self._renew_by(end)
        call = reconciler.reconcile(
            counter, counted=counted, at=at, reason=reason, token=token, end=end
        )
        return await self._counted(call)

    async def reverse(
        self,
        entry: Entry,
        *,
        note: str | None = None,
        effective: date | None = None,
        timeout: float | None = None,
    ) -> Entry:
        """Reverse an entry by the opposite change, in the home region, once; return the reversal.

        Its `reverses` is the entry's id; each of several entries that share an item (`ID.000`) is
        reversed on its own. A repeat returns the first reversal, as long as that is in the table,
        or in its archive. The entry may have been merged long ago, if the table's archive has it;
        `ledger.history` yields it. All regions are read. Without an `effective` date the reversal
        has none, whatever the entry's is: `total(at=, effective=True)` counts it from when it was
        made, so a closed period does not change.

        Raises:
            StateConflict: there is no such entry; another region does not show it alike yet; it is
                itself a reversal, an open hold, or was reversed with another note or date. Nothing
                was written. Where its `outcome` is unknown an earlier call may have reversed it.
            InvalidInput: this is not the home region; nothing was written.
            OutcomeUnknown: no answer, in time or within `timeout` seconds; repeat the call.
            ArchiveError: the archive cannot be read.
            And as `record`.
        """
        reverser, end = self._open_parts.reverser, deadline_of(timeout)
        end = await self._renew_by(end)
        wanted = ReversalRequest(note, effective)
        return await self._counted(reverser.reverse(entry, wanted, end=end))

    def watch(
        self,
        counters: str,
        *,
        call: Call,
        below: int | Decimal | None = None,
        above: int | Decimal | None = None,
        rearm: int | Decimal | None = None,
        name: str | None = None,
    ) -> None:
        """Call a function when the total of a counter that matches a pattern crosses a bound.

        Crossings are noticed when a total is read, in any region, and decided once, by the home
        region's total. Processes with a watch of the same `name` (by default the pattern and the
        bound) share its crossings: one of them is called, at least once, always with the same
        `Crossing.id`, within 30 seconds. The watch fires again only after the total was at `rearm`.

        Raises:
            InvalidInput: bound, pattern, name or `call` breaks a rule, or the name is taken.
        """
        watch = Watch.of(name, counters, below=below, above=above, rearm=rearm)
        self._watches.add(CrossingCall(watch, checked_call(call)))
        self.metrics.watched(self.region, watch.name)

    @property
    def store(self) -> Store:
        """The open store, for other data kept in the same table.

        Raises:
            LedgerError: it is not open.
        """
        return self._opening.resource.store


def store_here(ledger: Ledger) -> Store:
    """Return the open store, for a call from a task of the ledger's event loop.

    Raises:
        LedgerError: it is not open, or in another event loop or process.
    """
    return ledger._opening.here().store  # noqa: SLF001 (as below)


async def record_change(ledger: Ledger, asked: Change, timeout: float | None) -> Entry:
    """Write one change that is more than an amount, as `Ledger.record` does."""
    with ledger._transfers([asked]) as made:  # noqa: SLF001 (same module, not public)
        made.append(await ledger._record(asked.counter, 0, asked, timeout))  # noqa: SLF001 (as above)
        return made[0]


def live_settings(ledger: Ledger) -> LiveSettings:
    """Return the settings in force for an open ledger, for other parts over the same store."""
    return ledger._opening.resource.settings  # noqa: SLF001 (same module, not public)


def budget_parts(ledger: Ledger) -> BudgetComponents:
    """Return the parts of an open ledger that its budgets use."""
    return ledger._opening.here().budgets  # noqa: SLF001 (same module, not public)


def with_own_keys(ledger: Ledger) -> None:
    """Let each entry have a key that proves who wrote it, from when the ledger is opened next.

    So those who write through a service cannot take an id that they saw for their own: see
    `ledger.core.own_keys`.
    """
    ledger._parts_opening = replace(ledger._parts_opening, has_own_keys=True)  # noqa: SLF001 (as above)

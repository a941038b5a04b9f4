"""The library without async, for scripts, Django and Lambda: the same code behind a portal.

One event loop runs in a thread of its own while a table or a ledger is open; any thread may call.
Each class here has the methods, with the guarantees and errors, of its async namesake. What is
dropped while it is open is closed, with a `ResourceWarning`.

A fork does not have that thread: in a child process of gunicorn with `--preload`, Celery or
multiprocessing, objects opened before the fork, and objects made from them, are refused
(`LedgerError`). Open them in the child, as in gunicorn's `post_fork`; the same object may be opened
again there.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, Unpack, overload

import anyio.to_thread

from ledger.budgets import budget, memory_hold
from ledger.budgets.spend_request import Granted, Refused
from ledger.core.entry import Key
from ledger.core.errors import LedgerError
from ledger.core.values import Entry
from ledger.core.watches import Crossing
from ledger.primitives import counters, leases, sequences, versions
from ledger.primitives.leases import LeaseTerms
from ledger.primitives.versions.commit import Committed
from ledger.primitives.versions.lock import WAIT_SECONDS
from ledger.primitives.versions.turn_queue import WAITING_MAX
from ledger.primitives.versions.version_rules import Repeats, checked_handler
from ledger.runtime.portal import Entered as _Entered
from ledger.runtime.portal import HasPortal as _HasPortal
from ledger.runtime.portal import Opened as _Opened
from ledger.runtime.portal import Sync as _Sync
from ledger.runtime.portal import context as _context
from ledger.runtime.portal import iterator as _iterator
from ledger.runtime.portal import plain as _plain
from ledger.session import book
from ledger.session.ledger import Ledger as AsyncLedger
from ledger.settings import Settings
from ledger.store.writes import Action, Check
from ledger.table import Table as AsyncTable
from ledger.watches.crossings import checked_call
from ledger.writes.imports.batch_writer import BatchDone
from ledger.writes.imports.importer import Importer as AsyncImporter
from ledger.writes.imports.survey import StopSign

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from ledger.pipeline.sources.dead_letters import LetterSink as LaneDeadLetters
    from ledger.pipeline.sources.source import Source
    from ledger.pipeline.stages.worker import LaneWorker as AsyncPipeline
    from ledger.pipeline.stages.worker import OnCounted

_DEFAULT_TERMS = LeaseTerms()


class Ledger(_Opened[AsyncLedger]):
    """`ledger.Ledger` with plain calls.

    ::

        with Ledger.open(Settings.load(), region="eu-west-1") as ledger:
            ledger.record("customer1-balance", 3, note="refund")
    """

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        region: str | None = None,
        registry: "CollectorRegistry | None" = None,
    ) -> Self:
        """Return a ledger of this region (by default `settings.home`), to be used in `with`."""
        return cls(AsyncLedger.open(settings, region=region, registry=registry))

    record: Final = _plain(AsyncLedger.record)
    record_many: Final = _plain(AsyncLedger.record_many)
    record_together: Final = _plain(AsyncLedger.record_together)
    retry: Final = _plain(AsyncLedger.retry)
    reconcile: Final = _plain(AsyncLedger.reconcile)
    reverse: Final = _plain(AsyncLedger.reverse)
    feed: Final = _iterator(AsyncLedger.feed)
    feed_page: Final = _plain(AsyncLedger.feed_page)
    total: Final = _plain(AsyncLedger.total)
    totals: Final = _plain(AsyncLedger.totals)
    periods: Final = _plain(AsyncLedger.periods)
    periods_many: Final = _plain(AsyncLedger.periods_many)
    history: Final = _iterator(AsyncLedger.history)
    counters: Final = _iterator(AsyncLedger.counters)
    top: Final = _plain(AsyncLedger.top)
    describe: Final = _plain(AsyncLedger.describe)
    description: Final = _plain(AsyncLedger.description)

    def watch(
        self,
        counters: str,
        *,
        call: Callable[[Crossing], None],
        below: int | Decimal | None = None,
        above: int | Decimal | None = None,
        rearm: int | Decimal | None = None,
        name: str | None = None,
    ) -> None:
        """Call a function, in a separate thread, for crossings; see the async `Ledger.watch`."""
        checked_call(call)

        async def in_thread(crossing: Crossing) -> None:
            await anyio.to_thread.run_sync(call, crossing, abandon_on_cancel=True)

        self._behind.watch(
            counters, call=in_thread, below=below, above=above, rearm=rearm, name=name
        )


class Counter(_Sync[counters.Counter]):
    """`ledger.primitives.counters.Counter` with plain calls."""

    add: Final = _plain(counters.Counter.add)
    lookup: Final = _plain(counters.Counter.lookup)
    reconcile: Final = _plain(counters.Counter.reconcile)
    value: Final = _plain(counters.Counter.value)

    @property
    def guarantees(self) -> counters.Guarantees:
        """The guarantees of this method of counting."""
        return self._behind.guarantees


class ItemCounter(_Sync[counters.ItemCounter]):
    """`ledger.primitives.counters.ItemCounter` with plain calls."""

    add: Final = _plain(counters.ItemCounter.add)
    lookup: Final = _plain(counters.ItemCounter.lookup)
    reconcile: Final = _plain(counters.ItemCounter.reconcile)
    value: Final = _plain(counters.ItemCounter.value)
    shards: Final = _plain(counters.ItemCounter.shards)
    even_out: Final = _plain(counters.ItemCounter.even_out)
    convert: Final = _plain(counters.ItemCounter.convert)
    hand_over: Final = _plain(counters.ItemCounter.hand_over)

    @property
    def guarantees(self) -> counters.Guarantees:
        """The guarantees of this method of counting."""
        return self._behind.guarantees


class CounterSequence(_Sync[sequences.CounterSequence]):
    """`ledger.primitives.sequences.CounterSequence` with plain calls."""

    next: Final = _plain(sequences.CounterSequence.next)
    put_next: Final = _plain(sequences.CounterSequence.put_next)


class SortKeySequence(_Sync[sequences.SortKeySequence]):
    """`ledger.primitives.sequences.SortKeySequence` with plain calls."""

    append: Final = _plain(sequences.SortKeySequence.append)
    append_many: Final = _plain(sequences.SortKeySequence.append_many)
    highest: Final = _plain(sequences.SortKeySequence.highest)
    read: Final = _plain(sequences.SortKeySequence.read)


class Lease(_Sync[leases.Lease]):
    """`ledger.primitives.leases.Lease` with plain calls; `held` is a context for `with`.

    Heartbeats run in the loop's thread, whatever the calling thread does.
    """

    acquire: Final = _plain(leases.Lease.acquire)
    held: Final = _context(leases.Lease.held)
    heartbeat: Final = _plain(leases.Lease.heartbeat)
    confirm: Final = _plain(leases.Lease.confirm)
    look: Final = _plain(leases.Lease.look)
    watch: Final = _plain(leases.Lease.watch)
    transact: Final = _plain(leases.Lease.transact)
    release: Final = _plain(leases.Lease.release)
    hand_over: Final = _plain(leases.Lease.hand_over)

    def check(self) -> None:
        """Raise `LeaseLost` unless the lease is surely ours; see the async `Lease.check`."""
        self._loop.portal.call(self._behind.check)

    def fence(self) -> Check:
        """Return the check of our epoch for a transaction; see the async `Lease.fence`."""
        return self._loop.portal.call(self._behind.fence)

    @property
    def lost(self) -> bool:
        """Whether the current holding is lost; set before another can take the lease."""
        return self._behind.lost.is_set()


class DeadLetters(_Sync[versions.DeadLetters]):
    """`ledger.primitives.versions.DeadLetters` with plain calls."""

    find: Final = _plain(versions.DeadLetters.find)
    failed: Final = _plain(versions.DeadLetters.failed)
    letters: Final = _iterator(versions.DeadLetters.letters)
    release: Final = _plain(versions.DeadLetters.release)


class ConditionGuard(_Sync[versions.ConditionGuard]):
    """`ledger.primitives.versions.ConditionGuard` with plain calls."""

    put: Final = _plain(versions.ConditionGuard.put)
    put_many: Final = _plain(versions.ConditionGuard.put_many)
    delete: Final = _plain(versions.ConditionGuard.delete)
    read: Final = _plain(versions.ConditionGuard.read)
    adopt: Final = _plain(versions.ConditionGuard.adopt)
    handle: Final = _plain(versions.ConditionGuard.handle)

    @property
    def dead_letters(self) -> DeadLetters:
        """The failures of the table's events."""
        return DeadLetters(self._behind.dead_letters, self._loop)


Handler = Callable[[versions.Event, Lease], Sequence[Action]]
"""As `ledger.primitives.versions.Handler`, without async."""


class LockGuard(_Sync[versions.LockGuard]):
    """`ledger.primitives.versions.LockGuard` with plain calls and plain handlers."""

    @property
    def dead_letters(self) -> DeadLetters:
        """The failures of the table's events."""
        return DeadLetters(self._behind.dead_letters, self._loop)

    def handle(
        self,
        event: versions.Event,
        handler: Handler,
        *,
        wait_seconds: float = WAIT_SECONDS,
        timeout: float | None = None,
    ) -> Committed | versions.Busy | versions.DeadLetter:
        """Run the handler, in a thread, if the event is newer; see the async `LockGuard.handle`.

        A handler that runs when `timeout` ends is left to its thread.
        """
        checked_handler(handler)

        async def in_thread(event: versions.Event, lease: leases.Lease) -> Sequence[Action]:
            held = Lease(lease, self._loop)
            return await anyio.to_thread.run_sync(handler, event, held, abandon_on_cancel=True)

        return self._loop.portal.call(
            partial(
                self._behind.handle, event, in_thread, wait_seconds=wait_seconds, timeout=timeout
            )
        )


class Hold(_Sync[budget.Hold]):
    """`ledger.budgets.budget.Hold` with plain calls."""

    settle: Final = _plain(budget.Hold.settle)
    void: Final = _plain(budget.Hold.void)

    @property
    def entry(self) -> Entry:
        """Its entry."""
        return self._behind.entry

    def extend(self, expires: budget.Expires, *, timeout: float | None = None) -> "Hold":
        """Let it expire later; see the async `Hold.extend`."""
        call = partial(self._behind.extend, expires, timeout=timeout)
        return Hold(self._loop.portal.call(call), self._loop)


class LightHold(_Sync[memory_hold.LightHold]):
    """`ledger.budgets.memory_hold.LightHold` with plain calls."""

    settle: Final = _plain(memory_hold.LightHold.settle)
    void: Final = _plain(memory_hold.LightHold.void)

    @property
    def amount(self) -> Decimal:
        """What is kept aside."""
        return self._behind.amount

    @property
    def expires(self) -> datetime:
        """When it expires."""
        return self._behind.expires

    def extend(self, expires: budget.Expires) -> "LightHold":
        """Let it expire later; see the async `LightHold.extend`."""
        self._loop.portal.call(partial(self._behind.extend, expires))
        return self


_Budgets_co = TypeVar("_Budgets_co", bound=budget.Budgets, covariant=True)


class _Spending(_Sync[_Budgets_co]):
    """What one budget and several have in common."""

    spend: Final = _plain(budget.Budgets.spend)

    @property
    def names(self) -> tuple[str, ...]:
        """The budgets' counters."""
        return self._behind.names

    @overload
    def hold(
        self,
        amount: int | Decimal,
        *,
        expires: budget.Expires,
        light: Literal[False] = False,
        note: str | None = None,
        key: str | None = None,
        at: datetime | None = None,
        wait: float = 0.0,
        timeout: float | None = None,
    ) -> Hold | Refused: ...

    @overload
    def hold(
        self,
        amount: int | Decimal,
        *,
        expires: budget.Expires,
        light: Literal[True],
        note: str | None = None,
        wait: float = 0.0,
        timeout: float | None = None,
    ) -> LightHold | Refused: ...

    def hold(
        self,
        amount: int | Decimal,
        *,
        expires: budget.Expires,
        light: bool = False,
        note: str | None = None,
        key: str | None = None,
        at: datetime | None = None,
        wait: float = 0.0,
        timeout: float | None = None,
    ) -> Hold | LightHold | Refused:
        """Keep an amount aside; see the async `Budgets.hold`."""
        call: Any = partial(self._behind.hold, amount, expires=expires, light=light, note=note)
        more = partial(call, key=key, at=at, wait=wait, timeout=timeout)
        held: budget.Held | Refused = self._loop.portal.call(more)
        if isinstance(held, Refused):
            return held
        if isinstance(held, budget.Hold):
            return Hold(held, self._loop)
        return LightHold(held, self._loop)

    def held(self, entry: Entry) -> Hold:
        """Return the hold of an entry, which any process may settle or void."""
        return Hold(self._behind.held(entry), self._loop)

    def settle_many(
        self,
        settled: Sequence[tuple[Hold | LightHold, int | Decimal]],
        *,
        over: bool = False,
        timeout: float | None = None,
    ) -> list[Granted | Refused | LedgerError]:
        """Settle holds for what each came to; see the async `Budgets.settle_many`."""
        behind = [(hold._behind, actual) for hold, actual in settled]  # noqa: SLF001
        return self._loop.portal.call(
            partial(self._behind.settle_many, behind, over=over, timeout=timeout)
        )

    def void_many(
        self, held: Sequence[Hold | LightHold], *, timeout: float | None = None
    ) -> list[budget.Outcome]:
        """Void holds; see the async `Budgets.void_many`."""
        behind = [hold._behind for hold in held]  # noqa: SLF001 (of this module)
        return self._loop.portal.call(partial(self._behind.void_many, behind, timeout=timeout))


class Budgets(_Spending[budget.Budgets]):
    """`ledger.budgets.budget.Budgets` with plain calls."""


class Budget(_Spending[budget.Budget]):
    """`ledger.budgets.budget.Budget` with plain calls."""

    create: Final = _plain(budget.Budget.create)
    credit: Final = _plain(budget.Budget.credit)
    raise_limit: Final = _plain(budget.Budget.raise_limit)
    lower_limit: Final = _plain(budget.Budget.lower_limit)
    go_on: Final = _plain(budget.Budget.go_on)
    state: Final = _plain(budget.Budget.state)
    explain: Final = _plain(budget.Budget.explain)

    @property
    def name(self) -> str:
        """The budget's counter."""
        return self._behind.name


class Book(_Sync[book.Book]):
    """`ledger.Book` with plain calls."""

    @property
    def name(self) -> str:
        """The counter that the book is."""
        return self._behind.name

    transfer: Final = _plain(book.Book.transfer)
    transfer_many: Final = _plain(book.Book.transfer_many)
    balances: Final = _plain(book.Book.balances)
    history: Final = _iterator(book.Book.history)


class Importer(_Sync[AsyncImporter]):
    """`ledger.writes.imports.Importer` with plain calls."""

    run_file: Final = _plain(AsyncImporter.run_file)
    run: Final = _plain(AsyncImporter.run)


class Pipeline:
    """`ledger.pipeline.stages.worker.LaneWorker` with plain calls."""

    def __init__(self, behind: "AsyncPipeline", loop: _HasPortal) -> None:
        self._behind = behind
        self._loop = loop

    @property
    def position(self) -> str:
        """The position that is known to be committed; empty before the lane was first read."""
        return self._behind.position

    def run(self, *, timeout: float | None = None) -> None:
        """Process the lane's records until its source ends; see the async `Pipeline.run`."""
        self._loop.portal.call(partial(self._behind.run, timeout=timeout))

    def stop(self) -> None:
        """Read nothing more, from another thread than that of `run`, which then returns."""
        self._loop.portal.call(self._behind.stop)


class Table(_Opened[AsyncTable]):
    """`ledger.Table` with plain calls.

    ::

        with Table.open(Settings.load(), region="eu-west-1") as table:
            table.ledger.record("customer1-balance", 3, note="refund")
            with table.lease("nightly-job").held(wait_seconds=60) as held:
                ...
    """

    def __init__(self, behind: AsyncTable) -> None:
        super().__init__(behind)
        self.ledger: Ledger = Ledger(behind.ledger, self._loop)

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        region: str | None = None,
        registry: "CollectorRegistry | None" = None,
    ) -> Self:
        """Return the table of this region (by default `settings.home`), to be used in `with`."""
        return cls(AsyncTable.open(settings, region=region, registry=registry))

    @overload
    def counter(
        self,
        name: str,
        *,
        method: counters.ItemMethodName,
        **options: Unpack[counters.CounterOptions],
    ) -> ItemCounter: ...

    @overload
    def counter(
        self,
        name: str,
        *,
        method: Literal["collection"] = "collection",
        **options: Unpack[counters.CounterOptions],
    ) -> Counter: ...

    def counter(
        self,
        name: str,
        *,
        method: counters.MethodName = "collection",
        **options: Unpack[counters.CounterOptions],
    ) -> Counter | ItemCounter:
        """Return a counter; see `ledger.Table.counter`."""
        behind = self._behind.counter(name, method=method, **options)
        if isinstance(behind, counters.ItemCounter):
            return ItemCounter(behind, self._loop.current)
        return Counter(behind, self._loop.current)

    convert_counter: Final = _plain(AsyncTable.convert_counter)

    @overload
    def sequence(
        self,
        name: str,
        *,
        method: Literal["counter"] = "counter",
        block: int = 1,
        kept_seconds: float | None = None,
    ) -> CounterSequence: ...

    @overload
    def sequence(
        self,
        name: str,
        *,
        method: Literal["sort-key"],
        after_race: sequences.AfterRace = "query",
        added_max: int = sequences.ADDED_MAX,
        consistent: bool = True,
    ) -> SortKeySequence: ...

    def sequence(self, name: str, **options: Any) -> CounterSequence | SortKeySequence:
        """Return a sequence of numbers; see `ledger.Table.sequence`."""
        behind = self._behind.sequence(name, **options)
        if isinstance(behind, sequences.CounterSequence):
            return CounterSequence(behind, self._loop.current)
        return SortKeySequence(behind, self._loop.current)

    def lease(
        self,
        name: str,
        *,
        owner: str | None = None,
        terms: LeaseTerms = _DEFAULT_TERMS,
        key: Key | None = None,
        in_thread: bool = False,
        delete_on_release: bool = False,
    ) -> Lease:
        """Return one contender for a lease; see `ledger.Table.lease`."""
        behind = self._behind.lease(
            name,
            owner=owner,
            terms=terms,
            key=key,
            in_thread=in_thread,
            delete_on_release=delete_on_release,
        )
        return Lease(behind, self._loop.current)

    leases: Final = _iterator(AsyncTable.leases)
    all_budgets: Final = _iterator(AsyncTable.all_budgets)

    def budget(self, counter: str) -> Budget:
        """Return the limit of a counter; see `ledger.Table.budget`."""
        return Budget(self._behind.budget(counter), self._loop.current)

    def book(self, name: str) -> Book:
        """Return a book; see `ledger.Table.book`."""
        return Book(self._behind.book(name), self._loop.current)

    def budgets(self, counters: Sequence[str]) -> Budgets:
        """Return several limits that are spent from together; see `ledger.Table.budgets`."""
        return Budgets(self._behind.budgets(counters), self._loop.current)

    @overload
    def versions(
        self,
        *,
        method: Literal["condition"] = "condition",
        repeats: Repeats = "skip",
        tombstone_seconds: float | None = None,
        failures_max: int | None = None,
    ) -> ConditionGuard: ...

    @overload
    def versions(
        self,
        *,
        method: Literal["lock"],
        owner: str | None = None,
        terms: LeaseTerms = _DEFAULT_TERMS,
        check_first: bool = True,
        waiting_max: int = WAITING_MAX,
        repeats: Repeats = "skip",
        tombstone_seconds: float | None = None,
        failures_max: int | None = None,
    ) -> LockGuard: ...

    def versions(self, **options: Any) -> ConditionGuard | LockGuard:
        """Return a guard of record versions; see `ledger.Table.versions`."""
        behind = self._behind.versions(**options)
        if isinstance(behind, versions.ConditionGuard):
            return ConditionGuard(behind, self._loop.current)
        return LockGuard(behind, self._loop.current)

    def importer(
        self,
        *,
        stop: StopSign | None = None,
        on_batch: Callable[[BatchDone], None] | None = None,
    ) -> Importer:
        """Return an importer; see `ledger.Table.importer`.

        `on_batch` is called in the loop's thread and must not call back into the table.
        """
        return Importer(self._behind.importer(stop=stop, on_batch=on_batch), self._loop.current)

    @contextmanager
    def pipeline(
        self,
        lane: str,
        source: "Source | Path | str",
        *,
        dead_letters: "LaneDeadLetters | Path | str",
        name: str | None = None,
        on_counted: "OnCounted | None" = None,
        timeout: float | None = None,
    ) -> Iterator[Pipeline]:
        """Open a pipeline of one lane; see `ledger.Table.pipeline`.

        `on_counted` is called in the loop's thread and must not call back into the table.
        """
        opening = self._behind.pipeline(
            lane,
            source,
            dead_letters=dead_letters,
            name=name,
            on_counted=on_counted,
            timeout=timeout,
        )
        with _Entered(self._loop, opening) as behind:
            yield Pipeline(behind, self._loop.current)

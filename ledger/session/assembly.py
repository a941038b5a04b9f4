"""The parts of an open `Ledger`, opened in order and closed in reverse order."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import anyio

from ledger.budgets.components import BudgetComponents
from ledger.budgets.region_access import RegionAccess
from ledger.contract.view import ContractView
from ledger.reads.archive.access import ArchiveAccess
from ledger.reads.archive.metrics import ArchiveMetrics
from ledger.reads.archive.places.port import Place
from ledger.reads.feed.port import Stream
from ledger.reads.feed.stream_access import FeedAccess
from ledger.reads.reader import Reader
from ledger.reads.total_cache import TotalCache
from ledger.runtime.services import Services
from ledger.runtime.tracing.choice import tracing_of
from ledger.session.components import Components
from ledger.settings import Settings
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.watches.watcher import Watcher, Watches
from ledger.writes.book_room import BookRoom
from ledger.writes.hint_writer import HintWriter
from ledger.writes.past_horizon import PastHorizon
from ledger.writes.reconciliation import Reconciler
from ledger.writes.reversal import Reverser
from ledger.writes.writer import Writer

if TYPE_CHECKING:
    from ledger.runtime.tracing.shared import SharedSpans


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenConnections:
    """Connections that a test or a simulation brings, in place of those that the settings name.

    Beside a `store` the ledger opens no connections: those that are not given are missing. A given
    store's table has the settings as its contract; with `contract` it has a contract item.
    """

    store: Store | None = None
    home: Store | None = None
    others: Mapping[str, Store] | None = None
    archive: Sequence[Place] | None = None
    stream: Stream | None = None
    contract: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """What a ledger is opened with.

    With `has_own_keys` an entry whose caller names no key gets one: see `ledger.core.own_keys`.
    """

    settings: Settings
    region: str
    services: Services
    archive_metrics: ArchiveMetrics
    watches: Watches
    given: GivenConnections
    has_own_keys: bool = False

    async def open(self, stack: AsyncExitStack) -> tuple[Components, ContractView | None]:
        """Return the parts, and the view of the contract that they follow.

        Raises:
            ContractMissing, ContractConflict, ContractDamaged, UpgradeNeeded: as reading the
                contract.
            StoreError: it cannot be read.
        """
        services, given = self.services, self.given
        store = await self._store(stack)
        view = await self._contract(stack, store)
        live: LiveSettings = self.settings if view is None else view
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        writer = Writer(store, settings=live, services=services, has_own_keys=self.has_own_keys)
        writer.share(
            tasks, on_group=partial(services.metrics.group, self.region), spans=self._shared_spans()
        )
        stack.callback(writer.close)
        reader = Reader(store, settings=live, services=services)
        watcher = Watcher(
            self.watches,
            store,
            home=given.home,
            may_open=given.store is None,
            settings=live,
            services=services,
            tasks=tasks,
        )
        cache = TotalCache(
            reader.total_in_time,
            region=self.region,
            settings=self.settings.cache,
            services=services,
            tasks=tasks,
            on_read=watcher.saw,
            spans=self._shared_spans(),
        )
        hints = HintWriter(store, settings=live, services=services, tasks=tasks)
        stack.push_async_callback(hints.close)
        stack.push_async_callback(watcher.close)
        archive = self._archive(live)
        stack.push_async_callback(archive.close)
        feed = FeedAccess(
            live,
            region=self.region,
            clock=services.clock,
            given=given.stream,
            may_open=given.store is None,
        )
        stack.push_async_callback(feed.close)
        made = store, live, services
        late = PastHorizon(store, live, archive, hints)
        others = self._other_stores(stack, live)
        budgets = BudgetComponents.of(
            RegionAccess(store, live, services, others),
            writer,
            hints=hints,
            late=late,
            tasks=tasks,
        )
        stack.push_async_callback(budgets.holdings.close)
        parts = Components(
            store=store,
            settings=live,
            writer=writer,
            room=BookRoom(store, live, services.clock, total=reader.total),
            reader=reader,
            cache=cache,
            hints=hints,
            watcher=watcher,
            reconciler=Reconciler(
                *made, archive=archive.reader, others=others, on_entry=hints.wrote
            ),
            archive=archive,
            feed=feed,
            late=late,
            reverser=Reverser(
                *made,
                archive=archive.reader,
                others=others,
                on_entry=hints.wrote,
                gives_back=budgets.creditor.give_back,
            ),
            budgets=budgets,
        )
        return parts, view

    def _other_stores(
        self, stack: AsyncExitStack, live: LiveSettings
    ) -> Callable[[], Awaitable[Mapping[str, Store]]]:
        """Return what opens the other regions once they are needed, and closes them at the end.

        Whenever that was, after all that is entered from now on: what uses them may as it closes.
        """
        given, services = self.given, self.services
        is_given = given.store is not None or given.others is not None
        opened: dict[str, Store] = dict(given.others or {})
        regions = AsyncExitStack()
        stack.push_async_exit(regions)
        lock = anyio.Lock()

        async def stores() -> Mapping[str, Store]:
            if is_given:
                return opened
            # Imported only here, since it brings botocore.
            from ledger.store.connections import open_stores  # noqa: PLC0415

            async with lock:
                settings = live.current  # a region may have been added, or be gone
                named = [region for region in settings.regions if region != self.region]
                if missing := [region for region in named if region not in opened]:
                    opening = open_stores(
                        settings,
                        missing,
                        metrics=services.metrics,
                        clock=services.clock,
                        randomness=services.randomness,
                    )
                    opened.update(await regions.enter_async_context(opening))
                return {region: opened[region] for region in named}

        return stores

    async def _store(self, stack: AsyncExitStack) -> Store:
        if self.given.store is not None:
            return self.given.store
        # Imported only here, since it brings botocore.
        from ledger.store.connections import open_store  # noqa: PLC0415

        opening = open_store(
            self.settings,
            self.region,
            metrics=self.services.metrics,
            clock=self.services.clock,
            randomness=self.services.randomness,
        )
        return await stack.enter_async_context(opening)

    async def _contract(self, stack: AsyncExitStack, store: Store) -> ContractView | None:
        if self.given.store is not None and not self.given.contract:
            return None
        view = ContractView(store, self.settings, clock=self.services.clock)
        await view.open()
        stack.callback(view.close)
        return view

    def _shared_spans(self) -> "SharedSpans | None":
        """Return the tracer of requests that calls share; None without tracing."""
        tracing = tracing_of(self.settings.tracing)
        if tracing is None:
            return None
        from ledger.runtime.tracing.shared import SharedSpans  # noqa: PLC0415 (an extra)

        return SharedSpans(tracing)

    def _archive(self, live: LiveSettings) -> ArchiveAccess:
        return ArchiveAccess(
            live,
            region=self.region,
            clock=self.services.clock,
            metrics=self.archive_metrics,
            places=self.given.archive,
        )

"""`Table`: one region's table, opened once, and everything the library keeps in it.

The parts are made here, because connection, clock, randomness and metrics belong to the table.
The ledger is one of the parts (`table.ledger`): the table adds nothing to its calls.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ledger.budgets.budget import Budget, Budgets
from ledger.budgets.budget_state import BudgetState
from ledger.runtime.call_deadlines import each_in_time, reading
from ledger.runtime.clock import Clock
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.book import Book
from ledger.session.ledger import Ledger, budget_parts, live_settings
from ledger.session.table_methods import TableMethods
from ledger.settings import Settings, checked_settings
from ledger.settings.live import PipelineSettingsView
from ledger.store.port import Store

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from ledger.pipeline.sources.dead_letters import LetterSink
    from ledger.pipeline.sources.source import Source
    from ledger.pipeline.stages.worker import LaneWorker, OnCounted
    from ledger.writes.imports.batch_writer import BatchDone
    from ledger.writes.imports.importer import Importer
    from ledger.writes.imports.survey import StopSign


class Table(TableMethods):
    """The table of one region: ledger, counters, sequences, leases, versions, imports, pipelines.

    All of them share the table's connections and are used by any number of tasks of one event
    loop, while the table is open::

        async with Table.open(Settings.load(), region="eu-west-1") as table:
            await table.ledger.record("customer1-balance", 3, note="refund")
            stock = table.counter("stock", method="marker", minimum=0)
            await stock.add(-1, token="order-17")
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
        services, given = services or Services.of(registry=registry), given or GivenConnections()
        ledger = Ledger(settings, region=region, registry=registry, services=services, given=given)
        super().__init__(ledger, settings, services=services, is_given=given.store is not None)
        self._registry = registry
        self._others = given.others

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        region: str | None = None,
        registry: "CollectorRegistry | None" = None,
    ) -> Self:
        """Return the table of this region (by default `settings.home`), to be used in `async with`.

        `registry` receives the metrics, to be served with those of the application.

        Raises:
            SettingsError: not a `Settings`, or the region is not in them.
            InvalidInput: `registry` is not a registry of prometheus_client.
        """
        chosen = checked_settings(settings).home if region is None else region
        return cls(settings, region=chosen, registry=registry)

    async def __aenter__(self) -> Self:
        await self.ledger.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, from any task of the event loop; see `Ledger.close`."""
        await self.ledger.close()

    def budget(self, counter: str) -> Budget:
        """Return the limit of a counter: `await table.budget("key/42").spend(Decimal("0.12"))`.

        It holds across regions and processes; see `ledger.budgets`. Which counters have one is said
        by the contract's `budgets`, and how much by `Budget.create`.
        """
        return Budget(counter, partial(budget_parts, self.ledger))

    def book(self, name: str) -> Book:
        """Return a book: `await table.book("shop").transfer([("cash", "EUR", -5), ...])`.

        Which counters are books is said by the contract's `books`; see `Book`.
        """
        return Book(name, self.ledger)

    def budgets(self, counters: Sequence[str]) -> Budgets:
        """Return several limits that are spent from together, all or none, the narrowest first.

        A key belongs to the first: a repeat names them in the same order. Where over some hundred
        narrow ones share a wide one, that comes first (`Refused.crowded`).

        Raises:
            InvalidInput: it is not a list of different counters.
        """
        return Budgets(counters, partial(budget_parts, self.ledger))

    async def all_budgets(self, *, timeout: float | None = None) -> AsyncIterator[BudgetState]:
        """Yield all budgets, by a scan of the table: every item is read and charged.

        Of one with windows that which runs. `timeout` bounds each wait for the next one, in
        seconds; for the first the whole table is read.

        Raises:
            InvalidInput: `timeout` is not a number above 0.
            ReadTooSlow: it ended.
            DamagedItem, StoreError: an item, or the region, cannot be read.
        """
        states = budget_parts(self.ledger).administrator.states()
        async for state in each_in_time(timeout, states):
            yield state

    def importer(
        self,
        *,
        stop: "StopSign | None" = None,
        on_batch: "Callable[[BatchDone], None] | None" = None,
    ) -> "Importer":
        """Return an importer: `await table.importer().run_file("changes.csv")`.

        See `ledger.writes.imports` for the form of files. It writes through the home region only,
        and reads every region when a run begins (of a table that was given stores, those).

        Raises:
            ImportRefused: this is not the table of the contract's home region, or the home is
                moving.
        """
        # Imported only here: most users of a table import nothing.
        from ledger.contract.open_regions import open_others  # noqa: PLC0415
        from ledger.writes.imports.importer import Importer  # noqa: PLC0415

        live = live_settings(self.ledger)
        others = partial(
            open_others, live, self.region, metrics=self.ledger.metrics, clock=self._services.clock
        )
        return Importer(
            self._store,
            live,
            others=self._given_others if self._is_given else others,
            services=replace(self._services, clock=self._import_clock),
            stop=stop,
            on_batch=on_batch,
        )

    @property
    def _import_clock(self) -> Clock:
        return self._services.clock

    def _given_others(self) -> nullcontext[Mapping[str, Store]]:
        return nullcontext(self._others or {})

    @asynccontextmanager
    async def pipeline(
        self,
        lane: str,
        source: "Source | Path | str",
        *,
        dead_letters: "LetterSink | Path | str",
        name: str | None = None,
        on_counted: "OnCounted | None" = None,
        timeout: float | None = None,
    ) -> "AsyncIterator[LaneWorker]":
        """Open a pipeline of one lane, with connections to every region that is home to records.

        A path as `source` is a file of JSON lines; as `dead_letters`, a file to append to.
        `name` is that of one of several pipelines in the settings; see `Settings.of_pipeline`.
        `on_counted` is called with positions up to which the totals show everything. `timeout` is
        for the opening, in seconds.

        Raises:
            SettingsError: there is no such pipeline, it has no category, or a home region of its
                records is not in the settings.
            InvalidInput: the lane's name is empty or too long.
            ReadTooSlow: `timeout` ended before it was known which regions are needed.
        """
        # Imported only here: most users of a table run no pipeline.
        from ledger.pipeline.file_runs import open_stores  # noqa: PLC0415
        from ledger.pipeline.metrics import PipelineMetrics  # noqa: PLC0415
        from ledger.pipeline.sources.dead_letters import DeadLetterFile  # noqa: PLC0415
        from ledger.pipeline.sources.files import FileSource  # noqa: PLC0415
        from ledger.pipeline.stages.worker import (  # noqa: PLC0415
            LanePlace,
            LaneWorker,
            PipelineMetering,
        )

        live = PipelineSettingsView(live_settings(self.ledger), name)
        opening = open_stores(
            live.current,
            self.region,
            services=self._services,
            opened={self.region: self._store},
        )
        async with AsyncExitStack() as stack:
            with reading(timeout):
                stores = await stack.enter_async_context(opening)
            yield LaneWorker(
                LanePlace(self.region, lane),
                FileSource(Path(source)) if isinstance(source, str | Path) else source,
                stores=stores,
                settings=live,
                dead_letters=(
                    DeadLetterFile(Path(dead_letters), self._services.clock)
                    if isinstance(dead_letters, str | Path)
                    else dead_letters
                ),
                services=self._services,
                metering=PipelineMetering(PipelineMetrics.of(self._registry), on_counted),
            )

"""The compactor: does one pass, or passes for ever.

Of any number of instances one is the head, and all that run for ever share the work by slices; when
one dies the others take over within one lease. A stop (SIGTERM) takes effect between steps; a kill
at any moment leaves nothing to repair.
"""

import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass

import anyio
from prometheus_client import CollectorRegistry

from compactor.archiver import Archiver, PendingSegment, check_places
from compactor.context import MergeContext
from compactor.leadership import Candidate
from compactor.memory import MergeMemory
from compactor.merge_pass import not_led
from compactor.metrics import CompactorMetrics
from compactor.report import CompactorReport
from compactor.watch_check import WatchCheck
from ledger.contract.open_regions import open_table
from ledger.contract.view import ContractView
from ledger.core.errors import (
    ArchiveError,
    ClockOff,
    ContractConflict,
    ContractDamaged,
    ContractMissing,
    DamagedItem,
    LeaseLost,
    LedgerError,
    StoreError,
    UpgradeNeeded,
)
from ledger.primitives.leases.heartbeats import Keeping, in_loop, thread_to
from ledger.primitives.leases.lease_rules import LeaseGrant, NotHeld
from ledger.reads.archive.metrics import ArchiveMetrics
from ledger.reads.archive.places.opening import metered_places
from ledger.reads.archive.places.port import Place
from ledger.runtime.services import Services
from ledger.runtime.tasks import sleep_or_stop
from ledger.settings import Settings, checked_settings
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.watches.watcher import Watches

__all__ = ["Compactor", "CompactorReport"]

_OWNER_BITS = 48
_PASSING = (
    LeaseLost,
    StoreError,
    ArchiveError,
    DamagedItem,
    ContractMissing,
    ContractDamaged,
    ContractConflict,
    UpgradeNeeded,
)
"""Errors that may end without a restart of the program: by themselves, or by a repair."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """Functions called before each pass, and with the report of each."""

    on_start: Callable[[], None]
    on_report: Callable[[CompactorReport], None]


class Compactor:
    """Merges the entries of the whole table, from its home region.

    Its metrics go to `registry`. Simulations replace `stores`, `services` and `owner`; `owner` must
    be unique to this object. Given stores, too, are used under the table's contract, if the table
    has one. With `contract` a table without one is refused; a simulation that passes False goes by
    the settings alone. `archive` has the places of the contract's archive, if they are open
    already.

    Raises:
        SettingsError: not a `Settings`.
        InvalidInput: `registry` is not a registry of prometheus_client.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        registry: CollectorRegistry | None = None,
        stores: Mapping[str, Store] | None = None,
        services: Services | None = None,
        owner: str | None = None,
        contract: bool | None = None,
        archive: Sequence[Place] | None = None,
    ) -> None:
        self.settings = checked_settings(settings)
        self._given_archive = archive
        self.metrics = CompactorMetrics.of(registry)
        self._archive_metrics = ArchiveMetrics.of(registry)
        self._waiting = PendingSegment(self.metrics)
        self._given_stores = stores
        self._contract = contract
        self._memory = MergeMemory()
        self._services = services or Services.of(registry=registry)
        self._clock = self._services.clock
        drawn = self._services.randomness.getrandbits
        self.owner = owner or f"{socket.gethostname()}-{drawn(_OWNER_BITS):012x}"

    async def run_once(
        self,
        *,
        stop: anyio.Event | None = None,
        wait_seconds: float | None = None,
        search: bool = False,
    ) -> CompactorReport:
        """Do one whole pass: acquire the lease, observe, hold, act.

        While another instance has the lease it waits up to `wait_seconds`, by default one lease and
        a heartbeat: long enough to replace a leader that was killed. If others share the work, the
        pass covers the slices that they leave to it. With `search` it searches the table even if
        `compactor.scan_every` has not passed since the last search.

        Raises:
            LeaseLost: the lease was lost on the way; what was done stays done.
            StoreError: the home region failed.
        """
        stop = stop or anyio.Event()
        terms = self.settings.compactor
        wait = terms.lease + terms.heartbeat if wait_seconds is None else wait_seconds
        async with self._candidate() as candidate:
            try:
                candidate.check_clock()
            except ClockOff as error:
                self.metrics.waits("clock")
                self.metrics.passed("waiting", seconds=0.0)
                return CompactorReport(led=False, waits=str(error), is_whole=False)
            outcome = await candidate.acquire(wait_seconds=wait, stop=stop)
            if isinstance(outcome, NotHeld):
                return not_led(outcome.owner, outcome.epoch)
            async with candidate.leading() as grant:
                await candidate.settle(stop)
                return await candidate.run_pass(grant, stop=stop, searches_now=search)

    async def run_every(
        self,
        every_seconds: float,
        *,
        stop: anyio.Event | None = None,
        on_start: Callable[[], None] = lambda: None,
        on_report: Callable[[CompactorReport], None] = lambda _report: None,
        on_error: Callable[[Exception], None] = lambda _error: None,
    ) -> None:
        """Lead a share of the collections and do a pass every `every` seconds, until stopped.

        `on_start` is called before each pass, `on_report` after it.

        Errors that may pass (an unreadable region, a lost lease, throttling, a changed contract, a
        damaged item that may be repaired) are counted and passed to `on_error`; then the table is
        opened again.
        """
        stop = stop or anyio.Event()
        while not stop.is_set():
            try:
                async with self._candidate() as candidate:
                    await self._serve(candidate, every_seconds, stop, Hooks(on_start, on_report))
            except _PASSING as error:
                on_error(error)
                await sleep_or_stop(self._clock, every_seconds, stop)

    async def _serve(
        self,
        candidate: Candidate,
        every_seconds: float,
        stop: anyio.Event,
        hooks: Hooks,
    ) -> None:
        """Lead as the head or as a member, and change from one to the other, until stopped."""
        candidate.check_clock()
        while not stop.is_set():
            outcome = await candidate.acquire(wait_seconds=None, stop=stop, joins=True)
            if isinstance(outcome, LeaseGrant):
                async with candidate.leading() as grant:
                    await self._passes(candidate, grant, every_seconds, stop, hooks)
            elif not stop.is_set():
                async with candidate.joined(stop) as (grant, over):
                    await self._passes(candidate, grant, every_seconds, over, hooks)

    async def _passes(
        self,
        candidate: Candidate,
        grant: LeaseGrant,
        every_seconds: float,
        stop: anyio.Event,
        hooks: Hooks,
    ) -> None:
        """Do pass after pass until stopped."""
        while not stop.is_set():
            started = self._clock.monotonic()
            hooks.on_start()
            hooks.on_report(await candidate.run_pass(grant, stop=stop))
            candidate.check_clock()
            left = started + every_seconds - self._clock.monotonic()
            await sleep_or_stop(self._clock, left, stop)

    @asynccontextmanager
    async def _candidate(self) -> AsyncIterator[Candidate]:
        """Open the table and contend for the lease; count every error."""
        async with self._opened() as (stores, live), self._archiver(live.current) as archiver:
            yield self._contend(stores, live, archiver)

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[tuple[Mapping[str, Store], LiveSettings]]:
        """Open the table under its contract, unless stores were given; count every error."""
        with self._counting_errors():
            if self._given_stores is not None:
                yield await self._given(self._given_stores)
                return
            opening = open_table(
                self.settings,
                metrics=self._services.metrics,
                clock=self._clock,
                randomness=self._services.randomness,
            )
            async with opening as table:
                yield table.stores, table.view

    async def _given(self, stores: Mapping[str, Store]) -> tuple[Mapping[str, Store], LiveSettings]:
        """Return the given stores of the regions that the contract names, and the view of it."""
        if self._contract is False:
            return stores, self.settings
        view = ContractView(stores[self.settings.home], self.settings, clock=self._clock)
        try:
            await view.open()
        except ContractMissing:
            if self._contract:
                raise
            return stores, self.settings
        return {region: stores[region] for region in view.current.regions}, view

    @asynccontextmanager
    async def _archiver(self, settings: Settings) -> AsyncIterator[Archiver | None]:
        """Open the archive that the contract names, if it names one.

        Raises:
            ArchiveError: a place cannot be reached.
            ContractConflict: all of them would be lost with the home region.
        """
        urls = settings.terms.archive
        if not urls:
            self._waiting.ends()
            yield None
            return
        async with AsyncExitStack() as stack:
            try:
                places = await self._places(urls, settings, stack)
            except ArchiveError:
                self._waiting.begins(self._clock.monotonic())
                raise
            yield Archiver(
                places,
                urls=urls,
                services=self._services,
                metrics=self.metrics,
                waiting=self._waiting,
            )

    async def _places(
        self, urls: tuple[str, ...], settings: Settings, stack: AsyncExitStack
    ) -> list[Place]:
        """Return the open places, measured; at least one is known to be outside the home region."""
        places = self._given_archive
        if places is None:
            # Imported only here: most tables have none, and S3's client takes long to import.
            from ledger.reads.archive.places.opening import open_places  # noqa: PLC0415

            opened = await stack.enter_async_context(open_places(urls, clock=self._clock))
            places = opened.places
        metered = metered_places(
            places, region=settings.home, metrics=self._archive_metrics, clock=self._clock
        )
        check_places([await place.region() for place in metered], home=settings.home)
        return metered

    def _contend(
        self, stores: Mapping[str, Store], settings: LiveSettings, archiver: Archiver | None
    ) -> Candidate:
        context = MergeContext(
            stores,
            settings,
            self._services,
            self.metrics,
            archiver=archiver,
            watcher=self._watcher(stores[settings.current.home], settings),
        )
        return Candidate(
            context,
            self._memory.opened_again(),
            owner=self.owner,
            keeping=self._keeping(settings.current),
        )

    def _keeping(self, settings: Settings) -> Keeping:
        """Return heartbeats from a thread: a pass over many entries blocks its event loop."""
        if self._given_stores is not None:
            return in_loop
        return thread_to(settings, settings.home, self._services)

    def _watcher(self, home: Store, settings: LiveSettings) -> WatchCheck | None:
        """Return the watcher of the settings' watches; None without any."""
        if not self.settings.watches:
            return None
        for name in self.settings.watches:
            self._services.metrics.watched(home.region, name)
        return WatchCheck(home, Watches(self.settings), settings=settings, services=self._services)

    @contextmanager
    def _counting_errors(self) -> Iterator[None]:
        try:
            yield
        except LedgerError as error:
            self.metrics.error(error)
            raise

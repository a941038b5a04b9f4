"""The compactor as a job: elect a leader, run a pass, or one after the other.

Of any number of instances one leads; the others wait, and take over within one lease when the
leader dies. A stop (SIGTERM) is obeyed between steps; a kill at any moment leaves nothing to mend.
"""

import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from random import Random

import anyio
from prometheus_client import CollectorRegistry

from compactor import passes
from compactor.lag import watch_lag
from compactor.metrics import CompactorMetrics
from compactor.observe import check_home
from compactor.passes import Pass, not_led
from compactor.plan import Rules
from compactor.report import Report
from compactor.waiting import sleep_or_stop
from ledger.core.errors import (
    DamagedItem,
    LeaseLost,
    LedgerError,
    RegionUnreadable,
    SettingsError,
    StoreError,
)
from ledger.primitives.leases.lease import Lease
from ledger.primitives.leases.state import LeaseGrant, LeaseTerms, NotHeld, lease_key
from ledger.runtime.clock import Clock, SystemClock, system_random
from ledger.runtime.metrics import Metrics
from ledger.runtime.tasks import background_tasks
from ledger.settings import Settings
from ledger.store.opening import open_store
from ledger.store.port import Store
from ledger.store.reads import Get

__all__ = ["Compactor", "Report"]

_OWNER_BITS = 48
ELSEWHERE = "its home is moved by `compactor move-home`, and then changed in the settings"
log = logging.getLogger(__name__)


class Compactor:
    """Merges the entries of the whole table, from its home region.

    `registry` takes its metrics. `stores`, `clock`, `randomness` and `owner` stand in for the
    real ones in simulations; `owner` must be unique to this object.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        registry: CollectorRegistry | None = None,
        stores: Mapping[str, Store] | None = None,
        clock: Clock | None = None,
        randomness: Random | None = None,
        owner: str | None = None,
    ) -> None:
        self.settings = settings
        self.metrics = CompactorMetrics.of(registry)
        self._ledger_metrics = Metrics.of(registry)
        self._given_stores = stores
        self._clock = clock or SystemClock()
        self._random = randomness or system_random()
        self.owner = owner or f"{socket.gethostname()}-{self._random.getrandbits(_OWNER_BITS):012x}"

    async def run_once(
        self, *, stop: anyio.Event | None = None, wait_seconds: float | None = None
    ) -> Report:
        """Do one whole pass: lease, observe, hold, act.

        While another instance leads it waits up to `wait_seconds`, by default one lease and a
        heartbeat, long enough to replace a leader that was killed.

        Raises:
            LeaseLost: the lease was lost on the way; what was done stands.
            StoreError: the home region failed.
        """
        stop = stop or anyio.Event()
        terms = self.settings.compactor
        wait = terms.lease + terms.heartbeat if wait_seconds is None else wait_seconds
        with self._counting_errors():
            async with self._open_stores() as stores:
                try:
                    lease = await self._lease(stores)
                except RegionUnreadable as error:
                    self.metrics.unreadable(error.region)
                    self.metrics.passed("waiting", seconds=0.0)
                    return Report(led=False, unreadable=error.region, is_whole=False)
                outcome = await self._acquire(lease, wait, stop)
                if isinstance(outcome, NotHeld):
                    return not_led(outcome.owner, outcome.epoch)
                return await self._lead(stores, lease, stop, passes.rules_of(self.settings))

    async def run_every(
        self,
        every_seconds: float,
        *,
        stop: anyio.Event | None = None,
        on_report: Callable[[Report], None] = lambda _report: None,
        on_error: Callable[[Exception], None] = lambda _error: None,
    ) -> None:
        """Lead whenever it can and do a pass every so many seconds, until told to stop.

        Errors that may pass (a region down, a lost lease, throttling, a lease item that somebody
        damaged and may mend) are handed to `on_error` and counted; it goes on.
        """
        stop = stop or anyio.Event()
        async with self._open_stores() as stores:
            while not stop.is_set():
                try:
                    with self._counting_errors():
                        lease = await self._lease(stores)
                        outcome = await self._acquire(lease, None, stop)
                        if isinstance(outcome, LeaseGrant):
                            await self._lead_on(stores, lease, every_seconds, stop, on_report)
                except (LeaseLost, StoreError, DamagedItem) as error:
                    on_error(error)
                    await sleep_or_stop(self._clock, every_seconds, stop)

    async def move_home(self, target: str, *, stop: anyio.Event | None = None) -> Report:
        """Hand every collection over to another home region, while this one still works.

        With its net committed each collection gets one last fold that names the new home. It runs
        until all are handed over and every region shows so; then the lease itself is, and no
        compactor of this home leads again. Readers and writers notice nothing. Afterwards change
        `home` in the settings of every compactor. Interrupted, it is run again.

        Raises:
            SettingsError: `target` is not another region of the settings.
            LeaseLost: another instance leads.
            StoreError: a region cannot be read or written; run it again.
        """
        self.settings.region(target)
        if target == self.settings.home:
            raise SettingsError(f"{target} is the home region already")
        stop = stop or anyio.Event()
        rules = passes.rules_of(self.settings, move_to=target)
        with self._counting_errors():
            async with self._open_stores() as stores:
                lease = await self._lease(stores)
                outcome = await self._acquire(lease, None, stop)
                if isinstance(outcome, NotHeld):
                    return not_led(outcome.owner, outcome.epoch)
                return await self._move(stores, lease, stop, rules)

    async def _move(
        self, stores: Mapping[str, Store], lease: Lease, stop: anyio.Event, rules: Rules
    ) -> Report:
        """Fold everything over to the new home, then hand over the lease itself.

        A round of the search may take several passes, and the first may be the rest of one that
        another began: a whole round of our own must find nothing left to move.
        """
        async with self._leading(stores, lease) as held:
            is_left = True
            while True:  # until done or told to stop; each pass moves every committed collection
                report = await self._pass(stores, lease, stop, rules)
                report.epoch = held.epoch
                if stop.is_set() or not report.is_success:
                    return report
                is_left = is_left or report.is_moving
                if report.is_whole and not is_left:
                    break
                is_left = is_left and not report.is_whole
                if report.unmoved:  # what was written, or waits, has to arrive elsewhere first
                    await sleep_or_stop(
                        self._clock, self.settings.observation_delay - report.seconds, stop
                    )
            while not await lease.hand_over(rules.move_to or ""):
                await self._clock.sleep(lease.terms.poll_seconds)
            return report

    async def _lease(self, stores: Mapping[str, Store]) -> Lease:
        """Return the lease to contend for.

        Where the home region shows none yet, it may just not have arrived: then every region is
        asked, lest two homes begin at once.

        Raises:
            LeaseLost: a region shows it as another home's.
            RegionUnreadable: a region that might show it cannot be read.
        """
        compactor = self.settings.compactor
        if await stores[self.settings.home].get(Get(lease_key(compactor.name))) is None:
            await check_home(stores, compactor.name, home=self.settings.home)
        return Lease(
            stores[self.settings.home],
            compactor.name,
            owner=self.owner,
            terms=LeaseTerms(lease_seconds=compactor.lease, heartbeat_seconds=compactor.heartbeat),
            clock=self._clock,
            randomness=self._random,
            key=lease_key(compactor.name),
            elsewhere=ELSEWHERE,
        )

    async def _acquire(
        self, lease: Lease, wait_seconds: float | None, stop: anyio.Event
    ) -> LeaseGrant | NotHeld:
        """Wait for the lease in short turns, so that a stop is obeyed."""
        home, turn = self.settings.home, lease.terms.poll_seconds
        started = self._clock.monotonic()
        leader: str | None = None
        while True:
            outcome = await lease.acquire(wait_seconds=0)
            leads = isinstance(outcome, LeaseGrant)
            if outcome.owner != leader:
                leader = outcome.owner
                state = "leading" if leads else "waiting: another instance leads"
                log.info("%s (%s, epoch %d)", state, leader, outcome.epoch)
            self.metrics.leads(home, leading=leads, epoch=outcome.epoch)
            if leads or stop.is_set():
                return outcome
            left = turn
            if wait_seconds is not None:
                left = min(turn, started + wait_seconds - self._clock.monotonic())
            if left <= 0 or await sleep_or_stop(self._clock, left, stop):
                return outcome

    async def _lead(
        self, stores: Mapping[str, Store], lease: Lease, stop: anyio.Event, rules: Rules
    ) -> Report:
        async with self._leading(stores, lease) as held:
            report = await self._pass(stores, lease, stop, rules)
            report.epoch = held.epoch
            return report

    async def _lead_on(
        self,
        stores: Mapping[str, Store],
        lease: Lease,
        every_seconds: float,
        stop: anyio.Event,
        on_report: Callable[[Report], None],
    ) -> None:
        """Do pass after pass while the lease is held."""
        async with self._leading(stores, lease) as held:
            while not stop.is_set():
                started = self._clock.monotonic()
                report = await self._pass(stores, lease, stop, passes.rules_of(self.settings))
                report.epoch = held.epoch
                on_report(report)
                left = started + every_seconds - self._clock.monotonic()
                await sleep_or_stop(self._clock, left, stop)

    @asynccontextmanager
    async def _leading(
        self, stores: Mapping[str, Store], lease: Lease
    ) -> AsyncIterator[LeaseGrant]:
        """Hold the lease by heartbeats, and measure the replication lag on them."""
        try:
            async with lease.held(wait_seconds=0) as held:
                if isinstance(held, NotHeld):
                    raise LeaseLost(f"lease {lease.name!r} was lost before the pass began")
                async with background_tasks() as tasks:
                    tasks.start_soon(self._watch_lag, stores, lease)
                    yield held
        finally:
            self.metrics.leads(self.settings.home, leading=False)

    async def _watch_lag(self, stores: Mapping[str, Store], lease: Lease) -> None:
        await watch_lag(
            stores, lease, clock=self._clock, metrics=self.metrics, home=self.settings.home
        )

    async def _pass(
        self, stores: Mapping[str, Store], lease: Lease, stop: anyio.Event, rules: Rules
    ) -> Report:
        started = self._clock.monotonic()
        one = Pass(
            stores,
            lease,
            settings=self.settings,
            rules=rules,
            clock=self._clock,
            randomness=self._random,
            metrics=self.metrics,
            stop=stop,
        )
        try:
            return await one.run()
        except LedgerError:
            self.metrics.passed("failed", seconds=self._clock.monotonic() - started)
            raise

    @contextmanager
    def _counting_errors(self) -> Iterator[None]:
        try:
            yield
        except LedgerError as error:
            self.metrics.error(error)
            raise

    @asynccontextmanager
    async def _open_stores(self) -> AsyncIterator[Mapping[str, Store]]:
        """Open every region's table, unless they were given."""
        if self._given_stores is not None:
            yield self._given_stores
            return
        async with AsyncExitStack() as stack:
            stores = {
                region: await stack.enter_async_context(
                    open_store(
                        self.settings,
                        region,
                        metrics=self._ledger_metrics,
                        clock=self._clock,
                        randomness=self._random,
                    )
                )
                for region in self.settings.regions
            }
            yield stores

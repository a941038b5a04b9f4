"""Leadership: of any number of instances one holds the compactor's lease and does passes.

::

    contend ──> acquire ──> leading ──> run_pass, run_pass, ... ──> released or lost

The lease is held by heartbeats, and the replication lag is measured on them; `keeping` sends them,
the job's from a thread of its own, since a pass computes for long. Every fold carries the lease's
epoch as a fence, so a leader that has lost the lease without knowing it changes nothing.
"""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random

import anyio

from compactor.checks import check_clock
from compactor.lag import watch_lag
from compactor.metrics import CompactorMetrics
from compactor.observe import lease_name
from compactor.own_folds import OwnFolds
from compactor.passes import Pass
from compactor.report import CompactorReport
from compactor.waiting import sleep_or_stop
from compactor.watching import PassWatcher
from ledger.core.errors import LeaseLost, LedgerError
from ledger.primitives.leases.keeping import Keeping, in_loop
from ledger.primitives.leases.lease import Lease
from ledger.primitives.leases.state import LeaseGrant, LeaseTerms, NotHeld, lease_key
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import background_tasks
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.totals.seen import SeenNets

log = logging.getLogger(__name__)


class Candidate:
    """An instance that contends for the lease, and does passes while it holds it."""

    def __init__(
        self,
        stores: Mapping[str, Store],
        *,
        settings: LiveSettings,
        owner: str,
        clock: Clock,
        randomness: Random,
        metrics: CompactorMetrics,
        seen: SeenNets | None = None,
        own: OwnFolds | None = None,
        keeping: Keeping = in_loop,
        watcher: PassWatcher | None = None,
    ) -> None:
        self._live = settings
        self._settings = settings.current
        compactor = self._settings.compactor
        self._name = lease_name(self._settings)
        self._stores = stores
        self._clock = clock
        self._random = randomness
        self._metrics = metrics
        self._seen = seen or SeenNets()
        self._watcher = watcher
        self._put_again: dict[tuple[str, str], float] = {}
        self._own = OwnFolds() if own is None else own
        self._lease = Lease(
            stores[self._settings.home],
            self._name,
            owner=owner,
            terms=LeaseTerms(lease_seconds=compactor.lease, heartbeat_seconds=compactor.heartbeat),
            clock=clock,
            randomness=randomness,
            key=lease_key(self._name),
            keeping=keeping,
        )

    def check_clock(self) -> None:
        """Refuse to lead with a clock that is off: an instance with a right one may.

        Raises:
            ClockOff: by the answers so far.
        """
        check_clock(self._stores, skew=self._live.current.clock_skew)

    async def acquire(
        self, *, wait_seconds: float | None, stop: anyio.Event
    ) -> LeaseGrant | NotHeld:
        """Wait for the lease up to `wait_seconds` (None: for ever), or until stopped.

        It is tried in short turns, so that a stop takes effect soon.
        """
        turn = self._lease.terms.poll_seconds
        started = self._clock.monotonic()
        leader: str | None = None
        while True:
            outcome = await self._try(leader)
            leader = outcome.owner
            if isinstance(outcome, LeaseGrant) or stop.is_set():
                return outcome
            left = turn
            if wait_seconds is not None:
                left = min(turn, started + wait_seconds - self._clock.monotonic())
            if left <= 0 or await sleep_or_stop(self._clock, left, stop):
                return outcome

    async def _try(self, leader: str | None) -> LeaseGrant | NotHeld:
        """Try to acquire the lease once; log a change of leader."""
        outcome = await self._lease.acquire(wait_seconds=0)
        leads = isinstance(outcome, LeaseGrant)
        if outcome.owner != leader:
            state = "leading" if leads else "waiting: another instance leads"
            log.info("%s (%s, epoch %d)", state, outcome.owner, outcome.epoch)
        self._metrics.leads(self._settings.home, leading=leads, epoch=outcome.epoch)
        return outcome

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[LeaseGrant]:
        """Hold the lease by heartbeats, and measure the replication lag on them.

        Raises:
            LeaseLost: another instance has acquired the lease.
        """
        home = self._settings.home
        try:
            async with self._lease.held(wait_seconds=0) as grant:
                if isinstance(grant, NotHeld):
                    raise LeaseLost(f"lease {self._lease.name!r} was lost before the pass began")
                async with background_tasks() as tasks:
                    tasks.start_soon(self._watch_lag)
                    yield grant
        finally:
            self._metrics.leads(home, leading=False)

    async def _watch_lag(self) -> None:
        await watch_lag(
            self._stores,
            self._lease,
            clock=self._clock,
            metrics=self._metrics,
            home=self._settings.home,
        )

    async def run_pass(self, grant: LeaseGrant, *, stop: anyio.Event) -> CompactorReport:
        """Do one pass under the lease and return its report.

        Raises:
            LeaseLost: the lease was lost on the way; what was done stands.
            StoreError: the home region failed.
        """
        started = self._clock.monotonic()
        new_pass = Pass(
            self._stores,
            self._lease,
            settings=self._live,
            clock=self._clock,
            randomness=self._random,
            metrics=self._metrics,
            stop=stop,
            seen=self._seen,
            put_again=self._put_again,
            own=self._own,
            watcher=self._watcher,
        )
        try:
            report = await new_pass.run()
        except LedgerError:
            self._metrics.passed("failed", seconds=self._clock.monotonic() - started)
            raise
        report.epoch = grant.epoch
        return report

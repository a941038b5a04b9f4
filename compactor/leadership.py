"""Leadership: of any number of instances one holds the compactor's lease, the others share work.

::

    contend ──> the lease is ours: the head ───────────────> run_pass, run_pass, ...
       └──────> another's: a member with its own heartbeat ─> run_pass, ... until the lease is free

Every member leads a share of the slices (`compactor.slices`); the head also searches the whole
table. If the lease's holder knows no slices, or another number of them, and so leads every
collection, others wait.

Leases are held by heartbeats, and the replication lag is measured on the head's; `heartbeats` sends
them, in the job from a separate thread, since a pass computes for long. The first fold of a
collection carries the epochs as a fence; for everything else that a leader does after losing its
lease unnoticed, the net's version decides.

Replication lag, measured on the lease's heartbeats without comparing clocks of machines.

Each heartbeat is acknowledged at home at a known time; every other region is read until it shows
the record version number of that heartbeat or a later one. The time in between is the lag, to the
precision of the interval of the reads. Until a heartbeat is seen, the reported lag grows.
"""

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import anyio

from compactor.checks import check_clock
from compactor.context import MergeContext
from compactor.memory import MergeMemory
from compactor.merge_pass import MergePass
from compactor.observation import lease_name
from compactor.pass_history import Recorder
from compactor.report import CompactorReport
from compactor.slice_share import HeartbeatWatches, SliceShare
from compactor.slices import HEAD, is_marked, mark, member_name
from ledger.core.errors import LeaseLost, LedgerError, StoreError
from ledger.primitives.leases.heartbeats import Keeping, in_loop
from ledger.primitives.leases.holding import Beat
from ledger.primitives.leases.lease import Lease, LeaseOptions
from ledger.primitives.leases.lease_rules import LeaseGrant, LeaseTerms, NotHeld, lease_key
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import background_tasks, sleep_or_stop
from ledger.runtime.tracing.choice import tracing_of
from ledger.store.port import Store
from ledger.store.reads import Get

FIRST_WAIT_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 1.0


async def watch_lag(
    stores: Mapping[str, Store],
    lease: Lease,
    *,
    clock: Clock,
    report: Callable[[Mapping[str, float]], None],
    home: str,
) -> None:
    """Measure the lag of every other region until cancelled; `report` gets seconds by region."""
    report({home: 0.0})
    async with anyio.create_task_group() as tasks:
        for region, store in stores.items():
            if region != home:
                tasks.start_soon(_watch_region, region, store, lease, clock, report)


async def _watch_region(
    region: str,
    store: Store,
    lease: Lease,
    clock: Clock,
    report: Callable[[Mapping[str, float]], None],
) -> None:
    seen: Beat | None = None
    target: Beat | None = None  # kept until seen: the lease drops old heartbeats
    wait = FIRST_WAIT_SECONDS
    while True:  # until cancelled with the pass
        target = target or _next_beat(lease, seen)
        if target is None:
            await clock.sleep(wait)
            continue
        shown = await _shown(store, lease, seen)
        now = clock.monotonic()
        if shown is not None and shown.answered >= target.answered:
            report({region: max(0.0, now - shown.answered)})
            seen, target, wait = shown, None, FIRST_WAIT_SECONDS
        else:
            report({region: now - target.answered})
            await clock.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)


def _next_beat(lease: Lease, seen: Beat | None) -> Beat | None:
    """Return the earliest heartbeat that the region has not shown yet."""
    later = [beat for beat in lease.beats if seen is None or beat.answered > seen.answered]
    return later[0] if later else None


async def _shown(store: Store, lease: Lease, seen: Beat | None) -> Beat | None:
    """Return the heartbeat that a region shows; None if it is not ours, `seen` if unreadable."""
    try:
        item = await store.get(Get(lease_key(lease.name), consistent=True))
    except StoreError:
        return seen
    rvn = item.get("rvn", {}).get("S") if item else None
    return next((beat for beat in lease.beats if beat.rvn == rvn), None)


log = logging.getLogger(__name__)
_MEMBER_BITS = 32
_COUNTED = (
    "epoch",
    "due",
    "collections",
    "folds",
    "merged",
    "deleted",
    "lost_races",
    "backlog",
    "damaged",
)


class Candidate:
    """An instance that contends for the lease, and does passes as the head or as a member."""

    def __init__(
        self,
        context: MergeContext,
        memory: MergeMemory,
        *,
        owner: str,
        keeping: Keeping = in_loop,
    ) -> None:
        self._context = context
        self._memory = memory
        self._stores = context.stores
        self._settings = context.settings.current
        self._clock = context.services.clock
        self._random = context.services.randomness
        self._metrics = context.metrics
        self._owner = owner
        self._keeping = keeping
        self._name = lease_name(self._settings)
        self._mark = mark(owner, self._settings.compactor.slices)
        self._watches = HeartbeatWatches()
        self._lease = self._lease_of(self._name)
        self._seat = self._lease
        self._sharing: SliceShare | None = None
        self._lag: dict[str, float] = {}
        self._tracing = tracing_of(self._settings.tracing)
        self._recorder = Recorder(
            self._stores[self._settings.home],
            self._name,
            owner=owner,
            clock=self._clock,
            metrics=self._metrics,
        )

    def _lease_of(self, name: str, *, delete_on_release: bool = False) -> Lease:
        compactor = self._settings.compactor
        return Lease(
            self._stores[self._settings.home],
            name,
            owner=self._owner,
            terms=LeaseTerms(lease_seconds=compactor.lease, heartbeat_seconds=compactor.heartbeat),
            services=self._context.services,
            options=LeaseOptions(
                key=lease_key(name), keeping=self._keeping, delete_on_release=delete_on_release
            ),
        )

    def check_clock(self) -> None:
        """Refuse to lead with a clock that is off: an instance with a correct one may.

        Raises:
            ClockOff: by the answers so far.
        """
        check_clock(self._stores, skew=self._context.settings.current.clock_skew)

    def may_join(self, outcome: NotHeld) -> bool:
        """Return whether the lease's holder divides the collections as this instance does."""
        return is_marked(outcome.data, outcome.owner, self._settings.compactor.slices)

    async def acquire(
        self, *, wait_seconds: float | None, stop: anyio.Event, joins: bool = False
    ) -> LeaseGrant | NotHeld:
        """Wait for the lease up to `wait_seconds` (None: for ever), or until stopped.

        With `joins` no longer than until it is held by one that shares (`may_join`). It is tried in
        short turns, so that a stop takes effect soon.
        """
        turn = self._lease.terms.poll_seconds
        started = self._clock.monotonic()
        leader: str | None = None
        while True:
            outcome = await self._try(leader)
            leader = outcome.owner
            if isinstance(outcome, LeaseGrant) or stop.is_set():
                return outcome
            if joins and self.may_join(outcome):
                return outcome
            left = turn
            if wait_seconds is not None:
                left = min(turn, started + wait_seconds - self._clock.monotonic())
            if left <= 0 or await sleep_or_stop(self._clock, left, stop):
                return outcome

    async def _try(self, leader: str | None) -> LeaseGrant | NotHeld:
        """Try to acquire the lease once; log a change of leader."""
        outcome = await self._lease.acquire(wait_seconds=0, data=self._mark)
        leads = isinstance(outcome, LeaseGrant)
        if outcome.owner != leader:
            state = "leading" if leads else "not the head: another instance has the lease"
            log.info("%s (%s, epoch %d)", state, outcome.owner, outcome.epoch)
        self._metrics.leads(self._settings.home, leading=leads, epoch=outcome.epoch)
        return outcome

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[LeaseGrant]:
        """Hold the lease by heartbeats, share the slices, and measure the replication lag.

        Raises:
            LeaseLost: another instance has acquired the lease.
            StoreError: the slices cannot be read.
        """
        home = self._settings.home
        try:
            async with self._lease.held(wait_seconds=0, data=self._mark) as grant:
                if isinstance(grant, NotHeld):
                    raise LeaseLost(f"lease {self._lease.name!r} was lost before the pass began")
                async with self._seated(self._lease, HEAD), background_tasks() as tasks:
                    tasks.start_soon(self._watch_lag)
                    yield grant
        finally:
            self._metrics.leads(home, leading=False)

    @asynccontextmanager
    async def joined(self, stop: anyio.Event) -> AsyncIterator[tuple[LeaseGrant, anyio.Event]]:
        """Be a member with its own heartbeat, until the event that comes with the grant.

        That is set once stopped, the lease is ours, or its holder does not share.

        Raises:
            LeaseLost: the heartbeat item could not be made.
            StoreError: the slices cannot be read.
        """
        me = member_name(self._owner, self._random.getrandbits(_MEMBER_BITS))
        own = self._lease_of(f"{self._name}/{me}", delete_on_release=True)
        async with own.held(wait_seconds=0, data=self._mark) as grant:
            if isinstance(grant, NotHeld):
                raise LeaseLost(f"lease {own.name!r} cannot be taken")
            async with self._seated(own, me), background_tasks() as tasks:
                over = anyio.Event()
                tasks.start_soon(self._watch_head, stop, over)
                yield grant, over

    @asynccontextmanager
    async def _seated(self, seat: Lease, me: str) -> AsyncIterator[None]:
        """Share the slices as one member."""
        sharing = SliceShare(
            self._context, seat, me=me, settings=self._settings, watches=self._watches
        )
        await sharing.turn()
        self._seat, self._sharing = seat, sharing
        try:
            async with background_tasks() as tasks:
                tasks.start_soon(sharing.run)
                yield
        finally:
            self._metrics.slices(0)

    async def settle(self, stop: anyio.Event) -> None:
        """Wait until the slices of dead members are taken; see `SliceShare.settle`.

        Raises:
            LeaseLost: the lease was lost meanwhile.
            StoreError: the slices cannot be read or written.
        """
        if self._sharing is not None:
            await self._sharing.settle(stop)

    async def _watch_head(self, stop: anyio.Event, over: anyio.Event) -> None:
        """Set `over` once stopped, the lease is ours, or its holder does not share."""
        while not stop.is_set():
            try:
                outcome = await self._try(None)
            except StoreError as error:
                self._metrics.error(error)
            else:
                if isinstance(outcome, LeaseGrant) or not self._is_shared(outcome):
                    break
            await sleep_or_stop(self._clock, self._lease.terms.poll_seconds, stop)
        over.set()

    def _is_shared(self, outcome: NotHeld) -> bool:
        """Return whether a member may stay: nothing is known of a lease without an owner."""
        return not outcome.owner or self.may_join(outcome)

    async def _watch_lag(self) -> None:
        await watch_lag(
            self._stores,
            self._lease,
            clock=self._clock,
            report=self._note_lag,
            home=self._settings.home,
        )

    def _note_lag(self, seconds: Mapping[str, float]) -> None:
        self._lag.update(seconds)
        self._metrics.lag(seconds)

    async def run_pass(
        self, grant: LeaseGrant, *, stop: anyio.Event, searches_now: bool = False
    ) -> CompactorReport:
        """Do one pass under the lease and return its report.

        With `searches_now` it searches the table even if that is not due.

        Raises:
            LeaseLost: the lease was lost on the way; what was done stays done.
            StoreError: the home region failed.
        """
        if self._tracing is None:
            return await self._run_pass(grant, stop=stop, searches_now=searches_now)
        with self._tracing.span("compactor.pass") as span:
            report = await self._run_pass(grant, stop=stop, searches_now=searches_now)
            span.set_attributes(_said_of(report))
            if not report.is_success:
                self._tracing.hindered(span)
            return report

    async def _run_pass(
        self, grant: LeaseGrant, *, stop: anyio.Event, searches_now: bool
    ) -> CompactorReport:
        started = self._clock.monotonic()
        new_pass = MergePass(
            self._context,
            self._memory,
            self._seat,
            stop=stop,
            sharing=self._sharing,
            searches_now=searches_now,
        )
        try:
            report = await new_pass.run()
        except LedgerError as error:
            seconds = self._clock.monotonic() - started
            self._metrics.passed("failed", seconds=seconds)
            if not isinstance(error, StoreError):  # else it would not be written either
                ended = CompactorReport(problems=[str(error)], is_whole=False, seconds=seconds)
                await self._record(ended, drain_seconds=0.0)
            raise
        report.epoch = grant.epoch
        drain = self._memory.pace.observe(report.late, at=self._clock.monotonic())
        self._metrics.pace(report.late, drain)
        await self._record(report, drain_seconds=drain)
        return report

    async def _record(self, report: CompactorReport, *, drain_seconds: float) -> None:
        member = HEAD if self._sharing is None else self._sharing.me
        await self._recorder.record(
            member, report, drain_seconds=drain_seconds, lag_seconds=self._lag
        )


def _said_of(report: CompactorReport) -> dict[str, str | int]:
    """Return the attributes of a pass's span: `collections` were visited."""
    counts = {f"ledger.pass.{name}": int(getattr(report, name)) for name in _COUNTED}
    failed = {} if report.is_success else {"error.type": report.outcome}
    return {"ledger.pass.outcome": report.outcome, **counts, **failed}

"""One pass over the table while the lease is held: find, observe, hold, act.

::

    find due collections ──> for each window: observe all ── hold ── act on all ──> next window

Every step may be the last: a pass that is stopped, crashes or loses the lease leaves nothing to
mend, since what it did is right by itself and the next pass begins by looking.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random

import anyio

from compactor.apply import Done, apply
from compactor.finder import Finder, load_cursor, save_cursor, windows
from compactor.metrics import CompactorMetrics
from compactor.plan import Rules, decide, is_moved
from compactor.report import Report
from compactor.views import Observed, RegionUnreadable, check_home, observe
from compactor.waiting import sleep_or_stop
from ledger.clock import Clock
from ledger.core.errors import (
    AmountOverflow,
    DamagedItem,
    LeaseLost,
    LedgerError,
    RequestRefused,
    StoreError,
)
from ledger.leases.lease import Lease
from ledger.settings import Settings
from ledger.store.metered import outcome_name
from ledger.store.port import Applied, Store
from ledger.tasks import run_all

_VERSION_BITS = 128
log = logging.getLogger(__name__)


def rules_of(settings: Settings, *, move_to: str | None = None) -> Rules:
    """Return the rules of plans by these settings."""
    compactor = settings.compactor
    return Rules(
        home=settings.home,
        settle=settings.settle,
        fold_max=compactor.fold_max,
        fold_min=compactor.fold_min,
        fold_age=compactor.fold_age,
        clean_min=compactor.clean_min,
        move_to=move_to,
    )


class Pass:
    """One pass; made anew for each."""

    def __init__(
        self,
        stores: Mapping[str, Store],
        lease: Lease,
        *,
        settings: Settings,
        rules: Rules,
        clock: Clock,
        randomness: Random,
        metrics: CompactorMetrics,
        stop: anyio.Event,
    ) -> None:
        self._stores = stores
        self._home = stores[settings.home]
        self._lease = lease
        self._settings = settings
        self._rules = rules
        self._clock = clock
        self._random = randomness
        self._metrics = metrics
        self._stop = stop
        self._report = Report()

    async def run(self) -> Report:
        """Do the pass and return its report.

        Raises:
            LeaseLost: another may lead now; what was done stands.
            StoreError: the home region failed in a way that concerns the whole pass.
        """
        started = self._clock.monotonic()
        self._lease.check()  # also when nothing is due: who has lost it must not go on as leader
        try:
            await check_home(self._stores, self._settings.compactor.name, home=self._settings.home)
            for window in windows(await self._find(), self._settings.compactor.window):
                if self._stop.is_set():
                    self._report.is_whole = False
                    break
                await self._window(window)
        except RegionUnreadable as error:
            self._unreadable(error)
        self._report.seconds = self._clock.monotonic() - started
        self._count()
        return self._report

    async def _find(self) -> list[str]:
        compactor = self._settings.compactor
        finder = Finder(
            self._home,
            rules=self._rules,
            now=self._clock.now(),
            segments=compactor.scan_segments,
            pages_max=compactor.scan_pages_max,
            stop=self._stop,
        )
        before = await load_cursor(self._home, compactor.name)
        try:
            found = await finder.find(before)
        except RequestRefused:
            # A place in a damaged cursor can be a key that DynamoDB refuses: begin a new round.
            if before is None:
                raise
            before, found = None, await finder.find(None)
        if not found.cursor.is_finished or (before is not None and not before.is_finished):
            await save_cursor(self._home, compactor.name, found.cursor)
        report = self._report
        report.backlog, report.due = found.backlog_entries, len(found.due)
        report.pages, report.is_whole = found.pages, found.cursor.is_finished
        self._metrics.scanned(found.pages)
        self._metrics.searched(backlog_entries=report.backlog, due_collections=report.due)
        return found.due

    async def _window(self, partitions: Sequence[str]) -> None:
        """Observe some collections, hold, and act on all of them."""
        at_once = self._settings.compactor.parallel
        jobs = [partial(self._observe, partition) for partition in partitions]
        seen = [one for one in await run_all(jobs, at_once=at_once) if one is not None]
        self._report.collections += len(seen)
        if not seen:
            return
        hold_ends = max(one.at for one in seen) + self._settings.hold
        await sleep_or_stop(self._clock, hold_ends - self._clock.monotonic(), self._stop)
        await run_all([partial(self._act, one) for one in seen], at_once=at_once)

    async def _observe(self, partition: str) -> Observed | None:
        if self._stop.is_set():
            self._report.is_whole = False
            return None
        try:
            return await observe(
                self._stores, partition, home=self._settings.home, clock=self._clock
            )
        except DamagedItem as error:
            self._problem(error)
            return None

    async def _act(self, observed: Observed) -> None:
        """Decide and act, once the observation is `hold` seconds old and the lease still ours."""
        # The sum, as the sleep was for it: the difference may be rounded to just under the hold.
        if self._clock.monotonic() < observed.at + self._settings.hold:
            self._report.is_whole = False  # stopped during the hold
            return
        self._lease.check()
        observation = observed.observation
        target = self._rules.move_to
        self._report.unmoved += target is not None and not is_moved(observation, target)
        home = observation.net.home if observation.net else self._settings.home
        if home not in {self._settings.home, target}:
            self._problem(_foreign_home(observation.partition, home))
            return
        version = f"{self._random.getrandbits(_VERSION_BITS):032x}"
        try:
            plan = decide(observation, self._rules, now=self._clock.now(), version=version)
        except AmountOverflow as error:
            self._problem(DamagedItem(f"counter {observation.partition!r}: {error}"))
            return
        try:
            done = await apply(
                self._home,
                observation.partition,
                observation.net,
                plan,
                fence=self._lease.fence(),
                sizes=observed.sizes,
            )
        except StoreError as error:
            self._problem(error)
            return
        self._take(done, plan.folded)

    def _take(self, done: Done, folded: int) -> None:
        self._report.deleted += done.deleted
        self._metrics.deleted(done.deleted)
        if done.fold is None:
            return
        applied = isinstance(done.fold, Applied)
        self._metrics.fold(outcome_name(done.fold), merged=folded if applied else 0)
        if applied:
            self._report.folds += 1
            self._report.merged += folded
        else:
            self._report.lost_races += 1

    def _problem(self, error: LedgerError) -> None:
        """Note an error of one collection, which is left as it is."""
        log.warning("%s", error)
        self._metrics.error(error)
        self._report.problems.append(str(error))

    def _unreadable(self, error: RegionUnreadable) -> None:
        log.warning("%s", error)
        self._metrics.unreadable(error.region)
        self._metrics.error(error)
        self._report.unreadable = error.region
        self._report.is_whole = False

    def _count(self) -> None:
        report = self._report
        outcome = "done" if report.is_whole else "partial"
        if not report.is_success:
            outcome = "waiting" if report.unreadable else "problems"
        self._metrics.passed(
            outcome,
            seconds=report.seconds,
            succeeded_at=self._clock.now().timestamp() if report.is_success else None,
        )


def _foreign_home(partition: str, home: str) -> LedgerError:
    """Return the error of a net that a move of home handed over before it was interrupted."""
    return LeaseLost(
        f"the net of counter {partition!r} belongs to {home} already: finish"
        f" `compactor move-home {home}`"
    )


def not_led(leader: str, epoch: int) -> Report:
    """Return the report of an instance that does not lead."""
    return replace(Report(), led=False, leader=leader, epoch=epoch)

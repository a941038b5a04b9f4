"""One pass over the table while the lease is held: find, observe, hold, act.

::

    find due collections ──> each: observe and decide ── hold ── act ──> hot collections again

Workers share an agenda, so the holds of many collections run side by side. The decision is made at
once; only the decision is kept during the hold, not what was observed.

A pass may end after any step: one that is stopped, crashes or loses the lease leaves nothing to
repair, since each step is correct by itself and the next pass begins by observing.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import anyio

from compactor.agenda import AGAIN_SECONDS, Agenda, PendingAction, Visit, Wait
from compactor.budget_work import BudgetWork
from compactor.context import MergeContext
from compactor.decider import Decider
from compactor.discovery.search import Search
from compactor.executor import Executor
from compactor.indexer import Indexer
from compactor.memory import MergeMemory
from compactor.merge_plan import BOOK_FULL, MergePlan, Observation, undeleted, unrecorded
from compactor.net_reader import NetReader
from compactor.observation import CollectionViews, ReadExtent, check_readable, observe, observe_nets
from compactor.own_folds import OwnFold
from compactor.pass_terms import PassTerms
from compactor.records import put_records
from compactor.report import CompactorReport
from compactor.report_writer import ReportWriter
from compactor.slice_share import SliceShare
from ledger.core import keys
from ledger.core.contract import Validity
from ledger.core.errors import (
    ClockOff,
    DamagedItem,
    HomeMoving,
    RegionUnreadable,
    ReplicasDiffer,
    StoreError,
)
from ledger.core.fold import stamp_of
from ledger.primitives.leases.lease import Lease
from ledger.runtime.tasks import run_all, sleep_or_stop
from ledger.runtime.validity import signed_within

_WAIT_SECONDS_MIN = 0.001
log = logging.getLogger(__name__)


class MergePass:
    """One pass; each pass takes a new instance."""

    def __init__(
        self,
        context: MergeContext,
        memory: MergeMemory,
        lease: Lease,
        *,
        stop: anyio.Event,
        sharing: SliceShare | None = None,
        searches_now: bool = False,
    ) -> None:
        self._context = context
        self._stores = context.stores
        self._clock = context.services.clock
        self._metrics = context.metrics
        self._seen = memory.seen
        self._own = memory.own_folds
        self._late = memory.pace.collections
        self._lease = lease
        self._stop = stop
        self._sharing = sharing
        self._searches_now = searches_now
        self._report = CompactorReport()
        self._notes = ReportWriter(self._report, self._metrics, clock=self._clock)
        self._terms = PassTerms(context)
        self._home = self._terms.home
        self._decider = Decider(context, self._terms, repeats=memory.repeats)
        generation = self._terms.rules.generation
        self._indexer = Indexer(
            self._home,
            others=self._terms.others,
            generation=generation,
            clock=self._clock,
            metrics=self._metrics,
        )
        self._actor = Executor(
            context,
            memory,
            lease,
            terms=self._terms,
            indexer=self._indexer,
            sharing=sharing,
            notes=self._notes,
        )
        self._nets = {
            region: NetReader(
                store, generation=generation, upcoming=partial(self._read_soon, region)
            )
            for region, store in self._stores.items()
        }
        self._budgets = BudgetWork(
            context, self._terms, report=self._report, later=memory.budgets_due
        )
        self._agenda: Agenda | None = None

    async def run(self) -> CompactorReport:
        """Do the pass and return its report.

        Raises:
            LeaseLost: another may lead now; what was done stands.
            StoreError: the home region failed in a way that concerns the whole pass.
        """
        started = self._clock.monotonic()
        self._lease.check()  # even if nothing is due: a leader that has lost it must stop
        search = self._search()
        try:
            await self._terms.renew()
            self._terms.check_clock()
            due = await search.run(self._report)
            self._searched()
            await self._budgets.keep(self._limited(due), self._stop)
            await self._visit_all(due, search)
            if not self._report.collections:
                await check_readable(self._stores, settings=self._terms.settings)
        except RegionUnreadable as error:
            self._notes.unreadable(error)
        except ClockOff as error:
            self._notes.waits_for("clock", error)
        except ReplicasDiffer as error:
            self._notes.waits_for("replicas", error)
        except HomeMoving as error:
            self._notes.waits_for("home", error)
        await self._indexer.flush()
        if self._context.watcher is not None:
            self._report.crossings = await self._context.watcher.look(self._stop)
        await search.drop_served()
        self._searched()
        self._report.seconds = self._clock.monotonic() - started
        self._report.late = max([self._report.seconds, *self._late.values()])
        self._notes.end()
        return self._report

    def _search(self) -> Search:
        return Search(
            self._context,
            self._terms,
            stop=self._stop,
            sharing=self._sharing,
            indexer=self._indexer,
            is_due=self._searches_now,
        )

    def _searched(self) -> None:
        report = self._report
        self._metrics.searched(backlog_entries=report.backlog, due_collections=report.due)

    def _limited(self, due: Iterable[str]) -> list[str]:
        """Return the counters with a budget among collections that are due, and that it leads."""
        places = (
            keys.counter_of(partition)
            for partition in due
            if self._terms.rules.has_budget(partition)
        )
        counters = dict.fromkeys(place[0] for place in places if place is not None)
        return [counter for counter in counters if self._leads(counter)]

    async def _visit_all(self, due: list[str], search: Search) -> None:
        """Visit every due collection, first those that were late; workers share an agenda."""
        compactor = self._terms.settings.compactor
        due = sorted(due, key=lambda partition: -self._late.get(partition, 0.0))
        self._late.clear()
        agenda = Agenda(due, held_max=compactor.pending_max, visits_max=compactor.visits_max)
        self._agenda = agenda
        workers = min(compactor.concurrency, len(due))
        await run_all([lambda: self._work(agenda, search)] * workers, at_once=workers)
        if not agenda.is_over:
            self._report.is_whole = False

    def _read_soon(self, region: str, count_max: int) -> list[str]:
        """Return the collections whose nets in a region the next visits, so many at most, read.

        At home all do, elsewhere those of which this process knows what it folded last.
        """
        coming = self._agenda.upcoming(count_max) if self._agenda else []
        if region == self._home.region:
            return coming
        return [partition for partition in coming if self._own.of(partition) is not None]

    async def _work(self, agenda: Agenda, search: Search) -> None:
        """Take step after step until none is left for this worker, or stopped."""
        while not self._stop.is_set():
            now = self._clock.monotonic()
            match agenda.next_step(now):
                case Wait(until):
                    # At least a little: the rest of a wait can be too short to move a clock.
                    seconds = max(until - now, _WAIT_SECONDS_MIN)
                    await sleep_or_stop(self._clock, seconds, self._stop)
                case Visit() as visit:
                    await self._look(visit, agenda, search)
                case PendingAction() as held:
                    await self._act(held, agenda, search)
                case None:
                    return

    async def _look(self, visit: Visit, agenda: Agenda, search: Search) -> None:
        """Observe a collection, decide, and hold the decision until it may be carried out."""
        if not self._leads(visit.partition):
            agenda.looked(visit)
            return
        before = {region: self._seen.of(region, visit.partition) for region in self._stores}
        validity = await self._terms.renew()
        own = None if self._terms.has_lost else self._own.of(visit.partition)
        try:
            if own is not None and await self._look_at_nets(visit, own, agenda, validity):
                return
            observed = await self._observed(visit.partition, validity)
            for region, view in observed.observation.views.items():
                self._seen.look(region, visit.partition, view.net, before[region])
            asked_until = search.book.asked_until(visit.partition)
            succession, made = self._decider.decided(observed, asked_until)
        except DamagedItem as error:
            self._quarantine(visit, error)
            agenda.looked(visit)
            return
        plan = succession.plan
        self._note_undeleted(observed.observation)
        if succession.waits == BOOK_FULL:
            self._report.fills(visit.partition)
        self._visited(visit, plan.backlog)
        self._note_late(visit.partition, plan)
        if not succession.is_idle:
            ripe_at = observed.at + self._terms.settings.observation_delay
            net = observed.observation.net
            more = succession if self._terms.has_lost else None
            agenda.hold(PendingAction(visit, net, plan, ripe_at, validity, more, made))
            return
        if succession.is_last:
            search.book.finish(visit.partition)
        is_late = visit.number > 1 and not succession.is_last  # its last fold has not arrived yet
        agenda.looked(visit, again_at=self._again_at() if is_late else None)

    async def _observed(self, partition: str, validity: Validity | None) -> CollectionViews:
        """Read a collection in every region; resolve holds that are over, put missing records."""
        rules, settings = self._terms.rules, self._terms.settings
        with signed_within(validity, self._clock):
            observed = await observe(
                self._stores,
                partition,
                home=settings.home,
                clock=self._clock,
                extent=ReadExtent.of(rules, partition, now=self._clock.now()),
                nets=None if self._terms.has_lost else self._nets[self._home.region],
            )
            if rules.has_budget(partition):
                await self._budgets.resolve(observed)
            await self._put_records(observed)
        return observed

    async def _put_records(self, observed: CollectionViews) -> None:
        """Put what entries wait for that a call makes once; what fails waits for another visit."""
        seen = observed.observation
        waiting = sorted(unrecorded(seen, self._terms.rules, now=self._clock.now()))
        try:
            await put_records(self._home, seen.partition, waiting)
        except StoreError as error:
            self._notes.problem(error)

    async def _look_at_nets(
        self, visit: Visit, own: OwnFold, agenda: Agenda, validity: Validity | None
    ) -> bool:
        """Hold the deletes of what was folded last; return whether this visit is over by that."""
        with signed_within(validity, self._clock):
            nets = await observe_nets(self._nets, visit.partition)
        ripe_at = self._clock.monotonic() + self._terms.settings.observation_delay
        self._terms.check_clock()
        net = nets[self._home.region]
        if stamp_of(net) != own.stamp:  # another's fold, or another table
            self._own.take(visit.partition)
            return False
        self._visited(visit, 0)
        if own.is_committed(nets):
            agenda.hold(PendingAction(visit, net, own.plan(), ripe_at, validity))
        else:
            agenda.looked(visit, again_at=self._again_at() if visit.number > 1 else None)
        return True

    def _visited(self, visit: Visit, backlog: int) -> None:
        if self._context.watcher is not None:
            self._context.watcher.visited(visit.partition)
        if visit.number == 1:
            self._report.collections += 1
            self._report.backlog += 0 if self._report.searched else backlog

    def _note_undeleted(self, observation: Observation) -> None:
        """Report entries whose deletes were lost; after the loss of a region they are repeated."""
        shown = list(undeleted(observation, self._terms.rules, now=self._clock.now()))
        if shown and not self._terms.has_lost:
            region, key = shown[0]
            log.warning(
                "collection %r: home deleted %d entries over an hour ago that another region still"
                " shows, as %s in %s; their ids stay named",
                observation.partition,
                len(shown),
                key,
                region,
            )
            self._report.stays(observation.partition, shown)

    def _note_late(self, partition: str, plan: MergePlan) -> None:
        """Note since when the oldest entry could be merged that has no room in this fold."""
        self._late.pop(partition, None)
        if plan.left is not None:
            waits = self._clock.now() - plan.left
            self._late[partition] = waits.total_seconds() - self._terms.rules.settle

    async def _act(self, held: PendingAction, agenda: Agenda, search: Search) -> None:
        """Carry out a decision whose observation is `observation_delay` seconds old.

        Raises:
            LeaseLost: the lease is not surely ours; nothing was written.
        """
        visit, plan = held.visit, held.plan
        done = await self._actor.act(held)
        if done is None:
            agenda.acted(visit)
            return
        if plan.is_last and done.is_folded:
            search.book.finish(visit.partition)
        agenda.acted(visit, again_at=self._again_at() if plan.is_cut else None)

    def _leads(self, partition: str) -> bool:
        """Return whether its slice is ours, as it was when the pass found it due."""
        return self._sharing is None or self._sharing.leads(partition)

    def _again_at(self) -> float:
        return self._clock.monotonic() + AGAIN_SECONDS

    def _quarantine(self, visit: Visit, error: DamagedItem) -> None:
        """Report a collection that cannot be read whole, which is left unchanged."""
        log.warning("collection %r is left as it is: %s", visit.partition, error)
        self._metrics.error(error)
        self._report.quarantine(visit.partition, str(error))


def not_led(leader: str, epoch: int) -> CompactorReport:
    """Return the report of an instance that does not lead."""
    return replace(CompactorReport(), led=False, leader=leader, epoch=epoch)

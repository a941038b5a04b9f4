"""What a pass does for budgets: it closes grants by reading, resolves entries, and moves rights.

The compactor reads every region anyway. Before its visits a pass looks at the budget of each
counter that is due, and at those of which it knows that something is to be done by now: a crash
leaves a grant open, and no entry that would lead a pass there. What fails for one budget waits for
the next pass, and holds up no merging.
"""

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial

import anyio

from compactor.context import MergeContext
from compactor.observation import CollectionViews
from compactor.pass_terms import PassTerms
from compactor.report import CompactorReport
from ledger.budgets.balance import in_flight
from ledger.budgets.calendar import window_in
from ledger.budgets.grant_closing import (
    Closing,
    RegionViews,
    charge_open,
    close_over,
    is_left_open,
    is_own_open,
    resolve_expired,
)
from ledger.budgets.initial_shares import first_rights
from ledger.budgets.limit_changer import LimitChanger
from ledger.budgets.limit_windows import BudgetLimit, newest_of
from ledger.budgets.region_access import RegionAccess
from ledger.budgets.rights import Holder, Rights
from ledger.budgets.rights_items import RightsView, read_budget
from ledger.budgets.rights_mover import RightsMoved, move_rights
from ledger.budgets.spend_record import SpendRecord, is_open, spend_of
from ledger.core import amounts
from ledger.core.entry import Key, key_of
from ledger.core.errors import BudgetUndecided, LedgerError, StoreError
from ledger.core.fold import Collection
from ledger.runtime.tasks import run_all, run_requests
from ledger.runtime.validity import signed_within
from ledger.store.port import Store

CONFIRM_SECONDS = 60.0
"""How often a pass goes on with an announced step of a limit."""
LATER_MAX = 10_000
"""Budgets that a process remembers between passes; any more are found by their entries."""
log = logging.getLogger(__name__)


class BudgetSchedule:
    """When something is to be done for budgets that a process has seen, from pass to pass."""

    def __init__(self, budgets_max: int = LATER_MAX) -> None:
        self._budgets_max = budgets_max
        self._at: dict[str, float] = {}

    def note(self, counter: str, at: float | None) -> None:
        """Remember when to look at a budget again, in seconds since 1970; None: not by itself."""
        if at is None:
            self._at.pop(counter, None)
        elif counter in self._at or len(self._at) < self._budgets_max:
            self._at[counter] = at

    def due(self, now: float) -> list[str]:
        """Return the budgets that are to be looked at by now, in seconds since 1970."""
        return [counter for counter, at in self._at.items() if at <= now]


class BudgetWork:
    """The budgets of one pass."""

    def __init__(
        self,
        context: MergeContext,
        terms: PassTerms,
        *,
        report: CompactorReport,
        later: BudgetSchedule,
    ) -> None:
        self._stores = context.stores
        self._terms = terms
        self._services = context.services
        self._clock = context.services.clock
        self._metrics = context.metrics
        self._report = report
        self._later = later
        self._away: set[str] = set()

    async def keep(self, counters: Iterable[str], stop: anyio.Event) -> None:
        """Look at these budgets, and at those that are due; close grants and move rights.

        Raises:
            ClockOff: by the answers of a region.
            LeaseLost, HomeMoving, ContractStale, ReplicasDiffer: as `PassTerms.renew`.
        """
        due = list(dict.fromkeys([*counters, *self._later.due(self._now())]))
        if not due:
            return
        jobs = [partial(self._keep_one, counter, stop) for counter in due]
        await run_all(jobs, at_once=self._terms.settings.compactor.concurrency)
        self._metrics.grants(
            open_grants=self._report.grants_open, waiting=self._report.grants_waiting
        )

    async def _keep_one(self, counter: str, stop: anyio.Event) -> None:
        if stop.is_set():
            return
        validity = await self._terms.renew()
        self._terms.check_clock()
        with signed_within(validity, self._clock):
            try:
                await self._look(counter)
            except LedgerError as error:
                self._later.note(counter, self._now())
                self._problem(f"budget {counter!r}: {error}", error)

    async def _look(self, counter: str) -> None:
        regions = self._regions
        budgets = await self._shown(counter)
        shown = {region: budget.items for region, budget in budgets.items()}
        again: list[float] = []
        own = {
            holder: item
            for region, items in shown.items()
            for holder, item in items.items()
            if holder.region == region and regions.keeps(holder)
        }
        limit = newest_of(budget.limit for budget in budgets.values())
        for item in own.values():
            again += await self._look_at(regions, counter, item, shown)
        for item in self._begun(counter, own, limit):
            await self._move(counter, item, shown, before=Rights(item.holder))
        if any(in_flight(holder, own) for holder in own):
            again.append(self._now())
        if await self._goes_on(counter, limit):
            again.append(self._now() + CONFIRM_SECONDS)
        self._later.note(counter, min(again, default=None))

    def _begun(
        self, counter: str, own: Mapping[Holder, Rights], limit: BudgetLimit | None
    ) -> list[Rights]:
        """Return the items that rights were sent to, and that are not there, as they begin.

        The process that fetched them crashed before it had made the item.
        """
        regions, window = self._regions, window_in(counter, self._terms.settings.terms)
        if limit is None or window is None:
            return []
        takers = {to for item in own.values() for to in item.sent.keys() - item.cut.keys()}
        made: list[Rights | None] = []
        for to in sorted(takers - own.keys()):
            if to.region not in self._away and regions.keeps(to):
                with suppress(BudgetUndecided):  # until the step that decides its share is in force
                    made.append(first_rights(Rights(to), window=window, limit=limit))
        return [begun for begun in made if begun is not None]

    async def _goes_on(self, counter: str, limit: BudgetLimit | None) -> bool:
        """Go on with a limit of which a step is announced, or that an earlier home wrote.

        Processes that spend do so, too: but none may for hours. Returns whether a step is
        announced.
        """
        generation = self._terms.settings.terms.generation
        if limit is None or (limit.announced is None and limit.generation >= generation):
            return False

        async def others() -> Mapping[str, Store]:
            return {store.region: store for store in self._terms.others}

        access = RegionAccess(self._terms.home, self._terms.live, self._services, others)
        return (await LimitChanger(access).go_on(counter)).is_announced

    async def _look_at(
        self,
        regions: RegionViews,
        counter: str,
        item: Rights,
        shown: Mapping[str, Mapping[Holder, Rights]],
    ) -> list[float]:
        """Do what is to be done for one holder; return when there may be more."""
        found = await close_over(regions, counter, item)
        self._closed(found.closings)
        self._report.grants_waiting += found.waiting
        if found.rights is None:
            self._report.grants_open += len(item.grants)
            return [self._now()]
        self._report.grants_open += len(found.rights.grants)
        moved = await self._move(counter, found.rights, shown)
        late = self._terms.rules.grant_late
        again = [grant.expires + late for grant in found.rights.grants.values()]
        return [*again, self._now()] if moved.sent else again

    async def _move(
        self,
        counter: str,
        rights: Rights,
        shown: Mapping[str, Mapping[Holder, Rights]],
        *,
        before: Rights | None = None,
    ) -> RightsMoved:
        """Move rights to and from a holder by what its region shows."""
        # What a region that cannot be read was sent would lie there idle.
        seen = {
            holder: one
            for holder, one in shown[rights.holder.region].items()
            if holder.region in shown
        }
        moved = await move_rights(self._regions, counter, rights, seen, before=before)
        self._report.transfers += len(moved.sent)
        self._metrics.moved(sent=len(moved.sent), taken=len(moved.taken))
        return moved

    async def _shown(self, counter: str) -> Mapping[str, RightsView]:
        """Return what each region that can be read shows of a budget.

        Raises:
            DamagedItem: an item cannot be read.
        """

        async def read(store: Store) -> RightsView | None:
            if store.region in self._away:
                return None
            try:
                return await read_budget(store, counter)
            except StoreError as error:
                self._away.add(store.region)
                self._problem(f"budgets in {store.region}, such as {counter!r}: {error}", error)
                return None

        reads = [partial(read, store) for store in self._stores.values()]
        found = await run_requests(reads, at_once=len(reads))
        return {
            region: shown
            for region, shown in zip(self._stores, found, strict=True)
            if shown is not None
        }

    async def resolve(self, observed: CollectionViews) -> None:
        """Resolve what an observation shows as open: expired holds, and what was let through.

        Through its own region; of a lost one through home, if all regions show it alike.
        """
        views = observed.observation.views
        for region, view in views.items():
            let_through: dict[Key, SpendRecord] = {}
            for key, item in (view.items or {}).items():
                if not is_open(item):
                    continue
                try:
                    spend = spend_of(item)
                    if spend is None or not self._resolves(region, key, spend, views):
                        continue
                    if spend.is_over:
                        let_through[key_of(item)] = spend
                    elif await resolve_expired(self._regions, key_of(item), spend) is not None:
                        self._report.holds_expired += 1
                        self._metrics.holds_expired.inc()
                except LedgerError as error:
                    self._problem(f"hold {key!r}: {error}", error)
            await self._charge(observed.observation.partition, let_through)

    async def _charge(self, partition: str, let_through: Mapping[Key, SpendRecord]) -> None:
        try:
            done = await charge_open(self._regions, let_through)
        except LedgerError as error:
            self._problem(f"what was let through in {partition!r}: {error}", error)
        else:
            self._report.let_through_charged += done
            self._metrics.let_through_charged.inc(done)

    def _resolves(
        self, region: str, key: str, spend: SpendRecord, views: Mapping[str, Collection]
    ) -> bool:
        """Return whether an open entry is resolved by what this region shows of it."""
        if is_own_open(self._regions, region, spend):
            return True
        if region != self._terms.home.region or not is_left_open(self._regions, spend):
            return False
        shown = [(view.items or {}).get(key) for view in views.values()]
        return all(item is not None and spend_of(item) == spend for item in shown)

    @property
    def _regions(self) -> RegionViews:
        return RegionViews(self._stores, self._terms.settings.terms, self._clock)

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _closed(self, closings: Iterable[Closing]) -> None:
        for closing in closings:
            self._report.grants_closed += 1
            self._metrics.grants_closed.labels("agreed" if closing.is_agreed else "unagreed").inc()
            if closing.excess > 0:
                alarm = (
                    f"grant {closing.name} was used twice: its entries come to"
                    f" {amounts.to_text(closing.charged)},"
                    f" {amounts.to_text(closing.excess)} more than it had; nothing more is granted"
                    " there until that is paid off"
                )
                log.error("%s", alarm)
                self._metrics.grants_exceeded.inc()
                self._report.alarms.append(alarm)

    def _problem(self, text: str, error: LedgerError) -> None:
        log.warning("%s", text)
        self._metrics.error(error)
        self._report.problems.append(text)

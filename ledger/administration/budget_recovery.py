"""All budgets of a table, as operators mint again what was lost, or recount after a restore."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal

from ledger.budgets.administrator import BudgetAdministrator
from ledger.budgets.calendar import Window, rule_of, window_in, window_of
from ledger.budgets.grant_closing import RegionViews
from ledger.budgets.initial_shares import first_rights, shares_in
from ledger.budgets.limit_change import LimitChange
from ledger.budgets.limit_changer import LimitChanger
from ledger.budgets.limit_windows import BudgetLimit, LimitUndecided, step_of
from ledger.budgets.lost_stake import LostStake
from ledger.budgets.reclaim import (
    Reclaim,
    Spends,
    check_lost,
    is_all_reclaimed,
    lost_spends,
    reclaim_lost,
    stakes_of,
)
from ledger.budgets.region_access import RegionAccess
from ledger.budgets.restore import RestoreView, look, restore_budget
from ledger.budgets.restore_plan import RestorePlan
from ledger.budgets.rights import Holder, Rights, holder_in
from ledger.budgets.rights_items import read_budget
from ledger.contract.open_regions import OpenTable, open_table
from ledger.core.contract import Terms
from ledger.core.errors import BudgetMissing, BudgetUndecided, ContractChangeRefused
from ledger.runtime.services import Services
from ledger.runtime.validity import signed_within
from ledger.settings import Settings
from ledger.store.port import Store


@dataclass(slots=True)
class TableBudgets:
    """The budgets of a table, through all its regions.

    `begun` are the terms of the contract when it was opened: under others nothing is done.
    """

    regions: RegionViews
    home: Store
    table: OpenTable
    services: Services
    begun: Terms
    _spends: Spends | None = field(default=None, init=False)

    async def counters(self, budget: str | None) -> list[Window]:
        """Return one budget, or all, by a scan of each region; of windows that which runs.

        Raises:
            BudgetMissing: no pattern of the contract has it.
            StoreError: a region cannot be read.
        """
        terms, now = self.regions.terms, self.services.clock.now()
        names = [budget] if budget is not None else await self._all()
        return [window_of(name, rule_of(terms, name), now) for name in names]

    async def renew(self) -> None:
        """Read the contract again, if that is due: a table of many budgets takes a while.

        Raises:
            ContractChangeRefused: it has changed meanwhile.
            ContractStale: it cannot be read.
        """
        await self.table.view.renew()
        if self.table.view.current.terms != self.begun:
            raise ContractChangeRefused(
                "the table's contract has changed meanwhile: run this again, which goes by it"
            )

    def access(self, store: Store) -> RegionAccess:
        """Return the access to budgets in all regions, from one of them."""

        async def others() -> Mapping[str, Store]:
            stores = self.regions.stores.items()
            return {region: other for region, other in stores if other is not store}

        return RegionAccess(store, self.table.view, self.services, others)

    async def limit_of(self, window: Window) -> BudgetLimit | None:
        """Return the limit of a budget; None if it has none."""
        access = self.access(self.home)
        return await access.limit_of(window.budget, access.here)

    async def lost_entries(self) -> Spends:
        """Return the entries of lost grants; all tables are read once, for however many budgets."""
        if self._spends is None:
            self._spends = await lost_spends(self.regions)
        return self._spends

    async def _is_reclaimed(self, window: Window) -> bool:
        """Return whether all that lost regions had of a budget was reclaimed."""
        shares, spends = await self._shares(window), await self.lost_entries()
        return await is_all_reclaimed(self.regions, window.counter, spends, shares)

    async def _shares(self, window: Window) -> Mapping[Holder, Decimal] | None:
        """Return the shares that lost regions may have made, unseen, and home's (`shares_in`).

        Home has none in a step from before it was added, nor in one that is forgotten: no item of
        so old a window is made by it. Nor has it one of a budget without windows.
        """
        limit = await self.limit_of(window)
        if limit is None:
            return None if window.is_whole else {}
        home = holder_in(self.regions.terms.home, self.regions.terms)
        is_undecided = isinstance(step_of(limit, window.begins), LimitUndecided)
        known = {} if is_undecided else {home: Decimal(0)}
        return known | shares_in(limit, window)

    async def _all(self) -> list[str]:
        regions = [
            BudgetAdministrator(self.access(store)) for store in self.regions.stores.values()
        ]
        names = [state.budget for region in regions async for state in region.states()]
        return sorted({*names})


@dataclass(slots=True)
class RightsReclaim(TableBudgets):
    """The budgets of a table, and what a lost region had of them.

    The tables of all regions are read once for entries of lost grants, however many budgets there
    are.
    """

    lost: str

    async def counters(self, budget: str | None) -> list[Window]:
        """Return one budget, or all, and each window of it that entries of lost grants name.

        However long it has ended: until it is reclaimed they cannot be merged. A budget that
        nothing but such entries names is among all.

        Raises:
            As `TableBudgets.counters` and `stakes_of`.
        """
        windows = {window.counter: window for window in await TableBudgets.counters(self, budget)}
        for counter in sorted(await self.lost_entries()):
            window = window_in(counter, self.regions.terms)
            if window is not None and budget in {None, window.budget}:
                windows.setdefault(counter, window)
        return [*windows.values()]

    async def stakes(self, window: Window) -> Mapping[Holder, LostStake]:
        """Return what is at stake of a budget; see `ledger.budgets.reclaim.stakes_of`."""
        await self.renew()
        shares = await self._shares(window)
        with signed_within(self.table.view.validity, self.services.clock):
            spends = await self.lost_entries()
            return await stakes_of(
                self.regions, self.lost, window.counter, spends=spends, shares=shares
            )

    async def reclaim(self, window: Window, most: Decimal | None) -> Mapping[Holder, Reclaim]:
        """Mint it again, and go on with its limit; see `ledger.budgets.reclaim.reclaim_lost`."""
        await self.renew()
        shares = await self._shares(window)
        with signed_within(self.table.view.validity, self.services.clock):
            spends = await self.lost_entries()
            minted = await reclaim_lost(
                self.regions, self.lost, window.counter, most=most, spends=spends, shares=shares
            )
        await self.go_on(window)
        return minted

    async def is_whole(self, window: Window) -> bool:
        """Return whether all regions show the limit alike, and no change of it was left in part.

        So it is if there is none. Of a window that has ended no change is made: there it is whether
        all is retired that a reclaim, which was interrupted, minted above what it was lowered to.
        """
        changer = LimitChanger(self.access(self.home))
        if self._runs(window):
            stores = self.regions.stores.values()
            shown = [(await read_budget(store, window.budget)).limit for store in stores]
            if any(limit != shown[0] for limit in shown):
                return False
            with suppress(BudgetMissing):
                if await changer.is_torn(window.budget):
                    return False
        with suppress(BudgetMissing, BudgetUndecided):
            return not await changer.is_to_retire(window)
        return True

    def _runs(self, window: Window) -> bool:
        rule = rule_of(self.regions.terms, window.budget)
        return window == window_of(window.budget, rule, self.services.clock.now())

    async def go_on(self, window: Window) -> None:
        """Write the newest limit that any region shows through home: a lost one may have made it.

        Once all that lost regions had is reclaimed, what they left of a change in half is made.
        Of a window that has ended what was minted again is retired as far as it was lowered. Of a
        budget without a limit there is nothing to be done.

        Raises:
            HomeMoving, OutcomeUnknown, StoreError: it may be repeated.
        """
        await self.renew()
        changer = LimitChanger(self.access(self.home))
        if not self._runs(window):
            with suppress(BudgetMissing, BudgetUndecided):
                await changer.retire_ended(window)
            return
        is_reclaimed = await self._is_reclaimed(window)
        with suppress(BudgetMissing):
            await changer.go_on(window.budget, is_reclaimed=is_reclaimed)

    async def lost_entries(self) -> Spends:
        """Return them once the region is lost for long enough; see `TableBudgets`."""
        if self._spends is None:
            await check_lost(self.regions, self.lost)
        return await TableBudgets.lost_entries(self)


@dataclass(frozen=True, slots=True)
class Restored:
    """What a recount changed: by counter and holder, and limits of which one half was there."""

    counted: Mapping[str, Mapping[Holder, RestorePlan]]
    limits: Mapping[str, LimitChange]


@dataclass(slots=True)
class BudgetRestore(TableBudgets):
    """The budgets of a table that was restored to a point in time."""

    async def recount(self, budget: str | None) -> Restored:
        """Count one budget, or all, again; make whole what was restored of a change of a limit.

        Raises:
            As `ledger.budgets.restore.restore_budget`; ContractChangeRefused; and BudgetMissing:
            no pattern of the contract has it, or nothing of it is in the table. What was counted
            before stays: it may be repeated.
        """
        if budget is not None:
            rule_of(self.regions.terms, budget)
        looked = await look(self.regions, budget)
        if budget is not None and not looked.budgets:
            raise BudgetMissing(
                f"nothing of a budget {budget!r} is in the table: no limit, no spend"
            )
        counted: dict[str, Mapping[Holder, RestorePlan]] = {}
        for window in looked.windows:
            counted[window.counter] = await self._counted(window, looked)
        limits: dict[str, LimitChange] = {}
        for name in looked.budgets:
            window = window_of(name, rule_of(self.regions.terms, name), self.services.clock.now())
            made = await self._made_whole(window)
            if made is not None:
                limits[name] = made
                again = await self._counted(window, looked)
                counted[window.counter] = {**counted.get(window.counter, {}), **again}
        return Restored({name: changed for name, changed in counted.items() if changed}, limits)

    async def _counted(self, window: Window, looked: RestoreView) -> Mapping[Holder, RestorePlan]:
        await self.renew()
        made = await self._made(window)
        with signed_within(self.table.view.validity, self.services.clock):
            return await restore_budget(self.regions, window.counter, looked.entries, made)

    async def _made_whole(self, window: Window) -> LimitChange | None:
        """Make the other half of a change of a limit; return what it came to, None if whole."""
        await self.renew()
        budget, changer = window.budget, LimitChanger(self.access(self.home))
        if await self.limit_of(window) is None:
            return None
        is_reclaimed = not self.regions.terms.lost or await self._is_reclaimed(window)
        if not await changer.is_torn(budget, is_reclaimed=is_reclaimed, is_restored=True):
            return None
        return await changer.go_on(budget, is_reclaimed=is_reclaimed, is_restored=True)

    async def _made(self, window: Window) -> Mapping[Holder, Rights | None]:
        """Return what each holder makes that has no item; None while its share is undecided."""
        limit, terms = await self.limit_of(window), self.regions.terms
        made: dict[Holder, Rights | None] = {}
        for region in terms.written:
            rights = Rights(holder_in(region, terms), bucket=window.bucket)
            made[rights.holder] = None
            with suppress(BudgetUndecided):
                first = None if limit is None else first_rights(rights, window=window, limit=limit)
                made[rights.holder] = first or rights
        return made


@asynccontextmanager
async def lost_rights(
    settings: Settings, lost: str, *, services: Services
) -> AsyncIterator[RightsReclaim]:
    """Open every region of the table, to see and to mint again what a lost one had.

    Raises:
        As `open_table`.
    """
    async with _opened(settings, services=services) as found:
        yield RightsReclaim(*found, lost)


@asynccontextmanager
async def restored_budgets(
    settings: Settings, *, services: Services
) -> AsyncIterator[BudgetRestore]:
    """Open every region of a table that was restored, to recount its budgets.

    Raises:
        As `open_table`.
    """
    async with _opened(settings, services=services) as found:
        yield BudgetRestore(*found)


@asynccontextmanager
async def _opened(
    settings: Settings, *, services: Services
) -> AsyncIterator[tuple[RegionViews, Store, OpenTable, Services, Terms]]:
    opening = open_table(settings, clock=services.clock, randomness=services.randomness)
    async with opening as table:
        current = table.view.current
        regions = RegionViews(table.stores, current.terms, services.clock)
        home = table.stores[current.home]  # the terms name none while it is moved
        yield regions, home, table, services, current.terms

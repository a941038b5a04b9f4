"""Budgets of a table that was restored to a point in time: what was spent is counted again.

A restore takes items as one region showed them then, and items replicate one by one: beside a
rights item there may be entries, and transfers, that are newer::

    entries of eu-west-1's grant 7 ── shown        its rights item ── shown as of version 5
    home has taken 5 of eu-west-1 ── shown         eu-west-1 has sent 5 ── not shown
    entries of what eu-west-1 took ── shown        neither that, nor that home sent it
    a hold that was settled ── shown as open       its rights item ── charged for less already

So each item is written again as it must have been (`plan_restore`). Done twice it changes nothing;
on a table at work it pays what a region owes from what others have free, and nothing else, since an
item is never older than what its own region shows of it.

To be done before anybody spends, closes or merges: each write of an item is a version more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ledger.budgets.calendar import Window, window_in
from ledger.budgets.grant_closing import SPENDS, RegionViews, spend_in
from ledger.budgets.restore_plan import Items, RestoredEntries, RestorePlan, plan_restore, takers
from ledger.budgets.rights import GrantName, Holder, Rights, condition_of, rights_item
from ledger.budgets.rights_items import budget_of, read_local_rights, read_rights, scanned
from ledger.budgets.spend_record import SpendRecord
from ledger.core.entry import Key, key_of
from ledger.core.errors import BudgetUndecided, StateConflict
from ledger.runtime.tasks import run_requests
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import Applied, Put


@dataclass(frozen=True, slots=True)
class RestoreView:
    """What a table has of budgets: windows to be counted, and entries that may be missing in items.

    The windows are those that entries name, however old, so that these can be merged, and those
    with rights that can still be spent from. `budgets` are all that have rights, or a limit.
    """

    windows: Sequence[Window]
    budgets: Sequence[str]
    entries: RestoredEntries


async def look(regions: RegionViews, budget: str | None) -> RestoreView:
    """Look through all regions' tables for one budget, or all; each table is read whole.

    An entry is returned if it names a later version of a rights item than home shows, or a grant
    that is open there; or is an open hold that an item, as home shows it, has as resolved.

    Raises:
        DamagedItem: a rights item, or what an entry says of its grants, cannot be read.
        StoreError: a region cannot be read.
    """
    looks = [_Look(regions, store, budget) for store in regions.stores.values()]
    await run_requests([look.run for look in looks], at_once=len(looks))
    windows = {window.counter: window for look in looks for window in look.windows.values()}
    spends = {(spend.id, spend.grants): spend for look in looks for spend in look.spends}
    reopened = {hold.id: hold for look in looks for hold in look.reopened}
    return RestoreView(
        [windows[counter] for counter in sorted(windows)],
        sorted({name for look in looks for name in look.budgets}),
        RestoredEntries(list(spends.values()), list(reopened.values())),
    )


class _Look:
    """A look through the table of one region."""

    def __init__(self, regions: RegionViews, store: Store, budget: str | None) -> None:
        self._regions = regions
        self._store = store
        self._budget = budget
        self._items: dict[str, Items] = {}
        self._known: dict[str, Window | None] = {}
        self.windows: dict[str, Window] = {}
        self.budgets: set[str] = set()
        self.spends: list[SpendRecord] = []
        self.reopened: list[SpendRecord] = []

    async def run(self) -> None:
        """Read the whole table."""
        async for item in scanned(self._store, SPENDS):
            controlled, spend = budget_of(item), spend_in(item)
            if controlled is not None:
                self._controls(controlled)
            elif spend is not None:
                if [name for name in spend.names if await self._counts(name)]:
                    self.spends.append(spend)
                if spend.is_open_hold and await self._is_reopened(key_of(item), spend):
                    self.reopened.append(spend)

    def _controls(self, counter: str) -> None:
        rule = self._regions.terms.budget_of(counter)
        window = self._window(counter)
        if window is None and rule is not None and self._budget in {None, counter}:
            self.budgets.add(counter)  # the limit of its windows
        elif window is not None and rule is not None:
            self.budgets.add(window.budget)
            ends = None if window.ends is None else window.ends + rule.late
            skew = self._regions.terms.longest("clock_skew")
            if ends is None or self._regions.time(self._store.region).least <= ends + skew:
                self.windows[counter] = window

    async def _counts(self, name: GrantName) -> bool:
        window = self._window(name.budget)
        if window is None or not self._regions.keeps(name.holder):
            return False
        item = (await self._shown(name.budget)).get(name.holder, Rights(name.holder))
        is_missing = name.version > item.version or name.version in item.grants
        if is_missing:
            self._is_counted(window)
        return is_missing

    async def _is_reopened(self, key: Key, hold: SpendRecord) -> bool:
        """Return whether an item of this region has an open hold as resolved.

        The hold is read again after the item: on a table at work it is resolved by then.
        """
        charged: list[Window] = []
        for name in hold.grants:
            window = self._window(name.budget)
            items = {} if window is None else await self._shown(name.budget)
            if window is not None and any(self._charges(one, name, hold) for one in items.values()):
                charged.append(window)
        item = await self._store.get(Get(key)) if charged else None
        again = None if item is None else spend_in(item)
        if again is None or not again.is_open_hold:
            return False
        for window in charged:
            self._is_counted(window)
        return True

    def _charges(self, item: Rights, name: GrantName, hold: SpendRecord) -> bool:
        """Return whether an item of this region was charged for what a hold came to.

        Of a key that was used in two regions another copy, of other grants, may have won since.
        """
        is_its = item.holder == name.holder or not self._regions.keeps(name.holder)
        return is_its and item.holder.region == self._store.region and hold.id in item.resolved

    async def _shown(self, budget: str) -> Items:
        if budget not in self._items:
            home = self._regions.stores[self._regions.terms.home]
            self._items[budget] = await read_rights(home, budget)
        return self._items[budget]

    def _is_counted(self, window: Window) -> None:
        self.windows[window.counter] = window
        self.budgets.add(window.budget)

    def _window(self, counter: str) -> Window | None:
        """Return the window, or budget, of this counter; None if it is none that is asked for."""
        if counter not in self._known:
            window = window_in(counter, self._regions.terms)
            is_asked = window is not None and self._budget in {None, window.budget}
            self._known[counter] = window if is_asked else None
        return self._known[counter]


async def restore_budget(
    regions: RegionViews,
    counter: str,
    entries: RestoredEntries,
    made: Mapping[Holder, Rights | None],
) -> Mapping[Holder, RestorePlan]:
    """Count a budget, or a window of it, again in each region's item; return what was changed.

    `entries` are those of `look`; `made` is what a holder that has no item would make, None
    while a step of the limit that decides it is only announced.

    Raises:
        BudgetUndecided: such a holder has spent, or others have taken of it.
        StateConflict: an item was written meanwhile: nobody may spend yet.
        AmountOverflow: a sum does not fit in 38 digits.
        DamagedItem: a rights item cannot be read.
        StoreError: a region cannot be read or written; run it again.
    """
    own, reopened = (
        [spend for spend in found if _holders(spend, counter)]
        for found in (entries.spends, entries.reopened)
    )
    named = {holder for spend in own for holder in _holders(spend, counter)}
    shown = await read_rights(regions.stores[regions.terms.home], counter)
    taken = takers(shown)
    read: dict[Holder, Rights] = {}
    items: dict[Holder, Rights] = {}
    for holder in sorted(made.keys() | shown.keys() | taken.keys() | named):
        if not regions.keeps(holder):
            continue
        before = await read_local_rights(regions.stores[holder.region], counter, holder)
        item = before or made.get(holder, Rights(holder))
        if item is not None:
            read[holder], items[holder] = before or Rights(holder), item
        elif holder in taken or holder in named:
            raise BudgetUndecided(
                f"{holder} has spent or given of {counter!r}, and its share is said by a step of"
                " the limit that is only announced: `ledger budget confirm`, then run this again"
            )
    found: dict[Holder, RestorePlan] = {}
    now = regions.time(regions.terms.home).latest
    for after in plan_restore(items, RestoredEntries(own, reopened), taken, counter, now):
        holder = after.holder
        put = Put(rights_item(after, counter), condition_of(read[holder]))
        if not isinstance(await regions.stores[holder.region].write(put), Applied):
            raise StateConflict(
                f"{holder} of budget {counter!r} was written meanwhile: nobody may spend before"
                " all is counted; run this again"
            )
        found[holder] = RestorePlan.of(items[holder], after)
    return found


def _holders(spend: SpendRecord, counter: str) -> set[Holder]:
    """Return the holders of a budget that an entry names."""
    return {name.holder for name in spend.names if name.budget == counter}

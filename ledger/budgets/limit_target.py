"""Where a limit is changed: through which home, of which window, and what regions show of it."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil

from ledger.budgets.balance import debts
from ledger.budgets.calendar import Window, rule_of, whole_seconds, window_of
from ledger.budgets.initial_shares import first_rights, shares_in
from ledger.budgets.limit_windows import BudgetLimit
from ledger.budgets.lost_stake import reclaimed_in
from ledger.budgets.region_access import RegionAccess
from ledger.budgets.rights import Holder, Rights, holder_in
from ledger.budgets.rights_items import ControlItems
from ledger.core.budget_rules import BudgetRule
from ledger.core.clock_offset import RegionTime
from ledger.core.contract import NO_HOME, Terms, seconds_to_wait
from ledger.core.errors import (
    BudgetMissing,
    HomeMoving,
    OutcomeUnknown,
    StoreError,
    Unreachable,
)
from ledger.runtime.call_deadlines import note_doubt
from ledger.store.writes import Applied, Put, Unknown

CHANGE_SECONDS = 10.0
"""How long one write through home is tried."""


@dataclass(frozen=True, slots=True)
class LimitTarget:
    """A budget, or its window that runs, with home and the terms by which its limit is changed."""

    budget: str
    rule: BudgetRule
    window: Window
    home: ControlItems
    me: Holder
    terms: Terms
    access: RegionAccess

    @staticmethod
    async def of(access: RegionAccess, budget: str, window: Window | None = None) -> "LimitTarget":
        """Return where the limit of a budget is changed now: by default of the window that runs.

        Raises:
            BudgetMissing: no pattern of the contract has its counter.
            HomeMoving: there is no home while it is moved.
            Unreachable: home cannot be reached from here.
        """
        terms = access.settings.current.terms
        rule = rule_of(terms, budget)
        if terms.home == NO_HOME:
            raise HomeMoving("the table's home is being moved: limits are changed once it is")
        regions = await access.items_everywhere()
        if terms.home not in regions:
            raise Unreachable(f"home, region {terms.home}, cannot be reached from here")
        window = window or window_of(budget, rule, access.services.clock.now())
        me = holder_in(terms.home, terms)
        return LimitTarget(budget, rule, window, regions[terms.home], me, terms, access)

    @property
    def generation(self) -> int:
        """The generation of the contract by which it is changed."""
        return self.terms.generation

    @property
    def seconds(self) -> int:
        """Now, in whole seconds since 1970, by the clock that said which window runs."""
        return whole_seconds(self.access.services.clock.now())

    @property
    def time(self) -> RegionTime:
        """Between which times home's clock is now; to be asked after an answer of it."""
        return self.home.time

    @property
    def wait(self) -> int:
        """The contract's wait, in seconds; who confirms may have another clock than who looked."""
        terms = self.access.settings.current.terms
        wait = seconds_to_wait(*(terms.either or (terms, terms)))
        return ceil(wait + 2 * terms.longest("clock_skew"))

    def keeps(self, holder: Holder) -> bool:
        """Return whether a holder is not one of a region that was lost or taken out."""
        return not self.terms.is_over(holder.region, holder.epoch)

    async def limits(self) -> list[BudgetLimit]:
        """Return the limit at home, and after it those that other regions show.

        Raises:
            BudgetMissing: home shows none, nor, of what an earlier home wrote, any other region.
        """
        limit = await self.access.limit_of(self.budget, self.home)
        if limit is None:
            raise BudgetMissing(
                f"budget {self.budget!r} has no limit in {self.me.region}: create it first"
            )
        found = [limit]
        for region, items in (await self.access.items_everywhere()).items():
            if region != self.me.region:
                try:
                    shown = (await items.read(self.budget)).limit
                except StoreError:
                    continue
                if shown is not None:
                    found.append(shown)
        return found

    async def everywhere(self) -> dict[Holder, Rights]:
        """Return each holder's item as its own region has it; of one not reached, as home shows.

        Those of regions that are no more in the table are as home shows them, too, and after a loss
        the newest that any region shows; of version 0 where a reclaim went by an unseen share.
        """
        counter = self.window.counter
        if (left := await self.access.left(counter)) is not None:
            return await self.with_unmade(left)
        found = dict((await self.home.read(counter)).items)
        for holder, region in (await self.holders()).items():
            try:
                found[holder] = await region.rights(counter, holder)
            except StoreError:
                if holder == self.me:
                    raise
                found.setdefault(holder, Rights(holder))
        return found

    async def with_unmade(self, items: Collection[Rights]) -> dict[Holder, Rights]:
        """Return items by holder, and version 0 of holders that have none."""
        found = {item.holder: item for item in items}
        missing = {*reclaimed_in(items), *await self.holders()} - found.keys()
        return found | {holder: Rights(holder) for holder in missing}

    async def holders(self) -> dict[Holder, ControlItems]:
        """Return the holders of the table's regions, each with what reads and writes there."""
        return {
            holder_in(region, self.terms): items
            for region, items in (await self.access.items_everywhere()).items()
            if region in self.terms.regions
        }

    def made(self, limit: BudgetLimit, rights: Rights) -> Rights:
        """Return an item, or what a region would make at its first grant."""
        return first_rights(rights, window=self.window, limit=limit) or rights

    def all_made(self, limit: BudgetLimit, items: Mapping[Holder, Rights]) -> dict[Holder, Rights]:
        """Return items as they are, or will be made, with those lost holders may have made."""
        unseen = {
            holder: Rights(holder)
            for holder in shares_in(limit, self.window)
            if not self.keeps(holder) and holder not in items
        }
        everything = sorted({**unseen, **items}.items())
        return {holder: self.made(limit, item) for holder, item in everything}

    def others(self, items: Mapping[Holder, Rights]) -> tuple[Rights, ...]:
        """Return the items of all holders but home's."""
        return tuple(item for holder, item in items.items() if holder != self.me)

    def debts(self, items: Mapping[Holder, Rights]) -> dict[Holder, Decimal]:
        """Return what holders owe that are not gone."""
        owed = debts(not_reclaimed(items))
        return {holder: debt for holder, debt in owed.items() if self.keeps(holder)}

    async def write(self, planned: Callable[[], Awaitable[Sequence[Put]]]) -> None:
        """Write what is planned in one transaction through home; read and plan again after a race.

        Raises:
            OutcomeUnknown: no answer in time; the same call is harmless.
        """
        tries = self.access.tries(self.home.store, seconds=CHANGE_SECONDS)
        unknown = ""
        with self.access.signed():
            while puts := await planned():
                outcome = await self.home.store.transact(puts)
                if isinstance(outcome, Applied):
                    tries.succeeded()
                    return
                requests = 1
                if isinstance(outcome, Unknown):
                    unknown, requests = outcome.cause, outcome.requests
                    note_doubt()
                if not await tries.again("unanswered", requests=requests):
                    text = f"the limit of budget {self.budget!r} was not changed in time"
                    if unknown:
                        raise OutcomeUnknown(
                            f"{text}, as far as is known ({unknown}): the same call is harmless",
                            entries=[],
                            retryable=True,
                        )
                    raise Unreachable(f"{text}: repeat the call")


def not_reclaimed(items: Mapping[Holder, Rights]) -> dict[Holder, Rights]:
    """Return items without those of which all that they had is another's by now."""
    gone = reclaimed_in(items.values())
    return {holder: item for holder, item in items.items() if holder not in gone}

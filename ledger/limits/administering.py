"""`Administrator`: budgets made, and shown, through home and the regions that hold their rights."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from random import Random

from ledger.core import amounts
from ledger.core.contract import NO_HOME
from ledger.core.errors import BudgetMissing, HomeMoving, InvalidInput, OutcomeUnknown, Unreachable
from ledger.limits import plan
from ledger.limits.balance import free, in_flight
from ledger.limits.calendar import Window
from ledger.limits.items import ControlItems, Shown
from ledger.limits.rights import Account, Rights, checked_amount, write_of
from ledger.limits.windows import Limit, LimitStep, limit_item
from ledger.runtime.clock import Clock
from ledger.runtime.validity import signed_within
from ledger.settings.live import LiveSettings
from ledger.store.conditions import Absent
from ledger.store.port import Store
from ledger.store.retrier import Retrier
from ledger.store.writes import Put, Rejected, Unknown

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class RegionRights:
    """What one region has of a budget: `free` to be granted, and `granted` to processes.

    `charged` is what closed grants came to; `in_flight` was sent to it and is not taken up yet.
    """

    region: str
    free: Decimal
    granted: Decimal
    charged: Decimal
    in_flight: Decimal


@dataclass(frozen=True, slots=True)
class BudgetState:
    """A budget, or one window of it, as one region shows it.

    `limit` is what is minted less what is retired; `charged` what closed grants came to, and
    `granted` what open ones may come to: what was spent lies between `charged` and both together.
    """

    budget: str
    counter: str
    limit: Decimal
    charged: Decimal
    granted: Decimal
    regions: tuple[RegionRights, ...]

    @property
    def free(self) -> Decimal:
        """What may still be granted anywhere, with what is on its way."""
        return sum((each.free + each.in_flight for each in self.regions), _ZERO)


class Administrator:
    """Makes and shows budgets; `others` opens the stores of other regions."""

    def __init__(
        self,
        store: Store,
        *,
        settings: LiveSettings,
        clock: Clock,
        randomness: Random,
        others: Callable[[], Awaitable[Mapping[str, Store]]],
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._random = randomness
        self._others = others

    async def create(
        self, budget: str, limit: int | Decimal, *, weights: Mapping[str, int] | None = None
    ) -> bool:
        """Make a budget, through home; return whether this call did: False if it was there so.

        `weights` are in which parts regions share each window of it, by default equal ones.

        Raises:
            InvalidInput: the limit or a weight breaks a rule, or the budget is there with another
                limit.
            BudgetMissing: no pattern of the contract has its counter.
            HomeMoving, OutcomeUnknown, StoreError: it may be repeated.
        """
        settings = self._settings.current
        terms = settings.terms
        rule = terms.budget_of(budget)
        if rule is None:
            raise BudgetMissing(f"{budget!r} matches no pattern of the contract's budgets")
        amount = amounts.addend(limit)
        checked_amount(amount, amount, "limit")
        chosen = weights or dict.fromkeys(terms.written, 1)
        if unknown := sorted({*chosen} - {*terms.regions}):
            raise InvalidInput(f"weights name {unknown[0]!r}, which is not a region of the table")
        shares = {Account(each, terms.epoch_of(each)): chosen[each] for each in chosen}
        made = Limit(1, (LimitStep.of(amount, shares),))
        if terms.home == NO_HOME:
            raise HomeMoving("the table's home is being moved: budgets are made once it is")
        home = await self._region(terms.home)
        puts = [Put(limit_item(made, budget, terms.generation), Absent())]
        if rule.window == "none":
            account = Account(terms.home, terms.epoch_of(terms.home))
            none = plan.create(account, amount)
            puts.append(write_of(Rights(account), none, budget))
        retrier = Retrier.of(home, clock=self._clock, randomness=self._random)
        with signed_within(self._settings.validity, self._clock):
            final = await retrier.until_answered(lambda: home.transact(puts))
        if isinstance(final.outcome, Unknown):
            raise OutcomeUnknown(
                f"budget {budget!r} may be made, or not ({final.outcome.cause}): repeat the call",
                entries=[],
                retryable=True,
            )
        if isinstance(final.outcome, Rejected):
            there = (await self._items(home).read(budget)).limit
            if there is None or there.steps[-1].limit != amount:
                had = "" if there is None else f" of {amounts.to_text(there.steps[-1].limit)}"
                raise InvalidInput(
                    f"budget {budget!r} has a limit{had} already: raise or lower that"
                )
            return final.doubt is not None
        return True

    async def state(self, window: Window) -> BudgetState:
        """Return a budget, or a window of it, as this region shows it.

        Raises:
            BudgetMissing: this region shows no limit of it.
        """
        items = self._items(self._store)
        shown = await items.read(window.counter)
        limit = shown.limit if window.is_whole else (await items.read(window.budget)).limit
        if limit is None:
            raise BudgetMissing(f"budget {window.budget!r} has no limit in {self._store.region}")
        return state_of(window, shown)

    async def _region(self, region: str) -> Store:
        if region == self._store.region:
            return self._store
        others = await self._others()
        if region not in others:
            raise Unreachable(f"region {region} cannot be reached from here")
        return others[region]

    def _items(self, store: Store) -> ControlItems:
        return ControlItems(store, clock=self._clock, randomness=self._random)


def state_of(window: Window, shown: Shown) -> BudgetState:
    """Return what control items say of a budget."""
    items = shown.items
    left = free(items) if items else {}
    return BudgetState(
        window.budget,
        window.counter,
        plan.limit_of(tuple(items.values())),
        amounts.total_wide(one.charged for one in items.values()),
        amounts.total_wide(one.granted for one in items.values()),
        tuple(
            RegionRights(
                account.region,
                amounts.total_wide((left[account], in_flight(account, items).copy_negate())),
                one.granted,
                one.charged,
                in_flight(account, items),
            )
            for account, one in sorted(items.items())
        ),
    )

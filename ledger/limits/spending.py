"""`Spender`: spends and holds of one process in one region, from any number of budgets.

A spend is one entry. Its amount is first taken from a grant of each budget, all or none, in memory
and in one step; then it is written as any entry, in group commit, and names the grants. What is
given back, and when, is `Allowance`'s. A request that names a grant is never signed after the
grant's end, and a repeat never names another one.
"""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random

import anyio
from anyio.abc import TaskGroup

from ledger.core import amounts
from ledger.core.errors import (
    BudgetMissing,
    InvalidEntry,
    LedgerError,
    RetryHorizonPassed,
    StoreError,
)
from ledger.core.ids import EPOCH
from ledger.core.values import Entry, Spending
from ledger.late import LateAnswers
from ledger.limits.allowance import Allowance, Taken
from ledger.limits.calendar import Window, checked_budget, window_of
from ledger.limits.fetching import Fetcher
from ledger.limits.items import ControlItems
from ledger.limits.keeper import Keeper, Surroundings
from ledger.limits.outcomes import Granted, Refused, SpendOutcome
from ledger.limits.rights import GrantName, checked_amount
from ledger.runtime.clock import Clock
from ledger.runtime.deadline import NEVER, bounded, not_sent
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.writing.hints import Hints
from ledger.writing.plan import Change, confirmed, time_of
from ledger.writing.planner import Planner
from ledger.writing.writer import Writer

RENEWALS_MAX = 100
"""How often one spend renews a grant that others then use up before it."""
WAIT_SECONDS = 0.25
"""How often a spend that may wait asks again for rights."""
TEND_SECONDS = 1.0
RECENT_MAX = 10_000
"""Ids of spends with keys that are remembered, so that their repeats take nothing."""
CLOSE_SECONDS = 5.0
"""How long closing waits for grants to be closed; what is left is found by reading, later."""
log = logging.getLogger(__name__)

Others = Callable[[], Awaitable[Mapping[str, Store]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be spent: from these budgets, the narrowest first.

    `hold` is when it expires as a hold, in whole seconds since 1970. `wait` is for how many seconds
    rights that are elsewhere are waited for.
    """

    budgets: tuple[str, ...]
    amount: int | Decimal
    note: str | None = None
    key: str | None = None
    at: datetime | None = None
    hold: int | None = None
    wait: float = 0.0

    def change(self, counter: str) -> Change:
        """Return the change that is recorded: what is spent is taken away."""
        change = amounts.exact(self.amount).copy_negate()
        return Change(counter, change, self.note, None, self.key, self.at)


class Spender:
    """Spends from budgets through one region, under grants that this process holds."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        *,
        settings: LiveSettings,
        clock: Clock,
        randomness: Random,
        hints: Hints,
        late: LateAnswers,
        others: Others,
        tasks: TaskGroup,
    ) -> None:
        self._store = store
        self._writer = writer
        self._settings = settings
        self._clock = clock
        self._random = randomness
        self._hints = hints
        self._late = late
        self._others = others
        self._planner = Planner(store.region, settings=settings, clock=clock, randomness=randomness)
        self._around = Surroundings(
            ControlItems(store, clock=clock, randomness=randomness),
            Fetcher(self._other_items, settings=settings, clock=clock),
            settings,
            clock,
            lambda: f"{randomness.getrandbits(64):016x}",
        )
        self._keepers: dict[tuple[str, str], Keeper] = {}
        self._recent: OrderedDict[tuple[str, str], tuple[str, ...]] = OrderedDict()
        self._tasks = tasks
        self._is_tending = False
        self._is_closed = False

    def at_hand(self, name: str, counter: str) -> Allowance | None:
        """Return the grant of this name, for entries of a counter, if it is at hand here."""
        budget = GrantName.parse(name).budget or counter
        keeper = self._keepers.get((budget, counter))
        return None if keeper is None else keeper.holds(name)

    async def _other_items(self) -> Mapping[str, ControlItems]:
        stores = await self._others()
        return {
            region: ControlItems(store, clock=self._clock, randomness=self._random)
            for region, store in stores.items()
        }

    async def spend(self, asked: Asked, *, end: float = NEVER) -> SpendOutcome:
        """Spend from each of the budgets, or from none; see `Budget.spend`."""
        at = self._clock.now()
        if asked.key is not None:
            at = time_of(asked.budgets[0], asked.key, asked.at)
        windows = [self._window(budget, at) for budget in asked.budgets]
        counter = windows[0].counter
        amount = amounts.addend(asked.amount)
        keepers = [self._keeper(window, counter) for window in windows]
        for keeper in keepers:
            checked_amount(amount, keeper.limit)
        until = self._clock.monotonic() + asked.wait
        refused: Refused | None = None
        for _ in range(RENEWALS_MAX):
            taken = _take(keepers, amount)
            if isinstance(taken, Taken):
                return await self._write(asked, counter, taken, end)
            try:
                refused = await bounded(end, taken.renew(amount), not_sent)
            except StoreError:
                if self._refuses_in_outage(taken):
                    raise
                return await self._write_over(asked, counter, keepers, amount, end)
            if refused is None:
                checked_amount(amount, taken.limit)
            elif found := await self._applied_before(asked, counter):
                return Granted(found)
            elif (left := until - self._clock.monotonic()) <= 0:
                break
            else:
                await bounded(end, self._clock.sleep(min(WAIT_SECONDS, left)), not_sent)
        return Refused(counter, amount, Decimal(0), Decimal(0)) if refused is None else refused

    def _window(self, budget: str, at: datetime) -> Window:
        rule = self._settings.current.terms.budget_of(budget)
        if rule is None:
            raise BudgetMissing(
                f"{budget!r} matches no pattern of the contract's budgets: add one by"
                " `ledger table set budgets PATTERN=`"
            )
        window = window_of(checked_budget(budget, rule), rule, at)
        over = 0 if window.ends is None else window.ends + rule.late
        if window.ends is not None and self._clock.now().timestamp() > over:
            raise InvalidEntry(
                f"window {window.counter!r} has ended, and is spent from for {rule.late:g} s after"
                " that"
            )
        return window

    def _keeper(self, window: Window, counter: str) -> Keeper:
        key = (window.counter, counter)
        keeper = self._keepers.get(key)
        if keeper is None:
            if self._is_closed:
                raise not_sent()
            keeper = self._keepers[key] = Keeper(window, counter, self._around)
            self._tend_later()
        return keeper

    async def _write(self, asked: Asked, counter: str, taken: Taken, end: float) -> Granted:
        """Write the entry under the grants it was taken from, and note what is known of it.

        Raises:
            OutcomeUnknown: it may be there; the grants are closed by reading.
            And as `Ledger.record`: nothing was written.
        """
        names = taken.names
        until = EPOCH + timedelta(seconds=taken.expires)
        try:
            entry = await self._written(
                asked, counter, Spending(names, asked.hold, until=until), end
            )
        except BaseException as error:
            if isinstance(error, LedgerError) and error.outcome == "not_applied":
                taken.given_back()
            else:
                taken.doubted()
            raise
        is_ours = entry.spending is not None and entry.spending.grants == names
        if is_ours and not (asked.key is not None and self._is_counted(entry, names)):
            taken.applied(keyed=asked.key is not None)
        else:
            taken.given_back()
        return Granted(entry)

    def _is_counted(self, entry: Entry, names: tuple[str, ...]) -> bool:
        """Return whether a call before this one took the amount of this entry with a key."""
        key = (entry.counter, entry.id)
        if self._recent.get(key) == names:
            return True
        self._recent[key] = names
        if len(self._recent) > RECENT_MAX:
            self._recent.popitem(last=False)
        return False

    async def _written(self, asked: Asked, counter: str, spending: Spending, end: float) -> Entry:
        try:
            entry = await self._writer.spend(asked.change(counter), spending, end=end)
        except RetryHorizonPassed as error:
            return await self._late.applied(error)
        self._hints.wrote(entry)
        return entry

    async def _write_over(
        self,
        asked: Asked,
        counter: str,
        keepers: Sequence[Keeper],
        amount: Decimal,
        end: float,
    ) -> Granted:
        """Write an entry that no grant pays for, where the pattern allows it in an outage."""
        entry = await self._written(asked, counter, Spending((), asked.hold, is_over=True), end)
        if not entry.repeated:
            for keeper in keepers:
                keeper.owe(amount)
        return Granted(entry)

    def _refuses_in_outage(self, keeper: Keeper) -> bool:
        rule = self._settings.current.terms.budget_of(keeper.window.budget)
        return rule is None or rule.on_outage == "refuse"

    async def _applied_before(self, asked: Asked, counter: str) -> Entry | None:
        """Return the entry that an earlier call with its key made, as this region shows it.

        Raises:
            KeyConflict: the key stands for another change.
        """
        if asked.key is None:
            return None
        try:
            planned = self._planner.plan(asked.change(counter))
        except RetryHorizonPassed as error:
            return await self._late.applied(error)
        item = await self._store.get(Get(planned.put.key))
        return None if item is None else confirmed(planned.entry, item)

    def _tend_later(self) -> None:
        if not self._is_tending:
            self._is_tending = True
            self._tasks.start_soon(self._tend)

    async def _tend(self) -> None:
        """Look after the grants as long as there are any; of failures in a row one is told."""
        failing: set[tuple[str, str]] = set()
        try:
            while self._keepers and not self._is_closed:
                await self._clock.sleep(TEND_SECONDS)
                for key, keeper in list(self._keepers.items()):
                    if keeper.is_idle:
                        del self._keepers[key]
                        continue
                    try:
                        await keeper.tend()
                        failing.discard(key)
                    except LedgerError as error:
                        if key not in failing:
                            log.warning("budget %r: %s", keeper.budget, error)
                        failing.add(key)
        finally:
            self._is_tending = False

    async def close(self) -> None:
        """Close the grants of this process: what is left of them is free for others at once."""
        self._is_closed = True
        keepers, self._keepers = list(self._keepers.values()), {}
        with anyio.move_on_after(CLOSE_SECONDS):
            for keeper in keepers:
                try:
                    await keeper.give_up()
                except LedgerError as error:
                    log.warning("budget %r: a grant is left open: %s", keeper.budget, error)


def _take(keepers: Sequence[Keeper], amount: Decimal) -> Taken | Keeper:
    """Take an amount from each, or from none: then the first that has too little is returned."""
    allowances: list[Allowance] = []
    for keeper in keepers:
        allowance = keeper.take(amount)
        if allowance is None:
            for taken in allowances:
                taken.given_back(amount)
            return keeper
        allowances.append(allowance)
    return Taken(amount, tuple(allowances))


def _is_unwritten(error: LedgerError) -> bool:
    """Return whether this call wrote nothing; a key that is too old was looked at before it."""
    return error.outcome == "not_applied" or isinstance(error, RetryHorizonPassed)

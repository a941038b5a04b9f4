"""`Holdings`: what one process holds of budgets in one region, and the task that looks after it.

The process holds grants, each by a keeper, those of credits, too; amounts that it keeps aside in
memory; and entries that it let through, until they are charged. While it holds any of these, one
task renews the grants and closes them, takes in what was credited, gives back what has expired,
charges what was let through, and goes on with steps of limits that are announced.
"""

import logging
from collections.abc import Awaitable, Callable
from decimal import Decimal
from functools import partial
from weakref import WeakValueDictionary

import anyio
from anyio.abc import TaskGroup

from ledger.budgets.calendar import Window
from ledger.budgets.credit_keeper import CreditKeeper
from ledger.budgets.fail_open import FailOpen, FailOpenSpend
from ledger.budgets.grant_allowance import AtHand
from ledger.budgets.grant_keeper import GrantKeeper
from ledger.budgets.limit_change import LimitChange
from ledger.budgets.memory_hold import LightHold
from ledger.budgets.region_access import RegionAccess
from ledger.budgets.rights import GrantName
from ledger.budgets.rights_fetcher import RightsFetcher
from ledger.core import amounts
from ledger.core.entry import Key
from ledger.core.errors import LedgerError
from ledger.runtime.call_deadlines import LATE_AT_ONCE, not_sent
from ledger.runtime.tasks import Turns, call_soon

TEND_SECONDS = 1.0
WAIT_SECONDS = 0.25
"""How often a call that may wait looks again, for rights or for what it credited."""
CONFIRM_SECONDS = 60.0
"""How often an announced step of a limit is looked after."""
CLOSE_SECONDS = 5.0
"""How long closing waits for grants to be closed; what is left is found by reading, later."""
log = logging.getLogger(__name__)


class Holdings:
    """Grants, amounts kept aside, and entries let through, of one process.

    `go_on` takes the next step of a budget's limit, if one is announced.
    """

    def __init__(
        self,
        access: RegionAccess,
        *,
        tasks: TaskGroup,
        go_on: Callable[[str], Awaitable[LimitChange]],
    ) -> None:
        self.go_on = go_on
        self.is_closed = False
        self._access = access
        self._settings = access.settings
        self._region = access.store.region
        self._clock = access.services.clock
        self._metrics = access.services.metrics
        self._tasks = tasks
        self._fetcher = RightsFetcher(access)
        self._let_through = FailOpen(access, noted=self._note_charged)
        self._keepers: dict[tuple[str, str], GrantKeeper] = {}
        self._credits: dict[tuple[str, str], CreditKeeper] = {}
        self._waited: dict[tuple[str, str], float] = {}
        self._locks: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()
        """Of the items of budgets that keepers here would race for."""
        self._light: set[LightHold] = set()
        self._is_tending = False
        self._wakes = Turns(call_soon, LATE_AT_ONCE)

    def at_hand(self, name: str, counter: str) -> AtHand | None:
        """Return the grant of this name, for entries of a counter, if it is at hand here."""
        keeper = self.keeper_of(GrantName.parse(name), counter)
        allowance = None if keeper is None else keeper.holds(name)
        return None if keeper is None or allowance is None else AtHand(allowance, keeper.limit)

    def keeper_of(self, name: GrantName, counter: str) -> GrantKeeper | None:
        """Return the keeper of a grant's budget, for entries of a counter, if there is one."""
        return self._keepers.get((name.budget or counter, counter))

    def keeper(self, window: Window, counter: str) -> GrantKeeper:
        """Return the keeper of a window's grants, for entries of a counter.

        Raises:
            NotSent: the process is closing its grants.
        """
        key = (window.counter, counter)
        keeper = self._keepers.get(key)
        if keeper is None:
            if self.is_closed:
                raise not_sent()
            lock = self._locks.setdefault(window.counter, anyio.Lock())
            keeper = GrantKeeper(window, counter, self._access, fetcher=self._fetcher, lock=lock)
            self._keepers[key] = keeper
            self._tend_later()
        return keeper

    def credit_keeper(self, window: Window, counter: str) -> CreditKeeper:
        """Return the keeper of a budget's credits, for entries of a counter.

        Raises:
            NotSent: the process is closing its grants.
        """
        if self.is_closed:
            raise not_sent()
        keeper = self._credits.get((window.counter, counter))
        if keeper is None:
            lock = self._locks.setdefault(window.counter, anyio.Lock())
            keeper = CreditKeeper(window, counter, self._access, lock=lock)
            self._credits[window.counter, counter] = keeper
            self._tend_later()
        return keeper

    def credits_waiting(self, budget: str) -> Decimal:
        """Return how much of what this process credited to a budget is not taken in yet."""
        keepers = [keeper for keeper in self._credits.values() if keeper.budget == budget]
        credits_ = (credit for keeper in keepers for credit in keeper.waiting)
        return amounts.total_wide(credit.record.amount.copy_negate() for credit in credits_)

    def keep_on(self, hold: LightHold) -> None:
        """Look after an amount that is kept aside: give it back once it expires, or at the end."""
        self._light.add(hold)

    def leave_to_caller(self, hold: LightHold) -> None:
        """Look after it no more: it is being settled."""
        self._light.discard(hold)

    def give_back(self, hold: LightHold) -> None:
        """Let an amount that was kept aside be spent again."""
        self._light.discard(hold)
        hold.end()
        hold.release()

    def charge_later(self, key: Key, through: FailOpenSpend, *, is_counted: bool) -> None:
        """Charge an entry that was let through, or may have been, once items can be had."""
        self._let_through.add(key, through, is_counted=is_counted)
        self._tend_later()

    async def charge_before(self, through: FailOpenSpend) -> None:
        """Charge what was let through from the same, before more of it is granted.

        Raises:
            LedgerError: as `FailOpen.charge`.
        """
        if self._let_through:
            await self._let_through.charge_some(through)

    def _note_charged(self, through: FailOpenSpend, amount: Decimal) -> None:
        budget = through.windows[0].budget
        pattern = self._settings.current.terms.budget_pattern_of(budget) or ""
        self._metrics.budget_spent_over(self._region, pattern, float(amount))

    async def wait(self, budget: str, seconds: float) -> None:
        """Wait a moment, for so many seconds at most, before a call looks at a budget again.

        Of very many calls a few go on in each round of the event loop, those of each budget in
        turn: once a round has been long, the moments of all end in the next one.
        """
        await self._clock.sleep(min(WAIT_SECONDS, seconds))
        await self._wakes.turn(budget)

    def _tend_later(self) -> None:
        if not self._is_tending and not self.is_closed:  # else the compactor does
            self._is_tending = True
            self._tasks.start_soon(self._tend)

    async def _tend(self) -> None:
        """Look after the grants as long as there are any; of failures in a row one is told."""
        failing: set[tuple[str, ...]] = set()
        try:
            while (self._keepers or self._credits or self._let_through) and not self.is_closed:
                await self._clock.sleep(TEND_SECONDS)
                self._expire()
                if self._let_through:
                    what = "what was let through is charged later"
                    await self._tried((), what, failing, self._let_through.charge)
                await self._tend_credits(failing)
                grants = sum(keeper.open_grants for keeper in self._keepers.values())
                of_credits = sum(keeper.open_grants for keeper in self._credits.values())
                self._metrics.budget_holds(self._region, grants + of_credits)
                for key, keeper in list(self._keepers.items()):
                    if keeper.is_idle:
                        self._keepers.pop(key, None)  # or all were, by `close`
                        continue
                    what = f"budget {keeper.budget!r}"
                    await self._tried(
                        key, what, failing, keeper.tend, partial(self._confirm, keeper)
                    )
        finally:
            self._is_tending = False

    async def _tend_credits(self, failing: set[tuple[str, ...]]) -> None:
        """Take in what was credited, once every region shows it."""
        if not self._credits:
            return
        for key, keeper in list(self._credits.items()):
            if keeper.is_idle:
                self._credits.pop(key, None)
                continue
            what = f"credits of budget {keeper.budget!r}"
            await self._tried((*key, "credits"), what, failing, keeper.tend)
        self._tell_waiting()

    def _tell_waiting(self) -> None:
        """Record how many credits wait, and the oldest by pattern and by who does not show it."""
        count, now = 0, self._clock.monotonic()
        ages = dict.fromkeys(self._waited, 0.0)  # of those that wait no more
        self._waited = {}
        for keeper in self._credits.values():
            waiting, name = keeper.waiting, (keeper.pattern, keeper.unshown_by)
            age = now - waiting[0].since if waiting else 0.0
            self._waited[name] = max(age, self._waited.get(name, 0.0))
            count += len(waiting)
        self._metrics.budget_credits_wait(self._region, count, {**ages, **self._waited})

    async def _tried(
        self,
        key: tuple[str, ...],
        what: str,
        failing: set[tuple[str, ...]],
        *works: Callable[[], Awaitable[None]],
    ) -> None:
        """Do some work; of failures in a row the first is told."""
        try:
            await self._settings.renew()  # a process that is idle has no call that does
            for work in works:
                await work()
            failing.discard(key)
        except LedgerError as error:
            if key not in failing:
                log.warning("%s: %s", what, error)
            failing.add(key)

    def _expire(self) -> None:
        """Give back what was kept aside, and has expired."""
        for hold in [light for light in self._light if light.has_expired]:
            self.give_back(hold)

    async def _confirm(self, keeper: GrantKeeper) -> None:
        """Go on with an announced step of a budget's limit, now and then."""
        now = self._clock.monotonic()
        if keeper.is_announced and now - keeper.confirmed_at > CONFIRM_SECONDS:
            keeper.confirmed_at = now
            keeper.is_announced = (await self.go_on(keeper.window.budget)).is_announced

    def forget_refusals(self, budget: str) -> None:
        """Ask again for rights of a budget, whose limit was raised just now."""
        for keeper in self._keepers.values():
            if keeper.window.budget == budget:
                keeper.forget_refusal()

    async def close(self) -> None:
        """Close the grants of this process: what is left of them is free for others at once."""
        self.is_closed = True
        for hold in list(self._light):
            self.give_back(hold)
        keepers, self._keepers = list(self._keepers.values()), {}
        credits_, self._credits = list(self._credits.values()), {}
        if credits_:
            self._tell_waiting()
        with anyio.move_on_after(CLOSE_SECONDS):
            # A process that lives shorter than `CONFIRM_SECONDS` may be all that there is.
            announced = {keeper.window.budget: None for keeper in keepers if keeper.is_announced}
            ends: list[tuple[str, Callable[[], Awaitable[object]]]] = [
                ("what was let through", self._let_through.charge),
                *((f"budget {keeper.budget!r}", keeper.give_up) for keeper in keepers),
                *((f"credits of {keeper.budget!r}", keeper.give_up) for keeper in credits_),
                *((f"the limit of {name!r}", partial(self.go_on, name)) for name in announced),
            ]
            for what, end in ends:
                try:
                    await end()
                except LedgerError as error:
                    log.warning("%s: left to be closed by the compactor: %s", what, error)

"""`GrantKeeper`: the grants that one process holds of one budget, renewed before they are used up.

::

    spend ── take from the remainder ────────────────────────────> entry names the grant
                └─ too little ── renew: one write of the rights item ──┘
                                   └─ too little ── fetch from other regions, or refuse

A renewal lets the grant go on, larger and longer. After `ROTATE_SECONDS` a new one is taken, and
the old one is closed once each of its entries has its outcome; where one has not, or keys were
used, it is left shrunk, to be closed by reading.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import TypeVar

import anyio

from ledger.budgets import rights_plan
from ledger.budgets.amount_rules import checked_amount
from ledger.budgets.balance import PERIOD_SECONDS, elsewhere, transfers
from ledger.budgets.calendar import Window, whole_seconds
from ledger.budgets.credit_rules import highest_of
from ledger.budgets.grant_allowance import (
    IDLE_SECONDS,
    REFUSAL_SECONDS,
    Allowance,
    Demand,
    OpenGrants,
)
from ledger.budgets.initial_shares import first_rights
from ledger.budgets.limit_windows import BudgetLimit
from ledger.budgets.region_access import RegionAccess
from ledger.budgets.rights import Rights
from ledger.budgets.rights_fetcher import RightsFetcher
from ledger.budgets.rights_items import RightsView
from ledger.budgets.rights_plan import Crowded, GrantGone, TooFewRights
from ledger.budgets.spend_request import Refused
from ledger.core import amounts
from ledger.core.durations import spoken
from ledger.core.errors import BudgetMissing, StateConflict

Refusal = TypeVar("Refusal")

_ZERO = Decimal(0)
GRANT_SECONDS = 5.0
"""How long a grant is tried to be had, races and lost answers included."""
NEW_UNTIL = 0.5
"""Of a grant's life, or `write_deadline` before its end: new spends stop, repeats go on."""
log = logging.getLogger(__name__)


class GrantKeeper:
    """The grants of a budget, or of one of its windows, in this process.

    `counter` is the one whose entries name them: the budget's own, or the narrowest of several.
    Keepers of one budget in a process share the `lock` of its item: they do not race for it.
    """

    def __init__(
        self,
        window: Window,
        counter: str,
        access: RegionAccess,
        *,
        fetcher: RightsFetcher,
        lock: anyio.Lock,
    ) -> None:
        self.window = window
        self.counter = counter
        self.limit: Decimal = _ZERO
        self.pattern = access.settings.current.terms.budget_pattern_of(window.budget) or ""
        self.is_announced = False
        self._access = access
        self._items = access.here
        self._clock = access.services.clock
        self._metrics = access.services.metrics
        # So that an increase shows the first.
        self._metrics.budget_spent_over(access.store.region, self.pattern, 0)
        self.confirmed_at = self._clock.monotonic()
        self._fetcher = fetcher
        self._lock = lock
        self._grants = OpenGrants()
        self._demand = Demand(self.confirmed_at, self.confirmed_at)
        self._balanced_at = self.confirmed_at
        self._asked_at = -PERIOD_SECONDS
        self._token: str | None = None
        """Of a grant that was asked for, until it is known whether there is one."""
        self._refusal: Refused | None = None
        self._refused_at = -PERIOD_SECONDS
        self._mine = _ZERO
        """What was free in the region's item when it was refused, below 0 if it owes."""

    @property
    def budget(self) -> str:
        """The counter of the budget, or of its window."""
        return self.window.counter

    @property
    def has_ended(self) -> bool:
        """Whether nothing more may be spent in the window."""
        ends = self.window.ends
        return ends is not None and self._clock.now().timestamp() > ends + self._late()

    def ended(self) -> StateConflict:
        """Return the error of a window that nothing more is spent from."""
        late = spoken(self._late())
        return StateConflict(
            f"window {self.budget!r} has ended, and is spent from for {late} after that"
        )

    def take(self, amount: Decimal) -> Allowance | None:
        """Take an amount from the grant at hand; None if there is too little, or none."""
        allowance = self._grants.take(amount, self._clock.now())
        if allowance is not None:
            self._demand.spend(amount, self._clock.monotonic())
        return allowance

    def holds(self, name: str) -> Allowance | None:
        """Return the grant at hand if it has this name, and is not over."""
        return self._grants.named(name, self._clock.now())

    def forget_refusal(self) -> None:
        """Ask again for what was refused: there may be more by now."""
        self._refusal = None

    async def renew(self, amount: Decimal, *, ahead: bool = False) -> Refused | None:
        """Make sure that an amount can be taken; return the refusal if it cannot.

        With `ahead` the grant goes on although it has as much.

        Raises:
            BudgetMissing: it has no limit, as far as this region shows.
            AmountOverflow: the amount is too large, or too fine, for the limit.
            LedgerError: the rights cannot be read or written.
        """
        self._demand.wait_for(amount)
        try:
            async with self._lock:
                return await self._renewed(amount, ahead=ahead)
        finally:
            self._demand.wait_for(amount.copy_negate())

    async def _renewed(self, amount: Decimal, *, ahead: bool) -> Refused | None:
        if not ahead and self._grants.have(amount, self._clock.now()):
            checked_amount(amount, self.limit)
            return None  # by the call before this one
        known = self._refused_just_now(amount)
        if known is not None:
            return known
        shown = await self._items.read(self.budget)
        limit = await self._limit(shown)
        if not ahead:
            checked_amount(amount, self.limit)
        done = await self._grant(shown, limit, amount)
        if isinstance(done, TooFewRights):
            done, shown = await self._fetched(done, shown, limit, amount)
        if isinstance(done, Rights):
            if not ahead:
                self._demand.quantum = self._demand.quantum_for(amount)
            self._refusal = None
            return None
        refused = self._refuse(amount, shown, crowded=isinstance(done, Crowded))
        if refused.elsewhere > 0 and shown.of(self._access.holder).version:
            await self._ask(amount, shown)
        return refused

    async def _fetched(
        self, short: TooFewRights, shown: RightsView, limit: BudgetLimit, amount: Decimal
    ) -> tuple[Rights | TooFewRights | Crowded, RightsView]:
        """Take a grant of what other regions send; return it, or why not, and what shows then."""
        me, quantum = self._access.holder, self._demand.quantum_for(amount)
        there = amounts.total_wide((self._grants.remaining, short.available))
        missing = self._demand.missing(amount, there)
        fetched = await self._fetcher.fetch(self.window, me, missing, shown, limit, quantum)
        if fetched is None:
            return short, shown
        self._metrics.budget_fetched(me.region)
        done = await self._grant(fetched, limit, amount)
        if isinstance(done, TooFewRights):
            fetched = await self._take_up(fetched, limit)
        return done, fetched

    def _refused_just_now(self, amount: Decimal) -> Refused | None:
        """Return the refusal of as much that is not old yet; meanwhile others may have spent."""
        refusal, age = self._refusal, self._clock.monotonic() - self._refused_at
        if refusal is None or amount < refusal.wanted or age >= REFUSAL_SECONDS:
            return None
        here = self._grants.left(self._mine, self._clock.now())
        return replace(refusal, wanted=amount, here=here)

    def _refuse(self, amount: Decimal, shown: RightsView, *, crowded: bool) -> Refused:
        me = self._access.holder
        others = (holder for holder in self._access.holders if holder in shown.items)
        items = {holder: shown.of(holder) for holder in {*others, me}}
        self._mine = shown.of(me).available
        here = self._grants.left(self._mine, self._clock.now())
        there = elsewhere(items, max(_ZERO, self._mine))
        self._refusal = Refused(self.budget, amount, here, there, crowded)
        self._refused_at = self._clock.monotonic()
        return self._refusal

    async def _ask(self, amount: Decimal, shown: RightsView) -> None:
        """Let other regions see that rights are wanted here, where they could not be asked."""
        now = self._clock.monotonic()
        if now - self._asked_at < PERIOD_SECONDS:
            return
        self._asked_at = now
        asked = partial(rights_plan.ask, rate=self._demand.rate, want=amount)
        await self._change(asked, known=shown.of(self._access.holder))

    async def _take_up(self, shown: RightsView, limit: BudgetLimit) -> RightsView:
        """Take up what was sent here, though it is too little: others may spend it."""
        make: rights_plan.Step = partial(first_rights, window=self.window, limit=limit)
        steps = [make, *self._take_ups(shown)]

        def planned(rights: Rights) -> Rights:
            done = rights_plan.in_one_write(rights, steps)
            return done if isinstance(done, Rights) else rights

        taken = await self._change(planned)
        return RightsView({**shown.items, taken.holder: taken}, shown.limit)

    def _take_ups(self, shown: RightsView) -> list[rights_plan.Step]:
        """Return the steps that take up what regions in the contract are shown to have sent."""
        holders = self._access.holders
        givers = (item for item in shown.items.values() if item.holder in holders)
        return [partial(rights_plan.take_up, giver=giver) for giver in givers]

    async def _change(
        self, planned: Callable[[Rights], Rights | Refusal], *, known: Rights | None = None
    ) -> Rights | Refusal:
        """Change this region's item, under the contract as it is known now."""
        with self._access.signed():
            return await self._items.change(
                self.budget, self._access.holder, planned, seconds=GRANT_SECONDS, known=known
            )

    async def _grant(
        self, shown: RightsView, limit: BudgetLimit, amount: Decimal
    ) -> Rights | TooFewRights | Crowded:
        """Take or enlarge a grant in one write, with all else that there is to write."""
        now, life = self._clock.now(), self._life()
        expires = whole_seconds(now) + life
        if self.has_ended:
            raise self.ended()
        token = self._token = self._token or self._access.new_token()  # one asked for may be there
        self._grants.rotate(whole_seconds(now))
        held = self._grants.at_hand
        self._demand.count_rate(self._clock.monotonic())
        taken = self._take_ups(shown)

        def planned(rights: Rights) -> Rights | TooFewRights | Crowded:
            if self._grants.are_shown(rights, token):
                return rights  # by a write that was not answered
            steps: list[rights_plan.Step] = [
                partial(first_rights, window=self.window, limit=limit),
                *taken,
                *self._grants.closings(),
            ]
            before = rights_plan.in_one_write(rights, steps)
            if not isinstance(before, Rights):
                return _without_gone(before)
            grant = None if held is None else before.grants.get(held.name.version)
            have = _ZERO if grant is None or held is None else held.remaining
            size = self._demand.size(amount, have=have, available=before.available)
            if size is None:
                return TooFewRights(before.available)
            last: rights_plan.Step
            if grant is None or held is None:
                last = partial(
                    rights_plan.take,
                    amount=size,
                    since=whole_seconds(now),
                    expires=expires,
                    token=token,
                    counter="" if self.counter == self.budget else self.counter,
                )
            else:
                latest = max(expires, grant.expires)  # the clock was set back
                version = held.name.version
                last = partial(rights_plan.top_up, version=version, amount=size, expires=latest)
            noted = partial(rights_plan.note_demand, rate=self._demand.rate, want=_ZERO)
            return _without_gone(rights_plan.in_one_write(rights, [*steps, last, noted]))

        done: Rights | TooFewRights | Crowded
        done = await self._change(planned, known=shown.of(self._access.holder))
        self._token = None
        if isinstance(done, Rights):
            self._metrics.budget_renewed(self._access.holder.region)
            budget = "" if self.counter == self.budget else self.budget
            self._grants.take_in(done, token, budget=budget, seconds=self._last_seconds())
        return done

    async def tend(self) -> None:
        """Renew what is nearly used up, close what is not used any more, balance with others.

        Raises:
            LedgerError: the rights cannot be read or written.
        """
        now = self._clock.monotonic()
        allowance, demand = self._grants.at_hand, self._demand
        if allowance is not None and (now - demand.used_at > IDLE_SECONDS or self.has_ended):
            await self.give_up()
        elif allowance is not None and self._is_low(allowance):
            await self.renew(min(demand.quantum, allowance.remaining), ahead=True)
        elif self._grants.can_close:
            await self._close_retired()
        if now - self._balanced_at > PERIOD_SECONDS and self._grants.at_hand is not None:
            self._balanced_at = now
            await self._balance()

    @property
    def open_grants(self) -> int:
        """How many grants of it this process has open."""
        return len(self._grants)

    @property
    def is_idle(self) -> bool:
        """Whether it holds nothing, and nothing was spent of late, or is about to be.

        Nor is it while a step of the limit is announced, which somebody has to go on with.
        """
        since = self._clock.monotonic() - self._demand.used_at
        holds = self._grants or self._demand.waiting or self.is_announced
        return not holds and since > IDLE_SECONDS

    async def give_up(self) -> None:
        """Close the grant at hand: what is left of it is free for others.

        Raises:
            LedgerError: the rights cannot be written; later they are found by reading.
        """
        async with self._lock:
            self._grants.retire()
            await self._close_retired_locked()

    async def _close_retired(self) -> None:
        async with self._lock:
            await self._close_retired_locked()

    async def _close_retired_locked(self) -> None:
        if not self._grants.closings():
            return

        def planned(rights: Rights) -> Rights:
            done = rights_plan.in_one_write(rights, self._grants.closings())
            return done if isinstance(done, Rights) else rights

        self._grants.forget_closed(await self._change(planned))

    async def _balance(self) -> None:
        """Take up what was sent here, and send what others need more."""
        shown = await self._items.read(self.budget)
        me, holders = self._access.holder, self._access.holders
        others = {holder: one for holder, one in shown.items.items() if holder in holders}
        take_ups = self._take_ups(shown)

        def planned(rights: Rights) -> Rights:
            taken = rights_plan.in_one_write(rights, take_ups)
            before = taken if isinstance(taken, Rights) else rights
            moved = transfers(me, {**others, me: before}, quantum=self._demand.quantum)
            sends = [
                partial(rights_plan.send, to=to, amount=amount) for to, amount in moved.items()
            ]
            done = rights_plan.in_one_write(rights, [*take_ups, *sends])
            return done if isinstance(done, Rights) else before

        await self._change(planned, known=shown.of(me))

    async def _limit(self, shown: RightsView) -> BudgetLimit:
        """Return the budget's limit, and note it.

        Raises:
            BudgetMissing: the region shows none.
        """
        limit = await self._items.limit(self.window, shown)
        if limit is None:
            raise missing(self.window.budget, self._access.store.region)
        highest = rights_plan.highest_limit(limit.newest.limit, shown.items.values())
        rule = self._access.settings.current.terms.budget_of(self.window.budget)
        self.limit = highest_of(rule, highest)
        self.is_announced = limit.announced is not None
        return limit

    def _is_low(self, allowance: Allowance) -> bool:
        """Whether little is left of the grant's time, or of it since something was spent."""
        quarter = timedelta(seconds=self._life() / 4)
        if self._clock.now() + quarter > self._grants.until:
            return True
        # Of a small budget there is never as much as is wanted.
        is_refused = self._clock.monotonic() - self._refused_at < PERIOD_SECONDS
        return not is_refused and self._demand.exceeds(allowance.remaining)

    def _last_seconds(self) -> float:
        """Return how long before a grant's end nothing new is spent under it any more."""
        return min(self._access.settings.current.write_deadline, NEW_UNTIL * self._life())

    def _life(self) -> int:
        rule = self._access.settings.current.terms.budget_of(self.window.budget)
        return int(rule.grant_life) if rule else 1

    def _late(self) -> float:
        rule = self._access.settings.current.terms.budget_of(self.window.budget)
        return rule.late if rule else 0.0


def _without_gone(done: "Rights | rights_plan.Refusal") -> Rights | TooFewRights | Crowded:
    """Return what a write came to: a grant that was closed by reading is no step's business."""
    return TooFewRights(_ZERO) if isinstance(done, GrantGone) else done


def missing(budget: str, region: str) -> BudgetMissing:
    """Return the error of a budget that has no limit."""
    return BudgetMissing(
        f"budget {budget!r} has no limit in {region}: create it, by `ledger budget create` or"
        " `await budget.create(limit)`"
    )

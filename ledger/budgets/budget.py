"""`Budget` and `Budgets`: limits that hold across regions, as programs use them."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Literal, overload

from ledger.budgets import hold_rules
from ledger.budgets.budget_state import BudgetState, explain_budget
from ledger.budgets.components import BudgetComponents
from ledger.budgets.creditor import CreditRequest
from ledger.budgets.hold_calls import expiry_of
from ledger.budgets.limit_change import LimitChange
from ledger.budgets.memory_hold import LightHold
from ledger.budgets.spend_request import (
    Credited,
    Granted,
    Refused,
    SpendOutcome,
    SpendRequest,
    always,
    checked_budgets,
    checked_hold,
    checked_wait,
)
from ledger.core import amounts
from ledger.core.errors import InvalidInput, LedgerError
from ledger.core.values import Entry
from ledger.runtime.call_deadlines import (
    arranging,
    bounded,
    deadline_of,
    not_sent,
    reading,
    unless_ended,
)
from ledger.runtime.tasks import run_all
from ledger.writes.change_list import check_list

HOLDS_AT_ONCE = 25
"""How many of many holds are resolved at the same time."""
Expires = datetime | timedelta | float


@asynccontextmanager
async def _renewed(
    parts: Callable[[], BudgetComponents], timeout: float | None
) -> AsyncIterator[BudgetComponents]:
    """Give a call, which may be repeated, the parts of the ledger under the contract of now."""
    given = parts()
    with arranging(timeout, "the same call is harmless"):
        await unless_ended(given.settings.renew())
        yield given


@dataclass(frozen=True, slots=True)
class Hold:
    """An amount that is kept aside until it is settled, voided, or expires; `entry` is its entry.

    It is true, as a refusal is false: `if hold := await budget.hold(5, expires=600)`.
    """

    entry: Entry
    _parts: Callable[[], BudgetComponents]

    async def settle(
        self, actual: int | Decimal, *, over: bool = False, timeout: float | None = None
    ) -> Granted | Refused:
        """Settle it for what it came to, 0 or more, once; repeated it returns the same.

        It is repeated so until its entry is merged: once that is older than `settle`, and all
        regions show it as resolved and its grants as closed. After that there is nothing to tell
        by: a `StateConflict` whose outcome is unknown.

        What it came to less is free again. For more than was held rights must be there, or with
        `over` it is charged all the same, since the cost was incurred: up to a thousand times the
        limit. `timeout` bounds the call, in seconds.

        Raises:
            StateConflict: it was voided, has expired or was settled for another amount, or is not
                there (any more).
            InvalidInput: the amount breaks a rule, as one that is too fine for the limit
                (`AmountOverflow`); the hold is open.
            OutcomeUnknown: no answer in time; the same call is harmless.
            NotSent: `timeout` ended before anything was written.
            StoreError: DynamoDB could not do it.
        """
        amount, over = amounts.addend(actual), amounts.check_bool("over", over)
        async with _renewed(self._parts, timeout) as parts:
            return await parts.holds.resolve(
                self.entry, lambda hold: hold_rules.settle(hold, amount), over=over
            )

    async def void(self, *, timeout: float | None = None) -> Granted | Refused:
        """Give back all that is held, once; repeated it returns the same.

        Raises:
            As `settle`.
        """
        async with _renewed(self._parts, timeout) as parts:
            return await parts.holds.resolve(self.entry, hold_rules.void)

    async def extend(self, expires: Expires, *, timeout: float | None = None) -> "Hold":
        """Let it expire later: at an aware time, or so long from now; return it as it is then.

        Raises:
            As `settle`.
        """
        until = expiry_of(expires, self._parts().spender.latest())
        async with _renewed(self._parts, timeout) as parts:
            return Hold(await parts.holds.extend(self.entry, until), self._parts)


Held = Hold | LightHold
Outcome = Granted | Refused | LedgerError | None
"""Of a hold among many; None of a light one that was voided."""


class Budgets:
    """Up to 20 budgets that one spend takes from, all or none; the narrowest comes first.

    Or the widest, if it is shared by over some hundred narrow ones at a time: an item has at most
    400 open grants, and of each budget but the first there is one for each first counter.

    The entry is one, in the first budget's counter, and to that a key belongs: repeats keep the
    order, else they may be other spends. Any number of tasks may use it. A spend that waits for
    rights gives up once `goes_on` says that it may not.
    """

    def __init__(
        self,
        names: Sequence[str],
        parts: Callable[[], BudgetComponents],
        *,
        goes_on: Callable[[], bool] = always,
    ) -> None:
        self.names: tuple[str, ...] = checked_budgets(names)
        self._parts = parts
        self._goes_on = goes_on

    async def spend(
        self,
        amount: int | Decimal,
        *,
        note: str | None = None,
        key: str | None = None,
        at: datetime | None = None,
        wait: float = 0.0,
        timeout: float | None = None,
    ) -> SpendOutcome:
        """Spend an amount above 0, if each budget has as much; the entry is then durable here.

        A `Refused` is false, and names the budget. With a `key` (see `Ledger.record`) a repeat
        spends nothing more, and is granted if the first was. `wait` is for how many seconds rights
        that lie elsewhere are waited for; `timeout` bounds the whole call, in seconds.

        Whatever regions, processes and retries do, all that is ever applied comes to no more than
        the limit; what the pattern's `on_outage` lets through is left aside.

        Raises:
            InvalidAmount, AmountOverflow, InvalidCounter, InvalidEntry: nothing was spent.
            BudgetMissing: a budget has no limit, or no pattern of the contract has its counter.
            StateConflict: the key is of a window that has ended, and nothing was spent with it.
            OutcomeUnknown: no answer in time; with a key the same call is harmless.
            KeyConflict: the key stands for another change.
            NotSent: `timeout` ended before anything was sent.
            ClockOff: this machine's clock is off by more than `clock_skew`; nothing was spent.
            StoreError: DynamoDB could not do it; nothing was spent.
        """
        asked = SpendRequest(
            budgets=self.names,
            amount=amount,
            note=note,
            key=key,
            at=at,
            wait=checked_wait(wait),
            goes_on=self._goes_on,
        )
        parts, end = self._parts(), deadline_of(timeout)
        await bounded(end, parts.settings.renew(), not_sent)
        return await parts.spender.spend(asked, end=end)

    @overload
    async def hold(
        self,
        amount: int | Decimal,
        *,
        expires: Expires,
        light: Literal[False] = False,
        note: str | None = None,
        key: str | None = None,
        at: datetime | None = None,
        wait: float = 0.0,
        timeout: float | None = None,
    ) -> Hold | Refused: ...

    @overload
    async def hold(
        self,
        amount: int | Decimal,
        *,
        expires: Expires,
        light: Literal[True],
        note: str | None = None,
        wait: float = 0.0,
        timeout: float | None = None,
    ) -> LightHold | Refused: ...

    async def hold(
        self,
        amount: int | Decimal,
        *,
        expires: Expires,
        light: bool = False,
        note: str | None = None,
        key: str | None = None,
        at: datetime | None = None,
        wait: float = 0.0,
        timeout: float | None = None,
    ) -> Held | Refused:
        """Keep an amount aside, which counts at once, until an aware time, or so long from now.

        It survives any crash. What is neither settled nor voided by then is resolved as the
        pattern's `on_expiry` says, some time after: until then it counts. With a `key` a repeat
        returns the hold that the first call made as it is by now, whatever its `expires` says.

        A `light` one is kept in this process's memory alone and costs nothing before it is settled.
        After a crash it comes back with the process's grant, and what was used meanwhile is not
        counted; it expires by itself, as void. It has no key, since nothing is written.

        Raises:
            As `spend`.
        """
        parts, end = self._parts(), deadline_of(timeout)
        if amounts.check_bool("light", light) and (key is not None or at is not None):
            raise InvalidInput("a light hold has no key and no time: nothing is written before")
        asked = SpendRequest(
            budgets=self.names,
            amount=amount,
            note=note,
            key=key,
            at=at,
            hold=expiry_of(expires, parts.spender.now() if light else parts.spender.latest()),
            wait=checked_wait(wait),
            goes_on=self._goes_on,
        )
        await bounded(end, parts.settings.renew(), not_sent)
        if light:
            return await parts.spender.keep_aside(asked, end=end)
        outcome = await parts.spender.spend(asked, end=end)
        return Hold(outcome.entry, self._parts) if isinstance(outcome, Granted) else outcome

    async def settle_many(
        self,
        settled: Sequence[tuple[Held, int | Decimal]],
        *,
        over: bool = False,
        timeout: float | None = None,
    ) -> list[Granted | Refused | LedgerError]:
        """Settle holds for what each came to; return what became of each, in their order.

        Errors are in the result, so that one hold keeps back no other. `over` is as in
        `Hold.settle`, and not for light ones; `timeout` bounds each.

        Raises:
            InvalidInput: it is not a list of holds and amounts.
        """
        deadline_of(timeout)
        self._parts()  # of a closed table no hold is settled
        for pair in check_list("settled", settled):
            if not (isinstance(pair, tuple) and len(pair) == len(("hold", "amount"))):
                raise InvalidInput(f"settled must have pairs of a hold and an amount, got {pair!r}")
            _check_hold(pair[0])

        async def one(hold: Held, actual: int | Decimal) -> Granted | Refused | LedgerError:
            try:
                if isinstance(hold, LightHold):
                    return await hold.settle(actual, timeout=timeout)
                return await hold.settle(actual, over=over, timeout=timeout)
            except LedgerError as error:
                return error

        jobs = [partial(one, hold, actual) for hold, actual in settled]
        return await run_all(jobs, at_once=HOLDS_AT_ONCE)

    async def void_many(
        self, held: Sequence[Held], *, timeout: float | None = None
    ) -> list[Outcome]:
        """Void holds; return what became of each, in their order, as `settle_many`.

        Raises:
            InvalidInput: it is not a list of holds.
        """
        deadline_of(timeout)
        self._parts()  # as above
        for hold in check_list("held", held):
            _check_hold(hold)

        async def one(hold: Held) -> Outcome:
            try:
                if isinstance(hold, LightHold):
                    await hold.void()
                    return None
                return await hold.void(timeout=timeout)
            except LedgerError as error:
                return error

        return await run_all([partial(one, hold) for hold in held], at_once=HOLDS_AT_ONCE)

    def held(self, entry: Entry) -> Hold:
        """Return the hold of an entry, which any process may settle or void.

        Raises:
            InvalidInput: it is not an entry, or has no id that one can have.
        """
        return Hold(checked_hold(entry), self._parts)


class Budget(Budgets):
    """The limit of one counter, or of each window of it."""

    def __init__(self, name: str, parts: Callable[[], BudgetComponents]) -> None:
        super().__init__([name], parts)

    @property
    def name(self) -> str:
        """The budget's counter."""
        return self.names[0]

    async def create(
        self,
        limit: int | Decimal,
        *,
        id: str | None = None,  # noqa: A002 (the word for it)
        weights: Mapping[str, int] | None = None,
        timeout: float | None = None,
    ) -> bool:
        """Give the counter its limit, 0 or more, through home; return False if it had it already.

        With an `id` it counts as the raise of that id (`raise_limit`), by which the budget is made:
        each of both calls may be repeated, in either order, and the amount counts once. With
        windows each of them has this limit, which regions share by `weights`, equally by default.
        `timeout` bounds the call, in seconds.

        Raises:
            StateConflict: it has another limit; or, with an `id`, any limit that this raise has not
                made: `raise_limit` makes it, by the same id.
            InvalidInput: a value breaks a rule.
            BudgetMissing: no pattern of the contract's `budgets` has the counter.
            NotSent: `timeout` ended before anything was written.
            HomeMoving, OutcomeUnknown, StoreError: the same call may be repeated.
        """
        async with _renewed(self._parts, timeout) as parts:
            return await parts.administrator.create(self.name, limit, raise_id=id, weights=weights)

    async def credit(
        self,
        amount: int | Decimal,
        *,
        key: str | None = None,
        at: datetime | None = None,
        note: str | None = None,
        wait: float = 0.0,
        timeout: float | None = None,
    ) -> Credited:
        """Give the budget an amount above 0, in any region; the entry is then durable here.

        It counts in the total at once. It can be spent once every region of the contract shows it,
        a second or so later; while a region cannot be read, once that is back or given up. `wait`
        is for how many seconds this is waited for. With a `key` (see `Ledger.record`) a repeat
        credits nothing more. `timeout` bounds the whole call, in seconds.

        Whatever regions, processes and retries do, and also where a region is lost with the credit,
        no more is ever spent than the limit and what was credited.

        Raises:
            InvalidInput: the budget's pattern has no `credits:on`, or a value breaks a rule.
            And as `spend`, with nothing credited.
        """
        asked = CreditRequest(
            budget=self.name, amount=amount, note=note, key=key, at=at, wait=checked_wait(wait)
        )
        parts, end = self._parts(), deadline_of(timeout)
        await bounded(end, parts.settings.renew(), not_sent)
        return await parts.creditor.credit(asked, end=end)

    async def raise_limit(
        self,
        amount: int | Decimal,
        *,
        id: str,  # noqa: A002 (the word for it)
        weights: Mapping[str, int] | None = None,
        timeout: float | None = None,
    ) -> LimitChange:
        """Raise the limit by an amount, once for each `id`, while spending goes on.

        A repeat within 30 days is always known as one, one of the last 10 raises also later.
        What is spent meanwhile goes by the old limit, or the new one. With windows the running one
        is raised at once, and those that begin from `since` of the result on have the higher limit,
        shared by `weights`, by default as before; those between have the old one.

        Raises:
            StateConflict: a change is announced for windows that begin earlier, the raise of this
                id was made by another amount, or there were 300 raises within 30 days.
            AmountOverflow: what was spent is too fine to be added up under such a limit.
            InvalidInput: a value breaks a rule.
            BudgetMissing: it has no limit yet.
            NotSent: `timeout` ended before anything was written.
            HomeMoving, OutcomeUnknown, StoreError: the same call may be repeated.
        """
        async with _renewed(self._parts, timeout) as parts:
            changed = await parts.changer.raise_limit(self.name, amount, id, weights)
            parts.holdings.forget_refusals(self.name)
            return changed

    async def lower_limit(
        self,
        *,
        to: int | Decimal,
        weights: Mapping[str, int] | None = None,
        timeout: float | None = None,
    ) -> LimitChange:
        """Lower the limit to an amount, 0 or more, as far as that can be done now.

        What is free at home is retired at once, what is free elsewhere is sent home and retired.
        What processes were granted comes back as they close their grants: repeat the call until it
        `is_done`; till then the limit is at most that of the result. What was spent stays spent.
        With windows this is so of the running one, and later ones are as in `raise_limit`; to the
        limit as it is, with `weights`, they are shared again.

        Raises:
            As `raise_limit`; StateConflict: the amount is above the limit.
        """
        async with _renewed(self._parts, timeout) as parts:
            return await parts.changer.lower_limit(self.name, to, weights)

    async def go_on(self, *, timeout: float | None = None) -> LimitChange:
        """Do what is due for a limit of windows that is announced; see `raise_limit`.

        Processes that spend from the budget do so by themselves.

        Raises:
            As `raise_limit`.
        """
        async with _renewed(self._parts, timeout) as parts:
            return await parts.changer.go_on(self.name)

    async def state(
        self, *, at: datetime | None = None, timeout: float | None = None
    ) -> BudgetState:
        """Return limit, rights, grants and transfers of the budget, or its window, as shown here.

        The window is that of an aware time, by default of now.

        Raises:
            InvalidInput: the time is none.
            BudgetMissing: this region shows no limit of it.
            ReadTooSlow: `timeout` ended, in seconds.
            StoreError: DynamoDB could not do it.
        """
        if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
            raise InvalidInput(f"at must be an aware time, got {at!r:.80}")
        parts = self._parts()
        with reading(timeout):
            await unless_ended(parts.settings.renew())
            return await parts.administrator.state(parts.spender.window(self.name, at))

    async def explain(self, *, at: datetime | None = None, timeout: float | None = None) -> str:
        """Return the `state` in lines that people read, with what a reclaim would put at stake.

        Raises:
            As `state`.
        """
        return "\n".join(explain_budget(await self.state(at=at, timeout=timeout)))


def _check_hold(hold: object) -> None:
    if not isinstance(hold, Hold | LightHold):
        raise InvalidInput(f"a hold must be what `hold` or `held` returned, got {hold!r:.80}")

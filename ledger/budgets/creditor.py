"""`Creditor`: what a program gives to budgets, through one region: deliveries, top-ups, returns.

A credit is one entry, written as any, that names a credit grant of this process (`credit_rules`).
A `CreditKeeper` takes it in once every region shows it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import anyio

from ledger.budgets.amount_rules import checked_credit
from ledger.budgets.calendar import Window, checked_budget, rule_of, window_of
from ledger.budgets.credit_grants import CreditGrant, WaitingCredit
from ledger.budgets.credit_keeper import CreditKeeper
from ledger.budgets.holdings import Holdings
from ledger.budgets.region_access import RegionAccess
from ledger.budgets.rights import GrantName
from ledger.budgets.spend_request import Credited, checked_wait
from ledger.core.budget_rules import BudgetRule
from ledger.core.errors import InvalidInput, LedgerError, RetryHorizonPassed, StateConflict
from ledger.core.values import Entry, Spending
from ledger.runtime.call_deadlines import NEVER, bounded, not_sent
from ledger.writes.entry_plan import Change, at_without_key, checked_note
from ledger.writes.hint_writer import HintWriter
from ledger.writes.past_horizon import PastHorizon
from ledger.writes.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditRequest:
    """What is to be credited; `wait` is for how many seconds it is waited for to be spendable."""

    budget: str
    amount: object
    note: str | None = None
    key: str | None = None
    at: datetime | None = None
    wait: float = 0.0

    def __post_init__(self) -> None:
        """Check what would else be found out once a grant was asked for.

        Raises:
            InvalidEntry: the note cannot be stored, or there is a time without a key.
            InvalidInput: `wait` is not 0 or more seconds.
        """
        if self.at is not None and self.key is None:
            raise at_without_key(self.budget)
        if self.note is not None:
            checked_note(self.note)
        checked_wait(self.wait)


@dataclass(frozen=True, slots=True)
class GivingBack:
    """What the reversal of a spend names: a credit grant in each budget that takes credits."""

    spending: Spending
    parts: Sequence[tuple[CreditKeeper, CreditGrant]]

    def put(self, entry: Entry) -> None:
        """Note that the reversal is durable, or may be."""
        for keeper, grant in self.parts:
            keeper.put(grant, entry, keyed=True)

    def not_put(self) -> None:
        """Note that it was not written, nor will be."""
        for keeper, grant in self.parts:
            keeper.not_put(grant)


class Creditor:
    """Credits budgets through one region, under grants of 0 that this process has."""

    def __init__(
        self,
        access: RegionAccess,
        writer: Writer,
        *,
        hints: HintWriter,
        late: PastHorizon,
        holdings: Holdings,
    ) -> None:
        self._access = access
        self._writer = writer
        self._settings = access.settings
        self._clock = access.services.clock
        self._metrics = access.services.metrics
        self._hints = hints
        self._late = late
        self._holdings = holdings

    async def credit(self, asked: CreditRequest, *, end: float = NEVER) -> Credited:
        """Credit a budget; see `Budget.credit`."""
        region = self._access.store.region
        self._settings.current.check_written(region)
        self._writer.check_clock()
        window = self._window(asked.budget)
        change = Change(
            window.counter,
            checked_credit(asked.amount),
            asked.note,
            None,
            asked.key,
            asked.at,
        )
        keeper = self._holdings.credit_keeper(window, window.counter)
        try:
            entry, waiting = await self._written(keeper, change, end)
        except LedgerError as error:
            how = "unknown" if error.outcome == "unknown" else "failed"
            self._metrics.budget_credited(region, keeper.pattern, how)
            raise
        how = "repeated" if entry.repeated else "credited"
        self._metrics.budget_credited(region, keeper.pattern, how)
        until = self._clock.monotonic() + asked.wait
        while not (is_spendable := await self._is_spendable(keeper, entry, waiting)):
            left = min(until - self._clock.monotonic(), end - anyio.current_time())
            if left <= 0:
                break
            await self._holdings.wait(keeper.budget, left)
        return Credited(entry, is_spendable)

    async def give_back(self, original: Entry) -> GivingBack | None:
        """Return what the reversal of an entry names; None if it gives no rights back.

        Raises:
            StateConflict: it is itself a credit.
            LedgerError: a credit grant cannot be had.
        """
        terms = self._settings.current.terms
        names = () if original.spending is None else original.spending.grants
        budgets = [GrantName.parse(name).budget or original.counter for name in names]
        credited = [budget for budget in dict.fromkeys(budgets) if terms.takes_credits(budget)]
        if not credited:
            return None
        if original.change > 0:
            raise StateConflict(
                f"entry {original.id} of {original.counter!r} is a credit, and may be spent by now:"
                " withdraw it by a spend of as much"
            )
        parts: list[tuple[CreditKeeper, CreditGrant]] = []
        spendings: list[Spending] = []
        try:
            for budget in credited:
                keeper = self._holdings.credit_keeper(self._window(budget), original.counter)
                grant, spending = await keeper.begin()
                parts.append((keeper, grant))
                spendings.append(spending)
        except BaseException:
            GivingBack(Spending(), parts).not_put()
            raise
        granted = tuple(name for spending in spendings for name in spending.grants)
        untils = [spending.until for spending in spendings if spending.until is not None]
        return GivingBack(Spending(granted, until=min(untils)), parts)

    def _window(self, budget: str) -> Window:
        """Return the window of a budget that can be credited.

        Raises:
            BudgetMissing, InvalidCounter: as `Spender.window`.
            InvalidInput: its pattern has no credits.
        """
        rule = rule_of(self._settings.current.terms, budget)
        if not rule.credits:
            raise InvalidInput(
                f"budget {budget!r} takes no credits: its pattern {_lacks(rule)}; a limit is raised"
                " by `raise_limit`"
            )
        return window_of(checked_budget(budget, rule), rule, self._clock.now())

    async def _written(
        self, keeper: CreditKeeper, change: Change, end: float
    ) -> tuple[Entry, WaitingCredit | None]:
        """Write the entry under a grant; return it, and what waits to be taken in of it.

        Raises:
            OutcomeUnknown: it may be there; it is taken in if it shows, or found by reading.
            And as `Ledger.record`: nothing was written.
        """
        is_keyed = change.key is not None
        grant, spending = await bounded(end, keeper.begin(), not_sent)
        noted: list[Entry] = []
        try:
            entry = await self._writer.spend(change, spending, end=end, noted=noted.append)
        except RetryHorizonPassed as error:  # nothing is sent under the grant
            keeper.not_put(grant)
            return await self._late.applied(error), None
        except BaseException as error:
            if noted and not (isinstance(error, LedgerError) and error.outcome == "not_applied"):
                keeper.put(grant, noted[-1], keyed=is_keyed)
            else:
                keeper.not_put(grant)
            raise
        self._hints.wrote(entry)
        if entry.spending is None or entry.spending.grants != spending.grants:
            keeper.not_put(grant)  # an earlier call with its key had another grant
            return entry, None
        return entry, keeper.put(grant, entry, keyed=is_keyed)

    async def _is_spendable(
        self, keeper: CreditKeeper, entry: Entry, waiting: WaitingCredit | None
    ) -> bool:
        """Return whether a credit was taken in: by this process, or its grant shows as closed."""
        if waiting is not None:
            return waiting.is_over
        return await keeper.shows_taken_in(entry)


def _lacks(rule: BudgetRule) -> str:
    """Return why a pattern has no credits: what it has instead, or how it can have them."""
    if rule.window != "none" or rule.rolling:
        return "limits a time (`window`, `rolling`), and credits are for all time"
    if rule.on_outage != "refuse":
        return "has `on_outage:allow`, and credits need `on_outage:refuse`"
    return "must have `credits:on` (`ledger table set budgets PATTERN=credits:on`)"

"""`Spender`: spends and holds of one process in one region, from any number of budgets.

A spend is one entry. Its amount is first taken from a grant of each budget, all or none, in memory
and in one step; then it is written as any entry, in group commit, and names the grants. What is
given back, and when, is `Allowance`'s. A request that names a grant is never signed after the
grant's end, and a repeat never names another one.
"""

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from ledger.budgets.amount_rules import checked_amount
from ledger.budgets.calendar import Window, checked_budget, rule_of, window_of
from ledger.budgets.fail_open import FailOpenSpend, may_let_through
from ledger.budgets.grant_allowance import Allowance, AllowanceTaken
from ledger.budgets.grant_keeper import GrantKeeper
from ledger.budgets.holdings import Holdings
from ledger.budgets.memory_hold import LightHold
from ledger.budgets.region_access import RegionAccess
from ledger.budgets.spend_request import Granted, Refused, SpendOutcome, SpendRequest
from ledger.core import amounts, keys
from ledger.core.errors import (
    BudgetUndecided,
    LedgerError,
    NotSent,
    OutcomeUnknown,
    RetryHorizonPassed,
    StoreError,
)
from ledger.core.ids import EPOCH
from ledger.core.values import Entry, Spending
from ledger.runtime.call_deadlines import NEVER, bounded, not_sent
from ledger.store.reads import Get
from ledger.writes.entry_plan import checked_key, confirm_entry, time_of
from ledger.writes.hint_writer import HintWriter
from ledger.writes.past_horizon import PastHorizon
from ledger.writes.planner import Planner
from ledger.writes.writer import Writer

RENEWALS_MAX = 100
"""How often one spend renews a grant that others then use up before it."""
RECENT_MAX = 10_000
"""Ids of spends with keys that are remembered, so that their repeats take nothing."""


@dataclass(frozen=True, slots=True)
class _Sought:
    """An amount that is sought from budgets, for an entry of a counter."""

    counter: str
    amount: Decimal
    keepers: Sequence[GrantKeeper]

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of no grant, of the budgets that an entry's grants would be of."""
        own = self.counter
        return tuple(
            ["" if keeper.budget == own else f"@{keeper.budget}" for keeper in self.keepers]
        )


class Spender:
    """Spends from budgets through one region, under grants that this process holds."""

    def __init__(
        self,
        access: RegionAccess,
        writer: Writer,
        *,
        hints: HintWriter,
        late: PastHorizon,
        holdings: Holdings,
    ) -> None:
        services = access.services
        self._access = access
        self._store = access.store
        self._writer = writer
        self._settings = access.settings
        self._clock = services.clock
        self._metrics = services.metrics
        self._hints = hints
        self._late = late
        self._planner = Planner(access.store.region, settings=access.settings, services=services)
        self._holdings = holdings
        self._recent: OrderedDict[tuple[str, str], tuple[str, ...]] = OrderedDict()

    def now(self) -> datetime:
        """Return the time of day."""
        return self._clock.now()

    def latest(self) -> datetime:
        """Return the latest that it may be by this region's clock."""
        return EPOCH + timedelta(seconds=self._access.here.time.most)

    def window(self, budget: str, at: datetime | None = None) -> Window:
        """Return the window of a budget at a time, by default now.

        Raises:
            BudgetMissing: no pattern of the contract has its counter.
            InvalidCounter: it is not the counter of a budget.
        """
        rule = rule_of(self._settings.current.terms, budget)
        return window_of(checked_budget(budget, rule), rule, at or self.now())

    async def spend(self, asked: SpendRequest, *, end: float = NEVER) -> SpendOutcome:
        """Spend from each of the budgets, or from none; see `Budget.spend`."""
        sought = self._sought(asked)
        region, pattern = self._store.region, sought.keepers[0].pattern
        try:
            outcome, how = await self._spent(asked, sought, end)
        except LedgerError as error:
            how = "unknown" if error.outcome == "unknown" else "failed"
            self._metrics.budget_spent(region, pattern, how)
            raise
        self._metrics.budget_spent(region, pattern, how)
        if how == "over":
            self._metrics.budget_spent_over(region, pattern, float(sought.amount))
        if isinstance(outcome, Granted) and how in {"over", "repeated"}:
            self._found_through(outcome.entry, sought, is_counted=how == "over")
        return outcome

    async def _spent(
        self, asked: SpendRequest, sought: _Sought, end: float
    ) -> tuple[SpendOutcome, str]:
        """Spend, and say how that ended."""
        late = next((keeper for keeper in sought.keepers if keeper.has_ended), None)
        if late is not None:  # by its key it is of a window that has ended
            before = await self._applied_before(asked, sought)
            if before is None:
                raise late.ended()
            return Granted(before), "repeated"
        taken = await self._taken(asked, sought, end)
        if isinstance(taken, Refused):
            self._writer.check_clock()  # what was read for it may have been the first answer
            return taken, "refused"
        if isinstance(taken, Entry):
            return Granted(taken), "repeated"
        if taken is None:
            return await self._write_over(asked, sought, end)
        granted = await self._write(asked, sought.counter, taken, end)
        return granted, "repeated" if granted.entry.repeated else "granted"

    async def keep_aside(self, asked: SpendRequest, *, end: float = NEVER) -> LightHold | Refused:
        """Keep an amount aside in memory; see `Budget.hold`."""
        sought = self._sought(asked)
        taken = await self._taken(asked, sought, end)
        if not isinstance(taken, AllowanceTaken):
            assert isinstance(taken, Refused)  # noqa: S101 (it has no key, and no hold is let through)
            return taken
        hold = LightHold(asked, sought.counter, taken, self)
        self._holdings.keep_on(hold)
        return hold

    async def settle_kept(self, hold: LightHold, amount: Decimal, *, end: float) -> SpendOutcome:
        """Write what was kept aside came to: under its grants, or as a new spend if they are gone.

        What is refused, or fails, leaves aside what its grants keep.
        """
        self._holdings.leave_to_caller(hold)
        asked = replace(hold.asked, amount=amount, hold=None, noted=hold.noted)
        seconds = self._settings.current.write_deadline
        if self._clock.now() + timedelta(seconds=seconds) > hold.kept_until:
            hold.release()
        else:
            taken = await self._settling(hold, amount, end)
            if isinstance(taken, Refused):
                return taken
            if taken is not None:
                return await self._write(asked, hold.counter, taken, end)
        outcome = await self.spend(asked, end=end)
        if outcome:
            hold.release()
        return outcome

    async def _settling(
        self, hold: LightHold, amount: Decimal, end: float
    ) -> AllowanceTaken | Refused | None:
        """Return what is kept aside, with what it came to more; None if its grants have not that.

        Of a grant that is not at hand any more nothing is taken: what was left has been given back.
        """
        more = amounts.total((amount, hold.amount.copy_negate()))
        for allowance in hold.taken.allowances:
            keeper = self._holdings.keeper_of(allowance.name, hold.counter)
            if keeper is None:
                return None
            checked_amount(amount, keeper.limit)
            if allowance.remaining < more:
                refused = await bounded(end, keeper.renew(more), not_sent)
                if refused is not None:
                    return refused
        names = hold.taken.names
        if more > 0 and not all(self._holdings.at_hand(name, hold.counter) for name in names):
            return None
        return hold.taken.settling(amount)

    async def repeat_kept(self, entry: Entry, *, end: float) -> Granted:
        """Write the entry of a settlement again whose outcome was not learned.

        Raises:
            As `Ledger.retry`.
        """
        until = None if entry.spending is None else entry.spending.until
        if until is not None and self._clock.now() > until:
            key = keys.partition_key(entry.counter, entry.shard or 0), entry.id
            item = await bounded(end, self._store.get(Get(key)), not_sent)
            if item is not None:
                return Granted(confirm_entry(entry, item))
        try:
            [written] = await self._writer.retry([entry], together=False, end=end)
        except RetryHorizonPassed as error:
            written = await self._late.applied(error)
        self._hints.wrote(written)
        return Granted(written)

    def keep_on(self, hold: LightHold) -> None:
        """Note that a hold is open again."""
        self._holdings.keep_on(hold)

    def give_back(self, hold: LightHold) -> None:
        """Let an amount that was kept aside be spent again."""
        self._holdings.give_back(hold)

    def _sought(self, asked: SpendRequest) -> _Sought:
        self._settings.current.check_written(self._store.region)  # before rights are sent there
        self._writer.check_clock()  # it says which window that is, and a refusal rests on it
        at = self._clock.now()
        if asked.key is not None:
            at = time_of(asked.budgets[0], checked_key(asked.key), asked.at)
        windows = [self.window(budget, at) for budget in asked.budgets]
        counter = windows[0].counter
        amount = amounts.addend(asked.amount)
        keepers = [self._holdings.keeper(window, counter) for window in windows]
        for keeper in keepers:
            checked_amount(amount, keeper.limit)
        return _Sought(counter, amount, keepers)

    async def _taken(
        self, asked: SpendRequest, sought: _Sought, end: float
    ) -> AllowanceTaken | Refused | Entry | None:
        """Take the amount from a grant of each budget, or from none.

        Returns the entry that an earlier call with the key made, or None where DynamoDB does not
        answer, and the pattern lets spends through then.

        Raises:
            NotSent: grants could be had, and none was left when this call came to take from it.
        """
        amount = sought.amount
        until = self._clock.monotonic() + asked.wait
        refused: Refused | None = None
        for _ in range(RENEWALS_MAX):
            taken = _take(sought.keepers, amount)
            if isinstance(taken, AllowanceTaken):
                return taken
            try:
                refused = await bounded(end, self._renewed(taken, sought), not_sent)
            except StoreError:
                # A hold without a grant could never be settled.
                if asked.hold is not None or self._refuses_in_outage(sought):
                    raise
                return None
            except BudgetUndecided:
                with suppress(LedgerError):  # of the limit: nothing is spent in any case
                    await bounded(end, self._holdings.go_on(taken.window.budget), not_sent)
                raise
            if refused is None:
                continue
            if found := await self._applied_before(asked, sought):
                return found
            if not await self._waits_on(asked, until, end):
                break
        if refused is None:
            raise NotSent(
                f"{sought.counter!r}: {RENEWALS_MAX} grants were over, or used up by other calls,"
                " before this spend could take from them: nothing is spent; repeat the call, or let"
                " grants live longer (`grant_life`)"
            )
        return refused

    async def _waits_on(self, asked: SpendRequest, until: float, end: float) -> bool:
        """Wait a moment for rights; return whether they may be asked for again."""
        if (left := until - self._clock.monotonic()) <= 0:
            return False
        await bounded(end, self._holdings.wait(asked.budgets[0], left), not_sent)
        return asked.goes_on()

    async def _renewed(self, keeper: GrantKeeper, sought: _Sought) -> Refused | None:
        """Renew a grant, once what was let through is charged: else as much would be granted."""
        await self._holdings.charge_before(self._through(sought))
        return await keeper.renew(sought.amount)

    async def _write(
        self, asked: SpendRequest, counter: str, taken: AllowanceTaken, end: float
    ) -> Granted:
        """Write the entry under the grants it was taken from, and note what is known of it.

        Raises:
            OutcomeUnknown: it may be there; the grants are closed by reading.
            And as `Ledger.record`: nothing was written.
        """
        names = taken.names
        spending = Spending(names, asked.hold, until=EPOCH + timedelta(seconds=taken.expires))
        try:
            entry = await self._writer.spend(
                asked.change(counter), spending, end=end, noted=asked.noted
            )
        except RetryHorizonPassed as error:  # nothing is sent under these grants
            taken.given_back()
            return Granted(await self._late.applied(error))
        except BaseException as error:
            if isinstance(error, LedgerError) and error.outcome == "not_applied":
                taken.given_back()
            else:
                taken.doubted()
            raise
        self._hints.wrote(entry)
        is_ours = entry.spending is not None and entry.spending.grants == names
        if is_ours and not (asked.key is not None and self._is_counted(entry, names)):
            taken.applied(keyed=asked.key is not None, is_hold=asked.hold is not None)
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

    async def _write_over(
        self, asked: SpendRequest, sought: _Sought, end: float
    ) -> tuple[SpendOutcome, str]:
        """Write an entry that no grant pays for, where the pattern allows it in an outage.

        Each budget is charged for it later, once (`fail_open`).
        """
        through = self._through(sought)
        until = self._clock.now() + timedelta(seconds=self._settings.current.retry_horizon)
        spending = Spending(through.names, until=until)
        if self._holdings.is_closed:
            raise not_sent()
        try:
            planned = self._writer.planned(asked.change(sought.counter), spending)
        except RetryHorizonPassed as error:
            return Granted(await self._late.applied(error)), "repeated"
        if asked.noted is not None:
            asked.noted(planned.entry)
        key = planned.put.key
        try:
            entry = await self._writer.put(planned, end=end)
        except BaseException as error:
            if not (isinstance(error, LedgerError) and error.outcome == "not_applied"):
                self._holdings.charge_later(key, through, is_counted=False)
            raise
        self._hints.wrote(entry)
        if entry.spending is None or entry.spending.grants != through.names:
            return Granted(entry), "repeated"  # an earlier call with its key had a grant
        is_counted = asked.key is not None and self._is_counted(entry, through.names)
        return Granted(entry), "repeated" if is_counted else "over"

    def _through(self, sought: _Sought) -> FailOpenSpend:
        windows = [keeper.window for keeper in sought.keepers]
        return FailOpenSpend.of(sought.counter, windows, self._access.holder)

    def _found_through(self, entry: Entry, sought: _Sought, *, is_counted: bool) -> None:
        """Charge an entry later that a call found, if it was let through here and is not charged.

        It may be that of a call of this process whose outcome was not known.
        """
        through, spending = self._through(sought), entry.spending
        if spending is not None and (spending.grants, spending.resolved) == (through.names, None):
            key = keys.partition_key(entry.counter, entry.shard or 0), entry.id
            self._holdings.charge_later(key, through, is_counted=is_counted)

    def _refuses_in_outage(self, sought: _Sought) -> bool:
        """Return whether any of the budgets lets nothing through, or no such amount."""
        if not all(may_let_through(sought.amount, keeper.limit) for keeper in sought.keepers):
            return True
        terms = self._settings.current.terms
        rules = [terms.budget_of(keeper.window.budget) for keeper in sought.keepers]
        return any(rule is None or rule.on_outage == "refuse" for rule in rules)

    async def _applied_before(self, asked: SpendRequest, sought: _Sought) -> Entry | None:
        """Return the entry that an earlier call with its key made, as this region shows it.

        Raises:
            KeyConflict: the key stands for another change.
            OutcomeUnknown: it cannot be read.
        """
        if asked.key is None:
            return None
        try:
            planned = self._planner.plan(
                asked.change(sought.counter), spending=Spending(sought.kinds, asked.hold)
            )
        except RetryHorizonPassed as error:
            return await self._late.applied(error)
        try:
            item = await self._store.get(Get(planned.put.key))
        except StoreError as error:
            raise OutcomeUnknown(
                f"counter {sought.counter!r} id {planned.entry.id}: nothing is spent now, and"
                f" whether an earlier call with the key was applied cannot be read: {error}",
                entries=[planned.entry],
                retryable=True,
            ) from error
        return None if item is None else confirm_entry(planned.entry, item)


def _take(keepers: Sequence[GrantKeeper], amount: Decimal) -> AllowanceTaken | GrantKeeper:
    """Take an amount from each, or from none: then the first that has too little is returned."""
    allowances: list[Allowance] = []
    for keeper in keepers:
        allowance = keeper.take(amount)
        if allowance is None:
            for taken in allowances:
                taken.given_back(amount)
            return keeper
        allowances.append(allowance)
    return AllowanceTaken(amount, tuple(allowances))

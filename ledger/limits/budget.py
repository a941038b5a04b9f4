"""`Budget` and `Budgets`: limits that hold across regions, as programs use them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from ledger.core import amounts
from ledger.core.errors import InvalidInput
from ledger.core.values import Entry
from ledger.limits import holds
from ledger.limits.administering import BudgetState
from ledger.limits.holding import expiry_of
from ledger.limits.outcomes import Granted, Refused, SpendOutcome
from ledger.limits.parts import BudgetParts
from ledger.limits.spending import Asked
from ledger.runtime.deadline import end_of

Expires = datetime | timedelta | float


@dataclass(frozen=True, slots=True)
class Hold:
    """An amount that is kept aside until it is settled, voided, or expires; `entry` is its entry.

    It is true, as a refusal is false: `if hold := await budget.hold(5, expires=600)`.
    """

    entry: Entry
    _parts: Callable[[], BudgetParts]

    async def settle(self, actual: int | Decimal, *, over: bool = False) -> Granted | Refused:
        """Settle it for what it came to, 0 or more, once; repeated it returns the same.

        What it came to less is free again. For more than was held rights must be there, or with
        `over` it is charged all the same, since the cost was incurred.

        Raises:
            InvalidInput: it was voided, has expired or was settled for another amount; or the
                amount breaks a rule.
            OutcomeUnknown: no answer in time; the same call is harmless.
            StoreError: DynamoDB could not do it.
        """
        amount = amounts.exact(actual)
        parts = self._parts()
        return await parts.holder.resolve(
            self.entry, lambda hold: holds.settle(hold, amount), over=over
        )

    async def void(self) -> Granted | Refused:
        """Give back all that is held, once; repeated it returns the same.

        Raises:
            As `settle`.
        """
        return await self._parts().holder.resolve(self.entry, holds.void)

    async def extend(self, expires: Expires) -> "Hold":
        """Let it expire later: at an aware time, or so long from now; return it as it is then.

        Raises:
            As `settle`.
        """
        parts = self._parts()
        until = expiry_of(expires, parts.clock.now())
        return Hold(await parts.holder.extend(self.entry, until), self._parts)


class Budgets:
    """Several budgets that one spend takes from, all or none; the narrowest comes first.

    The entry is one, in the first budget's counter. Any number of tasks may use it.
    """

    def __init__(self, names: Sequence[str], parts: Callable[[], BudgetParts]) -> None:
        if isinstance(names, str) or not names or len({*names}) < len(names):
            raise InvalidInput(f"budgets must be a list of different counters, got {names!r}")
        self.names: tuple[str, ...] = tuple(names)
        self._parts = parts

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
        the limit, as long as clocks are within the contract's `clock_skew` and what the pattern's
        `on_outage` lets through is left aside.

        Raises:
            InvalidAmount, AmountOverflow, InvalidCounter, InvalidEntry: nothing was spent.
            BudgetMissing: a budget has no limit, or no pattern of the contract has its counter.
            OutcomeUnknown: no answer in time; with a key the same call is harmless.
            KeyConflict: the key stands for another change.
            NotSent: `timeout` ended before anything was sent.
            StoreError: DynamoDB could not do it; nothing was spent.
        """
        asked = Asked(
            budgets=self.names, amount=amount, note=note, key=key, at=at, wait=_waited(wait)
        )
        parts, end = self._parts(), end_of(timeout)
        await parts.settings.renew()
        return await parts.spender.spend(asked, end=end)

    async def hold(
        self,
        amount: int | Decimal,
        *,
        expires: Expires,
        note: str | None = None,
        key: str | None = None,
        at: datetime | None = None,
        wait: float = 0.0,
        timeout: float | None = None,
    ) -> Hold | Refused:
        """Keep an amount aside, which counts at once, until an aware time, or so long from now.

        It survives any crash. What is neither settled nor voided by then is resolved as the
        pattern's `on_expiry` says, some time after: until then it counts.

        Raises:
            As `spend`.
        """
        parts, end = self._parts(), end_of(timeout)
        asked = Asked(
            budgets=self.names,
            amount=amount,
            note=note,
            key=key,
            at=at,
            hold=expiry_of(expires, parts.clock.now()),
            wait=_waited(wait),
        )
        await parts.settings.renew()
        outcome = await parts.spender.spend(asked, end=end)
        return Hold(outcome.entry, self._parts) if isinstance(outcome, Granted) else outcome

    def held(self, entry: Entry) -> Hold:
        """Return the hold of an entry, which any process may settle or void."""
        return Hold(entry, self._parts)


class Budget(Budgets):
    """The limit of one counter, or of each window of it."""

    def __init__(self, name: str, parts: Callable[[], BudgetParts]) -> None:
        super().__init__([name], parts)

    @property
    def name(self) -> str:
        """The budget's counter."""
        return self.names[0]

    async def create(
        self, limit: int | Decimal, *, weights: Mapping[str, int] | None = None
    ) -> bool:
        """Give the counter its limit, through home; return False if it had it already.

        With windows each of them has this limit, which regions share by `weights`, equally by
        default.

        Raises:
            InvalidInput: it has another limit, or a value breaks a rule.
            BudgetMissing: no pattern of the contract's `budgets` has the counter.
            HomeMoving, OutcomeUnknown, StoreError: the same call may be repeated.
        """
        parts = self._parts()
        await parts.settings.renew()
        return await parts.administrator.create(self.name, limit, weights=weights)

    async def state(self, *, at: datetime | None = None) -> BudgetState:
        """Return limit and rights of the budget, or of its window at a time, as shown here.

        Raises:
            BudgetMissing: this region shows no limit of it.
            StoreError: DynamoDB could not do it.
        """
        parts = self._parts()
        await parts.settings.renew()
        return await parts.administrator.state(parts.window(self.name, at))


def _waited(seconds: float) -> float:
    """Return for how long rights are waited for.

    Raises:
        InvalidInput: it is not 0 or more seconds.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise InvalidInput(f"wait must be 0 or more seconds, got {seconds!r}")
    return float(seconds)

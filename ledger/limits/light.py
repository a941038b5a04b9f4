"""Light holds: amounts kept aside in a process's memory, written once they are settled."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal, Protocol

from ledger.core import amounts
from ledger.core.errors import InvalidInput, StateConflict
from ledger.core.ids import EPOCH
from ledger.limits.allowance import Taken
from ledger.limits.asked import Asked
from ledger.limits.holding import expiry_of
from ledger.limits.outcomes import SpendOutcome
from ledger.runtime.deadline import end_of


class Keeping(Protocol):
    """What keeps amounts aside."""

    def now(self) -> datetime:
        """Return the time of day."""

    async def settle_kept(self, hold: "LightHold", amount: Decimal, *, end: float) -> SpendOutcome:
        """Write what was kept aside came to."""

    def give_back(self, hold: "LightHold") -> None:
        """Let an amount that was kept aside be spent again."""


class LightHold:
    """An amount that this process keeps aside in memory, until it is settled, voided, or expires.

    Nothing is written before it is settled: it costs the one entry of a spend. While the process
    lives nobody else can spend it, for as long as the grant that it is kept aside of (the pattern's
    `grant_life`, or more). After a crash it comes back with that grant, and what was used meanwhile
    is not counted: where that must not be, hold it without `light`. It is true, as a refusal is
    false.
    """

    def __init__(self, asked: Asked, counter: str, taken: Taken, keeping: Keeping) -> None:
        self.asked = asked
        self.counter = counter
        self.taken = taken
        self._keeping = keeping
        self._expires = asked.hold or 0
        self._state: Literal["open", "settled", "void"] = "open"
        self._settled = Decimal(0)
        self._outcome: SpendOutcome | None = None

    @property
    def amount(self) -> Decimal:
        """What is kept aside."""
        return self.taken.amount

    @property
    def expires(self) -> datetime:
        """When it expires."""
        return EPOCH + timedelta(seconds=self._expires)

    @property
    def has_expired(self) -> bool:
        """Whether it has expired."""
        return self._keeping.now() > self.expires

    async def settle(self, actual: int | Decimal, *, timeout: float | None = None) -> SpendOutcome:
        """Write the entry of what it came to, above 0, once; repeated it returns the same.

        While the grant that it is kept aside of may be used the entry names that, and as much as
        was held cannot be refused. After it, and for more than is left, it is spent anew.
        `timeout` bounds the call, in seconds.

        Raises:
            StateConflict: it was voided, has expired or was settled for another amount.
            InvalidInput: the amount breaks a rule.
            OutcomeUnknown: no answer in time; the entry may be there.
            NotSent: `timeout` ended before anything was sent.
            StoreError: DynamoDB could not do it; nothing was spent.
        """
        amount, end = amounts.addend(actual), end_of(timeout)
        if amount <= 0:
            raise InvalidInput(
                f"a light hold settles for more than 0, got {amounts.to_text(amount)}: void it"
            )
        if self._outcome is not None and amount == self._settled:
            return self._outcome
        self._check_open()
        self._state, self._settled = "settled", amount
        self._outcome = await self._keeping.settle_kept(self, amount, end=end)
        return self._outcome

    async def void(self) -> None:
        """Let it be spent again; repeated it does nothing.

        Raises:
            StateConflict: it was settled, or has expired.
        """
        if self._state != "void":
            self._check_open()
            self._keeping.give_back(self)

    async def extend(self, expires: datetime | timedelta | float) -> "LightHold":
        """Let it expire later, at an aware time, or so long from now; return it.

        Raises:
            StateConflict: it is not open any more.
            InvalidInput: it would expire earlier.
        """
        until = expiry_of(expires, self._keeping.now())
        self._check_open()
        if until < self._expires:
            raise InvalidInput(
                f"a hold is extended to a later expiry than {self._expires}, got {until}"
            )
        self._expires = until
        return self

    def end(self) -> None:
        """Note that nothing is kept aside any more."""
        if self._state == "open":
            self._state = "void"

    def _check_open(self) -> None:
        if self._state == "open" and not self.has_expired:
            return
        how = {"open": "expired", "void": "voided, or has expired"}
        text = how.get(self._state, f"settled for {amounts.to_text(self._settled)}")
        raise StateConflict(f"the hold of {self.counter!r} was resolved before: {text}")

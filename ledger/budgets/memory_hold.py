"""Light holds: amounts kept aside in a process's memory, written once they are settled."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal, Protocol

import anyio

from ledger.budgets.grant_allowance import AllowanceTaken
from ledger.budgets.hold_calls import expiry_of
from ledger.budgets.hold_rules import earlier_than
from ledger.budgets.spend_request import Granted, SpendOutcome, SpendRequest
from ledger.core import amounts
from ledger.core.errors import (
    InvalidInput,
    LedgerError,
    OutcomeUnknown,
    RetryHorizonPassed,
    StateConflict,
)
from ledger.core.ids import EPOCH
from ledger.core.values import Entry
from ledger.runtime.call_deadlines import bounded, deadline_of, not_sent


class HoldStore(Protocol):
    """What keeps amounts aside."""

    def now(self) -> datetime:
        """Return the time of day."""

    async def settle_kept(self, hold: "LightHold", amount: Decimal, *, end: float) -> SpendOutcome:
        """Write what was kept aside came to."""

    async def repeat_kept(self, entry: Entry, *, end: float) -> Granted:
        """Write the same entry again."""

    def keep_on(self, hold: "LightHold") -> None:
        """Note that a hold is open again."""

    def give_back(self, hold: "LightHold") -> None:
        """Let an amount that was kept aside be spent again."""


class LightHold:
    """An amount that this process keeps aside in memory, until it is settled, voided, or expires.

    Nothing is written before it is settled: it costs the one entry of a spend. While the process
    lives no other process can spend it, for as long as the grant that it is kept aside of (the
    pattern's `grant_life`, or more). After a crash it comes back with that grant, and what was used
    meanwhile is not counted: where that must not be, hold it without `light`. It is true, as a
    refusal is false.
    """

    def __init__(
        self, asked: SpendRequest, counter: str, taken: AllowanceTaken, keeping: HoldStore
    ) -> None:
        self.asked = asked
        self.counter = counter
        self.taken = taken
        self._keeping = keeping
        self._expires = asked.hold or 0
        self._state: Literal["open", "settling", "settled", "void"] = "open"
        self._settled = Decimal(0)
        self._entry: Entry | None = None
        """Of the settlement, once it is about to be sent."""
        self._outcome: Granted | None = None
        self._is_kept = True
        self._lock = anyio.Lock()

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
        was held cannot be refused. After it, and for more than that grant can get, it is spent
        anew. A refusal, or an error that says that nothing was spent, leaves the hold open.
        `timeout` bounds the call, in seconds.

        Raises:
            StateConflict: it was voided, has expired, was settled for another amount, or may have
                been (`OutcomeUnknown`).
            InvalidInput: the amount breaks a rule.
            OutcomeUnknown: no answer in time; the same call is harmless, and no other is possible.
            NotSent: `timeout` ended before anything was sent.
            StoreError: DynamoDB could not do it; nothing was spent.
        """
        amount, end = amounts.addend(actual), deadline_of(timeout)
        if amount <= 0:
            raise InvalidInput(
                f"a light hold settles for more than 0, got {amounts.to_text(amount)}: void it"
            )
        await bounded(end, self._lock.acquire(), not_sent)
        try:
            if self._outcome is not None and amount == self._settled:
                return self._outcome
            if self._entry is None or amount != self._settled:
                self._check_open()
                return await self._settle(amount, end)
            return await self._repeat(self._entry, end)
        finally:
            self._lock.release()

    async def _settle(self, amount: Decimal, end: float) -> SpendOutcome:
        self._state, self._settled = "settling", amount
        try:
            outcome = await self._keeping.settle_kept(self, amount, end=end)
        except LedgerError as error:
            if isinstance(error, OutcomeUnknown):
                raise self._unanswered(error) from error
            self._entry = None
            raise
        finally:
            if self._entry is None:
                self._state = "open"
                self._keeping.keep_on(self)
        if isinstance(outcome, Granted):
            self._state, self._outcome = "settled", outcome
        return outcome

    async def _repeat(self, entry: Entry, end: float) -> Granted:
        try:
            granted = await self._keeping.repeat_kept(entry, end=end)
        except RetryHorizonPassed:
            raise
        except LedgerError as error:  # an earlier try may have been applied
            raise self._unanswered(error) from error
        self._state, self._outcome = "settled", granted
        return granted

    def _unanswered(self, error: LedgerError) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"the hold of {self.counter!r} may be settled for {amounts.to_text(self._settled)}, or"
            f" not ({error}): the same call is harmless",
            entries=[self._entry] if self._entry else [],
            retryable=True,
        )

    async def void(self) -> None:
        """Let it be spent again; repeated it does nothing.

        Raises:
            StateConflict: it was settled, or may have been, or has expired.
        """
        async with self._lock:
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
        async with self._lock:
            self._check_open()
            if until < self._expires:
                raise InvalidInput(earlier_than(self._expires, until))
            self._expires = until
        return self

    @property
    def kept_until(self) -> datetime:
        """Until when a request may name the grants that it is kept aside of; 1970 without any."""
        return EPOCH + timedelta(seconds=self.taken.expires) if self._is_kept else EPOCH

    def noted(self, entry: Entry) -> None:
        """Note the entry of its settlement, which is about to be sent."""
        self._entry = entry

    def release(self) -> None:
        """Give what is kept aside back to its grants."""
        if self._is_kept:
            self._is_kept = False
            self.taken.given_back()

    def end(self) -> None:
        """Note that nothing is kept aside any more."""
        if self._state == "open":
            self._state = "void"

    def _check_open(self) -> None:
        if self._state == "open" and not self.has_expired:
            return
        amount = amounts.to_text(self._settled)
        if self._state == "settling":
            raise StateConflict(
                f"the hold of {self.counter!r} is being settled for {amount}, outcome unknown:"
                " repeat that"
            )
        how = {"open": "expired", "void": "voided, or has expired"}
        text = how.get(self._state, f"settled for {amount}")
        raise StateConflict(f"the hold of {self.counter!r} was resolved before: {text}")

"""A counter of items corrected to a physical count: the request, and its record.

The record (`~count-recount~<counter>`, under the count's token) and the change are one transaction,
so whatever ends between look and write corrects once or not at all, and a repeat finds the record.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from ledger.core import amounts
from ledger.core.entry import Item, Key, entry_id
from ledger.core.errors import InvalidEntry, InvalidInput
from ledger.core.keys import COUNT_PREFIX
from ledger.core.reconciliation import Reconciled, reconciled_of, record_item
from ledger.primitives.counters.counter import ReconcileOutcome
from ledger.store.conditions import Absent
from ledger.store.writes import Put, Rejected
from ledger.writes.entry_plan import checked_key

RECOUNT_PREFIX = f"{COUNT_PREFIX}-recount~"


@dataclass(frozen=True, slots=True)
class CounterReconciliation:
    """A physical count; `value` is the counter's then, if the caller gave it."""

    counter: str
    counted: Decimal
    at: datetime
    value: Decimal | None
    reason: str | None
    token: str

    @property
    def key(self) -> Key:
        """The key of its record."""
        return f"{RECOUNT_PREFIX}{self.counter}", self.token

    def against(self, total: Decimal, region: str) -> Reconciled:
        """Return what there is to correct if the value now is `total`."""
        then = total if self.value is None else self.value
        return Reconciled(
            counter=self.counter,
            change=amounts.total([self.counted, then.copy_negate()]),
            counted=self.counted,
            total=then,
            at=self.at,
            reason=self.reason,
            token=self.token,
            region=region,
        )

    def repeated(self, record: Item) -> ReconcileOutcome:
        """Return what an earlier call did, or that the token stands for another count."""
        first = reconciled_of(record, RECOUNT_PREFIX)
        if first.counted == self.counted:
            return first
        return Rejected(
            "token conflict", f"the token stands for a count of {first.counted}, not {self.counted}"
        )


def asked(
    counter: str,
    *,
    counted: int | Decimal,
    at: datetime | None,
    value: int | Decimal | None,
    reason: str | None,
    token: str | None,
    now: datetime,
    made: str,
) -> CounterReconciliation:
    """Return a count as requested, checked; `made` names one without token and time.

    Raises:
        InvalidInput: a value breaks a rule, or a past moment comes without the value then.
    """
    if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
        raise InvalidEntry(f"at must be an aware datetime, got {at!r}")
    if at is not None and value is None:
        raise InvalidInput(
            f"counter {counter!r}: this method has no history: give at together with value, what it"
            " showed then"
        )
    # In UTC: the same moment in another zone is the same count.
    moment = now if at is None else entry_id(at, 0).at
    if moment > now:
        raise InvalidEntry(f"at must not be in the future, got {moment.isoformat()}")
    if token is None:
        token = made if at is None else moment.isoformat()
    return CounterReconciliation(
        counter,
        amounts.exact(counted),
        moment,
        None if value is None else amounts.exact(value),
        None if reason is None else checked_key(reason, what="reason"),
        checked_key(token, what="token"),
    )


def record_put(done: Reconciled) -> Put:
    """Return the write of a record, which goes with the change."""
    return Put(record_item(done, RECOUNT_PREFIX), Absent())

"""The classification of failed requests, the same for every transport."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    ProxyConnectionError,
)

from ledger.core.entry import Item
from ledger.core.errors import StoreError, Throttled, Unreachable
from ledger.runtime.foreign import error_code, status_code
from ledger.store.dynamodb.errors import (
    SERVER_STATUS_MIN,
    THROTTLING_REASONS,
    answer_header,
    cancellation_reasons,
    from_botocore,
)
from ledger.store.dynamodb.throttling import HOT_KEY, exceeded_limits, explained
from ledger.store.dynamodb.transport import NeverSent
from ledger.store.retry import RETRY_AFTER_HEADER, retry_after_seconds
from ledger.store.writes import Rejected

_CONFLICTS = {
    "ReplicatedWriteConflictException",
    "TransactionConflictException",
    "TransactionInProgressException",
}
_REJECTED = frozenset({"ConditionalCheckFailed", "DuplicateItem"})
"""Codes of an action in a transaction: its condition was false, or its INSERT found an item."""
_DUPLICATE = "Duplicate primary key exists in table"
"""DynamoDB Local's message for such an INSERT, a ValidationError; DynamoDB's own code is not
documented, so both are accepted."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What is known about a failed request.

    `passing`: nothing was written, and the next one may succeed. `applied_maybe`: its outcome is
    unknown. Neither: it was refused, and a repeat would be too. `throttled`: DynamoDB asks for a
    slower rate. `retry_after_seconds`: the wait that its answer asks for, 0 for none.
    """

    error: StoreError
    applied_maybe: bool = False
    passing: bool = False
    throttled: bool = False
    retry_after_seconds: float = 0.0

    @property
    def cause(self) -> str:
        """Return its name in the metric of repeats; a hot key has a separate one."""
        if isinstance(self.error, Throttled) and HOT_KEY in self.error.limits:
            return "hot_key"
        return type(self.error).__name__.lower()


def classify_failure(
    error: BotoCoreError | ClientError,
    *,
    region: str,
    table: str,
    request: Mapping[str, Any] | None = None,
) -> Failure:
    """Return the classification of a transport's error."""
    mapped = from_botocore(error, region=region, table=table)
    if isinstance(error, ClientError):
        passing = isinstance(mapped, Throttled)
        if isinstance(mapped, Throttled):
            mapped = explained(mapped, exceeded_limits(error.response), request or {})
        server = status_code(error) >= SERVER_STATUS_MIN or isinstance(mapped, Unreachable)
        return Failure(
            mapped,
            applied_maybe=server and not passing,
            passing=passing,
            throttled=_is_throttled(error, mapped),
            retry_after_seconds=retry_after_seconds(answer_header(error, RETRY_AFTER_HEADER)),
        )
    if isinstance(error, NeverSent | ConnectTimeoutError | ProxyConnectionError):
        return Failure(mapped, passing=True)
    return Failure(mapped, applied_maybe=isinstance(mapped, Unreachable))


def rejection(error: ClientError) -> Rejected | None:
    """Return which conditions failed; None if the error is another one."""
    response: Any = error.response
    if error_code(error) == "ConditionalCheckFailedException":
        return Rejected(found={0: response.get("Item") or None})
    found: dict[int, Item | None] = {
        position: reason.get("Item") or None
        for position, reason in enumerate(response.get("CancellationReasons", []))
        if reason.get("Code") in _REJECTED or reason.get("Message") == _DUPLICATE
    }
    return Rejected(found=found) if found else None


def _is_throttled(error: ClientError, mapped: StoreError) -> bool:
    """Return whether it was the rate, and not a concurrent write to the same item."""
    if reasons := cancellation_reasons(error):
        return bool(reasons & THROTTLING_REASONS)
    return isinstance(mapped, Throttled) and error_code(error) not in _CONFLICTS

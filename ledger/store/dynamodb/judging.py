"""What a failed attempt means: pure, and the same for every transport."""

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
from ledger.store.dynamodb.errors import SERVER_STATUS_MIN, error_code, from_botocore, status_code
from ledger.store.dynamodb.transport import NeverSent
from ledger.store.writes import Rejected

_CONFLICTS = {"TransactionConflictException", "TransactionInProgressException"}
_PASSING_REASONS = {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}
_PASSING_REASONS |= {"RequestLimitExceeded"}


@dataclass(frozen=True, slots=True)
class Failure:
    """What is known of a failed attempt.

    `passing`: nothing was written, and the next try may go through. `applied_maybe`: its fate is
    unknown. Neither: refused, and so would be a repeat.
    """

    error: StoreError
    applied_maybe: bool = False
    passing: bool = False


def judge(error: BotoCoreError | ClientError, *, region: str, table: str) -> Failure:
    """Tell what an error of a transport means for the request."""
    mapped = from_botocore(error, region=region, table=table)
    if isinstance(error, ClientError):
        if isinstance(mapped, Throttled) or _is_passing(error):
            return Failure(mapped, passing=True)
        server = status_code(error) >= SERVER_STATUS_MIN
        return Failure(mapped, applied_maybe=server or isinstance(mapped, Unreachable))
    if isinstance(error, NeverSent | ConnectTimeoutError | ProxyConnectionError):
        return Failure(mapped, passing=True)
    return Failure(mapped, applied_maybe=isinstance(mapped, Unreachable))


def rejection(error: ClientError) -> Rejected | None:
    """Read which conditions failed, None if the error is another one."""
    response: Any = error.response
    if error_code(error) == "ConditionalCheckFailedException":
        return Rejected({0: response.get("Item") or None})
    found: dict[int, Item | None] = {
        position: reason.get("Item") or None
        for position, reason in enumerate(response.get("CancellationReasons", []))
        if reason.get("Code") == "ConditionalCheckFailed"
    }
    return Rejected(found) if found else None


def _is_passing(error: ClientError) -> bool:
    """Tell whether nothing was written and the next try may go through."""
    if error_code(error) in _CONFLICTS:
        return True
    reasons = {reason.get("Code") for reason in error.response.get("CancellationReasons", [])}
    return bool(reasons & _PASSING_REASONS) and not reasons - _PASSING_REASONS - {"None", None}

"""TransactWriteItems: all intents are computed first, then all are committed or none.

No two actions of a transaction may name one item, so each sees exactly the state before the
transaction: nothing has to be copied, and nothing undone.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ledger.local.engines.memory import writes
from ledger.local.engines.memory.items import TableItems
from ledger.local.engines.memory.writes import Intent
from ledger.local.engines.port import ApiError, Unfit, invalid

TRANSACTION_BYTES_MAX = 4 * 1024 * 1024

_PLANS: Mapping[str, Callable[[str, TableItems, Mapping[str, Any]], Intent]] = {
    "Put": writes.put,
    "Delete": writes.delete,
    "Update": writes.update,
    "ConditionCheck": writes.check,
}


def plan(
    actions: Sequence[Mapping[str, Any]],
    tables: Callable[[Mapping[str, Any]], tuple[str, TableItems]],
) -> list[Intent]:
    """Work out every action of a transaction against the state before it.

    Raises:
        ApiError: ValidationException, or TransactionCanceledException with a reason per action.
    """
    outcomes = [_outcome(action, tables) for action in actions]
    if any(reason["Code"] != "None" for _, reason in outcomes):
        raise cancelled([reason for _, reason in outcomes])
    intents = [intent for intent, _ in outcomes if intent is not None]
    if sum(intent.size for intent in intents) > TRANSACTION_BYTES_MAX:
        raise invalid("Collection size of the items in the transaction exceeds 4 MB")
    return intents


def cancelled(reasons: Sequence[Mapping[str, Any]]) -> ApiError:
    """Return DynamoDB's TransactionCanceledException."""
    codes = ", ".join(str(reason["Code"]) for reason in reasons)
    return ApiError(
        "TransactionCanceledException",
        f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]",
        extra={"CancellationReasons": list(reasons)},
    )


def _outcome(
    action: Mapping[str, Any], tables: Callable[[Mapping[str, Any]], tuple[str, TableItems]]
) -> tuple[Intent | None, dict[str, Any]]:
    ((kind, body),) = action.items()
    name, items = tables(body)
    try:
        intent = _PLANS[kind](name, items, body)
    except Unfit as error:
        return None, {"Code": "ValidationError", "Message": error.message}
    if intent.holds:
        return intent, {"Code": "None"}
    reason: dict[str, Any] = {
        "Code": "ConditionalCheckFailed",
        "Message": "The conditional request failed",
    }
    if body.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" and intent.old is not None:
        reason["Item"] = intent.old
    return intent, reason

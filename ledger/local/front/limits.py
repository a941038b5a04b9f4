"""Limits of requests and idempotency tokens, checked before any engine is asked.

Source: Amazon DynamoDB API Reference: BatchWriteItem, BatchGetItem, TransactWriteItems,
TransactGetItems.

Pure: no clock, no randomness, no I/O.
"""

import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from ledger.local.engines import values
from ledger.local.engines.port import ApiError, KeyToken, TableKey, invalid
from ledger.local.front.catalog import table_name
from ledger.store.writes import TOKEN_SECONDS

BATCH_WRITE_MAX = 25
BATCH_GET_MAX = 100
TRANSACTION_MAX = 100
TOKENS_MAX = 1_000_000
TOKEN_CHARACTERS_MAX = 36
_ACTIONS = {
    "TransactWriteItems": ("Put", "Update", "Delete", "ConditionCheck"),
    "TransactGetItems": ("Get",),
}


def check_batch(operation: str, body: Mapping[str, Any], keys: Mapping[str, TableKey]) -> None:
    """Refuse a batch that is empty, too long, or names an item twice.

    Raises:
        ApiError: ValidationException.
    """
    parts = [
        (table, part)
        for table, content in body["RequestItems"].items()
        for part in _parts(operation, content)
    ]
    most = BATCH_WRITE_MAX if operation == "BatchWriteItem" else BATCH_GET_MAX
    if not parts:
        raise invalid(
            "1 validation error detected: Value at 'requestItems' failed to satisfy constraint: "
            "Member must have length greater than or equal to 1"
        )
    if len(parts) > most:
        raise invalid(
            f"Too many items requested for the {operation} call: {len(parts)}, at most {most}"
        )
    tokens = [(table, _token(keys[table], part)) for table, part in parts]
    if len(set(tokens)) != len(tokens):
        raise invalid("Provided list of item keys contains duplicates")


def _parts(operation: str, content: Any) -> Sequence[Mapping[str, Any]]:
    if operation == "BatchGetItem":
        keys: Sequence[Mapping[str, Any]] = content["Keys"]
        return keys
    for request in content:
        if len(request) != 1 or not set(request) <= {"PutRequest", "DeleteRequest"}:
            raise invalid("Supplied write request must be one of PutRequest and DeleteRequest")
    return [part.get("Item") or part["Key"] for request in content for part in request.values()]


def check_statements(asked: Sequence[tuple[str, TableKey, Mapping[str, Any]]]) -> None:
    """Refuse a batch of statements, as item operations on their tables, that names an item twice.

    Raises:
        ApiError: ValidationException.
    """
    tokens = [(table, _token(key, one.get("Item") or one["Key"])) for table, key, one in asked]
    if len(set(tokens)) != len(tokens):
        raise invalid("Provided list of item keys contains duplicates")


def check_transaction(
    operation: str, body: Mapping[str, Any], keys: Mapping[str, TableKey]
) -> None:
    """Refuse a transaction that is empty, too long, or names an item twice.

    Raises:
        ApiError: ValidationException.
    """
    actions = body["TransactItems"]
    if not 1 <= len(actions) <= TRANSACTION_MAX:
        raise invalid(
            f"1 validation error detected: Value at 'transactItems' ({len(actions)} actions) "
            "failed to satisfy constraint: Member must have length between 1 and "
            f"{TRANSACTION_MAX}"
        )
    tokens = []
    for action in actions:
        if len(action) != 1 or not set(action) <= set(_ACTIONS[operation]):
            raise invalid(
                "TransactItems can only contain one of Check, Put, Update or Delete"
                if operation == "TransactWriteItems"
                else "TransactItems can only contain Get"
            )
        ((_, part),) = action.items()
        table = table_name(part["TableName"])
        tokens.append((table, _token(keys[table], part.get("Item") or part["Key"])))
    if len(set(tokens)) != len(tokens):
        raise invalid("Transaction request cannot include multiple operations on one item")


def _token(key: TableKey, item: Mapping[str, Any]) -> KeyToken:
    for name in key.names:
        if name not in item:
            raise invalid(
                f"One or more parameter values were invalid: Missing the key {name} in the item"
            )
    # As text: the engine refuses a key that is a set or list, which is not hashable.
    return tuple(map(repr, key.token(values.item(key.of(item)))))


class Tokens:
    """ClientRequestTokens of the transactions that succeeded in one region.

    For ten minutes the same token with the same request is a success that does nothing; with
    another request it is an error.
    """

    def __init__(self) -> None:
        self._used: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    def seen(self, body: Mapping[str, Any], *, now: float) -> bool:
        """Return whether this very request has succeeded before.

        Raises:
            ApiError: ValidationException or IdempotentParameterMismatchException.
        """
        token = body.get("ClientRequestToken")
        if token is None:
            return False
        if not 1 <= len(token) <= TOKEN_CHARACTERS_MAX:
            raise invalid(
                "1 validation error detected: Value at 'clientRequestToken' failed to satisfy "
                f"constraint: Member must have length between 1 and {TOKEN_CHARACTERS_MAX}"
            )
        self._expire(now)
        used = self._used.get(token)
        if used is not None and used[1] != fingerprint(body):
            raise ApiError(
                "IdempotentParameterMismatchException",
                "The request uses the same client token as a previous, but non-identical request.",
            )
        return used is not None

    def remember(self, body: Mapping[str, Any], *, now: float) -> None:
        """Record that this request succeeded."""
        token = body.get("ClientRequestToken")
        if token is not None:
            self._used[token] = (now, fingerprint(body))

    def restore(self, token: str, content: bytes, *, when: float) -> None:
        """Take over a token from before this start, with its transaction's fingerprint."""
        self._used[token] = (when, content)

    def _expire(self, now: float) -> None:
        while self._used:
            when, _ = next(iter(self._used.values()))
            if now - when < TOKEN_SECONDS and len(self._used) <= TOKENS_MAX:
                return
            self._used.popitem(last=False)


def repeated(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a transaction that was done before: what reading its items costs.

    Source: Amazon DynamoDB API Reference, TransactWriteItems, "Idempotency". Each item counts as
    one of up to 4 KB, two read units: the items are not read.
    """
    if body.get("ReturnConsumedCapacity", "NONE") == "NONE":
        return {}
    tables = Counter(part["TableName"] for item in body["TransactItems"] for part in item.values())
    return {
        "ConsumedCapacity": [
            {"TableName": name, "CapacityUnits": 2.0 * count, "ReadCapacityUnits": 2.0 * count}
            for name, count in tables.items()
        ]
    }


def fingerprint(body: Mapping[str, Any]) -> bytes:
    """Return the content that distinguishes a request's transaction from any other."""
    # ReturnConsumedCapacity may differ between attempts; what is written may not.
    text = json.dumps(body.get("TransactItems"), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()

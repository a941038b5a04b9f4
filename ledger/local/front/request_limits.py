"""Limits of requests, expressions, documents and tokens, checked before any engine is asked.

Sources: Amazon DynamoDB Developer Guide, "Constraints in Amazon DynamoDB": an expression has at
most 4 KB and 300 operators or functions, IN at most 100 operands, and attributes are nested up to
32 levels deep. How these are counted, the rule of parentheses and the messages are those of
DynamoDB Local, AWS's own engine: `=` of SET and the AND of BETWEEN are no operators, and a scalar
is a level of its own. Amazon DynamoDB API Reference: BatchWriteItem, BatchGetItem,
TransactWriteItems, TransactGetItems.

Pure: no clock, no randomness, no I/O.
"""

import hashlib
import json
import re
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ledger.local.engines import values
from ledger.local.engines.port import ApiError, KeyToken, TableKey, invalid
from ledger.local.front.catalog import table_name
from ledger.store.writes import TOKEN_SECONDS

EXPRESSION_BYTES_MAX = 4096
OPERATORS_MAX = 300
OPERANDS_MAX = 100
PATH_LEVELS_MAX = 32
NESTING_MAX = 32
_CHECKED_MAX = 1024
_EXPRESSIONS = (
    *("ConditionExpression", "UpdateExpression", "FilterExpression"),
    *("KeyConditionExpression", "ProjectionExpression"),
)
_DOCUMENTS = ("Item", "Key", "ExclusiveStartKey", "ExpressionAttributeValues")
_TOKEN = re.compile(r"[#:]?\w+|<>|<=|>=|\S")
_NAME = re.compile(r"#?\w+")
_PATH = re.compile(r"#?\w+(?:\s*\.\s*#?\w+|\s*\[\s*\d+\s*\])+")
_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})
_WORDS = frozenset({"AND", "OR", "NOT", "BETWEEN", "IN"})
_CLAUSES = frozenset({"SET", "ADD", "REMOVE", "DELETE"})
_TOO_DEEP = (
    "Nesting Levels have exceeded supported limits: Attributes in the item have nested levels "
    "beyond supported limit"
)


def check_depths(operation: str, body: Mapping[str, Any]) -> None:
    """Refuse a request whose expressions or documents are longer or deeper than DynamoDB takes.

    Raises:
        ApiError: ValidationException.
    """
    for part in _parts(operation, body):
        for name in _EXPRESSIONS:
            text = part.get(name)
            if isinstance(text, str) and (fault := expression_fault(text, is_update="Up" in name)):
                raise invalid(f"Invalid {name}: {fault}")
        for name in _DOCUMENTS:
            for value in part.get(name, {}).values():
                _check_nesting(value, 1)


def _parts(operation: str, body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Return the parts with expressions and documents: the request, or those in it."""
    match operation:
        case "BatchGetItem":
            for request in body["RequestItems"].values():
                yield request
                yield from ({"Key": key} for key in request["Keys"])
        case "BatchWriteItem":
            for requests in body["RequestItems"].values():
                yield from (part for request in requests for part in request.values())
        case "TransactWriteItems" | "TransactGetItems":
            yield from (part for action in body["TransactItems"] for part in action.values())
        case _:
            yield body


def _check_nesting(value: Any, level: int) -> None:
    if level > NESTING_MAX:
        raise invalid(_TOO_DEEP)
    if not isinstance(value, dict):
        return
    for content in value.values():
        if isinstance(content, dict):
            for inner in content.values():
                _check_nesting(inner, level + 1)
        elif isinstance(content, list):
            for inner in content:
                if isinstance(inner, dict | list):
                    _check_nesting(inner, level + 1)


@lru_cache(maxsize=_CHECKED_MAX)
def expression_fault(text: str, *, is_update: bool) -> str | None:
    """Return what is too long, too deep or left open in an expression, in DynamoDB's words."""
    size = len(text.encode())
    if size > EXPRESSION_BYTES_MAX:
        return f"Expression size has exceeded the maximum allowed size; expression size: {size}"
    tokens = _TOKEN.findall(text)
    return (
        _parentheses_fault(tokens)
        or _paths_fault(text)
        or _operators_fault(tokens, is_update=is_update)
        or _operands_fault(tokens)
    )


def _parentheses_fault(tokens: Sequence[str]) -> str | None:
    """Return what is wrong with parentheses: left open, doubled, or too deep."""
    opened: list[int] = []
    closed: dict[int, int] = {}
    for index, symbol in enumerate(tokens):
        if symbol == "(":
            opened.append(index)
        elif symbol == ")" and opened:
            closed[opened.pop()] = index
        if len(opened) > OPERATORS_MAX + 1:  # each level but the last has its own operator
            return f'Syntax error; token: "(", near: "{tokens[index - 1]}("'
    if opened:
        return f'Syntax error; token: "<EOF>", near: "{tokens[-1]}"'
    for start, end in closed.items():
        inner_end = closed.get(start + 1)
        if inner_end == end - 1 and not _is_call(tokens, start):
            return "The expression has redundant parentheses;"
    return None


def _is_call(tokens: Sequence[str], opening: int) -> bool:
    """Return whether a parenthesis opens the arguments of a function or the operands of IN."""
    before = tokens[opening - 1].upper() if opening else ""
    if before in (_WORDS | _CLAUSES) - {"IN"}:
        return False
    return _NAME.fullmatch(before) is not None


def _paths_fault(text: str) -> str | None:
    for path in _PATH.findall(text):
        levels = 1 + path.count(".") + path.count("[")
        if levels > PATH_LEVELS_MAX:
            return f"The document path has too many nesting levels; nesting levels: {levels}"
    return None


def _operators_fault(tokens: Sequence[str], *, is_update: bool) -> str | None:
    counted = {"+", "-"} if is_update else _COMPARISONS
    ranges = operators = 0
    for index, symbol in enumerate(tokens):
        word = symbol.upper()
        if word == "BETWEEN":
            ranges += 1
        if word == "AND" and ranges:
            ranges -= 1
        elif symbol in counted or word in _WORDS or _is_function(tokens, index):
            operators += 1
        if operators > OPERATORS_MAX:
            return f"The expression contains too many operators; operator count: {operators}"
    return None


def _is_function(tokens: Sequence[str], index: int) -> bool:
    is_called = index + 1 < len(tokens) and tokens[index + 1] == "("
    return is_called and tokens[index].upper() not in _WORDS and _is_call(tokens, index + 1)


def _operands_fault(tokens: Sequence[str]) -> str | None:
    """Return what is wrong with the number of operands of IN."""
    counts: list[int | None] = []
    for index, symbol in enumerate(tokens):
        if symbol == "(":
            is_in = index > 0 and tokens[index - 1].upper() == "IN"
            counts.append(1 if is_in else None)
        elif symbol == ")" and counts:
            count = counts.pop()
            if count is not None and count > OPERANDS_MAX:
                return (
                    "The IN operator is provided with too many operands; number of operands: "
                    f"{count}"
                )
        elif symbol == "," and counts and counts[-1] is not None:
            counts[-1] += 1
    return None


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
        for part in _items_of(operation, content)
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


def _items_of(operation: str, content: Any) -> Sequence[Mapping[str, Any]]:
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

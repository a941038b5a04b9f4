"""Writes of the port as PartiQL statements, up to 25 a request, and their outcomes.

Statements are used where AWS documents, and DynamoDB Local confirms, the same effect as the item
operations (`tests/conformance`):

- a put on condition that the item is absent: `INSERT`, which does not return an existing item;
- an update that sets attributes, and removes at most one, of an item that its condition demands:
  `UPDATE` never creates an item;
- a delete without a condition: if the item is absent, `DELETE` ignores the condition.

Other writes take separate requests. A statement costs what its write costs; an item under two
statements of one request, or a number that DynamoDB cannot hold, fails the whole request.

Sources: Amazon DynamoDB Developer Guide, "PartiQL insert statements", "PartiQL update statements",
"PartiQL delete statements", "Running batch operations with PartiQL for DynamoDB"; API Reference,
BatchStatementRequest, BatchStatementError.

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from ledger.core.entry import AttributeValue, Key
from ledger.core.errors import AccessDenied, RequestRefused, StoreError, TableMissing
from ledger.store.conditions import (
    Absent,
    AllOf,
    AnyOf,
    Compares,
    Condition,
    Equals,
    Has,
    Not,
)
from ledger.store.dynamodb.requests import Request
from ledger.store.writes import (
    Action,
    Applied,
    Check,
    Delete,
    Outcome,
    OwnWrite,
    Put,
    Rejected,
    Unknown,
    Update,
    Write,
    placed,
    placed_write,
)

KNOWN_MAX = 1024
"""Numbers of cached texts: names, and statements without their conditions."""
STATEMENT_CHARACTERS_MAX = 8192
"""Source: API Reference, BatchStatementRequest."""
THROTTLED = frozenset({"ProvisionedThroughputExceeded", "RequestLimitExceeded", "ThrottlingError"})
PASSING = THROTTLED | {"TransactionConflict"}
"""Codes of statements that wrote nothing and may be sent again."""
_REJECTED = frozenset({"ConditionalCheckFailed", "DuplicateItem"})
_REFUSED = {"AccessDenied": AccessDenied, "ResourceNotFound": TableMissing}
_QUOTES = frozenset("\"'")
_NO_ERROR: Mapping[str, Any] = {}
_FIELD = re.compile("'([^']*)':")
_NAME = re.compile('"[^"]*"')
_WHERE = 'WHERE "pk"=?'


class _Inexpressible(Exception):
    """A statement cannot express it."""


def statement(write: Write, table: str) -> Request | None:
    """Return the statement that does a write; None if none has the same effect."""
    name, own = placed_write(write)
    try:
        text, parameters = _statement(own, name or table)
    except _Inexpressible:
        return None
    if len(text) > STATEMENT_CHARACTERS_MAX:
        return None
    return {
        "Statement": text,
        "Parameters": parameters,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def insert(action: Action, table: str) -> Request:
    """Return the statement of a put that must be sent as one.

    Raises:
        RequestRefused: no statement has the same effect.
    """
    said = None if isinstance(placed(action)[1], Check) else statement(cast("Write", action), table)
    if said is None:
        raise RequestRefused(f"no INSERT has the effect of {action!r:.200}")
    return said


def transaction_request(actions: Sequence[Action], table: str, token: str | None) -> Request:
    """Return the request of a transaction of puts as statements.

    Raises:
        RequestRefused: no statement has the same effect as one of them.
    """
    request: Request = {
        "TransactStatements": [insert(action, table) for action in actions],
        "ReturnConsumedCapacity": "TOTAL",
    }
    if token is not None:
        request["ClientRequestToken"] = token
    return request


def _statement(write: OwnWrite, table: str) -> tuple[str, list[AttributeValue]]:
    match write:
        case Put(item, Absent(), returns_old=False):
            return _insert(table, tuple(item)), [*item.values()]
        case Update(key, set=values, remove=removed, condition=condition) if _is_plain(write):
            if condition is None or not _demands_item(condition):
                raise _Inexpressible
            where, more = _where(key, condition)
            return f"{_update(table, tuple(values), removed)} {where}", [*values.values(), *more]
        case Delete(key, None):
            where, more = _where(key, None)
            return f'DELETE FROM "{table}" {where}', more  # noqa: S608 (values are parameters)
    raise _Inexpressible


@lru_cache(KNOWN_MAX)
def _insert(table: str, names: Sequence[str]) -> str:
    fields = ",".join(f"'{_plain(name)}':?" for name in names)
    return f'INSERT INTO "{table}" VALUE {{{fields}}}'


@lru_cache(KNOWN_MAX)
def _update(table: str, names: Sequence[str], removed: Sequence[str]) -> str:
    sets = ",".join(f"{_name(name)}=?" for name in names)
    removes = "".join(f" REMOVE {_name(name)}" for name in removed)
    return f'UPDATE "{table}" SET {sets}{removes}'  # noqa: S608 (names without quotes; values are parameters)


def _is_plain(update: Update) -> bool:
    # Engines differ in how several attributes are removed: `REMOVE a, b` or `REMOVE a REMOVE b`.
    return bool(update.set) and not (update.add or update.discard or len(update.remove) > 1)


def _plain(name: str) -> str:
    if not _QUOTES.isdisjoint(name):
        raise _Inexpressible
    return name


@lru_cache(KNOWN_MAX)
def _name(name: str) -> str:
    return f'"{_plain(name)}"'


def _where(key: Key, condition: Condition | None) -> tuple[str, list[AttributeValue]]:
    parameters: list[AttributeValue] = [{"S": key[0]}, {"S": key[1]}]
    also = "" if condition is None else f" AND {_condition(condition, parameters)}"
    return f'{_WHERE} AND "sk"=?{also}', parameters


def _condition(condition: Condition, parameters: list[AttributeValue]) -> str:
    match condition:
        case Equals(attribute, value):
            parameters.append(value)
            return f"{_name(attribute)}=?"
        case Compares(attribute, operator, value):
            parameters.append(value)
            return f"{_name(attribute)}{operator}?"
        case Has(attribute):
            return f"{_name(attribute)} IS NOT MISSING"
        case Not(Has(attribute)):
            return f"{_name(attribute)} IS MISSING"
        case AllOf(conditions):
            return " AND ".join(_condition(part, parameters) for part in conditions)
        case AnyOf(conditions):
            return f"({' OR '.join(_condition(part, parameters) for part in conditions)})"
    raise _Inexpressible


def _demands_item(condition: Condition) -> bool:
    """Return whether a condition is false for a missing item."""
    match condition:
        case Equals() | Compares() | Has():
            return True
        case AllOf(conditions):
            return any(map(_demands_item, conditions))
        case AnyOf(conditions):
            return all(map(_demands_item, conditions))
    return False


def table_of(said: Mapping[str, Any]) -> str:
    """Return the table of one of our statements: the first name in it."""
    table: str = said["Statement"].split('"', 2)[1]
    return table


def partition_of(said: Mapping[str, Any]) -> str:
    """Return the partition key of the item that one of our statements writes."""
    text = said["Statement"]
    if text.startswith("INSERT"):
        place = _FIELD.findall(text).index("pk")
    else:  # the key is the first value of the condition, after all values that are set
        place = _NAME.sub("", text[: text.index(_WHERE)]).count("?")
    partition: str = said["Parameters"][place]["S"]
    return partition


def each_request(statements: Sequence[Request]) -> Request:
    """Return the request of a batch; DynamoDB counts the units, cheaper than we do."""
    return {"Statements": [*statements], "ReturnConsumedCapacity": "TOTAL"}


def errors_of(response: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the errors of the statements in order, empty for none."""
    return [part.get("Error") or _NO_ERROR for part in response["Responses"]]


def outcome_of(error: Mapping[str, Any], where: str) -> Outcome | StoreError:
    """Return the outcome of a statement with this error, or none, that is not sent again."""
    if not error:
        return Applied()
    code, message = str(error.get("Code")), str(error.get("Message", ""))[:200]
    if code in _REJECTED:
        found = error.get("Item") or None
        return Rejected(found={} if code == "DuplicateItem" and not found else {0: found})
    said = f"{where}: {code}: {message}"
    if code == "InternalServerError":
        return Unknown(said)
    refused = _REFUSED.get(code, RequestRefused)(said)
    refused.code = code
    return refused

"""Statements of a batch, or of a transaction, as item operations; they are replicated as those are.

Taken are the statements that stores of ours send: an `INSERT` of parameters, an `UPDATE` that sets
parameters, and removes one attribute, and a `DELETE` by key alone. Their answers are those of
DynamoDB Local, AWS's own engine. Others are refused by name.

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ledger.local.engines.port import ApiError, TableKey, invalid
from ledger.store.writes import EACH_WRITES_MAX

_INSERT = re.compile(r'INSERT INTO "([^"]+)" VALUE \{(.*)\}')
_UPDATE = re.compile(r'UPDATE "([^"]+)" SET (.*?)(?: REMOVE "([^"]+)")? WHERE (.*)')
_DELETE = re.compile(r'DELETE FROM "([^"]+)" WHERE (.*)')
_FIELD = re.compile(r"'([^']+)':\?")
_SET = re.compile(r'"([^"]+)"=\?')
_TOKEN = re.compile(
    r'\s*("[^"]+" IS NOT MISSING|"[^"]+" IS MISSING|"[^"]+"|\?|AND\b|OR\b|<=|>=|=|<|>|\(|\))'
)
_CODES = {
    "ConditionalCheckFailedException": "ConditionalCheckFailed",
    "InternalServerError": "InternalServerError",
    "ProvisionedThroughputExceededException": "ProvisionedThroughputExceeded",
    "ResourceNotFoundException": "ResourceNotFound",
    "TransactionConflictException": "TransactionConflict",
}
_DUPLICATE = {"Code": "DuplicateItem", "Message": "Duplicate primary key exists in table"}
_OF_TRANSACTIONS = ("ClientRequestToken", "ReturnConsumedCapacity")
_ACTIONS = {"PutItem": "Put", "UpdateItem": "Update", "DeleteItem": "Delete"}
Operation = tuple[str, dict[str, Any]]
"""Name and body of an item operation."""


def statements_of(body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the statements of a batch.

    Raises:
        ApiError: there are no statements, or too many.
    """
    given: Sequence[Mapping[str, Any]] = body["Statements"]
    if not 1 <= len(given) <= EACH_WRITES_MAX:
        raise invalid(f"a batch has 1 to {EACH_WRITES_MAX} statements, got {len(given)}")
    return given


def table_of(statement: Mapping[str, Any]) -> str:
    """Return the table of a statement.

    Raises:
        ApiError: it is not supported.
    """
    for form in (_INSERT, _UPDATE, _DELETE):
        if found := form.fullmatch(statement["Statement"]):
            return found[1]
    raise _refused(statement)


def operation_of(statement: Mapping[str, Any], key: TableKey) -> Operation:
    """Return the item operation with the same effect as a statement, on a table with this key.

    Raises:
        ApiError: it is not supported.
    """
    text = statement["Statement"]
    values = iter(statement.get("Parameters", ()))
    try:
        operation, request = _operation(text, values, key)
    except StopIteration:
        raise invalid("Number of parameters in request and statement don't match.") from None
    if next(values, None) is not None:
        raise invalid("Number of parameters in request and statement don't match.")
    if "ConditionExpression" in request and operation != "PutItem":
        returns = statement.get("ReturnValuesOnConditionCheckFailure", "NONE")
        request["ReturnValuesOnConditionCheckFailure"] = returns
    return operation, {**request, "ReturnConsumedCapacity": "TOTAL"}


def _operation(text: str, values: Iterator[Any], key: TableKey) -> Operation:
    if found := _INSERT.fullmatch(text):
        item = {name: next(values) for name in _listed(_FIELD, found[2])}
        request = {
            "TableName": found[1],
            "Item": item,
            "ConditionExpression": "attribute_not_exists(#k)",
            "ExpressionAttributeNames": {"#k": key.names[0]},
        }
        return "PutItem", request
    if found := _UPDATE.fullmatch(text):
        return _update(found, values, key)
    if found := _DELETE.fullmatch(text):
        place, more = _key(found[2], values, key)
        if not more:
            return "DeleteItem", {"TableName": found[1], "Key": place}
    raise _refused({"Statement": text})


def _update(found: "re.Match[str]", values: Iterator[Any], key: TableKey) -> Operation:
    sets = {name: next(values) for name in _listed(_SET, found[2])}
    place, condition = _key(found[4], values, key)
    names = {f"#s{at}": name for at, name in enumerate(sets)}
    given = {f":s{at}": value for at, value in enumerate(sets.values())}
    update = f"SET {', '.join(f'#s{at} = :s{at}' for at in range(len(sets)))}"
    if found[3]:
        names["#r"] = found[3]
        update += " REMOVE #r"
    names["#k"] = key.names[0]
    parts = ["attribute_exists(#k)"]
    if condition:
        parts.append(_translated(condition, values, names, given))
    return "UpdateItem", {
        "TableName": found[1],
        "Key": place,
        "UpdateExpression": update,
        "ConditionExpression": " AND ".join(parts),
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": given,
    }


def _listed(form: "re.Pattern[str]", text: str) -> list[str]:
    names = form.findall(text)
    if not names or len(form.sub("", text).strip(", ")) or len(set(names)) < len(names):
        raise _refused({"Statement": text})
    return names


def _key(text: str, values: Iterator[Any], key: TableKey) -> tuple[dict[str, Any], str]:
    """Take the key from the front of a condition; returns it, and the rest of the condition."""
    place: dict[str, Any] = {}
    rest = text
    for _ in key.names:
        head, _, rest = rest.partition(" AND ")
        names = _listed(_SET, head)
        place[names[0]] = next(values)
    if set(place) != set(key.names):
        raise _refused({"Statement": text})
    return place, rest


def _translated(
    text: str, values: Iterator[Any], names: dict[str, str], given: dict[str, Any]
) -> str:
    parts, at, depth = [], 0, 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or (found[1] == "OR" and not depth):
            raise _refused({"Statement": text})
        at = found.end()
        depth += {"(": 1, ")": -1}.get(found[1], 0)
        parts.append(_part(found[1], values, names, given))
    return " ".join(parts)


def _part(symbol: str, values: Iterator[Any], names: dict[str, str], given: dict[str, Any]) -> str:
    if symbol == "?":
        placeholder = f":c{len(given)}"
        given[placeholder] = next(values)
        return placeholder
    if not symbol.startswith('"'):
        return symbol
    name, _, test = symbol[1:].partition('"')
    placeholder = f"#c{len(names)}"
    names[placeholder] = name
    if not test:
        return placeholder
    function = "attribute_exists" if "NOT" in test else "attribute_not_exists"
    return f"{function}({placeholder})"


def error_of(error: ApiError, operation: str) -> dict[str, Any]:
    """Return the error of one statement as the answer of its batch has it."""
    code = _CODES.get(error.kind, "ValidationError")
    if operation == "PutItem" and code == "ConditionalCheckFailed":
        return _DUPLICATE
    item = {"Item": error.extra["Item"]} if error.extra.get("Item") else {}
    return {"Code": code, "Message": error.message, **item}


def transaction_of(operations: Sequence[Operation], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the transaction of these operations, under what the statements' request asks for."""
    actions = [
        {_ACTIONS[name]: {part: one[part] for part in one if part != "ReturnConsumedCapacity"}}
        for name, one in operations
    ]
    asked = {name: body[name] for name in _OF_TRANSACTIONS if name in body}
    return {"TransactItems": actions, **asked}


def cancelled(error: ApiError, operations: Sequence[Operation]) -> ApiError:
    """Return the error of a transaction of statements; an INSERT that found an item is named."""
    reasons = error.extra.get("CancellationReasons")
    if reasons is None or len(reasons) != len(operations):
        return error
    told = [
        {**_DUPLICATE, "Code": "ValidationError"}
        if operation == "PutItem" and reason.get("Code") == "ConditionalCheckFailed"
        else reason
        for (operation, _), reason in zip(operations, reasons, strict=True)
    ]
    before, after = (", ".join(one["Code"] for one in each) for each in (reasons, told))
    message = error.message.replace(f"[{before}]", f"[{after}]")
    return ApiError(error.kind, message, extra={"CancellationReasons": told})


def _refused(statement: Mapping[str, Any]) -> ApiError:
    said = f"{statement['Statement']!r:.200}"
    taken = (
        "INSERT INTO .. VALUE {'name':?, ..}, UPDATE .. SET .. REMOVE .. WHERE key AND condition"
    )
    return invalid(
        f"PartiQL is taken by the local global table as {taken} and by key alone, all values"
        f" as parameters: use the item operations instead of {said}"
    )

"""Operations of the port as DynamoDB requests, for any client of the low-level API.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ledger.core.entry import Item, Key, key_of
from ledger.store.conditions import (
    Absent,
    AllOf,
    AnyOf,
    Compares,
    Condition,
    Contains,
    Equals,
    Has,
    Not,
    Shorter,
)
from ledger.store.reads import Get, Query, Scan
from ledger.store.writes import (
    Action,
    BatchWrite,
    Check,
    Delete,
    Deletes,
    OwnAction,
    Put,
    Update,
    Write,
    placed,
    placed_write,
)

Request = dict[str, Any]
PROJECTIONS_KEPT = 64
_COUNTED: Mapping[str, str] = {"ReturnConsumedCapacity": "TOTAL"}
"""Part of every request: DynamoDB counts the units, and its answer names the table (`answers`)."""


class _Names:
    """The placeholders of one expression: attribute names and values, each once."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, Any] = {}

    def name(self, attribute: str) -> str:
        placeholder = f"#{len(self.names)}"
        self.names[placeholder] = attribute
        return placeholder

    def value(self, value: Mapping[str, Any]) -> str:
        placeholder = f":{len(self.values)}"
        self.values[placeholder] = value
        return placeholder

    def into(self, request: Request) -> Request:
        if self.names:
            request["ExpressionAttributeNames"] = self.names
        if self.values:
            request["ExpressionAttributeValues"] = self.values
        return request


def key_attributes(key: Key) -> Item:
    """Return a key as attribute values."""
    return {"pk": {"S": key[0]}, "sk": {"S": key[1]}}


def _condition(condition: Condition, names: _Names) -> str:  # noqa: PLR0911 (one a kind)
    match condition:
        case Absent():
            return f"attribute_not_exists({names.name('pk')})"
        case Equals(attribute, value):
            return f"{names.name(attribute)} = {names.value(value)}"
        case Has(attribute):
            return f"attribute_exists({names.name(attribute)})"
        case Compares(attribute, operator, value):
            return f"{names.name(attribute)} {operator} {names.value(value)}"
        case Contains(attribute, value):
            return f"contains({names.name(attribute)}, {names.value(value)})"
        case Shorter(attribute, size):
            return f"size({names.name(attribute)}) < {names.value({'N': str(size)})}"
        case Not(inner):
            return f"NOT ({_condition(inner, names)})"
        case AllOf(conditions):
            return " AND ".join(f"({_condition(part, names)})" for part in conditions)
        case AnyOf(conditions):
            return " OR ".join(f"({_condition(part, names)})" for part in conditions)


def _body(action: OwnAction, table: str) -> Request:
    """Return the common part of a single request and of an action in a transaction."""
    names = _Names()
    request: Request = {"TableName": table}
    if isinstance(action, Put):
        request["Item"] = action.item
    else:
        request["Key"] = key_attributes(action.key)
    if isinstance(action, Update):
        request["UpdateExpression"] = _update_expression(action, names)
    if action.condition is not None:
        request["ConditionExpression"] = _condition(action.condition, names)
        request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    return names.into(request)


def _update_expression(update: Update, names: _Names) -> str:
    adds = [f"{names.name(name)} {names.value(value)}" for name, value in update.add.items()]
    sets = [f"{names.name(name)} = {names.value(value)}" for name, value in update.set.items()]
    takes = [f"{names.name(name)} {names.value(value)}" for name, value in update.discard.items()]
    removes = [names.name(name) for name in update.remove]
    clauses = [("ADD", adds), ("SET", sets), ("DELETE", takes), ("REMOVE", removes)]
    return " ".join(f"{verb} {', '.join(parts)}" for verb, parts in clauses if parts)


def write_request(write: Write, table: str) -> tuple[str, Request]:
    """Return operation and request of one write."""
    name, write = placed_write(write)
    request = {**_body(write, name or table), **_COUNTED}
    match write:
        case Put():
            returns = {"ReturnValues": "ALL_OLD"} if write.returns_old else {}
            return "put_item", {**request, **returns}
        case Delete():
            return "delete_item", request
        case Update():
            return "update_item", {**request, "ReturnValues": "ALL_NEW"}


def transaction_request(actions: Sequence[Action], table: str, token: str | None) -> Request:
    """Return the request of a transaction."""
    kinds = {Put: "Put", Delete: "Delete", Update: "Update", Check: "ConditionCheck"}
    request: Request = {
        "TransactItems": [
            {kinds[type(action)]: _body(action, name or table)}
            for name, action in map(placed, actions)
        ],
        **_COUNTED,
    }
    if token is not None:
        request["ClientRequestToken"] = token
    return request


def batch_request(writes: Sequence[BatchWrite], table: str) -> Request:
    """Return the request of a batch."""
    return {"RequestItems": {table: _batch_parts(writes)}, **_COUNTED}


def _batch_parts(writes: Sequence[BatchWrite]) -> list[Request]:
    if isinstance(writes, Deletes):
        partition = {"S": writes.partition}
        return [
            {"DeleteRequest": {"Key": {"pk": partition, "sk": {"S": sort_key}}}}
            for sort_key in writes.sort_keys
        ]
    return [
        {"PutRequest": {"Item": write.item}}
        if isinstance(write, Put)
        else {"DeleteRequest": {"Key": key_attributes(write.key)}}
        for write in writes
    ]


def written_units(response: Mapping[str, Any]) -> float | None:
    """Return DynamoDB's own count of a batch's units, None if the answer has none."""
    try:
        return sum(float(consumed["CapacityUnits"]) for consumed in response["ConsumedCapacity"])
    except (KeyError, TypeError, ValueError):
        return None


def unprocessed_keys(response: Mapping[str, Any], table: str) -> set[Key]:
    """Return the keys that a batch left unprocessed."""
    return written_keys(response["UnprocessedItems"].get(table, ()))


def written_keys(parts: Iterable[Mapping[str, Any]]) -> set[Key]:
    """Return the keys of the items that parts of a batch write."""
    return {
        key_of(part["PutRequest"]["Item"] if "PutRequest" in part else part["DeleteRequest"]["Key"])
        for part in parts
    }


def tables_of(request: Request, table: str) -> str:
    """Return the names of the tables that a request reads or writes, as an error has them."""
    parts = [part for item in request.get("TransactItems", ()) for part in item.values()]
    names = {part["TableName"]: None for part in parts or [request] if "TableName" in part}
    names |= dict.fromkeys(request.get("RequestItems", ()))
    return " or ".join(names) or table


def get_request(get: Get, table: str) -> Request:
    """Return the request of one item."""
    return {
        "TableName": get.table or table,
        "Key": key_attributes(get.key),
        "ConsistentRead": get.consistent,
        **_COUNTED,
    }


def gets_request(gets: Sequence[Get], table: str) -> Request:
    """Return the reads of a request by table name, each as consistent as any of its table."""
    by_table: Request = {}
    for get in gets:
        keys = by_table.setdefault(get.table or table, {"Keys": [], "ConsistentRead": False})
        keys["Keys"].append(key_attributes(get.key))
        keys["ConsistentRead"] |= get.consistent
    return by_table


def each_gets_request(by_table: Request) -> Request:
    """Return the request of several items."""
    return {"RequestItems": by_table, **_COUNTED}


def query_request(query: Query, table: str) -> Request:
    """Return the request of one page of a Query."""
    values = {":0": {"S": query.partition}}
    first, last = query.first, query.last
    if first is not None:
        values[":1"] = {"S": first}
    if last is not None:
        values[f":{len(values)}"] = {"S": last}
    common = _queried(
        table, tuple(query.attributes), query.consistent, first is not None, last is not None
    )
    request: Request = {**common, "ExpressionAttributeValues": values}
    if query.descending:
        request["ScanIndexForward"] = False
    return _paged(request, query)


@lru_cache(PROJECTIONS_KEPT)
def _queried(
    table: str,
    attributes: tuple[str, ...],
    consistent: bool,  # noqa: FBT001 (by place: a cached call with names takes twice as long)
    is_from: bool,  # noqa: FBT001
    is_to: bool,  # noqa: FBT001
) -> Request:
    """Return what the requests of queries of one kind have in common."""
    names = {"#0": "pk"}
    condition = "#0 = :0"
    if is_from or is_to:
        names["#1"] = "sk"
        operator = "BETWEEN :1 AND :2" if is_from and is_to else ">= :1" if is_from else "<= :1"
        condition = f"{condition} AND #1 {operator}"
    request: Request = {
        "TableName": table,
        "KeyConditionExpression": condition,
        "ConsistentRead": consistent,
        "ExpressionAttributeNames": names,
        **_COUNTED,
    }
    if attributes:
        request["ProjectionExpression"], placeholders = _projected(attributes)
        names.update(placeholders)
    return request


def scan_request(scan: Scan, table: str) -> Request:
    """Return the request of one page of a Scan."""
    names = _Names()
    request: Request = {
        "TableName": scan.table or table,
        **_segment(scan),
        **({"ConsistentRead": True} if scan.consistent else {}),
        **_projection(scan.attributes, names),
        **_COUNTED,
    }
    return names.into(_paged(request, scan))


def _segment(scan: Scan) -> Request:
    """Return the segment of the table that is read; empty for the whole."""
    if scan.segments == 1:
        return {}
    return {"Segment": scan.segment, "TotalSegments": scan.segments}


def _projection(attributes: Sequence[str], names: _Names) -> Request:
    if not attributes:
        return {}
    expression, placeholders = _projected(tuple(attributes))
    names.names.update(placeholders)
    return {"ProjectionExpression": expression}


@lru_cache(PROJECTIONS_KEPT)  # there are few, and all reads of totals share one
def _projected(attributes: tuple[str, ...]) -> tuple[str, Mapping[str, str]]:
    """Return the expression of a projection, and the names that its placeholders stand for."""
    placeholders = {f"#p{place}": name for place, name in enumerate(attributes)}
    return ", ".join(placeholders), placeholders


def _paged(request: Request, read: Query | Scan) -> Request:
    if read.after is not None:
        request["ExclusiveStartKey"] = key_attributes(read.after)
    if read.limit is not None:
        request["Limit"] = read.limit
    return request

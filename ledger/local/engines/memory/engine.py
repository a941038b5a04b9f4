"""The embedded engine: every region in this process.

Every call runs to its end without giving up the event loop, so calls never interleave.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ledger.core.capacity import read_units
from ledger.local.engines import values
from ledger.local.engines.memory import pages, writes
from ledger.local.engines.memory import writes as transactions
from ledger.local.engines.memory.expressions.documents import at, projection
from ledger.local.engines.memory.expressions.placeholders import Placeholders
from ledger.local.engines.memory.items import TableItems
from ledger.local.engines.memory.writes import refuse_legacy
from ledger.local.engines.port import ApiError, EngineAnswer, Image, ItemChange, TableKey, invalid

BATCH_GET_BYTES_MAX = 16 * 1024 * 1024
_Tables = dict[str, TableItems]


class MemoryEngine:
    """An engine of the local global table that needs nothing but pip; see `Engine`."""

    name = "memory"

    def __init__(self) -> None:
        self._regions: dict[str, _Tables] = {}
        self._operations: Mapping[str, Callable[[_Tables, dict[str, Any]], EngineAnswer]] = {
            "GetItem": _get_item,
            "BatchGetItem": _batch_get_item,
            "TransactGetItems": _transact_get_items,
            "Query": _query,
            "Scan": _scan,
            "PutItem": _put_item,
            "UpdateItem": _update_item,
            "DeleteItem": _delete_item,
            "BatchWriteItem": _batch_write_item,
            "TransactWriteItems": _transact_write_items,
        }

    async def start(self, regions: Sequence[str]) -> None:
        """Make the regions, empty."""
        self._regions = {region: {} for region in regions}

    async def close(self) -> None:
        """Forget everything."""
        self._regions.clear()

    async def until_gone(self, region: str) -> str:
        """Wait for ever: the tables of a region are there as long as this process."""
        del region
        return await asyncio.Future[str]()

    async def restart(self, region: str) -> None:
        """Empty a region."""
        self._regions[region] = {}

    async def create(self, region: str, table: str, key: TableKey) -> None:
        """Make an empty table."""
        self._regions[region][table] = TableItems(key)

    async def drop(self, region: str, table: str) -> None:
        """Remove a table with its items."""
        del self._regions[region][table]

    async def count(self, region: str, table: str) -> int:
        """Return how many items the table holds."""
        return len(self._regions[region][table])

    async def call(self, region: str, operation: str, body: dict[str, Any]) -> EngineAnswer:
        """Carry out one item operation; atomic, since nothing is awaited.

        Raises:
            ApiError: refused; nothing was changed.
        """
        return self._operations[operation](self._regions[region], body)

    async def apply(self, region: str, changes: Sequence[ItemChange]) -> None:
        """Write replicated images as they are."""
        tables = self._regions[region]
        for change in changes:
            items = tables[change.table]
            place = items.place(change.key)
            if change.image is None:
                items.delete(place)
            else:
                items.put(place, change.image)

    def held(self, wire: Image) -> Image:
        """Return an item with its binary values as bytes."""
        return values.item(wire)

    async def dump(self, region: str, table: str) -> Sequence[ItemChange]:
        """Return every item of a table."""
        items = self._regions[region][table]
        return [ItemChange(table, items.key.of(image), image) for image in items.every()]


def _capacity(body: Mapping[str, Any], table: str, units: float, kind: str = "") -> dict[str, Any]:
    """Return the ConsumedCapacity of one table; `kind` is Read or Write inside transactions."""
    shown: dict[str, Any] = {"CapacityUnits": float(units)}
    if kind:
        shown[f"{kind}CapacityUnits"] = float(units)
    capacity = {"TableName": table, **shown}
    if body.get("ReturnConsumedCapacity") == "INDEXES":
        capacity["Table"] = shown
    return capacity


def _wants_capacity(body: Mapping[str, Any]) -> bool:
    wanted = body.get("ReturnConsumedCapacity", "NONE")
    if wanted not in ("NONE", "TOTAL", "INDEXES"):
        raise invalid(f"ReturnConsumedCapacity {wanted} is not one of INDEXES, TOTAL, NONE")
    return bool(wanted != "NONE")


def _one_table(answer: dict[str, Any], body: Mapping[str, Any], units: float) -> dict[str, Any]:
    if _wants_capacity(body):
        answer["ConsumedCapacity"] = _capacity(body, body["TableName"], units)
    return answer


def _many_tables(
    answer: dict[str, Any],
    body: Mapping[str, Any],
    spent: Iterable[tuple[str, float]],
    kind: str = "",
) -> dict[str, Any]:
    if _wants_capacity(body):
        sums: Counter[str] = Counter()
        for table, units in spent:
            sums[table] += units  # type: ignore[assignment]  # Counter adds floats as well
        answer["ConsumedCapacity"] = [
            _capacity(body, table, units, kind) for table, units in sums.items()
        ]
    return answer


def _get_item(tables: _Tables, body: dict[str, Any]) -> EngineAnswer:
    image, size = _read(tables[body["TableName"]], body, body["Key"])
    consistent = bool(body.get("ConsistentRead", False))
    answer = {} if image is None else {"Item": image}
    return EngineAnswer(_one_table(answer, body, read_units(size, consistent=consistent)))


def _read(
    items: TableItems, request: Mapping[str, Any], wire_key: Mapping[str, Any]
) -> tuple[Image | None, int]:
    refuse_legacy(request, ("AttributesToGet",))
    names = {"ExpressionAttributeNames": request.get("ExpressionAttributeNames")}
    placeholders = Placeholders.of(names)
    wanted = projection(request.get("ProjectionExpression"), placeholders, items.key)
    placeholders.check_all_used()
    stored = items.get(items.place(writes.checked_key(items, wire_key)))
    if stored is None:
        return None, 0
    return wanted.of(stored.image) if wanted else stored.image, stored.size


def _batch_get_item(tables: _Tables, body: dict[str, Any]) -> EngineAnswer:
    responses: dict[str, list[Image]] = {}
    unprocessed: dict[str, Any] = {}
    spent: list[tuple[str, float]] = []
    total_bytes = 0
    for table, request in body["RequestItems"].items():
        found = responses.setdefault(table, [])
        consistent = bool(request.get("ConsistentRead", False))
        for key in request["Keys"]:
            image, size = _read(tables[table], request, key)
            total_bytes += size
            if total_bytes > BATCH_GET_BYTES_MAX:
                left = unprocessed.setdefault(table, {**request, "Keys": []})
                left["Keys"].append(key)
                continue
            spent.append((table, read_units(size, consistent=consistent)))
            if image is not None:
                found.append(image)
    answer = {"Responses": responses, "UnprocessedKeys": unprocessed}
    return EngineAnswer(_many_tables(answer, body, spent))


def _transact_get_items(tables: _Tables, body: dict[str, Any]) -> EngineAnswer:
    responses: list[dict[str, Any]] = []
    spent: list[tuple[str, float]] = []
    for action in body["TransactItems"]:
        request = action["Get"]
        table = request["TableName"]
        image, size = _read(tables[table], request, request["Key"])
        responses.append({} if image is None else {"Item": image})
        spent.append((table, read_units(size, consistent=True, transactional=True)))
    return EngineAnswer(_many_tables({"Responses": responses}, body, spent, "Read"))


def _query(tables: _Tables, body: dict[str, Any]) -> EngineAnswer:
    page = pages.query(tables[body["TableName"]], body)
    return EngineAnswer(_one_table(page.body, body, page.units))


def _scan(tables: _Tables, body: dict[str, Any]) -> EngineAnswer:
    page = pages.scan(tables[body["TableName"]], body)
    return EngineAnswer(_one_table(page.body, body, page.units))


def _put_item(tables: _Tables, body: dict[str, Any]) -> EngineAnswer:
    _check_return_values(body, ("NONE", "ALL_OLD"))
    table = body["TableName"]
    return _write(writes.put(table, tables[table], body), body)


def _delete_item(tables: _Tables, body: dict[str, Any]) -> EngineAnswer:
    _check_return_values(body, ("NONE", "ALL_OLD"))
    table = body["TableName"]
    return _write(writes.delete(table, tables[table], body), body)


def _update_item(tables: _Tables, body: dict[str, Any]) -> EngineAnswer:
    _check_return_values(body, ("NONE", "ALL_OLD", "UPDATED_OLD", "ALL_NEW", "UPDATED_NEW"))
    table = body["TableName"]
    return _write(writes.update(table, tables[table], body), body)


def _check_return_values(body: Mapping[str, Any], allowed: Sequence[str]) -> None:
    if body.get("ReturnValues", "NONE") not in allowed:
        raise invalid(f"Return values set to invalid value: it is one of {', '.join(allowed)}")


def _write(intent: writes.Intent, body: Mapping[str, Any]) -> EngineAnswer:
    if not intent.holds:
        raise condition_failed(body, intent.old)
    changes = intent.commit()
    answer: dict[str, Any] = {}
    shown = _returned(intent, body.get("ReturnValues", "NONE"))
    if shown:
        answer["Attributes"] = shown
    return EngineAnswer(_one_table(answer, body, intent.units()), changes)


def condition_failed(body: Mapping[str, Any], old: Image | None) -> ApiError:
    """Return ConditionalCheckFailedException, with the item if the request asked for it."""
    wanted = body.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" and old is not None
    return ApiError(
        "ConditionalCheckFailedException",
        "The conditional request failed",
        extra={"Item": old} if wanted else None,
    )


def _returned(intent: writes.Intent, wanted: str) -> Image | None:
    match wanted:
        case "ALL_OLD":
            return intent.old
        case "ALL_NEW":
            return intent.after
        case "UPDATED_OLD":
            source = intent.old or {}
        case "UPDATED_NEW":
            source = intent.after or {}
        case _:
            return None
    there = {steps[0] for steps in intent.targets if at(source, steps) is not None}
    return {name: value for name, value in source.items() if name in there}


def _batch_write_item(tables: _Tables, body: dict[str, Any]) -> EngineAnswer:
    intents = [
        _batch_intent(table, tables[table], request)
        for table, requests in body["RequestItems"].items()
        for request in requests
    ]
    changes = tuple(change for intent in intents for change in intent.commit())
    spent = [(intent.table, float(intent.units())) for intent in intents]
    return EngineAnswer(_many_tables({"UnprocessedItems": {}}, body, spent), changes)


def _batch_intent(table: str, items: TableItems, request: Mapping[str, Any]) -> writes.Intent:
    if "PutRequest" in request:
        return writes.put(table, items, request["PutRequest"])
    return writes.delete(table, items, request["DeleteRequest"])


def _transact_write_items(tables: _Tables, body: dict[str, Any]) -> EngineAnswer:
    def named(action: Mapping[str, Any]) -> tuple[str, TableItems]:
        return action["TableName"], tables[action["TableName"]]

    intents = transactions.plan(body["TransactItems"], named)
    changes = tuple(change for intent in intents for change in intent.commit())
    spent = [(intent.table, float(intent.units(transactional=True))) for intent in intents]
    return EngineAnswer(_many_tables({}, body, spent, "Write"), changes)

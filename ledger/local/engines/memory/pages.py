"""Query and Scan: one page at a time, by DynamoDB's rules of Limit and of 1 MB.

Source: Amazon DynamoDB Developer Guide, "Paginating table query results" and "Limiting the number
of items in the result set": a page ends when `Limit` items were evaluated or before 1 MB would be
passed, and then always carries LastEvaluatedKey; filters come after that.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ledger.core.capacity import read_units
from ledger.local.engines.memory.expressions.conditions import Condition, condition
from ledger.local.engines.memory.expressions.documents import Projection, projection
from ledger.local.engines.memory.expressions.key_conditions import key_condition
from ledger.local.engines.memory.expressions.placeholders import Placeholders
from ledger.local.engines.memory.items import Stored, TableItems
from ledger.local.engines.memory.writes import checked_key, refuse_legacy
from ledger.local.engines.port import Image, invalid

PAGE_BYTES_MAX = 1024 * 1024
SEGMENTS_MAX = 1_000_000
_LEGACY = ("KeyConditions", "QueryFilter", "ScanFilter", "ConditionalOperator", "AttributesToGet")
_SELECTS = ("ALL_ATTRIBUTES", "COUNT", "SPECIFIC_ATTRIBUTES")


@dataclass(frozen=True, slots=True)
class EnginePage:
    """The content of one page, and the cost of reading it."""

    body: dict[str, Any]
    units: float


def query(items: TableItems, body: Mapping[str, Any]) -> EnginePage:
    """Read one page of a collection.

    Raises:
        ApiError: ValidationException.
    """
    _check(body)
    placeholders = Placeholders.of(body)
    wanted = key_condition(body.get("KeyConditionExpression"), placeholders, items.key)
    reading = _Reading.of(items, body, placeholders)
    if reading.filter is not None:
        reading.filter.check_without_keys(items.key)
    forward = bool(body.get("ScanIndexForward", True))
    start = _start(items, body)
    if start is not None and not wanted.covers(start):
        raise invalid(
            "The provided starting key is outside query boundaries based on provided conditions"
        )
    walk = items.query(wanted.partition, sort=wanted.sort, after=start, forward=forward)
    return reading.page(walk)


def scan(items: TableItems, body: Mapping[str, Any]) -> EnginePage:
    """Read one page of a table, or of one segment of it.

    Raises:
        ApiError: ValidationException.
    """
    _check(body)
    placeholders = Placeholders.of(body)
    reading = _Reading.of(items, body, placeholders)
    segment, segments = _segment(body)
    walk = items.scan(segment=segment, segments=segments, after=_start(items, body))
    return reading.page(walk)


def _check(body: Mapping[str, Any]) -> None:
    refuse_legacy(body, _LEGACY)
    if "IndexName" in body:
        raise invalid(f"The table does not have the specified index: {body['IndexName']}")
    limit = body.get("Limit")
    if limit is not None and limit < 1:
        raise invalid(
            f"1 validation error detected: Value '{limit}' at 'limit' failed to satisfy "
            "constraint: Member must have value greater than or equal to 1"
        )
    select = body.get("Select", "ALL_ATTRIBUTES")
    if select not in _SELECTS:
        raise invalid(f"Select {select} is not one of {', '.join(_SELECTS)}")
    if body.get("Select") == "SPECIFIC_ATTRIBUTES" and "ProjectionExpression" not in body:
        raise invalid(
            "Must specify the AttributesToGet or ProjectionExpression when choosing to get "
            "SPECIFIC_ATTRIBUTES"
        )
    if "ProjectionExpression" in body and body.get("Select", _SELECTS[2]) != _SELECTS[2]:
        raise invalid(f"Cannot specify the ProjectionExpression when choosing to get {select}")


def _start(items: TableItems, body: Mapping[str, Any]) -> tuple[Any, Any] | None:
    key = body.get("ExclusiveStartKey")
    if key is None:
        return None
    if not key:
        raise invalid("The provided starting key is invalid")
    return items.place(checked_key(items, key))


def _segment(body: Mapping[str, Any]) -> tuple[int, int]:
    segment, segments = body.get("Segment"), body.get("TotalSegments")
    if segment is None and segments is None:
        return 0, 1
    if segment is None or segments is None:
        missing = "Segment" if segment is None else "TotalSegments"
        raise invalid(
            f"The {missing} parameter is required but was not present in the request when "
            "the other parameter of a parallel Scan is present"
        )
    if not 1 <= segments <= SEGMENTS_MAX or segment < 0:
        raise invalid(f"TotalSegments {segments} and Segment {segment} are out of range")
    if segment >= segments:
        raise invalid(
            "The Segment parameter is zero-based and must be less than parameter TotalSegments: "
            f"Segment: {segment} is not less than TotalSegments: {segments}"
        )
    return segment, segments


@dataclass(frozen=True, slots=True)
class _Reading:
    """What Query and Scan share: filter, projection, limit, cost."""

    items: TableItems
    filter: Condition | None
    projection: Projection | None
    limit: int | None
    count_only: bool
    consistent: bool

    @classmethod
    def of(
        cls, items: TableItems, body: Mapping[str, Any], placeholders: Placeholders
    ) -> "_Reading":
        reading = cls(
            items=items,
            filter=condition(
                "FilterExpression", body.get("FilterExpression"), placeholders, items.key
            ),
            projection=projection(body.get("ProjectionExpression"), placeholders, items.key),
            limit=body.get("Limit"),
            count_only=body.get("Select") == "COUNT",
            consistent=bool(body.get("ConsistentRead", False)),
        )
        placeholders.check_all_used()
        return reading

    def page(self, walk: Iterator[Stored]) -> EnginePage:
        evaluated, size, last = self._evaluate(walk)
        kept = [image for image in evaluated if self.filter is None or self.filter.holds(image)]
        body: dict[str, Any] = {"Count": len(kept), "ScannedCount": len(evaluated)}
        if not self.count_only:
            show = self.projection
            body["Items"] = kept if show is None else [show.of(image) for image in kept]
        if last is not None:
            body["LastEvaluatedKey"] = self.items.key.of(last)
        return EnginePage(body, read_units(size, consistent=self.consistent))

    def _evaluate(self, walk: Iterator[Stored]) -> tuple[list[Image], int, Image | None]:
        evaluated: list[Image] = []
        size = 0
        for stored in walk:
            if evaluated and size + stored.size > PAGE_BYTES_MAX:
                return evaluated, size, evaluated[-1]
            evaluated.append(stored.image)
            size += stored.size
            if len(evaluated) == self.limit:
                return evaluated, size, evaluated[-1]
        return evaluated, size, None

"""Segments of a parallel Scan, made of pages of a plain one.

dynoxide 1.2.1 ends a segment early when the item that its next page is to follow has been deleted
since; a plain Scan of it goes on, as DynamoDB's do. So each segment reads the whole table here, and
keeps the partitions that are its own: pages may be small, or empty, and are followed by more.

Pure: no clock, no randomness, no I/O.
"""

import json
from collections.abc import Mapping
from typing import Any
from zlib import crc32

_ADDED = "#partitionOfSegment"
_COUNT = "COUNT"


def is_parallel(body: Mapping[str, Any]) -> bool:
    """Return whether a Scan reads one segment of several, both of them well formed."""
    segment, segments = body.get("Segment"), body.get("TotalSegments")
    return isinstance(segment, int) and isinstance(segments, int) and 0 <= segment < segments


def whole(body: Mapping[str, Any], partition: str) -> dict[str, Any]:
    """Return the plain Scan whose pages hold those of a segment, each with its partition key."""
    plain = {name: body[name] for name in body if name not in ("Segment", "TotalSegments")}
    if _is_count(body):
        del plain["Select"]
    if _lacks(body, partition):
        plain["ProjectionExpression"] = f"{body['ProjectionExpression']}, {_ADDED}"
        plain["ExpressionAttributeNames"] = {
            **body.get("ExpressionAttributeNames", {}),
            _ADDED: partition,
        }
    return plain


def part(answer: Mapping[str, Any], body: Mapping[str, Any], partition: str) -> dict[str, Any]:
    """Return the page of the segment that a Scan asks for, of an answer to the plain one."""
    segment, segments = body["Segment"], body["TotalSegments"]
    items = [item for item in answer["Items"] if _hash(item[partition]) % segments == segment]
    filtered_out = answer["ScannedCount"] - answer["Count"]
    page = {**answer, "Count": len(items), "ScannedCount": len(items) + filtered_out // segments}
    if "ConsumedCapacity" in answer:
        page["ConsumedCapacity"] = _shared(answer["ConsumedCapacity"], segments)
    if _lacks(body, partition):
        items = [{name: item[name] for name in item if name != partition} for item in items]
    if _is_count(body):
        del page["Items"]
    else:
        page["Items"] = items
    return page


def _shared(capacity: Mapping[str, Any], segments: int) -> dict[str, Any]:
    """Return a segment's share of the cost of a page."""
    return {
        name: _shared(value, segments)
        if isinstance(value, Mapping)
        else value / segments
        if isinstance(value, int | float)
        else value
        for name, value in capacity.items()
    }


def _is_count(body: Mapping[str, Any]) -> bool:
    return body.get("Select") == _COUNT


def _lacks(body: Mapping[str, Any], partition: str) -> bool:
    """Return whether a projection leaves out the partition key."""
    if "ProjectionExpression" not in body:
        return False
    names = body.get("ExpressionAttributeNames", {})
    paths = (path.strip() for path in str(body["ProjectionExpression"]).split(","))
    return partition not in {names.get(path, path) for path in paths}


def _hash(value: Mapping[str, Any]) -> int:
    return crc32(json.dumps(value, sort_keys=True).encode())

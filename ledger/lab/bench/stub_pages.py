"""The collections that the stub endpoint shows, prepared once as the bytes of whole answers.

A partition named `read-1000` holds 1,000 entries, whatever was written. Pages hold up to 1 MB by
DynamoDB's measure of an item.

Pure: no clock, no randomness, no I/O.
"""

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from ledger.core.capacity import item_size, read_units
from ledger.core.entry import Item, entry_id
from ledger.core.ids import EntryId

PAGE_BYTES = 1024 * 1024
REGION = "us-east-1"
_CHANGES = 9
"""Entry number i changes its counter by i % 9 + 1."""
_FIRST = datetime(2026, 1, 1, tzinfo=UTC)
_MIXER = 0x9E3779B97F4A7C15
"""Spreads numbers over the 64 bits of an id's suffix (the golden ratio, as Knuth does)."""
_NAME = re.compile(r"read-(\d+)")
QUERIES_MAX = 10
"""Queries whose pages are kept prepared."""

Pages = Mapping[str, bytes]
"""The answer to a Query by the sort key that it starts after; the first page's is empty."""


def counter_name(entries: int) -> str:
    """Return the name of a counter that shows so many entries."""
    return f"read-{entries}"


def expected_total(entries: int) -> int:
    """Return the sum over the entries of one such collection."""
    whole, rest = divmod(entries, _CHANGES)
    return whole * sum(range(1, _CHANGES + 1)) + sum(range(1, rest + 1))


def answer(body: bytes) -> bytes:
    """Return a whole answer with the headers that DynamoDB sends, its checksum among them."""
    head = (
        "HTTP/1.1 200 OK\r\n"
        "Server: Server\r\n"
        "Date: Sat, 21 Nov 2026 00:00:00 GMT\r\n"
        "Content-Type: application/x-amz-json-1.0\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: keep-alive\r\n"
        "x-amzn-RequestId: 4KBNVRGD25RG1KEO9UT4V3FQDJVV4KQNSO5AEMVJF66Q9ASUAAJG\r\n"
        f"x-amz-crc32: {zlib.crc32(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass(frozen=True, slots=True)
class Query:
    """The parts of a Query that its answers depend on: all its pages are prepared together."""

    partition: str
    first: str = ""
    attributes: frozenset[str] = frozenset()
    counts_units: bool = False
    is_consistent: bool = False


def page_of(body: Mapping[str, Any]) -> bytes | None:
    """Return the page that a request asks for; None where there is none.

    The request is of the forms that `ledger.store.dynamodb.requests` or a plain client makes: the
    partition is the first value, the least sort key the second.
    """
    values = [value["S"] for value in body["ExpressionAttributeValues"].values()]
    names = body.get("ExpressionAttributeNames", {})
    projected = filter(None, body.get("ProjectionExpression", "").replace(" ", "").split(","))
    query = Query(
        partition=values[0],
        first=values[1] if len(values) > 1 else "",
        attributes=frozenset(names.get(name, name) for name in projected),
        counts_units="ReturnConsumedCapacity" in body,
        is_consistent=body.get("ConsistentRead", False),
    )
    start = body.get("ExclusiveStartKey")
    return pages_of(query).get(start["sk"]["S"] if start else "")


@lru_cache(QUERIES_MAX)
def pages_of(query: Query) -> Pages:
    """Return every page of a query; of a collection that is not ours, one empty page."""
    match = _NAME.fullmatch(query.partition)
    entries = int(match[1]) if match else 0
    pages, after = {}, ""
    for items, size, last in _split(query, entries):
        shown = [_shown(item, query.attributes) for item in items]
        page: dict[str, object] = {"Items": shown, "Count": len(items), "ScannedCount": len(items)}
        if query.counts_units:
            units = read_units(size, consistent=query.is_consistent)
            page["ConsumedCapacity"] = {"TableName": "ledger", "CapacityUnits": units}
        if last is not None:
            page["LastEvaluatedKey"] = {name: last[name] for name in ("pk", "sk")}
        pages[after] = answer(json.dumps(page, separators=(",", ":")).encode())
        after = last["sk"]["S"] if last is not None else ""
    return pages


def _split(query: Query, entries: int) -> Iterator[tuple[list[Item], int, Item | None]]:
    """Yield the items of each page, their size, and the last where another page follows."""
    items: list[Item] = []
    size = 0
    for number in range(entries):
        item = _item(query.partition, number)
        if item["sk"]["S"] < query.first:
            continue
        items.append(item)
        size += item_size(item)
        if size >= PAGE_BYTES and number + 1 < entries:
            yield items, size, item
            items, size = [], 0
    yield items, size, None


def _shown(item: Item, attributes: frozenset[str]) -> Item:
    """Return what a projection leaves of an item; without one, everything."""
    return {name: item[name] for name in item if not attributes or name in attributes}


def _item(partition: str, number: int) -> Item:
    at = _FIRST + timedelta(milliseconds=number)
    made: EntryId = entry_id(at, number * _MIXER % 2**64)
    return {
        "pk": {"S": partition},
        "sk": {"S": str(made)},
        "change": {"N": str(number % _CHANGES + 1)},
        "region": {"S": REGION},
    }

"""The collections that the stub endpoint shows, page by page, as the bytes of whole answers.

A partition named `read-1000` holds 1,000 entries, whatever was written, and `merged-7` the net
change of 500. Pages hold up to 1 MB by DynamoDB's measure of an item.

Pure: no clock, no randomness, no I/O.
"""

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from ledger.core.capacity import item_size, read_units
from ledger.core.contract_item import CONTRACT_PARTITION, Contract, contract_item
from ledger.core.entry import Item, entry_id, net_item
from ledger.core.ids import EntryId, EntryIds
from ledger.core.values import NetChange
from ledger.settings import Settings

PAGE_BYTES = 1024 * 1024
REGION = "us-east-1"
_CHANGES = 9
"""Entry number i changes its counter by i % 9 + 1."""
_FIRST = datetime(2026, 1, 1, tzinfo=UTC)
_MIXER = 0x9E3779B97F4A7C15
"""Spreads numbers over the 64 bits of an id's suffix (the golden ratio, as Knuth does)."""
_NAME = re.compile(r"read-(\d+)")
_MERGED = re.compile(r"merged-\d+")
MERGED_TOTAL = 2_500
NO_DATE = b"Thu, 01 Jan 1970 00:00:00 GMT"
"""In place of the time of an answer, which its sender puts there."""
COMBINED = "combined"
"""How the names of counters begin that the table's contract combines."""
_TERMS = Settings(regions={REGION: None}, combine=(f"{COMBINED}-*",)).terms
_CONTRACT = contract_item(Contract(terms=_TERMS))


def counter_name(entries: int) -> str:
    """Return the name of a counter that shows so many entries."""
    return f"read-{entries}"


def merged_name(number: int) -> str:
    """Return the name of a counter that shows its net change alone."""
    return f"merged-{number}"


def expected_total(entries: int) -> int:
    """Return the sum over the entries of one such collection."""
    whole, rest = divmod(entries, _CHANGES)
    return whole * sum(range(1, _CHANGES + 1)) + sum(range(1, rest + 1))


def answer(body: bytes) -> bytes:
    """Return a whole answer with the headers that DynamoDB sends, its checksum among them."""
    head = (
        "HTTP/1.1 200 OK\r\n"
        "Server: Server\r\n"
        f"Date: {NO_DATE.decode()}\r\n"
        "Content-Type: application/x-amz-json-1.0\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: keep-alive\r\n"
        "x-amzn-RequestId: 4KBNVRGD25RG1KEO9UT4V3FQDJVV4KQNSO5AEMVJF66Q9ASUAAJG\r\n"
        f"x-amz-crc32: {zlib.crc32(body)}\r\n\r\n"
    )
    return head.encode() + body


def page_of(body: Mapping[str, Any]) -> bytes:
    """Return the page that a Query asks for; of a collection that is not ours, an empty one.

    The request is of the forms that `ledger.store.dynamodb.requests` or a plain client makes: the
    partition is the first value, the least sort key the second.
    """
    partition, *others = (value["S"] for value in body["ExpressionAttributeValues"].values())
    names = body.get("ExpressionAttributeNames", {})
    projected = filter(None, body.get("ProjectionExpression", "").replace(" ", "").split(","))
    attributes = frozenset(names.get(name, name) for name in projected)
    after = body.get("ExclusiveStartKey", {"sk": {"S": ""}})["sk"]["S"]
    items, size, has_more = _items(partition, first=others[0] if others else "", after=after)
    shown = [_shown(item, attributes) for item in items]
    page: dict[str, object] = {"Items": shown, "Count": len(items), "ScannedCount": len(items)}
    if "ReturnConsumedCapacity" in body:
        units = read_units(size, consistent=body.get("ConsistentRead", False))
        page["ConsumedCapacity"] = {"TableName": "ledger", "CapacityUnits": units}
    if has_more:
        page["LastEvaluatedKey"] = {name: items[-1][name] for name in ("pk", "sk")}
    return answer(json.dumps(page, separators=(",", ":"), default=_base64).encode())


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


def _items(partition: str, *, first: str, after: str) -> tuple[list[Item], int, bool]:
    """Return the items of a page and their size, and whether more follow.

    The table has the contract of the default settings, but for what it combines.
    """
    if partition == CONTRACT_PARTITION:
        return [_CONTRACT], item_size(_CONTRACT), False
    if _MERGED.fullmatch(partition):
        net = _net(partition)
        return [net], item_size(net), False
    match = _NAME.fullmatch(partition)
    items: list[Item] = []
    size = 0
    for number in range(int(match[1]) if match else 0):
        item = _item(partition, number)
        if item["sk"]["S"] < first or item["sk"]["S"] <= after:
            continue
        if size >= PAGE_BYTES:
            return items, size, True
        items.append(item)
        size += item_size(item)
    return items, size, False


def _net(partition: str) -> Item:
    until = str(entry_id(_FIRST, 0))
    change = Decimal(MERGED_TOTAL)
    return net_item(NetChange(change, 500, EntryIds(), f"{1:032x}", until, REGION), partition)


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

"""The stub endpoint: what it answers, and what it counts."""

import json
from typing import Any

import pytest
from lab.bench import stub_pages
from lab.bench.plain import TABLE, amount, plain_item
from lab.bench.stub import Connection, Endpoint
from support.tiers import few_fast

from ledger.core.capacity import READ_UNIT_BYTES
from ledger.core.fold import collect
from ledger.store.conditions import Absent
from ledger.store.dynamodb.requests import written_units
from ledger.store.dynamodb.statements import errors_of, statement
from ledger.store.transports.lean_json import decode
from ledger.store.writes import Put

ITEMS = [plain_item(number) for number in range(25)]
SUM = sum(map(amount, range(25)))
ITEM_BYTES_MIN = 60
PAGE_UNITS_MAX = 257


class Wire:
    """Takes what a connection writes."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def is_closing(self) -> bool:
        """Return that it is open."""
        return False

    def write(self, data: bytes) -> None:
        """Keep an answer."""
        self.written.append(data)


def body_of(answer: bytes) -> Any:
    """Return the JSON of an answer."""
    return json.loads(answer.split(b"\r\n\r\n", 1)[1])


def request(operation: str, body: dict[str, Any]) -> bytes:
    """Return a whole request."""
    text = json.dumps(body).encode()
    head = f"POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.{operation}\r\n"
    return head.encode() + f"Content-Length: {len(text)}\r\n\r\n".encode() + text


def batch() -> dict[str, Any]:
    """Return a batch of every item."""
    return {"RequestItems": {TABLE: [{"PutRequest": {"Item": item}} for item in ITEMS]}}


@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":")])
def test_it_counts_statements(separators: tuple[str, str]) -> None:
    """Of statements it counts each one's change, and answers each."""
    said = [statement(Put(item, Absent()), TABLE) for item in ITEMS]
    body = {"Statements": said, "ReturnConsumedCapacity": "TOTAL"}
    endpoint = Endpoint()
    answer = endpoint.respond(
        b"batchexecutestatement", json.dumps(body, separators=separators).encode()
    )
    assert (endpoint.requests, endpoint.items, endpoint.sum) == (1, 25, SUM)
    assert errors_of(body_of(answer)) == [{}] * 25
    assert written_units(body_of(answer)) == 25


def query_of(partition: str, attributes: tuple[str, ...]) -> dict[str, Any]:
    """Return a Query that asks for its units, and for these attributes if any."""
    names = {f"#{place}": name for place, name in enumerate(("pk", *attributes))}
    projection = {"ProjectionExpression": ", ".join([*names][1:])} if attributes else {}
    return {
        "TableName": TABLE,
        "KeyConditionExpression": "#0 = :0",
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": {":0": {"S": partition}},
        "ConsistentRead": True,
        "ReturnConsumedCapacity": "TOTAL",
        **projection,
    }


@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":")])
def test_it_counts_items_and_sums(separators: tuple[str, str]) -> None:
    """Every change of a batch is counted, however the client writes its JSON."""
    endpoint = Endpoint()
    text = json.dumps(batch(), separators=separators).encode()
    answer = endpoint.respond(b"batchwriteitem", text)
    assert body_of(answer) == {"UnprocessedItems": {}}
    assert (endpoint.items, endpoint.sum) == (25, SUM)


@pytest.mark.parametrize("cut", [1, 10, 100, 5_000])
def test_requests_arrive_in_pieces(cut: int) -> None:
    """Bytes may be cut anywhere, and several requests may come at once."""
    endpoint, wire = Endpoint(), Wire()
    connection = Connection(endpoint)
    connection.connection_made(wire)  # type: ignore[arg-type]
    stream = request("BatchWriteItem", batch()) * 2
    for start in range(0, len(stream), cut):
        connection.data_received(stream[start : start + cut])
    assert len(wire.written) == 2
    assert endpoint.sum == 2 * SUM


def test_a_merged_counter_shows_its_net_alone() -> None:
    """It is one that a reader takes: whole, with its digest."""
    name = stub_pages.merged_name(7)
    page = decode(stub_pages.page_of(query_of(name, ())).split(b"\r\n\r\n", 1)[1])
    found = collect(page["Items"])
    assert found.net is not None
    assert found.net.count == 500
    assert found.total() == stub_pages.MERGED_TOTAL


@pytest.mark.parametrize("attributes", [(), ("sk", "change")])
@pytest.mark.parametrize("entries", few_fast([0, 1, 40, 30_000], fast=3))
def test_a_collection_is_read_page_by_page(entries: int, attributes: tuple[str, ...]) -> None:
    """Pages of a query hold every entry once, as projected, each page up to 1 MB of whole items."""
    endpoint, after, items, units = Endpoint(), None, [], 0.0
    name = stub_pages.counter_name(entries)
    while True:
        asked = query_of(name, attributes)
        if after is not None:
            asked["ExclusiveStartKey"] = after
        page = body_of(endpoint.respond(b"query", json.dumps(asked).encode()))
        units += page["ConsumedCapacity"]["CapacityUnits"]
        assert page["ConsumedCapacity"]["CapacityUnits"] <= PAGE_UNITS_MAX
        if attributes:
            assert all(set(item) == set(attributes) for item in page["Items"])
        items += page["Items"]
        after = page.get("LastEvaluatedKey")
        if after is None:
            break
    assert len({item["sk"]["S"] for item in items}) == entries
    assert units >= entries * ITEM_BYTES_MIN / READ_UNIT_BYTES
    assert collect(items).total() == stub_pages.expected_total(entries)


def test_what_begins_after_all_entries_is_empty() -> None:
    """The query for the net change alone finds none, and nor does one of another collection."""
    asked = query_of("read-5", ())
    assert len(body_of(stub_pages.page_of(asked))["Items"]) == 5
    asked["ExpressionAttributeValues"][":1"] = {"S": "~net#"}
    assert body_of(stub_pages.page_of(asked))["Items"] == []
    assert body_of(stub_pages.page_of(query_of("another", ())))["Items"] == []


def test_reset_forgets() -> None:
    """After a reset nothing is counted, and the service time is the new one.

    Requests of the bench itself never count.
    """
    endpoint = Endpoint()
    endpoint.respond(b"batchwriteitem", json.dumps(batch()).encode())
    assert body_of(endpoint.respond(b"state", b"{}"))["requests"] == 1
    endpoint.respond(b"reset", b'{"service_seconds": 0.005}')
    state = body_of(endpoint.respond(b"state", b"{}"))
    assert (state["requests"], state["items"], state["sum"]) == (0, 0, 0)
    assert endpoint.service_seconds == 0.005

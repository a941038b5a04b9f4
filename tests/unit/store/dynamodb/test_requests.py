"""Operations as DynamoDB requests, compared with what the API's documentation asks for."""

from typing import Any

import pytest

from ledger.store.conditions import Absent, Equals
from ledger.store.dynamodb.requests import (
    batch_request,
    query_request,
    scan_request,
    transaction_request,
    unprocessed_keys,
    write_request,
)
from ledger.store.reads import Query, Scan
from ledger.store.writes import Action, Check, Delete, Put, Update, Write

ITEM = {"pk": {"S": "c"}, "sk": {"S": "s"}, "change": {"N": "1"}}
KEY = {"pk": {"S": "c"}, "sk": {"S": "s"}}
ABSENT = {
    "ConditionExpression": "attribute_not_exists(#0)",
    "ExpressionAttributeNames": {"#0": "pk"},
    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
}
EQUALS = {
    "ConditionExpression": "#0 = :0",
    "ExpressionAttributeNames": {"#0": "version"},
    "ExpressionAttributeValues": {":0": {"S": "v1"}},
    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
}
VERSION = Equals("version", {"S": "v1"})


@pytest.mark.parametrize(
    ("write", "operation", "expected"),
    [
        (Put(ITEM), "put_item", {"Item": ITEM}),
        (Put(ITEM, Absent()), "put_item", {"Item": ITEM, **ABSENT}),
        (Put(ITEM, VERSION), "put_item", {"Item": ITEM, **EQUALS}),
        (Delete(("c", "s"), size_bytes=9), "delete_item", {"Key": KEY}),
        (Delete(("c", "s"), VERSION), "delete_item", {"Key": KEY, **EQUALS}),
        (
            Update(("c", "s"), add={"size": {"N": "1"}}, set={"name": {"S": "x"}}),
            "update_item",
            {
                "Key": KEY,
                "UpdateExpression": "ADD #0 :0 SET #1 = :1",
                "ExpressionAttributeNames": {"#0": "size", "#1": "name"},
                "ExpressionAttributeValues": {":0": {"N": "1"}, ":1": {"S": "x"}},
                "ReturnValues": "ALL_NEW",
            },
        ),
        (
            Update(("c", "s"), set={"name": {"S": "x"}}, condition=Equals("name", {"S": "w"})),
            "update_item",
            {
                "Key": KEY,
                "UpdateExpression": "SET #0 = :0",
                "ConditionExpression": "#1 = :1",
                "ExpressionAttributeNames": {"#0": "name", "#1": "name"},
                "ExpressionAttributeValues": {":0": {"S": "x"}, ":1": {"S": "w"}},
                "ReturnValues": "ALL_NEW",
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            },
        ),
    ],
)
def test_single_writes(write: Write, operation: str, expected: dict[str, Any]) -> None:
    """Each single write is its operation, its condition asking for the item that made it fail.

    Reserved words such as `size` and `name` are never written out.
    """
    asked = {"TableName": "t", "ReturnConsumedCapacity": "TOTAL"}
    assert write_request(write, "t") == (operation, {**asked, **expected})


def test_transaction() -> None:
    """A transaction holds each action with its own placeholders, and the token only if given."""
    actions: list[Action] = [
        Put(ITEM, Absent()),
        Delete(("c", "d")),
        Update(("c", "u"), add={"n": {"N": "1"}}),
        Check(("c", "s2"), VERSION),
    ]
    request = transaction_request(actions, "t", "token-1")

    parts = request["TransactItems"]
    assert [next(iter(part)) for part in parts] == ["Put", "Delete", "Update", "ConditionCheck"]
    assert parts[0]["Put"] == {"TableName": "t", "Item": ITEM, **ABSENT}
    assert "ReturnValues" not in parts[2]["Update"]
    key = {"pk": {"S": "c"}, "sk": {"S": "s2"}}
    assert parts[3]["ConditionCheck"] == {"TableName": "t", "Key": key, **EQUALS}
    assert request["ClientRequestToken"] == "token-1"
    assert "ClientRequestToken" not in transaction_request(actions, "t", None)


def test_batch_and_what_it_leaves() -> None:
    """A batch is puts and deletes without conditions; what comes back unprocessed is found."""
    request = batch_request([Put(ITEM), Delete(("c", "d"))], "t")
    parts = request["RequestItems"]["t"]

    assert parts == [
        {"PutRequest": {"Item": ITEM}},
        {"DeleteRequest": {"Key": {"pk": {"S": "c"}, "sk": {"S": "d"}}}},
    ]
    assert request["ReturnConsumedCapacity"] == "TOTAL"
    assert unprocessed_keys({"UnprocessedItems": {"t": parts}}, "t") == {("c", "s"), ("c", "d")}
    assert unprocessed_keys({"UnprocessedItems": {}}, "t") == set()


@pytest.mark.parametrize(
    ("first", "last", "clause", "values"),
    [
        (None, None, "", {}),
        ("a", None, " AND #1 >= :1", {":1": {"S": "a"}}),
        (None, "z", " AND #1 <= :1", {":1": {"S": "z"}}),
        ("a", "z", " AND #1 BETWEEN :1 AND :2", {":1": {"S": "a"}, ":2": {"S": "z"}}),
    ],
)
def test_query(first: str | None, last: str | None, clause: str, values: dict[str, Any]) -> None:
    """A query bounds its sort keys in the key condition, both bounds included."""
    request = query_request(Query("c", after=("c", "s"), first=first, last=last, limit=5), "t")

    assert request["KeyConditionExpression"] == f"#0 = :0{clause}"
    assert request["ExpressionAttributeValues"] == {":0": {"S": "c"}, **values}
    names = {"#0": "pk", "#1": "sk"} if clause else {"#0": "pk"}
    assert request["ExpressionAttributeNames"] == names
    assert request["ExclusiveStartKey"] == KEY
    assert (request["Limit"], request["ConsistentRead"]) == (5, True)
    assert request["ReturnConsumedCapacity"] == "TOTAL"


def test_query_of_some_attributes() -> None:
    """A projection names what comes back."""
    request = query_request(Query("c", consistent=False, first="a", attributes=("sk", "n")), "t")

    assert request["ProjectionExpression"] == "#p0, #p1"
    names = {"#0": "pk", "#1": "sk", "#p0": "sk", "#p1": "n"}
    assert request["ExpressionAttributeNames"] == names


def test_query_leaves_nothing_in_the_next_one() -> None:
    """What requests of one kind have in common is made once; each is a request of its own."""
    plain = query_request(Query("c", attributes=["sk"]), "t")
    paged = query_request(Query("d", attributes=["sk"], after=("c", "s"), descending=True), "t")
    other = query_request(Query("c", attributes=["sk"], consistent=False), "u")

    assert (paged["ScanIndexForward"], paged["ExclusiveStartKey"]) == (False, KEY)
    assert query_request(Query("c", attributes=["sk"]), "t") == plain
    assert plain.keys() & {"ScanIndexForward", "ExclusiveStartKey"} == set()
    assert plain["ExpressionAttributeValues"] == {":0": {"S": "c"}}
    assert (other["TableName"], other["ConsistentRead"]) == ("u", False)


def test_scan() -> None:
    """A scan names its segment, and asks DynamoDB for the units."""
    whole = scan_request(Scan(segment=1, segments=4), "t")
    part = scan_request(Scan(attributes=("pk", "n"), limit=9), "t")

    asked = {"TableName": "t", "ReturnConsumedCapacity": "TOTAL"}
    assert whole == {**asked, "Segment": 1, "TotalSegments": 4}
    assert part["ProjectionExpression"] == "#p0, #p1"
    assert part["ExpressionAttributeNames"] == {"#p0": "pk", "#p1": "n"}
    assert (part["ReturnConsumedCapacity"], part["Limit"]) == ("TOTAL", 9)

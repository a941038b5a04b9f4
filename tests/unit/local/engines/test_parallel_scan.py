"""Segments of a parallel Scan, cut from pages of a plain one."""

from collections.abc import Mapping
from typing import Any

import pytest

from ledger.local.engines.parallel_scan import is_parallel, part, whole

SEGMENTS = 3
ITEMS = [{"pk": {"S": f"c{number}"}, "note": {"N": "1"}} for number in range(30)]
PAGE: dict[str, Any] = {
    "Items": ITEMS,
    "Count": 30,
    "ScannedCount": 60,
    "LastEvaluatedKey": {"pk": {"S": "c29"}},
    "ConsumedCapacity": {"TableName": "t", "CapacityUnits": 9.0, "Table": {"CapacityUnits": 9.0}},
}


def asked(**more: Any) -> dict[str, Any]:
    """Return a Scan of the second of three segments."""
    return {"TableName": "t", "Segment": 1, "TotalSegments": SEGMENTS, **more}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"Segment": 0},
        {"TotalSegments": 2},
        {"Segment": 2, "TotalSegments": 2},
        {"Segment": -1, "TotalSegments": 2},
        {"Segment": "0", "TotalSegments": 2},
    ],
)
def test_what_is_no_segment_is_left_to_the_engine(body: Mapping[str, Any]) -> None:
    """A Scan of the whole, and what DynamoDB would refuse, is none of ours."""
    assert not is_parallel(body)


def test_every_item_is_in_one_segment() -> None:
    """The segments share a page's items, its units, and what its filter left out."""
    pages = [part(PAGE, {**asked(), "Segment": one}, "pk") for one in range(SEGMENTS)]
    found = [item for page in pages for item in page["Items"]]
    assert sorted(found, key=str) == sorted(ITEMS, key=str)
    assert all(0 < page["Count"] < 30 and page["Count"] == len(page["Items"]) for page in pages)
    assert sum(page["ScannedCount"] for page in pages) == 60
    assert all(page["ConsumedCapacity"]["CapacityUnits"] == 3.0 for page in pages)
    assert all(page["ConsumedCapacity"]["Table"] == {"CapacityUnits": 3.0} for page in pages)
    assert all(page["LastEvaluatedKey"] == PAGE["LastEvaluatedKey"] for page in pages)


def test_the_plain_scan_reads_the_partition_key() -> None:
    """A projection without it gets it for the engine, and loses it again for the caller."""
    body = asked(ProjectionExpression="note, #n", ExpressionAttributeNames={"#n": "kind"})
    plain = whole(body, "pk")
    assert {"Segment", "TotalSegments"}.isdisjoint(plain)
    added = plain["ProjectionExpression"].removeprefix("note, #n, ")
    assert plain["ExpressionAttributeNames"] == {"#n": "kind", added: "pk"}
    page = part(PAGE, body, "pk")
    assert page["Count"] == len(page["Items"]) > 0
    assert all(one == {"note": {"N": "1"}} for one in page["Items"])


@pytest.mark.parametrize(
    "projection",
    [
        {"ProjectionExpression": "note, pk"},
        {"ProjectionExpression": "#p", "ExpressionAttributeNames": {"#p": "pk"}},
    ],
)
def test_a_projection_with_the_partition_key_stays(projection: Mapping[str, Any]) -> None:
    """Named twice it would be refused."""
    body = asked(**projection)
    assert whole(body, "pk") == {"TableName": "t", **projection}
    assert "pk" in part(PAGE, body, "pk")["Items"][0]


def test_a_count_counts_the_segment() -> None:
    """Items are read to be counted, and not given."""
    body = asked(Select="COUNT")
    assert "Select" not in whole(body, "pk")
    page = part(PAGE, body, "pk")
    assert "Items" not in page
    assert page["Count"] == part(PAGE, asked(), "pk")["Count"]

"""Raw requests that lack something, or name something twice: no SDK would send them."""

from typing import Any

import pytest
from support.raw_engines import CREATE, KEY, TABLE, Ask, Refused, memory_engine

ON = {"TableName": TABLE}


@pytest.fixture
def ask() -> Ask:
    """The memory engine with one item."""
    asked = memory_engine()
    asked("CreateTable", CREATE)
    asked("PutItem", {**ON, "Item": {**KEY, "a": {"N": "1"}}})
    return asked


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("GetItem", ON),
        ("PutItem", ON),
        ("UpdateItem", ON),
        ("DeleteItem", {**ON, "Key": {"pk": {"S": "a"}}}),
        ("Query", ON),
        ("Query", {**ON, "Select": "SPECIFIC_ATTRIBUTES"}),
        ("Scan", {**ON, "ExclusiveStartKey": {}}),
        ("BatchGetItem", {}),
        ("BatchGetItem", {"RequestItems": {TABLE: {}}}),
        ("BatchWriteItem", {}),
        ("BatchWriteItem", {"RequestItems": {TABLE: [{"PutRequest": {}}]}}),
        ("BatchWriteItem", {"RequestItems": {TABLE: [{"DeleteRequest": {"Key": {}}}]}}),
        ("TransactGetItems", {"TransactItems": [{"Get": ON}]}),
        ("TransactGetItems", {"TransactItems": [{"Get": {**ON, "Key": KEY}}] * 2}),
        ("TransactWriteItems", {"TransactItems": [{"ConditionCheck": {**ON, "Key": KEY}}]}),
        ("PutItem", {**ON, "Item": KEY, "ReturnValuesOnConditionCheckFailure": "ALL_NEW"}),
        ("PutItem", {**ON, "Item": KEY, "ExpressionAttributeNames": {"#a": "a"}}),
        ("PutItem", {**ON, "Item": {**KEY, "": {"S": "a"}}}),
        ("PutItem", {**ON, "Item": {**KEY, "sk": {"SS": ["a"]}}}),
    ],
)
def test_refused(ask: Ask, operation: str, body: dict[str, Any]) -> None:
    """Each is a ValidationException, and changes nothing."""
    with pytest.raises(Refused) as caught:
        ask(operation, body)
    assert caught.value.kind == "ValidationException"
    assert ask("Scan", ON)["Items"] == [{**KEY, "a": {"N": "1"}}]


def test_a_scan_may_filter_by_the_key(ask: Ask) -> None:
    """A Query may not: that is what its key condition is for."""
    by_key = {"FilterExpression": "sk = :b", "ExpressionAttributeValues": {":b": {"S": "b"}}}
    assert ask("Scan", {**ON, **by_key})["Count"] == 1
    values = {":a": {"S": "a"}, **by_key["ExpressionAttributeValues"]}  # type: ignore[dict-item]
    query = {**ON, **by_key, "KeyConditionExpression": "pk = :a"}
    with pytest.raises(Refused, match="non-primary key"):
        ask("Query", {**query, "ExpressionAttributeValues": values})


@pytest.mark.parametrize(
    ("update", "old", "new"),
    [
        ("SET m.x = :v", {"m": {"M": {"x": {"N": "1"}}}}, {"m": {"M": {"x": {"N": "2"}}}}),
        ("SET m.y = :v", None, {"m": {"M": {"x": {"N": "1"}, "y": {"N": "2"}}}}),
        ("SET z = :v", None, {"z": {"N": "2"}}),
        ("ADD l[1] :v", None, {"l": {"L": [{"N": "1"}, {"N": "2"}]}}),
        ("ADD l[5] :v", None, None),
    ],
)
def test_what_an_update_changed(
    ask: Ask, update: str, old: dict[str, Any] | None, new: dict[str, Any] | None
) -> None:
    """UPDATED_OLD and UPDATED_NEW show the attributes whose changed parts are there."""
    one = {"N": "1"}
    request = {
        **ON,
        "Key": KEY,
        "UpdateExpression": update,
        "ExpressionAttributeValues": {":v": {"N": "2"}},
    }
    for wanted, expected in (("UPDATED_OLD", old), ("UPDATED_NEW", new)):
        ask("PutItem", {**ON, "Item": {**KEY, "m": {"M": {"x": one}}, "l": {"L": [one]}}})
        answer = ask("UpdateItem", {**request, "ReturnValues": wanted})
        assert answer.get("Attributes") == expected


@pytest.mark.parametrize("update", ["REMOVE pk", "SET z = pk.x", "SET z = nothing", "REMOVE a.x"])
def test_the_condition_comes_first(ask: Ask, update: str) -> None:
    """What does not fit the item, or its key, is an error only where the condition holds."""
    request = {**ON, "Key": KEY, "UpdateExpression": update}
    with pytest.raises(Refused) as caught:
        ask("UpdateItem", {**request, "ConditionExpression": "attribute_exists(z)"})
    assert caught.value.kind == "ConditionalCheckFailedException"
    with pytest.raises(Refused) as caught:
        ask("UpdateItem", {**request, "ConditionExpression": "attribute_exists(a)"})
    assert caught.value.kind == "ValidationException"


def test_an_action_that_does_not_fit_its_item_cancels(ask: Ask) -> None:
    """In a transaction it is the reason of that action; a request wrong in itself is refused."""
    fits = {"Put": {**ON, "Item": {**KEY, "sk": {"S": "c"}}}}
    unfit = {"Update": {**ON, "Key": KEY, "UpdateExpression": "REMOVE a.x"}}
    with pytest.raises(Refused) as caught:
        ask("TransactWriteItems", {"TransactItems": [fits, unfit]})
    reasons = [reason["Code"] for reason in caught.value.body["CancellationReasons"]]
    assert (caught.value.kind, reasons) == (
        "TransactionCanceledException",
        ["None", "ValidationError"],
    )
    wrong = {"Update": {**ON, "Key": KEY, "UpdateExpression": "REMOVE a.x, a"}}
    with pytest.raises(Refused) as caught:
        ask("TransactWriteItems", {"TransactItems": [fits, wrong]})
    assert caught.value.kind == "ValidationException"
    assert ask("Scan", ON)["Count"] == 1

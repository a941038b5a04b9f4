from typing import Any

import pytest
from support.depths import REDUNDANT, REFUSED, TAKEN, TOO_MANY

from ledger.local.engines.port import ApiError
from ledger.local.front.request_limits import check_depths, expression_fault


def nested(kind: str, containers: int) -> dict[str, Any]:
    """Give a value inside this many lists or maps."""
    value: dict[str, Any] = {"S": "x"}
    for _ in range(containers):
        value = {"M": {"a": value}} if kind == "M" else {"L": [value]}
    return value


@pytest.mark.parametrize("text", ["", "a = :v)", *TAKEN])
def test_what_dynamodb_takes_is_let_through(text: str) -> None:
    """DynamoDB Local carries out each of these that is whole."""
    assert expression_fault(text, is_update=False) is None


@pytest.mark.parametrize(("text", "fault"), REFUSED)
def test_what_dynamodb_refuses_is_refused_in_its_words(text: str, fault: str) -> None:
    """Each is refused by DynamoDB Local too, which says so of all but the deepest."""
    assert fault in (expression_fault(text, is_update=False) or "")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("SET " + ",".join(f"a{n}=:v" for n in range(301)), None),
        ("SET " + ",".join(f"a{n}=:v+:v" for n in range(300)), None),
        ("SET " + ",".join(f"a{n}=:v+:v" for n in range(301)), TOO_MANY),
        ("SET a = (:v + :v)", None),
        ("SET a = ((:v))", REDUNDANT),
        ("SET a = " + "if_not_exists(a, " * 200 + ":v" + ")" * 200, None),
        (
            "REMOVE " + ".".join(["a"] * 33),
            "The document path has too many nesting levels; nesting levels: 33",
        ),
    ],
)
def test_updates_count_arithmetic_and_functions_alone(text: str, fault: str | None) -> None:
    """`=` of SET is no operator."""
    assert expression_fault(text, is_update=True) == fault


def requests(value: dict[str, Any], condition: str) -> list[tuple[str, dict[str, Any]]]:
    """Give one request of each kind with this value and this condition."""
    item = {"pk": {"S": "a"}, "v": value}
    guarded = {"ConditionExpression": condition}
    return [
        ("PutItem", {"Item": item, **guarded}),
        ("DeleteItem", {"Key": item, **guarded}),
        ("UpdateItem", {"Key": {}, "ExpressionAttributeValues": {":v": value}, **guarded}),
        ("Query", {"ExclusiveStartKey": item, "FilterExpression": condition}),
        ("BatchWriteItem", {"RequestItems": {"t": [{"PutRequest": {"Item": item}}]}}),
        ("BatchWriteItem", {"RequestItems": {"t": [{"DeleteRequest": {"Key": item}}]}}),
        ("BatchGetItem", {"RequestItems": {"t": {"Keys": [item]}}}),
        ("TransactWriteItems", {"TransactItems": [{"Put": {"Item": item, **guarded}}]}),
        ("TransactGetItems", {"TransactItems": [{"Get": {"Key": item}}]}),
    ]


@pytest.mark.parametrize("kind", ["M", "L"])
def test_documents_have_32_levels_in_every_request(kind: str) -> None:
    """31 containers around a scalar are taken, as DynamoDB Local takes them, 32 refused."""
    for operation, body in requests(nested(kind, 31), "a = :v"):
        check_depths(operation, body)
    for containers in (32, 900):
        for operation, body in requests(nested(kind, containers), "a = :v"):
            with pytest.raises(ApiError, match="Nesting Levels have exceeded"):
                check_depths(operation, body)


def test_every_condition_is_checked() -> None:
    """A request, and each action of a transaction, is refused by its own expression."""
    guarded = [
        (operation, body)
        for operation, body in requests({"S": "x"}, "((a = :v))")
        if not operation.startswith("Batch") and operation != "TransactGetItems"
    ]
    assert len(guarded) == 5
    for operation, body in guarded:
        with pytest.raises(ApiError, match="Expression: The expression has redundant paren"):
            check_depths(operation, body)

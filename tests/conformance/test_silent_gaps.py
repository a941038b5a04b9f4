"""Requests that dynoxide takes and DynamoDB does not, or whose item it leaves otherwise.

Each is asked of three engines by raw requests: of dynoxide the test must fail.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from conformance.known_gaps import SILENT
from support import dynamodb_local
from support.engines import bare_dynoxide
from support.raw_engines import CREATE, TABLE, Ask, Refused, memory_engine, over_http

INVALID = "ValidationException"
KEY = {"pk": {"S": "a"}, "sk": {"S": "a"}}
OF_PARTITION = {
    "KeyConditionExpression": "pk = :a",
    "ExpressionAttributeValues": {":a": {"S": "a"}},
}
ONE, FOUR = {"N": "1"}, {"L": [{"N": str(number)} for number in range(4)]}


def put(condition: str, **values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a request that puts another item on a condition."""
    named = {f":{name}": value for name, value in values.items()}
    body = {"Item": KEY, "ConditionExpression": condition, "ExpressionAttributeValues": named}
    return "PutItem", {key: value for key, value in body.items() if value}


def update(expression: str, **values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a request that updates the item."""
    named = {f":{name}": value for name, value in values.items()}
    body = {"Key": KEY, "UpdateExpression": expression, "ExpressionAttributeValues": named}
    return "UpdateItem", {key: value for key, value in body.items() if value}


MANY = {f"v{number}": {"N": str(number)} for number in range(101)}
ASKED: Mapping[str, tuple[dict[str, Any], tuple[str, dict[str, Any]], Any]] = {
    "an operand compared with itself": ({"x": ONE}, put("x = x"), INVALID),
    "IN with over 100 operands": (
        {"x": ONE},
        put(f"x IN ({', '.join(f':{name}' for name in MANY)})", **MANY),
        INVALID,
    ),
    "attribute_type of no type": ({"x": ONE}, put("attribute_type(x, :t)", t={"S": "X"}), INVALID),
    "begins_with of a value that is no text": (
        {},
        put("NOT begins_with(:m, :t)", m={"M": {}}, t={"S": "a"}),
        INVALID,
    ),
    "a name that begins with _, as it is": ({}, update("REMOVE _x"), INVALID),
    "an empty name within a map": ({}, put("x <> :m", m={"M": {"": ONE}}), INVALID),
    "a path below a key attribute": (
        {},
        ("GetItem", {"Key": KEY, "ProjectionExpression": "pk[0], x"}),
        INVALID,
    ),
    "paths of which one takes a list and one a map": (
        {},
        ("GetItem", {"Key": KEY, "ProjectionExpression": "x[2], x.y"}),
        INVALID,
    ),
    "SET beyond a list's end": (
        {"x": {"L": [ONE]}},
        update("SET x[9] = :v", v=ONE),
        {"x": {"L": [ONE, ONE]}},
    ),
    "REMOVE of two places of a list": (
        {"x": FOUR},
        update("REMOVE x[0], x[2]"),
        {"x": {"L": [{"N": "1"}, {"N": "3"}]}},
    ),
    "REMOVE below a map that is not there": ({}, update("REMOVE x.y"), INVALID),
    "a page after a key of another partition": (
        {},
        ("Query", OF_PARTITION | {"ExclusiveStartKey": {"pk": {"S": "b"}, "sk": {"S": "a"}}}),
        INVALID,
    ),
    "an action of a transaction that is two": (
        {},
        (
            "TransactWriteItems",
            {
                "TransactItems": [
                    {
                        "Put": {"TableName": TABLE, "Item": KEY},
                        "Delete": {"TableName": TABLE, "Key": KEY | {"sk": {"S": "b"}}},
                    }
                ]
            },
        ),
        INVALID,
    ),
    "a statement with fewer parameters than marks": (
        {},
        (
            "ExecuteStatement",
            {
                "Statement": f'SELECT * FROM "{TABLE}" WHERE pk = ? AND sk = ?',  # noqa: S608 (of a constant)
                "Parameters": [{"S": "a"}],
            },
        ),
        INVALID,
    ),
}


@pytest.fixture(scope="module")
def dynoxide() -> Iterator[Ask]:
    """Run dynoxide, with nothing before it."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(bare_dynoxide()) as settings,
        over_http(str(settings.regions[settings.home].endpoint)) as ask,
    ):
        ask("CreateTable", CREATE)
        yield ask


@pytest.fixture(scope="module")
def local() -> Iterator[Ask]:
    """Run DynamoDB Local."""
    with dynamodb_local.running() as endpoint, over_http(endpoint) as ask:
        ask("CreateTable", CREATE)
        yield ask


def check(ask: Ask, kind: str) -> None:
    """Check that an engine refuses the request, or leaves the item that DynamoDB leaves."""
    item, (operation, body), expected = ASKED[kind]
    ask("PutItem", {"TableName": TABLE, "Item": KEY | item})
    named = {} if operation in {"TransactWriteItems", "ExecuteStatement"} else {"TableName": TABLE}
    if expected == INVALID:
        with pytest.raises(Refused, match=f"^{INVALID}"):
            ask(operation, named | body)
    else:
        ask(operation, named | body)
        assert ask("GetItem", {"TableName": TABLE, "Key": KEY})["Item"] == KEY | expected


@pytest.mark.parametrize("kind", [kind for kind in ASKED if "statement" not in kind])
def test_the_memory_engine_does_as_dynamodb(kind: str) -> None:
    """Whatever the ledger itself sends."""
    ask = memory_engine()
    ask("CreateTable", CREATE)
    check(ask, kind)


@pytest.mark.engines("dynamodb_local")
@pytest.mark.parametrize("kind", ASKED)
def test_dynamodb_local_refuses_or_does_it(kind: str, local: Ask) -> None:
    """AWS's own engine is the judge."""
    check(local, kind)


@pytest.mark.engines("dynoxide")
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.xfail(reason=does, strict=True))
        for kind, does in SILENT.items()
    ],
)
def test_dynoxide_does_otherwise_without_an_error(kind: str, dynoxide: Ask) -> None:
    """A kind that a release of dynoxide mends is noticed."""
    check(dynoxide, kind)


def test_each_kind_is_asked() -> None:
    """No more and no less than what is written down."""
    assert list(ASKED) == list(SILENT)

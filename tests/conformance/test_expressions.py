"""The memory engine against AWS's own engine: the same answer to any request, the same item after.

What DynamoDB Local itself does otherwise than AWS documents is not asked of it, and is listed in
the README beside this file.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from conformance.expression_grammar import WRONG_VALUES, Scope, items, often
from hypothesis import given, settings
from hypothesis import strategies as st
from support import dynamodb_local
from support.raw_engines import CREATE, KEY, TABLE, Ask, Refused, memory_engine, over_http

pytestmark = [pytest.mark.engines("dynamodb_local"), pytest.mark.slow]

EXAMPLES = 150
"""Of each property, drawn alike in every run; more: `--hypothesis-profile=drawn` and a seed."""

ALL = {
    "KeyConditionExpression": "pk = :a",
    "ExpressionAttributeValues": {":a": {"S": "a"}},
}


class Engines:
    """Two engines that are asked the same."""

    def __init__(self, ours: Ask, reference: Ask) -> None:
        self._asks = (ours, reference)

    def put(self, *items: Mapping[str, Any]) -> None:
        """Put items into both."""
        for item in items:
            for ask in self._asks:
                ask("PutItem", {"TableName": TABLE, "Item": {**KEY, **item}})

    def clear(self) -> None:
        """Delete the items from both."""
        for ask in self._asks:
            for sort in "abcd":
                key = {"pk": {"S": "a"}, "sk": {"S": sort}}
                ask("DeleteItem", {"TableName": TABLE, "Key": key})

    def answers(self, operation: str, body: Mapping[str, Any]) -> list[Any]:
        """Return what each answers, or the type of its error, and the items that it then holds."""
        return [_answer(ask, operation, body) for ask in self._asks]

    def agree(self, operation: str, **body: Any) -> None:
        """Check that both give one answer and hold the same items."""
        ours, reference = self.answers(operation, body)
        assert ours == reference, f"{operation} {body}"


def _answer(ask: Ask, operation: str, body: Mapping[str, Any]) -> Any:
    try:
        answer: Any = ask(operation, body)
        answer.pop("ConsumedCapacity", None)  # which DynamoDB Local shows unasked
        if operation == "BatchGetItem":
            answer["Responses"][TABLE].sort(key=str)  # "in no particular order"
    except Refused as refused:
        answer = (refused.kind, refused.body.get("Item"), _reasons(refused))
        if "ValidationError" in answer[2]:
            # What does not fit the item: AWS documents it as the reason of one action, DynamoDB
            # Local refuses the whole request for it.
            answer = ("ValidationException", None, [])
    return answer, ask("Query", {"TableName": TABLE, **ALL})["Items"]


def _reasons(refused: Refused) -> list[str]:
    return [reason["Code"] for reason in refused.body.get("CancellationReasons", ())]


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    """Run both, with an empty table each."""
    with dynamodb_local.running() as endpoint, over_http(endpoint) as reference:
        both = memory_engine(), reference
        for ask in both:
            ask("CreateTable", CREATE)
        yield Engines(*both)


@st.composite
def requests(draw: st.DrawFn, *parts: str) -> dict[str, Any]:
    """Draw the expressions of a request."""
    scope = Scope(draw)
    drawn: dict[str, Any] = {}
    for part in parts:
        field = f"{part}Expression"
        match part:
            case "Update":
                drawn[field] = scope.update()
            case "Projection":
                drawn[field] = scope.projection()
            case "KeyCondition":
                drawn[field] = scope.key_condition()
            case _:
                drawn[field] = scope.condition()
    fields = scope.fields()
    if parts == ("Projection",):
        fields.pop("ExpressionAttributeValues", None)
    return drawn | fields


@settings(max_examples=EXAMPLES)
@given(
    item=st.none() | items(),
    request=requests("Update"),
    shown=st.sampled_from(["ALL_NEW", "ALL_OLD", "UPDATED_NEW", "UPDATED_OLD", "NONE"]),
)
def test_updates(
    engines: Engines, item: dict[str, Any] | None, request: dict[str, Any], shown: str
) -> None:
    """An update of any item, or of none, leaves the same item, and shows the same of it."""
    engines.clear()
    if item is not None:
        engines.put(item)
    engines.agree("UpdateItem", TableName=TABLE, Key=KEY, ReturnValues=shown, **request)


@settings(max_examples=EXAMPLES)
@given(item=items(), request=requests("Update", "Condition"))
def test_updates_with_conditions(
    engines: Engines, item: dict[str, Any], request: dict[str, Any]
) -> None:
    """A condition is judged before what the update does to the item."""
    engines.put(item)
    shown = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    engines.agree("UpdateItem", TableName=TABLE, Key=KEY, **shown, **request)


@settings(max_examples=EXAMPLES)
@given(item=st.none() | items(), request=requests("Condition"))
def test_conditions(engines: Engines, item: dict[str, Any] | None, request: dict[str, Any]) -> None:
    """A condition is true of the same items, or refused."""
    engines.clear()
    if item is not None:
        engines.put(item)
    engines.agree("DeleteItem", TableName=TABLE, Key=KEY, ReturnValues="ALL_OLD", **request)


@settings(max_examples=EXAMPLES)
@given(item=items(), request=requests("Projection"))
def test_projections(engines: Engines, item: dict[str, Any], request: dict[str, Any]) -> None:
    """A projection shows the same parts of an item."""
    engines.put(item)
    engines.agree("GetItem", TableName=TABLE, Key=KEY, **request)


@settings(max_examples=EXAMPLES)
@given(
    items=st.lists(items(), min_size=3, max_size=3),
    request=requests("KeyCondition")
    | requests("KeyCondition", "Filter")
    | requests("KeyCondition", "Filter", "Projection"),
    forward=st.booleans(),
)
def test_queries(
    engines: Engines, items: list[dict[str, Any]], request: dict[str, Any], *, forward: bool
) -> None:
    """A query gives the same items in the same order."""
    engines.put(*({**item, "sk": {"S": sort}} for item, sort in zip(items, "abc", strict=True)))
    engines.agree("Query", TableName=TABLE, ScanIndexForward=forward, **request)


@settings(max_examples=EXAMPLES)
@given(
    items=st.lists(items(), min_size=3, max_size=3),
    request=requests("Filter") | requests("Filter", "Projection"),
)
def test_scans(engines: Engines, items: list[dict[str, Any]], request: dict[str, Any]) -> None:
    """A scan gives the same items; its filter may name the key."""
    engines.clear()
    engines.put(*({**item, "sk": {"S": sort}} for item, sort in zip(items, "abc", strict=True)))
    engines.agree("Scan", TableName=TABLE, **request)


@settings(max_examples=EXAMPLES)
@given(item=items(), wrong=st.none() | WRONG_VALUES, key=st.none() | st.sampled_from(["pk", "sk"]))
def test_puts(
    engines: Engines, item: dict[str, Any], wrong: dict[str, Any] | None, key: str | None
) -> None:
    """A put keeps the item as it is, or is refused."""
    put = {**KEY, **item}
    if wrong is not None:
        put["c"] = wrong
    if key is not None:
        put[key] = item.get("a", {"S": ""})
    engines.clear()
    engines.agree("PutItem", TableName=TABLE, Item=put)


def _keys(draw: st.DrawFn, count: int) -> list[dict[str, Any]]:
    """Draw keys, usually different ones, rarely one that is no key of the table."""
    one = often(st.sampled_from("abcd"), st.just("b")).map(
        lambda sort: {"pk": {"S": "a"}, "sk": {"S": sort}}
    )
    unique = draw(st.integers(0, 9)) < 9
    sorts = st.lists(one, min_size=count, max_size=count, unique_by=str if unique else None)
    keys = draw(sorts)
    wrong: list[Any] = [
        *({}, {"pk": {"S": "a"}}, {**KEY, "a": {"S": "a"}}, {**KEY, "sk": {"N": "1"}}),
        *({**KEY, "sk": {"S": ""}}, {**KEY, "sk": {"SS": ["a"]}}),
    ]
    if draw(st.integers(0, 14)) == 14:
        keys[-1] = draw(st.sampled_from(wrong))
    return keys


@st.composite
def transactions(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw the actions of a transaction."""
    actions: list[dict[str, Any]] = []
    for key in _keys(draw, draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["Put", "Update", "Delete", "ConditionCheck"]))
        parts = {"Update": ["Update"], "ConditionCheck": ["Condition"]}.get(kind, [])
        if kind != "ConditionCheck" and draw(st.integers(0, 2)) == 2:
            parts = [*parts, "Condition"]
        body = {"TableName": TABLE, **(draw(requests(*parts)) if parts else {})}
        body |= {"Item": {**draw(items()), **key}} if kind == "Put" else {"Key": key}
        actions.append({kind: body})
    return actions


def _is_twice(actions: list[dict[str, Any]]) -> bool:
    """Return whether two actions are on one item."""
    bodies = [body for action in actions for body in action.values()]
    keys = [body.get("Key") or {name: body["Item"].get(name) for name in KEY} for body in bodies]
    return any(keys.count(key) > 1 for key in keys)


@settings(max_examples=EXAMPLES)
@given(stored=st.lists(items(), min_size=1, max_size=4), actions=transactions())
def test_transactions(
    engines: Engines, stored: list[dict[str, Any]], actions: list[dict[str, Any]]
) -> None:
    """A transaction is carried out whole, cancelled for the same actions, or refused."""
    engines.clear()
    engines.put(*({**item, "sk": {"S": sort}} for item, sort in zip(stored, "abcd", strict=False)))
    if not (_is_twice(actions) and "ConditionExpression" in str(actions)):
        engines.agree("TransactWriteItems", TransactItems=actions)
        return
    # Two actions on one item: DynamoDB Local may tell a false condition before it refuses them.
    (ours, left), (_, left_there) = engines.answers(
        "TransactWriteItems", {"TransactItems": actions}
    )
    assert (ours, left) == (("ValidationException", None, []), left_there)


@st.composite
def batches(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw the requests of a batch."""
    found: list[dict[str, Any]] = []
    for key in _keys(draw, draw(st.integers(1, 4))):
        put = {"PutRequest": {"Item": {**draw(items()), **key}}}
        found.append(draw(st.sampled_from([put, {"DeleteRequest": {"Key": key}}])))
    return found


@settings(max_examples=EXAMPLES)
@given(stored=items(), batch=batches())
def test_batches(engines: Engines, stored: dict[str, Any], batch: list[dict[str, Any]]) -> None:
    """A batch is carried out whole, or refused."""
    engines.clear()
    engines.put(stored)
    engines.agree("BatchWriteItem", RequestItems={TABLE: batch})


@st.composite
def wanted_keys(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw the keys of a batch of reads."""
    return _keys(draw, draw(st.integers(1, 3)))


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_batches_of_reads(engines: Engines, data: st.DataObject) -> None:
    """A batch of reads gives the same items, or is refused."""
    engines.put(data.draw(items()))
    keys = data.draw(wanted_keys())
    request = data.draw(st.just({}) | requests("Projection"))
    engines.agree("BatchGetItem", RequestItems={TABLE: {"Keys": keys, **request}})

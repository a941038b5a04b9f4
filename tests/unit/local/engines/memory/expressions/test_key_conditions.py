import pytest
from support.documents import KEY

from ledger.local.engines.memory.expressions.key_conditions import key_condition
from ledger.local.engines.memory.expressions.placeholders import Placeholders
from ledger.local.engines.memory.items import SortRange
from ledger.local.engines.port import ApiError

VALUES = {":a": {"S": "a"}, ":c": {"S": "b"}, ":n": {"N": "5"}, ":e": {"S": ""}}


def read(expression: str) -> SortRange | None:
    """Give the range of sort keys that a condition of collection a names."""
    condition = key_condition(expression, Placeholders({}, VALUES), KEY)
    assert condition.partition == "a"
    return condition.sort


@pytest.mark.parametrize(
    ("expression", "sort"),
    [
        ("pk=:a", None),
        (":a = pk", None),
        ("(pk=:a)", None),
        ("pk=:a AND sk=:c", SortRange("=", ("b",))),
        ("sk=:c and pk=:a", SortRange("=", ("b",))),
        ("(pk=:a AND sk>=:c)", SortRange(">=", ("b",))),
        ("pk=:a AND :c < sk", SortRange(">", ("b",))),
        ("pk=:a AND begins_with(sk,:c)", SortRange("begins_with", ("b",))),
        ("sk BETWEEN :a AND :c AND pk=:a", SortRange("BETWEEN", ("a", "b"))),
    ],
)
def test_ranges(expression: str, sort: SortRange | None) -> None:
    """The partition key is one value; the sort key a range, whichever side it stands on."""
    assert read(expression) == sort


@pytest.mark.parametrize(
    "expression",
    [
        *("sk=:c", "pk>:a", "begins_with(pk,:a)", "pk=:a AND s=:c", "pk=:a AND pk=:a"),
        *("pk=:a OR sk=:c", "NOT pk=:a", "pk=:a AND sk<>:c", "pk=:a AND sk IN (:c)"),
        *("pk=:a AND contains(sk,:c)", "pk=:a AND attribute_exists(sk)", "((pk=:a))"),
        *("pk=:a AND sk BETWEEN :c AND :a", "pk=:a AND sk BETWEEN :n AND :c", "pk=:n"),
        *("pk=:a AND sk=:n", "pk=:e", "pk=:a AND begins_with(sk,:e)", "pk=sk", "pk=:a AND sk=sk"),
        *("pk=:a AND size(sk)=:n", "pk.x=:a", "pk=:a AND sk[0]=:c", "pk=:a AND sk=:zz"),
        *("pk=:a AND begins_with(:c, sk)", "pk=:a AND begins_with(sk,:n)", "pk=:a AND", ""),
        *("pk=:a AND :c = :c", "pk = :a AND sk > pk"),
    ],
)
def test_refused(expression: str) -> None:
    """What names no collection, or no range of its sort keys, is refused."""
    with pytest.raises(ApiError) as caught:
        read(expression)
    assert caught.value.kind == "ValidationException"

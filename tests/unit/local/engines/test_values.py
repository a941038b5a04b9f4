import pytest

from ledger.local.engines import values
from ledger.local.engines.port import ApiError, TableKey

KEY = TableKey(("pk", "sk"), ("S", "S"))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("1", "1"), ("-0", "0"), ("2.50", "2.5"), ("007", "7"), ("1E2", "100"), ("-1e-3", "-0.001"),
        ("9" * 38, "9" * 38), ("1" + "0" * 50, "1" + "0" * 50), (".5", "0.5"), ("+3", "3"),
    ],
)  # fmt: skip
def test_numbers_are_kept_exactly_in_one_form(given: str, kept: str) -> None:
    """A number comes back without needless zeros and in plain notation, as DynamoDB gives it."""
    assert values.value({"N": given}) == {"N": kept}


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("1" * 39, "38 significant digits"), ("0." + "1" * 39, "38 significant digits"),
        ("1E126", "overflow"), ("1E-131", "underflow"), ("abc", "numeric value"), ("", "numeric"),
        ("NaN", "numeric value"), ("Infinity", "numeric value"), ("1_000", "numeric value"),
    ],
)  # fmt: skip
def test_numbers_that_dynamodb_refuses_are_refused(given: str, rule: str) -> None:
    """39 digits, values out of range, and what is no number, name the rule they break."""
    with pytest.raises(ApiError, match=rule):
        values.value({"N": given})


@pytest.mark.parametrize(
    "wire",
    [
        {}, {"S": "a", "N": "1"}, {"X": "a"}, {"S": 1}, {"N": 1}, {"SS": []}, {"SS": ["a", "a"]},
        {"NS": ["1", "1.0"]}, {"NULL": False}, {"B": "no base64!"}, {"L": [{"N": "x"}]}, "text",
    ],
)  # fmt: skip
def test_malformed_values_are_refused(wire: object) -> None:
    """Anything but one supported type with content of that type is refused."""
    with pytest.raises(ApiError):
        values.value(wire)


def test_nesting_is_bounded() -> None:
    """Documents nested deeper than 32 levels are refused."""
    nested: dict[str, object] = {"S": "a"}
    for _ in range(40):
        nested = {"L": [nested]}
    with pytest.raises(ApiError, match="Nesting"):
        values.value(nested)


@pytest.mark.parametrize(
    ("item", "rule"),
    [
        ({"pk": {"S": "a"}}, "Missing the key sk"),
        ({"pk": {"S": ""}, "sk": {"S": "b"}}, "empty string value. Key: pk"),
        ({"pk": {"N": "1"}, "sk": {"S": "b"}}, "expected: S actual: N"),
        ({"pk": {"S": "a" * 2049}, "sk": {"S": "b"}}, "hashkey has exceeded"),
        ({"pk": {"S": "a"}, "sk": {"S": "b" * 1025}}, "rangekey has exceeded"),
    ],
)
def test_keys_are_checked(item: dict[str, dict[str, str]], rule: str) -> None:
    """A key that is missing, empty, of another type or too long names the rule it breaks."""
    with pytest.raises(ApiError, match=rule):
        values.check_key(KEY, item, whole_item=True)

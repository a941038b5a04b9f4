"""What callers keep under numbers: what is refused, and what counts as the same."""

from typing import Any

import pytest

from ledger.core.entry import AttributeValue, Item
from ledger.core.errors import InvalidInput
from ledger.primitives.sequences.contents import (
    APPEND_MAX,
    check_sizes,
    checked_content,
    checked_contents,
    checked_item,
    digest_of,
)

ALL_KINDS: Item = {
    "text": {"S": "x"},
    "number": {"N": "-1.5E3"},
    "bytes": {"B": b"\x00"},
    "truth": {"BOOL": True},
    "nothing": {"NULL": True},
    "texts": {"SS": ["a", "b"]},
    "numbers": {"NS": ["1", "2"]},
    "pieces": {"BS": [b"a", b"b"]},
    "list": {"L": [{"S": "x"}, {"N": "1"}]},
    "map": {"M": {"inner": {"S": "x"}}},
}


def test_every_kind_of_attribute_is_content() -> None:
    """Content of each of DynamoDB's kinds is taken as it is."""
    assert checked_content(ALL_KINDS) is ALL_KINDS


@pytest.mark.parametrize("name", ["pk", "sk", "~token", "~expires", "~anything"])
def test_content_cannot_take_our_attributes(name: str) -> None:
    """Content that names an attribute of the sequence is refused before anything is sent."""
    with pytest.raises(InvalidInput, match=name):
        checked_content({name: {"S": "x"}})


@pytest.mark.parametrize(
    "content",
    [
        None,
        "text",
        [("title", {"S": "x"})],
        {7: {"S": "x"}},
        {"a": "x"},
        {"a": {}},
        {"a": {"S": 1}},
        {"a": {"N": 1}},
        {"a": {"N": "one"}},
        {"a": {"N": "NaN"}},
        {"a": {"B": "x"}},
        {"a": {"BOOL": 1}},
        {"a": {"SS": "ab"}},
        {"a": {"NS": ["x"]}},
        {"a": {"L": ["x"]}},
        {"a": {"M": {"b": "x"}}},
        {"a": {"X": "x"}},
        {"a": {"S": "x", "N": "1"}},
    ],
)
def test_what_is_no_content_is_refused(content: Any) -> None:
    """Anything that is not in DynamoDB's form is an error of ours that names it."""
    with pytest.raises(InvalidInput, match=r"content must map names to attribute values"):
        checked_content(content)


@pytest.mark.parametrize("contents", [[], [{}] * (APPEND_MAX + 1), None, {"a": {"S": "x"}}, 7])
def test_many_contents_have_bounds(contents: Any) -> None:
    """One append takes a sequence of 1 to 99 contents."""
    with pytest.raises(InvalidInput, match="a sequence of 1 to 99"):
        checked_contents(contents)


def test_sizes_have_bounds() -> None:
    """An item over 400 KB, and items over 4 MB together, are refused with both sizes."""
    with pytest.raises(InvalidInput, match=r"at most 409,600 bytes, got 409,601"):
        check_sizes([{"v": {"S": "x" * 409_600}}])
    large: Item = {"v": {"S": "x" * 400_000}}
    check_sizes([large] * 10)
    with pytest.raises(InvalidInput, match=r"at most 4,194,304 bytes together, got 4,400,011"):
        check_sizes([large] * 11)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"N": "1.50"}, {"N": "15E-1"}),
        ({"N": "100"}, {"N": "1E+2"}),
        ({"N": "-0.0"}, {"N": "0"}),
        ({"SS": ["a", "b"]}, {"SS": ["b", "a"]}),
        ({"NS": ["1.0", "2"]}, {"NS": ["2", "1"]}),
        ({"BS": [b"a", b"b"]}, {"BS": [b"b", b"a"]}),
        ({"L": [{"N": "1.0"}]}, {"L": [{"N": "1"}]}),
        ({"M": {"a": {"N": "1.0"}, "b": {"S": "x"}}}, {"M": {"b": {"S": "x"}, "a": {"N": "1"}}}),
    ],
)
def test_the_same_content_has_the_same_digest(one: AttributeValue, other: AttributeValue) -> None:
    """How a number is written, and the order of a set or map, make no other content."""
    assert digest_of({"a": one, "z": {"S": ""}}) == digest_of({"z": {"S": ""}, "a": other})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([{"a": {"S": "1"}}], [{"a": {"N": "1"}}]),
        ([{"a": {"B": b"x"}}], [{"a": {"S": "eA=="}}]),
        ([{"a": {"L": [{"S": "1"}, {"S": "2"}]}}], [{"a": {"L": [{"S": "2"}, {"S": "1"}]}}]),
        ([{"a": {"SS": ["1"]}}], [{"a": {"L": [{"S": "1"}]}}]),
        ([{"a": {"S": "1"}}, {}], [{}, {"a": {"S": "1"}}]),
        ([{"a": {"BOOL": True}}], [{"a": {"BOOL": False}}]),
    ],
)
def test_other_content_has_another_digest(one: list[Item], other: list[Item]) -> None:
    """Another kind, another order of a list, or another order of contents is other content."""
    assert digest_of(*one) != digest_of(*other)


def test_every_kind_has_a_digest() -> None:
    """Content of each kind has one, and it is that of an equal copy."""
    assert digest_of(ALL_KINDS) == digest_of({name: ALL_KINDS[name] for name in sorted(ALL_KINDS)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pk": None}, "string 'pk'"),
        ({"sk": {"S": ""}}, "string 'sk'"),
        ({"sk": {"N": "1"}}, "string 'sk'"),
        ({"pk": {"S": "~lease~x"}}, "must not begin with '~'"),
        ({"~expires": {"N": "1"}}, "reserved attributes, got ~expires"),
        ({"v": {"S": "x" * 409_600}}, "at most 409,600"),
        ({"v": 7}, "attribute values"),
    ],
)
def test_an_item_of_the_callers_has_a_place_of_its_own(change: Any, message: str) -> None:
    """An item for `put_next` without a place, or among what is ours, is refused."""
    item = {"pk": {"S": "order-1"}, "sk": {"S": "order"}, **change}
    with pytest.raises(InvalidInput, match=message):
        checked_item({name: value for name, value in item.items() if value is not None})
    assert checked_item({"pk": {"S": "order-1"}, "sk": {"S": "order"}})

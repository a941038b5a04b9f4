"""Descriptions: what an attribute may be, how many there may be, and what is read back."""

from decimal import Decimal

import pytest

from ledger.core.descriptions import (
    BYTES_MAX,
    NAMES_MAX,
    attributes_in,
    changed,
    checked,
    description_item,
    description_of,
)
from ledger.core.entry import AttributeValue
from ledger.core.errors import AmountOverflow, DamagedItem, InvalidInput
from ledger.core.keys import counter_of


def test_each_kind_of_value_is_read_as_it_was_set() -> None:
    """Text, whole number, fraction, truth; a whole Decimal comes back as int."""
    values = {"a": "1", "b": 1, "c": Decimal("2.50"), "d": True, "e": "", "f": Decimal(3)}
    after = changed({}, checked(values))
    item = description_item("c", after, "stamp")
    found = description_of(attributes_in(item))
    assert found == {"a": "1", "b": 1, "c": Decimal("2.5"), "d": True, "e": "", "f": 3}
    assert [type(value) for value in found.values()] == [str, int, Decimal, bool, str, int]


def test_attributes_are_set_and_removed_one_by_one() -> None:
    """Those that are not named stay; removing what is not there changes nothing."""
    before = changed({}, checked({"a": 1, "b": 2}))
    after = changed(before, checked({"b": None, "c": 3, "d": None}))
    assert description_of(after) == {"a": 1, "c": 3}


def test_one_true_and_text_differ() -> None:
    """A value of another kind is a change."""
    stored = [checked({"a": value}) for value in (1, True, "1")]
    assert len({str(each) for each in stored}) == 3
    assert stored[0] != stored[1]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"": 1},
        {"a\n": 1},
        {"x" * 65: 1},
        {7: 1},
        {"a": 1.5},
        {"a": [1]},
        {"a": "\ud800"},
        {"a": Decimal("NaN")},
        [("a", 1)],
        None,
    ],
)
def test_what_is_no_attribute_is_refused(asked: object) -> None:
    """Names are 1 to 64 printable bytes, values of four kinds."""
    with pytest.raises(InvalidInput):
        checked(asked)


def test_a_number_beyond_38_digits_is_refused() -> None:
    """DynamoDB would not hold it exactly."""
    with pytest.raises(AmountOverflow):
        checked({"a": 10**38 + 1})


def test_a_counter_has_a_bounded_number_of_attributes() -> None:
    """The error names what is added, and nothing that was there: its caller may not read that."""
    full = changed({}, checked({f"a{number}": 1 for number in range(NAMES_MAX)}))
    assert changed(full, checked({"a0": 2, "a1": None, "b": 1}))
    with pytest.raises(InvalidInput, match=r"may have 16 attributes, and would have more with b$"):
        changed(full, checked({"b": 1}))


def test_attributes_have_a_bounded_size_in_all() -> None:
    """Names and values together, in bytes."""
    assert changed({}, checked({"note": "é" * ((BYTES_MAX - 4) // 2)}))
    with pytest.raises(InvalidInput, match=r"2,048 bytes, and would have more with note$"):
        changed({}, checked({"note": "é" * (BYTES_MAX // 2 - 1)}))


@pytest.mark.parametrize("attributes", [None, {"S": "x"}])
def test_an_item_of_another_form_is_damaged(attributes: dict[str, str] | None) -> None:
    """It is not taken for one without attributes."""
    item = {**description_item("c", {}, "s"), "attributes": attributes or {}}
    with pytest.raises(DamagedItem):
        attributes_in(item)


def test_a_value_of_another_kind_is_not_read() -> None:
    """A list in the map is nothing that the ledger wrote."""
    wrongs: list[AttributeValue] = [{"L": []}, {"N": "x"}, {"N": "1e999"}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=r"\w"):
            description_of({"a": wrong})


def test_a_description_is_no_collection() -> None:
    """Search, verification, exports and the archive pass it by."""
    assert counter_of(description_item("c", {}, "s")["pk"]["S"]) is None

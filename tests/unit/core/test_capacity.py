"""Billing units: the examples of DynamoDB's documentation, and each border by one byte."""

import pytest

from ledger.core.capacity import item_size, read_units, value_size, write_units
from ledger.core.entry import AttributeValue

KB = 1024


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ({"S": ""}, 0),
        ({"S": "abc"}, 3),
        ({"S": "é"}, 2),
        ({"S": "数"}, 3),
        ({"S": "\U0001f600"}, 4),
        ({"B": b""}, 0),
        ({"B": b"\0" * 16}, 16),
        ({"BOOL": True}, 1),
        ({"NULL": True}, 1),
        ({"SS": ["ab", "é"]}, 4),
        ({"NS": ["1", "-1"]}, 5),
        ({"BS": [b"ab", b"c"]}, 3),
        ({"L": []}, 3),
        ({"M": {}}, 3),
        ({"L": [{"S": "ab"}, {"BOOL": False}]}, 3 + 1 + 2 + 1 + 1),
        ({"M": {"ab": {"S": "c"}}}, 3 + 1 + 2 + 1),
        ({"M": {"a": {"L": [{"N": "1"}]}}}, 3 + 1 + 1 + (3 + 1 + 2)),
    ],
)
def test_the_size_of_a_value(value: AttributeValue, size: int) -> None:
    """Text counts its UTF-8, binary its raw bytes, a list or map 3 bytes and 1 an element."""
    assert value_size(value) == size


@pytest.mark.parametrize(
    ("number", "size"),
    [
        ("0", 1),
        ("1", 2),
        ("12", 2),
        ("123", 3),
        ("-123", 4),
        ("100", 2),
        ("0.001", 2),
        ("1.50", 2),
        ("1000.5", 4),
        ("1E+100", 2),
        ("1.2E-100", 2),
        ("9" * 38, 20),
        ("-" + "9" * 38, 21),
    ],
)
def test_the_size_of_a_number(number: str, size: int) -> None:
    """A byte per two significant digits, one more, one for a minus sign, 21 at most."""
    assert value_size({"N": number}) == size


def test_the_documented_item() -> None:
    """The documentation's own example: two attributes, names and values, 23 bytes."""
    assert item_size({"shirt-color": {"S": "R"}, "shirt-size": {"S": "M"}}) == 23


@pytest.mark.parametrize(
    ("size", "units", "transactional"),
    [
        (0, 1, 2),
        (1, 1, 2),
        (512, 1, 2),
        (KB, 1, 2),
        (KB + 1, 2, 4),
        (2 * KB, 2, 4),
        (3 * KB + KB // 2, 4, 8),
        (400 * KB, 400, 800),
    ],
)
def test_a_write_costs_a_unit_for_each_kb_begun(size: int, units: int, transactional: int) -> None:
    """A write costs one unit per KB begun, and double in a transaction."""
    assert write_units(size) == units
    assert write_units(size, transactional=True) == transactional


@pytest.mark.parametrize(
    ("size", "consistent", "eventual", "transactional"),
    [
        (0, 1, 0.5, 2),
        (1, 1, 0.5, 2),
        (4 * KB, 1, 0.5, 2),
        (4 * KB + 1, 2, 1, 4),
        (8 * KB, 2, 1, 4),
        (10 * KB, 3, 1.5, 6),
        (1024 * KB, 256, 128, 512),
    ],
)
def test_a_read_costs_a_unit_for_each_4_kb_begun(
    size: int, consistent: float, eventual: float, transactional: float
) -> None:
    """A read costs one unit per 4 KB begun, half if eventually, double in a transaction."""
    assert read_units(size, consistent=True) == consistent
    assert read_units(size, consistent=False) == eventual
    assert read_units(size, consistent=True, transactional=True) == transactional

"""DynamoDB's billing units, by its documented rules.

Source: Amazon DynamoDB Developer Guide, "DynamoDB item sizes and formats" and "On-demand capacity
mode". A write costs a unit per started KB; a read a unit per started 4 KB, half if eventually
consistent; in a transaction both cost double, and a condition check costs a write. A write to a
global table costs its units again in every replica region.

Pure: no clock, no randomness, no I/O.
"""

import math
from typing import Any

from ledger.core.entry import AttributeValue, Item

WRITE_UNIT_BYTES = 1024
READ_UNIT_BYTES = 4096
_CONTAINER_BYTES = 3
_NUMBER_BYTES_MAX = 21


def item_size(item: Item) -> int:
    """Return the size of an item in bytes: every attribute name and value."""
    size = 0
    for name, value in item.items():
        ((kind, content),) = value.items()
        size += len(name) if name.isascii() else len(name.encode())
        if kind == "S" and content.isascii():  # the common case, and this runs for every item
            size += len(content)
        else:
            size += _size(kind, content)
    return size


def value_size(value: AttributeValue) -> int:
    """Return the size of one attribute value in bytes."""
    ((kind, content),) = value.items()
    return _size(kind, content)


def _size(kind: str, content: Any) -> int:  # noqa: PLR0911 (one line per kind reads best)
    match kind:
        case "S":
            return len(content.encode())
        case "N":
            return _number_size(content)
        case "B":
            return len(content)
        case "SS":
            return sum(len(text.encode()) for text in content)
        case "NS":
            return sum(_number_size(text) for text in content)
        case "BS":
            return sum(len(part) for part in content)
        case "L":
            return _CONTAINER_BYTES + sum(1 + value_size(part) for part in content)
        case "M":
            return _CONTAINER_BYTES + sum(
                1 + len(name.encode()) + value_size(part) for name, part in content.items()
            )
        case _:  # BOOL and NULL
            return 1


def _number_size(text: str) -> int:
    """Return the size of a number: a byte per two significant digits, one more, one for a minus."""
    if text.isdigit():
        return min((len(text.strip("0")) + 1) // 2 + 1, _NUMBER_BYTES_MAX)
    mantissa = text.lstrip("+-").upper().partition("E")[0]
    digits = mantissa.replace(".", "").strip("0") if "." in mantissa else mantissa.strip("0")
    size = (len(digits) + 1) // 2 + 1 + text.startswith("-")
    return min(size, _NUMBER_BYTES_MAX)


def write_units(size: int, *, transactional: bool = False) -> int:
    """Return the units of writing, deleting or checking an item of `size` bytes.

    For a replacement `size` is the larger of old and new; a missing item costs one unit.
    """
    units = -(-size // WRITE_UNIT_BYTES) or 1  # rounded up
    return 2 * units if transactional else units


def read_units(size: int, *, consistent: bool, transactional: bool = False) -> float:
    """Return the units of reading `size` bytes: one item, or a whole page of Query or Scan."""
    whole = max(1, math.ceil(size / READ_UNIT_BYTES))
    if transactional:
        return whole * 2.0
    return float(whole) if consistent else whole / 2

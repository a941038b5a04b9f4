"""Attribute values as they come over the wire: checked, and brought to one form.

Inside, binary values are bytes and numbers are in plain notation without needless zeros, as
DynamoDB returns them. Rules from the Amazon DynamoDB API Reference (AttributeValue) and Developer
Guide ("Constraints in Amazon DynamoDB").

Pure: no clock, no randomness, no I/O.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ledger.core import amounts
from ledger.core.entry import ITEM_BYTES_MAX
from ledger.core.errors import AmountOverflow, InvalidAmount
from ledger.local.engines.port import Image, TableKey, Unfit, invalid

DEPTH_MAX = 32
PARTITION_KEY_BYTES_MAX = 2048
SORT_KEY_BYTES_MAX = 1024
_PLAIN_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}(\.[0-9]{0,17}[1-9])?")
_SETS = {"SS": "S", "NS": "N", "BS": "B"}


def item(wire: Mapping[str, Any]) -> Image:
    """Return the checked form of an item, or of a map of expression values.

    Raises:
        ApiError: ValidationException or SerializationException.
    """
    return _members(wire, 0)


def value(wire: Any, depth: int = 0) -> dict[str, Any]:
    """Return the checked form of one attribute value.

    Raises:
        ApiError: ValidationException.
    """
    if depth > DEPTH_MAX:
        raise invalid("Nesting Levels have exceeded supported limits")
    if not isinstance(wire, dict) or len(wire) != 1:
        raise invalid(
            "Supplied AttributeValue is empty or has more than one datatype, must contain exactly "
            "one of the supported datatypes"
        )
    ((kind, content),) = wire.items()
    if kind == "S" and isinstance(content, str):
        return wire
    if kind == "N":
        return {"N": number(content)}
    return {kind: _content(kind, content, depth)}


def _members(wire: Mapping[str, Any], depth: int) -> Image:
    if "" in wire:
        raise invalid("Empty attribute name")
    return {name: value(content, depth) for name, content in wire.items()}


def _content(kind: str, content: Any, depth: int) -> Any:
    match kind, content:
        case "B", str() | bytes():
            return _binary(content)
        case (("SS" | "NS" | "BS"), list()):
            return _set(kind, content)
        case "L", list():
            return [value(part, depth + 1) for part in content]
        case "M", dict():
            return _members(content, depth + 1)
        case ("BOOL", bool()) | ("NULL", True):
            return content
        case "NULL", _:
            raise invalid(
                "One or more parameter values were invalid: Null attribute value types must have "
                "the value of true"
            )
        case _:
            raise invalid(f"Supplied AttributeValue is not of a supported datatype: {kind[:20]}")


def _set(kind: str, content: list[Any]) -> list[Any]:
    if not content:
        raise invalid(
            f"One or more parameter values were invalid: An {_NAMES[kind]} set  may not be empty"
        )
    members = [next(iter(value({_SETS[kind]: part}).values())) for part in content]
    if len(set(members)) != len(members):
        raise invalid(
            f"One or more parameter values were invalid: Input collection {content} contains "
            "duplicates."
        )
    return members


_NAMES = {"SS": "string", "NS": "number", "BS": "binary"}


def _binary(content: str | bytes) -> bytes:
    if isinstance(content, bytes):
        return content
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error:
        raise invalid("A binary value is not valid base64") from None


def number(text: Any) -> str:
    """Return a number in plain notation, without needless zeros.

    Raises:
        ApiError: not a number, over 38 digits, or out of range.
    """
    if not isinstance(text, str):
        raise invalid("NUMBER_VALUE cannot be converted to String")
    if _PLAIN_NUMBER.fullmatch(text):
        return text
    try:
        parsed = amounts.parse(text if text == text.strip() else "")
    except AmountOverflow:
        raise _overflow(text) from None
    except InvalidAmount:
        raise invalid(
            f"The parameter cannot be converted to a numeric value: {text[:100]}"
        ) from None
    return format(Decimal(amounts.to_text(parsed), amounts.EXACT), "f")


def _overflow(text: str) -> Exception:
    exponent = Decimal(text, amounts.EXACT).adjusted()
    if exponent > amounts.EXPONENT_MAX:
        return invalid(
            "Number overflow. Attempting to store a number with magnitude larger than supported "
            "range"
        )
    if exponent < amounts.EXPONENT_MIN:
        return invalid(
            "Number underflow. Attempting to store a number with magnitude smaller than supported "
            "range"
        )
    return invalid("Attempting to store more than 38 significant digits in a Number")


def check_key(key: TableKey, wire: Mapping[str, Any], *, whole_item: bool) -> None:
    """Check the key attributes of an item, or a bare key, against the schema.

    Raises:
        ApiError: ValidationException.
    """
    if not whole_item and set(wire) != set(key.names):
        raise invalid("The provided key element does not match the schema")
    for position, (name, kind) in enumerate(zip(key.names, key.kinds, strict=True)):
        if name not in wire:
            raise invalid(
                f"One or more parameter values were invalid: Missing the key {name} in the item"
            )
        ((actual, content),) = wire[name].items()
        if actual != kind and not whole_item:
            raise Unfit("The provided key element does not match the schema")
        if actual != kind:
            raise Unfit(
                "One or more parameter values were invalid: Type mismatch for key "
                f"{name} expected: {kind} actual: {actual}"
            )
        check_key_content(name, kind, content, sort=position > 0)


def check_key_content(name: str, kind: str, content: Any, *, sort: bool) -> None:
    """Refuse a key attribute's content that is empty or too long.

    Raises:
        ApiError: ValidationException.
    """
    if kind == "N":
        return
    bytes_max = SORT_KEY_BYTES_MAX if sort else PARTITION_KEY_BYTES_MAX
    size = len(content.encode() if isinstance(content, str) else content)
    if size == 0:
        raise invalid(
            "One or more parameter values are not valid. The AttributeValue for a key attribute "
            f"cannot contain an empty {'string' if kind == 'S' else 'binary'} value. Key: {name}"
        )
    if size > bytes_max:
        which = "rangekey" if sort else "hashkey"
        raise invalid(
            f"One or more parameter values were invalid: Size of {which} has exceeded the maximum "
            f"size limit of{bytes_max} bytes"
        )


def check_size(size: int, *, update: bool = False) -> None:
    """Refuse an item over 400 KB.

    Raises:
        ApiError: ValidationException.
    """
    if size > ITEM_BYTES_MAX:
        what = "Item size to update" if update else "Item size"
        refusal = f"{what} has exceeded the maximum allowed size"
        raise Unfit(refusal) if update else invalid(refusal)

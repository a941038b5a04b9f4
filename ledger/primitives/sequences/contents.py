"""Contents that callers keep under numbers: checked before sending, and recognized in a repeat.

Pure: no clock, no randomness, no I/O.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import InvalidOperation
from typing import Any

from ledger.core import amounts, keys
from ledger.core.capacity import item_size
from ledger.core.entry import ITEM_BYTES_MAX, AttributeValue, Item
from ledger.core.errors import InvalidInput
from ledger.store.writes import TRANSACTION_ACTIONS_MAX

APPEND_MAX = TRANSACTION_ACTIONS_MAX - 1
"""Maximum items of one `append_many`: a transaction has room for their token besides them."""
APPEND_BYTES_MAX = 4 * 1024 * 1024
"""Maximum size of all items of a transaction together.

Source: Amazon DynamoDB API Reference, TransactWriteItems.
"""
_PLACE = frozenset({"pk", "sk"})


def checked_content(content: Mapping[str, AttributeValue]) -> Mapping[str, AttributeValue]:
    """Return what the caller wants to be kept under a number.

    Raises:
        InvalidInput: it is not a mapping of names to DynamoDB's attribute values, or names an
            attribute that is ours. Any that begins with `~` is: an item with the table's time to
            live on it would expire, and its number be given again.
    """
    _check_values("content", content)
    ours = [name for name in content if name in _PLACE or name.startswith(keys.RESERVED)]
    if ours:
        raise InvalidInput(
            f"content must not have reserved attributes, got {', '.join(sorted(ours))}"
        )
    return content


def checked_contents(
    contents: Sequence[Mapping[str, AttributeValue]],
) -> tuple[Mapping[str, AttributeValue], ...]:
    """Return the contents of one `append_many`, in their order.

    Raises:
        InvalidInput: not 1 to 99, or one of them breaks a rule of contents.
    """
    if not isinstance(contents, Sequence) or not 1 <= len(contents) <= APPEND_MAX:
        got = len(contents) if isinstance(contents, Sequence) else repr(contents)
        raise InvalidInput(f"contents must be a sequence of 1 to {APPEND_MAX}, got {got}")
    return tuple(map(checked_content, contents))


def checked_item(item: Item) -> Item:
    """Return an item of the caller's own, with its place, that is to be put under a number.

    Raises:
        InvalidInput: it has no partition or sort key, is among our own items, has an attribute
            of ours, or is over 400 KB.
    """
    _check_values("the item", item)
    for name in sorted(_PLACE):
        if not isinstance(item.get(name, {}).get("S"), str) or not item[name]["S"]:
            raise InvalidInput(f"the item must have a string {name!r}, got {item.get(name)!r}")
    keys.checked_own_partition(item["pk"]["S"])
    if ours := sorted(name for name in item if name.startswith(keys.RESERVED)):
        raise InvalidInput(f"the item must not have reserved attributes, got {', '.join(ours)}")
    check_size(item, what="the item")
    return item


def check_size(item: Item, *, what: str = "content") -> None:
    """Raise for an item over DynamoDB's limit of 400 KB.

    Raises:
        InvalidInput: it is.
    """
    if (size := item_size(item)) > ITEM_BYTES_MAX:
        raise InvalidInput(
            f"{what} must make an item of at most {ITEM_BYTES_MAX:,} bytes, got {size:,}"
        )


def check_sizes(items: Sequence[Item]) -> None:
    """Raise for items that are too large, each or all together, to be put in one transaction.

    Raises:
        InvalidInput: an item is over 400 KB, or all are over 4 MB.
    """
    for item in items:
        check_size(item)
    if (size := sum(map(item_size, items))) > APPEND_BYTES_MAX:
        raise InvalidInput(
            f"contents must make items of at most {APPEND_BYTES_MAX:,} bytes together, got {size:,}"
        )


def digest_of(*contents: Mapping[str, AttributeValue]) -> str:
    """Return the SHA-256, in hex, of contents in their order.

    The order of attributes and of the members of sets, and the notation of numbers, do not matter.
    """
    parts = [{name: _canonical(value) for name, value in content.items()} for content in contents]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(value: AttributeValue) -> Any:  # noqa: PLR0911 (one line per kind)
    ((kind, content),) = value.items()
    match kind:
        case "N":
            return {kind: _number(content)}
        case "B":
            return {kind: _binary(content)}
        case "SS":
            return {kind: sorted(content)}
        case "NS":
            return {kind: sorted(map(_number, content))}
        case "BS":
            return {kind: sorted(map(_binary, content))}
        case "L":
            return {kind: list(map(_canonical, content))}
        case "M":
            return {kind: {name: _canonical(part) for name, part in content.items()}}
        case _:
            return {kind: content}


def _number(text: str) -> str:
    """Return a number in the one notation of the ledger: 1.50 and 15E-1 are the same."""
    return amounts.to_text(amounts.of_text(text))


def _binary(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _check_values(what: str, values: Mapping[str, AttributeValue]) -> None:
    """Raise unless these are attribute names and values in DynamoDB's form."""
    if not isinstance(values, Mapping):
        raise InvalidInput(f"{what} must map names to attribute values, got {values!r:.80}")
    for name, value in values.items():
        if not _is_text(name) or not _is_value(value):
            raise InvalidInput(
                f"{what} must map names to attribute values such as {{'S': 'text'}}, got"
                f" {name!r}: {value!r:.80}"
            )


def _is_value(value: object) -> bool:
    if not isinstance(value, Mapping) or len(value) != 1:
        return False
    ((kind, content),) = value.items()
    is_form = _FORMS.get(kind)
    return is_form is not None and is_form(content)


def _is_text(content: object) -> bool:
    return isinstance(content, str) and _is_utf8(content)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_number(content: object) -> bool:
    if not isinstance(content, str):
        return False
    try:
        return amounts.of_text(content).is_finite()
    except InvalidOperation:
        return False


def _is_binary(content: object) -> bool:
    return isinstance(content, bytes | bytearray)


def _is_truth(content: object) -> bool:
    return isinstance(content, bool)


def _each(is_form: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda content: isinstance(content, list | tuple) and all(map(is_form, content))


def _is_map(content: object) -> bool:
    return isinstance(content, Mapping) and all(
        _is_text(name) and _is_value(part) for name, part in content.items()
    )


_FORMS: Mapping[object, Callable[[object], bool]] = {
    "S": _is_text,
    "N": _is_number,
    "B": _is_binary,
    "BOOL": _is_truth,
    "NULL": _is_truth,
    "SS": _each(_is_text),
    "NS": _each(_is_number),
    "BS": _each(_is_binary),
    "L": _each(_is_value),
    "M": _is_map,
}

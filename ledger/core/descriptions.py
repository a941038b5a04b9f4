"""Descriptions of counters: a few named values, in one item per counter.

The item: pk `~description~` + counter, sk `description`; `attributes`, a map from name to value,
and `stamp`, new at each write, on which a write is conditional.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from decimal import Decimal

from ledger.core import amounts, keys
from ledger.core.entry import AttributeValue, Item, Key, damaged
from ledger.core.errors import InvalidAmount, InvalidInput
from ledger.core.visible import is_visible

NAMES_MAX = 16
"""Attributes of one counter."""
NAME_BYTES_MAX = 64
BYTES_MAX = 2_048
"""Bytes of all names and values of one counter together, as UTF-8."""
_SORT_KEY = "description"

Value = str | int | Decimal | bool
"""Types of an attribute's value."""
Attributes = Mapping[str, AttributeValue]
"""Values as they are stored, so that `1`, `"1"` and `True` differ."""


def description_key(counter: str) -> Key:
    """Return the key of a counter's description."""
    return f"{keys.DESCRIPTION_PREFIX}{counter}", _SORT_KEY


def attributes_in(item: Item | None) -> Attributes:
    """Return the attributes that an item holds, none without one.

    Raises:
        DamagedItem: it holds something else.
    """
    if item is None:
        return {}
    attributes = item.get("attributes", {}).get("M")
    if not isinstance(attributes, Mapping):
        raise damaged(item, "attributes must be a map (M)")
    return attributes


def stamp_in(item: Item | None) -> str | None:
    """Return the stamp of an item, None without an item.

    Raises:
        DamagedItem: it has none.
    """
    if item is None:
        return None
    stamp = item.get("stamp", {}).get("S")
    if not isinstance(stamp, str):
        raise damaged(item, "stamp must be a string (S)")
    return stamp


def description_item(counter: str, attributes: Attributes, stamp: str) -> Item:
    """Return the item of a counter's attributes."""
    pk, sk = description_key(counter)
    return {
        "pk": {"S": pk},
        "sk": {"S": sk},
        "attributes": {"M": dict(attributes)},
        "stamp": {"S": stamp},
    }


def changed(before: Attributes, asked: Mapping[str, AttributeValue | None]) -> Attributes:
    """Return attributes with some set, and those given as None removed.

    An error names what was asked for alone: who may write may not be allowed to read.

    Raises:
        InvalidInput: the result exceeds the limits of a description.
    """
    given = {name: value for name, value in asked.items() if value is not None}
    after = {name: value for name, value in before.items() if name not in asked} | given
    with_given = f"would have more with {', '.join(sorted(given))}"
    if len(after) > NAMES_MAX:
        raise InvalidInput(f"a counter may have {NAMES_MAX} attributes, and {with_given}")
    size = sum(len(f"{name}{_text_of(value)}".encode()) for name, value in after.items())
    if size > BYTES_MAX:
        raise InvalidInput(
            f"the attributes of a counter may have {BYTES_MAX:,} bytes, and {with_given}"
        )
    return after


def checked(asked: object) -> dict[str, AttributeValue | None]:
    """Return a caller's attributes in the form in which they are stored.

    Raises:
        InvalidInput: it is not a mapping, or a name or value breaks a rule.
    """
    if not isinstance(asked, Mapping) or not asked:
        raise InvalidInput(f"attributes must be a mapping of some names to values, got {asked!r}")
    return {_checked_name(name): _stored(name, value) for name, value in asked.items()}


def description_of(attributes: Attributes) -> dict[str, Value]:
    """Return attributes as a caller reads them, by name: whole numbers as int.

    Raises:
        ValueError: one is of another kind.
    """
    return {name: _value(attributes[name]) for name in sorted(attributes)}


def _checked_name(name: object) -> str:
    is_text = isinstance(name, str) and is_visible(name)
    if not is_text or not 0 < len(str(name).encode()) <= NAME_BYTES_MAX:
        raise InvalidInput(
            f"the name of an attribute must have 1 to {NAME_BYTES_MAX} printable bytes, got"
            f" {name!r:.100}"
        )
    return str(name)


def _stored(name: object, value: object) -> AttributeValue | None:
    match value:
        case None:
            return None
        case bool():
            return {"BOOL": value}
        case str():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise InvalidInput(f"{name!r} has an unpaired surrogate: {value!r}") from None
            return {"S": value}
        case int() | Decimal():
            return {"N": amounts.to_text(amounts.exact(value))}
    raise InvalidInput(
        f"the value of {name!r} must be a str, int, Decimal, bool, or None, got {value!r:.100}"
        f" ({type(value).__name__})"
    )


def _value(stored: AttributeValue) -> Value:
    match stored:
        case {"BOOL": bool(value)} | {"S": str(value)}:
            return value
        case {"N": str(text)}:
            try:
                number = amounts.parse(text)
            except InvalidAmount as error:
                raise ValueError(str(error)) from None
            return int(number) if amounts.is_whole(number) else number
    raise ValueError(f"{stored!r:.100} is not a string, number or boolean")


def _text_of(value: AttributeValue) -> str:
    return str(next(iter(value.values())))

"""Keys of markers, their table, and their form as items.

Each marker has its own partition, so that markers sustain as many writes as their counters::

    pk = ~count-marker~~<16 hex digits of SHA-256 of counter and token>~<counter>    sk = <token>

The digest only spreads: counter and token are both in the key, so two pairs never share an item,
and the longest ones fit (DynamoDB takes 2,048 bytes of partition key and 1,024 of sort key).

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal

from ledger.core import amounts, ids
from ledger.core.capacity import item_size
from ledger.core.entry import (
    ITEM_BYTES_MAX,
    AttributeValue,
    Item,
    Key,
    damaged,
    key_of,
    number_of,
)
from ledger.core.errors import AmountOverflow, InvalidAmount, InvalidEntry, InvalidInput
from ledger.core.keys import COUNT_PREFIX, EXPIRES, RESERVED
from ledger.core.tokens import Detail, Marker

MARKER_PREFIX = f"{COUNT_PREFIX}-marker~"
OWN = frozenset({"pk", "sk", "change", "at", "region", "shards"})
"""The attributes of a marker that no detail may have; nor may it have one that begins with `~`."""
DETAIL_NAME_BYTES_MAX = 255
_TABLE_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}")
Attributes = Mapping[str, AttributeValue]


def marker_key(counter: str, token: str) -> Key:
    """Return the key of a token's marker, in its own partition."""
    return f"{MARKER_PREFIX}~{ids.suffix_of(counter, token):016x}~{counter}", token


def checked_table(name: str | None) -> str:
    """Return the name of the markers' table, "" for the counter's.

    Raises:
        InvalidInput: DynamoDB allows no table of this name.
    """
    if name is None:
        return ""
    if not isinstance(name, str) or not _TABLE_NAME.fullmatch(name):
        raise InvalidInput(
            "marker_table must be 3 to 255 letters, digits, '_', '-' or '.', got"
            f" {str(name)[:60]!r}"
        )
    return name


def marker_item(
    key: Key,
    *,
    change: Decimal,
    at: datetime,
    region: str,
    shards: list[int],
    kept_seconds: float | None,
    details: Attributes,
) -> Item:
    """Return the marker of a change: its amount, when, in which region, at which shards.

    Raises:
        InvalidEntry: with its details it is over 400 KB.
    """
    item = {
        **details,
        "pk": {"S": key[0]},
        "sk": {"S": key[1]},
        "change": {"N": amounts.to_text(change)},
        "at": {"S": at.isoformat()},
        "region": {"S": region},
        "shards": {"L": [{"N": str(shard)} for shard in shards]},
    }
    if kept_seconds is not None:
        expires = at + timedelta(seconds=kept_seconds)
        item[EXPIRES] = {"N": str(int(expires.timestamp()))}
    if details and (size := item_size(item)) > ITEM_BYTES_MAX:
        raise InvalidEntry(
            f"details must leave a marker within {ITEM_BYTES_MAX:,} bytes, got {size:,} bytes"
        )
    return item


def marker_of(item: Item) -> Marker:
    """Return the content of a marker.

    Raises:
        DamagedItem: an attribute is missing or of another kind.
    """
    try:
        at = datetime.fromisoformat(item["at"]["S"])
        region = str(item["region"]["S"])
    except (KeyError, TypeError, ValueError):
        raise damaged(item, "a marker must have at and region") from None
    return Marker(
        token=key_of(item)[1],
        change=number_of(item, "change"),
        at=at,
        region=region,
        details={name: _detail(item, name) for name in details_in(item)},
    )


def checked_details(details: object) -> Attributes:
    """Return a caller's details as attributes of a marker.

    Raises:
        InvalidEntry: a name or a value breaks a rule.
        InvalidAmount, AmountOverflow: DynamoDB cannot hold a number exactly.
    """
    if not isinstance(details, Mapping):
        raise InvalidEntry(f"details must be a mapping of names to values, got {details!r}")
    return {_checked_name(name): _attribute(name, value) for name, value in details.items()}


def details_in(item: Item) -> Attributes:
    """Return the attributes of a marker that are its caller's."""
    return {
        name: value
        for name, value in item.items()
        if name not in OWN and not name.startswith(RESERVED)
    }


def same_details(one: Attributes, other: Attributes) -> bool:
    """Return whether details are the same; if either side has none, they do not differ."""
    if not one or not other:
        return True
    return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not 1 <= _bytes(name) <= DETAIL_NAME_BYTES_MAX:
        raise InvalidEntry(
            f"the name of a detail must be text of 1 to {DETAIL_NAME_BYTES_MAX} bytes, got"
            f" {str(name)[:60]!r}"
        )
    if name in OWN or name.startswith(RESERVED):
        raise InvalidEntry(f"the name of a detail must not be one of a marker's own, got {name!r}")
    return name


def _attribute(name: object, value: Detail) -> AttributeValue:
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, str) and _bytes(value) >= 0:
        return {"S": value}
    if isinstance(value, int | Decimal):
        try:
            return {"N": amounts.to_text(amounts.exact(value))}
        except (AmountOverflow, InvalidAmount) as error:
            raise type(error)(f"detail {name!r}: {error}") from None
    raise InvalidEntry(
        f"detail {name!r} must be text, an int, a Decimal or a bool, got {str(value)[:60]!r}"
        f" ({type(value).__name__})"
    )


def _bytes(text: str) -> int:
    """Return how many bytes of UTF-8 a text has; -1 if it cannot be encoded."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return -1


def _detail(item: Item, name: str) -> Detail:
    ((kind, content),) = item[name].items()
    if kind == "N":
        return number_of(item, name)
    if kind in {"S", "BOOL"} and isinstance(content, str | bool):
        return content
    raise damaged(item, f"{name} must be text, a number or a bool")


def _same(one: AttributeValue, other: AttributeValue) -> bool:
    if "N" in one and "N" in other:
        return amounts.of_text(one["N"]) == amounts.of_text(other["N"])
    return one == other

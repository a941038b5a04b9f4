"""Transfers that share one item of a book.

::

    item   ID      change 0, count 2, legs (B): [{"EUR":{"alice":5,"cash":-5}},{"EUR":...}]
    parts  ID.000  alice 5, cash -5
           ID.001  ...

A transfer alone has its legs as a map. Of several the attribute has the bytes of zlib over a JSON
list of such maps: names come again in nearly all of them, so some seventy transfers of two legs fit
in the write unit that one takes. Balances need no more than what all of them together move. A
release that knows no such item finds it damaged, and merges nothing.

Pure: no clock, no randomness, no I/O.
"""

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from ledger.core import amounts, books
from ledger.core.decompression import inflated_text
from ledger.core.errors import InvalidInput
from ledger.core.values import Leg

Legs = tuple[Leg, ...]
TEXT_BYTES_MAX = 8 * 1024
"""Of the JSON of all transfers of an item. A longer transfer shares no item."""


def is_text(parts: str) -> bool:
    """Return whether the text of an item's parts is of transfers, not of amounts."""
    return parts.startswith("[")


def text_of(legs: Iterable[Leg]) -> str:
    """Return one transfer as JSON: asset -> account -> amount, in the order of its legs."""
    by_asset: dict[str, dict[str, Decimal]] = {}
    for account, asset, amount in legs:
        by_asset.setdefault(asset, {})[account] = amount
    return books.json_of(by_asset)


def size_of(text: str) -> int:
    """Return how much of an item's text one of its changes takes, in bytes, with what separates."""
    return len(text.encode()) + 2


def text_in(data: bytes) -> str:
    """Return the text of the transfers in an item's bytes.

    Raises:
        ValueError: they are not in the form of `books.compressed`.
    """
    return inflated_text(data, bytes_max=TEXT_BYTES_MAX)


def are_shared(attributes: Mapping[str, Any]) -> bool:
    """Return whether transfers share the item that has these attributes."""
    return "B" in attributes.get("legs", ())


def transfers_in(text: str) -> list[Legs]:
    """Return the transfers in a text, each in the order of its legs.

    Raises:
        ValueError: it is not a list of transfers, one moves nothing, or the legs of an asset do not
            sum to 0.
    """
    try:
        found = json.loads(text, parse_float=amounts.parse, parse_int=amounts.parse)
        listed = [books.legs_of(one) for one in found]
    except (AttributeError, TypeError, InvalidInput, RecursionError) as error:
        raise ValueError(f"transfers cannot be read: {error!r}") from None
    if not isinstance(found, list) or not listed:
        raise ValueError("transfers must be a list of at least one")
    if not all(isinstance(leg.amount, Decimal) for legs in listed for leg in legs):
        raise ValueError("the amount of a leg must be a number")
    return [books.balanced(legs) for legs in listed]


def legs_in(attribute: Mapping[str, Any]) -> Legs:
    """Return what an item's attribute `legs` moves: its transfer, or all that share it together.

    Raises:
        ValueError: it is of another form, one moves nothing, or an asset's do not sum to 0.
    """
    if "B" not in attribute:
        return books.legs_in(attribute)
    moved = books.AccountSums()
    for legs in transfers_in(text_in(attribute["B"])):
        moved.move(legs)
    return books.legs_of(moved.running())

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
import zlib
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from ledger.core import amounts, books
from ledger.core.decompression import inflated
from ledger.core.errors import InvalidInput
from ledger.core.values import Leg

Legs = tuple[Leg, ...]
TEXT_BYTES_MAX = 8 * 1024
"""Of the JSON of all transfers of an item. A longer transfer shares no item."""
_LEVEL = 6
_NAMES = json.JSONEncoder(ensure_ascii=False)


def is_text(parts: str) -> bool:
    """Return whether the text of an item's parts is of transfers, not of amounts."""
    return parts.startswith("[")


def text_of(legs: Iterable[Leg]) -> str:
    """Return one transfer as JSON: asset -> account -> amount, in the order of its legs."""
    by_asset: dict[str, list[str]] = {}
    for account, asset, amount in legs:
        by_asset.setdefault(asset, []).append(f"{_NAMES.encode(account)}:{amounts.to_text(amount)}")
    return (
        "{"
        + ",".join(
            f"{_NAMES.encode(asset)}:{{{','.join(each)}}}" for asset, each in by_asset.items()
        )
        + "}"
    )


def texts_together(texts: Iterable[str]) -> str:
    """Return the text of transfers that share an item."""
    return f"[{','.join(texts)}]"


def size_of(legs: Iterable[Leg]) -> int:
    """Return how much of an item's text a transfer takes, in bytes, with what separates it."""
    return len(text_of(legs).encode()) + 2


def packed(text: str) -> bytes:
    """Return the bytes that an item has of its transfers."""
    return zlib.compress(text.encode(), _LEVEL)


def text_in(data: bytes) -> str:
    """Return the text of the transfers in an item's bytes.

    Raises:
        ValueError: they are not in the form of `packed`.
    """
    text, rest = inflated(data, bytes_max=TEXT_BYTES_MAX)
    if rest:
        raise ValueError(f"{len(rest)} bytes follow the transfers")
    return text.decode()


def transfers_in(text: str) -> list[Legs]:
    """Return the transfers in a text, each in the order of its legs.

    Raises:
        ValueError: it is not a list of transfers, one moves nothing, or the legs of an asset do not
            sum to 0.
    """
    try:
        found = json.loads(text, parse_float=amounts.parse, parse_int=amounts.parse)
        listed = [
            [
                Leg(account, asset, amount)
                for asset, by_account in one.items()
                for account, amount in by_account.items()
            ]
            for one in found
        ]
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

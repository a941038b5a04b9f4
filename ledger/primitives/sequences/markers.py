"""Markers: items that remember which numbers a caller's token was given.

Each has its own partition, `~sequence~~item~` or `~sequence~~number~` and the token, so that
markers bound no rate; no sequence has a name that begins with `~`, so none has such a partition.
The sort key is the sequence's name.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ledger.core import amounts, keys
from ledger.core.entry import AttributeValue, Item, Key, damaged, number_of
from ledger.primitives.sequences.numbers import NUMBER_MAX, NotNumbered, Numbered

_ITEM_PREFIX = f"{keys.SEQUENCE_PREFIX}~item~"
_NUMBER_PREFIX = f"{keys.SEQUENCE_PREFIX}~number~"


@dataclass(frozen=True, slots=True)
class Marker:
    """The content of a token in a sequence: `content` is a digest, empty for a bare number."""

    sequence: str
    token: str
    kind: Literal["item", "number"]
    content: str = ""

    @property
    def key(self) -> Key:
        """Partition and sort key of the marker's item."""
        prefix = _ITEM_PREFIX if self.kind == "item" else _NUMBER_PREFIX
        return f"{prefix}{self.token}", self.sequence

    def item(self, given: Numbered, *, region: str, expires: datetime | None = None) -> Item:
        """Return the item that records what was given out."""
        item: dict[str, AttributeValue] = {
            "pk": {"S": self.key[0]},
            "sk": {"S": self.key[1]},
            "number": {"N": str(given.number)},
            "count": {"N": str(given.count)},
            "content": {"S": self.content},
            "region": {"S": region},
        }
        if expires is not None:
            item[keys.EXPIRES] = {"N": str(int(expires.timestamp()))}
        return item

    def met(self, found: Item) -> Numbered | NotNumbered:
        """Return the meaning of an existing marker: the numbers given before, or other content.

        Raises:
            DamagedItem: it has no whole number.
        """
        given = given_by(found)
        if found.get("content") == {"S": self.content}:
            return given
        return NotNumbered(
            "token conflict",
            f"token {self.token!r} stands for other content, which has number {given.number}",
        )


def given_by(marker: Item) -> Numbered:
    """Return the numbers that a marker remembers.

    Raises:
        DamagedItem: it has no whole number.
    """
    return Numbered(_whole(marker, "number"), _whole(marker, "count"))


def _whole(marker: Item, name: str) -> int:
    number = number_of(marker, name)
    if not amounts.is_whole(number) or not 1 <= number <= NUMBER_MAX:
        raise damaged(marker, f"{name} {number} is not a whole number from 1")
    return int(number)

"""An offer: what one `append` puts under consecutive numbers, and what answers to it mean.

Markers: items that remember which numbers a caller's token was given.

Each has its own partition, `~sequence~~item~` or `~sequence~~number~` and the token, so that
markers bound no rate; no sequence has a name that begins with `~`, so none has such a partition.
The sort key is the sequence's name.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from ledger.core import amounts, keys
from ledger.core.entry import AttributeValue, Item, Key, damaged, number_of
from ledger.primitives.sequences.numbers import (
    NUMBER_MAX,
    MaybeNumbered,
    NotNumbered,
    Numbered,
    numbered_item,
)
from ledger.store.conditions import Absent
from ledger.store.writes import Put

_ITEM_PREFIX = f"{keys.SEQUENCE_PREFIX}~item~"
_NUMBER_PREFIX = f"{keys.SEQUENCE_PREFIX}~number~"


@dataclass(frozen=True, slots=True)
class NumbersMarker:
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


AfterRace = Literal["query", "add_one"]


@dataclass(frozen=True, slots=True)
class Offer:
    """Contents on their way to numbers; `nonce` identifies the call in each of its items.

    `first` is the number to be offered next, None for the one after the highest. `open` is set
    while an earlier request may yet put the contents there. `added` counts how often one was added.
    """

    contents: tuple[Mapping[str, AttributeValue], ...]
    nonce: str
    marker: NumbersMarker | None = None
    first: int | None = None
    open: MaybeNumbered | None = None
    added: int = 0

    @property
    def count(self) -> int:
        """How many numbers it needs."""
        return len(self.contents)

    def items(self, partition: str, first: int) -> list[Item]:
        """Return the items of these contents under the numbers from this one on."""
        return [
            numbered_item(partition, number, content, token=self.nonce)
            for number, content in enumerate(self.contents, first)
        ]

    def puts(self, partition: str, first: int, *, region: str) -> list[Put]:
        """Return the puts of all items and, at the end, of the marker; each if there is none."""
        items = self.items(partition, first)
        if self.marker is not None:
            items.append(self.marker.item(Numbered(first, self.count), region=region))
        return [Put(item, Absent()) for item in items]

    def taken(self, first: int, *, after_race: AfterRace, added_max: int) -> "Offer":
        """Return the offer after its number turned out to be taken: none of it can land there.

        One is added up to `added_max` times; a call that has lost that many races continues by
        query.
        """
        if after_race == "query" or self.added >= added_max:
            return replace(self, first=None, open=None)
        return replace(self, first=first + 1, open=None, added=self.added + 1)

    def unanswered(self, first: int, cause: str) -> "Offer":
        """Return the offer that stays with its number: earlier requests for it may still land."""
        token = self.nonce if self.marker is None else self.marker.token
        is_callers = self.marker is not None
        maybe = MaybeNumbered(first, token, cause, count=self.count, is_callers=is_callers)
        return replace(self, first=first, open=maybe)

"""An offer: what one `append` puts under consecutive numbers, and what answers to it mean.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from ledger.core.entry import AttributeValue, Item
from ledger.primitives.sequences.markers import Marker
from ledger.primitives.sequences.numbers import MaybeNumbered, Numbered, numbered_item
from ledger.store.conditions import Absent
from ledger.store.writes import Put

AfterRace = Literal["query", "add_one"]


@dataclass(frozen=True, slots=True)
class Offer:
    """Contents on their way to numbers; `nonce` identifies the call in each of its items.

    `first` is the number to be offered next, None for the one after the highest. `open` is set
    while an earlier request may yet put the contents there. `added` counts how often one was added.
    """

    contents: tuple[Mapping[str, AttributeValue], ...]
    nonce: str
    marker: Marker | None = None
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

"""Changes that share one item: a combined entry, and its parts.

::

    item   ID      change 12, count 3, parts "5 -1 8"
    parts  ID.000   5
           ID.001  -1
           ID.002   8

DynamoDB asks a write unit for each KB of an item, so an item of many changes costs as much as one
of one change. Totals and merging read the item's `change` alone, which is the sum of its parts.
Whoever reads single changes expands the item, and checks that.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache

from ledger.core import amounts, ids
from ledger.core.capacity import WRITE_UNIT_BYTES
from ledger.core.errors import AmountOverflow, DamagedItem, InvalidEntry, InvalidInput
from ledger.core.values import Entry

_NOTHING = Decimal(0)
PARTS_MAX = 1_000
"""Changes of one item: a place has three digits."""
PART_ENDS = [ids.part_id("", place) for place in range(PARTS_MAX)]
"""How the ids of an item's changes end."""
SUMS_KEPT = 2_048
"""Texts of items to be written again whose sums are kept: some 2 MB."""
ATTRIBUTE_BYTES = 128
"""All of an item but its counter and the text of its parts, at most: names and values of key with
the number of a shard, sum of 38 digits, count, and a region whose name has up to 29 bytes.
"""


def text_room(counter: str) -> int:
    """Return how many characters the parts of a counter's item may take, so that it costs one unit.

    None remain if the counter's id is too long: then each change is an item of its own.
    """
    return max(0, WRITE_UNIT_BYTES - ATTRIBUTE_BYTES - len(counter.encode()))


def parts_text(changes: Iterable[Decimal]) -> str:
    """Return amounts as an item has them: in canonical form, with one space between."""
    return " ".join(map(amounts.to_text, changes))


class GatheredParts:
    """Changes of one counter that gather for an item, in their order."""

    __slots__ = ("_are_short", "_room", "_texts", "change", "counter")

    def __init__(self, counter: str) -> None:
        self.counter = counter
        self.change = _NOTHING
        self._texts: list[str] = []
        self._room = text_room(counter)
        self._are_short = True

    def take(self, change: Decimal) -> bool:
        """Take one more; return False if it has no room, or the sum would not fit in 38 digits.

        The first change always has room.
        """
        text, texts = amounts.to_text(change), self._texts
        room = self._room - len(text)
        are_short = self._are_short and len(text) <= amounts.SHORT_CHARACTERS and "E" not in text
        if texts:
            if room < 0 or len(texts) >= PARTS_MAX:
                return False
            change = amounts.EXACT.add(self.change, change)
            try:
                change = change if are_short else amounts.within_range(change)
            except AmountOverflow:
                return False
        self.change, self._room, self._are_short = change, room - 1, are_short
        texts.append(text)
        return True

    @property
    def size(self) -> int:
        """The number of changes."""
        return len(self._texts)

    @property
    def text(self) -> str:
        """Their amounts, as an item has them."""
        return " ".join(self._texts)


def part_of(whole: Entry, place: int, change: Decimal, *, parts: str = "") -> Entry:
    """Return one change of an item; with the item's `parts` it may be written again."""
    return Entry(
        whole.counter,
        ids.part_id(whole.id, place),
        change,
        whole.region,
        shard=whole.shard,
        repeated=whole.repeated,
        key=whole.key,
        parts=parts,
    )


def parts_of(whole: Entry, changes: Iterable[Decimal]) -> list[Entry]:
    """Return the changes of an item, by their amounts, as `part_of` does."""
    counter, id_, region, shard = whole.counter, whole.id, whole.region, whole.shard
    repeated, key = whole.repeated, whole.key
    return [
        Entry(counter, id_ + end, change, region, None, None, 1, shard, None, repeated, None, key)
        for end, change in zip(PART_ENDS, changes, strict=False)
    ]


def expanded(entry: Entry) -> list[Entry]:
    """Return the changes of an entry as it was read: its parts, or itself.

    Raises:
        DamagedItem: the parts are not amounts in canonical form, as many as the entry counts, or
            they do not add up to its change.
    """
    if not entry.parts:
        return [entry]
    return parts_of(entry, changes_in(entry))


def checked_item(entry: Entry) -> Entry:
    """Return an entry as it was read, if its parts can be.

    Raises:
        DamagedItem: as `expanded`.
    """
    if entry.parts:
        changes_in(entry)
    return entry


def changes_in(entry: Entry) -> list[Decimal]:
    """Return the amounts of the parts of an item.

    Raises:
        DamagedItem: as `expanded`.
    """
    changes = _amounts_in(entry.parts)
    if (len(changes), amounts.total_wide(changes)) != (entry.count, entry.change):
        raise DamagedItem(
            f"item {entry.id!r} of counter {entry.counter!r} is damaged: its parts must be"
            f" {entry.count} amounts that add up to {amounts.to_text(entry.change)}, got"
            f" {entry.parts[:100]!r}"
        )
    return changes


def _amounts_in(text: str) -> list[Decimal]:
    """Return the amounts in what `parts_text` wrote; none of any other text."""
    texts = text.split(" ")
    if len(texts) > PARTS_MAX:
        return []
    try:
        changes = [amounts.parse(one) for one in texts]
    except InvalidInput:
        return []
    return changes if parts_text(changes) == text else []


@lru_cache(SUMS_KEPT)
def _summed(text: str) -> tuple[int, Decimal]:
    """Return number and sum of the amounts in a text; 0 of any other than `parts_text` wrote.

    Or of one with an amount that no call adds to a counter. Kept, since a repeat asks several
    times, for each of the changes that share an item.
    """
    try:
        changes = [amounts.addend(change) for change in _amounts_in(text)]
    except AmountOverflow:
        changes = []
    return len(changes), amounts.total_wide(changes)


def whole_of(entry: Entry) -> Entry:
    """Return the item that an entry is written as: of a part, all that share its item.

    Raises:
        InvalidEntry: it is a part of an item of which nothing else is known: it was acknowledged
            with the others, and is never written again. Or it has `parts` that it is not one of,
            or the sum of, or it says more than an amount.
        AmountOverflow: the sum of its `parts` does not fit in 38 digits.
    """
    item_id, place = ids.split(entry.id)
    if not entry.parts and place is None:
        return entry
    if not entry.parts:
        raise InvalidEntry(
            f"entry {entry.id} was acknowledged, or read: it is there, and is never written again"
        )
    count, change = _summed(entry.parts)
    texts = entry.parts.split(" ") if place is not None and place < count else []
    own = (count, change) if place is None else (1, amounts.parse(texts[place]) if texts else None)
    is_own = count and own == (entry.count, entry.change)
    said = entry.note, entry.effective, entry.reverses, entry.spending, entry.metadata
    if not is_own or said != (None,) * 5 or entry.legs:
        what = "the sum" if place is None else f"change {place}"
        raise InvalidEntry(
            f"entry {entry.id} must be {what} of its parts, and say nothing else, got"
            f" {entry.parts[:100]!r}"
        )
    return replace(entry, id=item_id, change=amounts.within_range(change), count=count)


def part_like(whole: Entry, asked: Entry) -> Entry:
    """Return the change of an item that was asked for: the item itself, or one of its parts."""
    _, place = ids.split(asked.id)
    return whole if place is None else part_of(whole, place, asked.change)


def part_named(whole: Entry, name: str) -> Entry | None:
    """Return the change of an item as read that an id names; None if the item has no such.

    Raises:
        DamagedItem: as `expanded`.
        InvalidEntry: the id is that of an item with parts, and names none of them.
    """
    _, place = ids.split(name)
    if place is None and whole.parts:
        last = ids.part_id(whole.id, whole.count - 1)
        raise InvalidEntry(
            f"entry {whole.id} of {whole.counter!r} has {whole.count} changes: name one,"
            f" {ids.part_id(whole.id, 0)} to {last}"
        )
    if place is None:
        return whole
    changes = expanded(whole) if whole.parts else []
    return changes[place] if place < len(changes) else None

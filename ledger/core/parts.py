"""Changes that share one item: a combined entry, and its parts.

::

    item   ID      change 12, count 3, parts "5 -1 8"
    parts  ID.000   5
           ID.001  -1
           ID.002   8

DynamoDB asks a write unit for each KB of an item, so an item of many changes costs as much as one
of one change. Totals and merging read the item's `change` alone, which is the sum of its parts.
Whoever reads single changes expands the item, and checks that.

In a book the parts are transfers, each with its legs (`ledger.core.transfers`); an item's change
is 0, as that of each.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from ledger.core import amounts, books, ids, transfers
from ledger.core.capacity import WRITE_UNIT_BYTES
from ledger.core.errors import AmountOverflow, DamagedItem, InvalidEntry, InvalidInput
from ledger.core.transfers import Legs
from ledger.core.values import Entry

Part = Decimal | Legs
"""What one change adds: an amount to a counter, or legs to the accounts of a book."""
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


def part_text(part: Part) -> str:
    """Return how an item has a change: as an amount in canonical form, or a transfer as JSON."""
    return transfers.text_of(part) if isinstance(part, tuple) else amounts.to_text(part)


def joined(texts: Sequence[str]) -> str:
    """Return the changes of an item as it has them: amounts with one space between, or a list."""
    if texts and texts[0].startswith("{"):
        return f"[{','.join(texts)}]"
    return " ".join(texts)


def parts_text(parts: Iterable[Part]) -> str:
    """Return changes as an item has them."""
    return joined([part_text(part) for part in parts])


class Gathered:
    """Changes of one counter that gather for an item, in their order: all amounts, or transfers."""

    __slots__ = ("change", "counter", "texts")

    def __init__(self, counter: str) -> None:
        self.counter = counter
        self.change = _NOTHING
        self.texts: list[str] = []

    def take(self, part: Any) -> bool:
        """Take one more, of the kind of the first; return False if it has no room.

        The first change always has room.
        """
        raise NotImplementedError

    @property
    def size(self) -> int:
        """The number of changes."""
        return len(self.texts)

    @property
    def text(self) -> str:
        """The changes, as an item has them."""
        return joined(self.texts)


class GatheredTransfers(Gathered):
    """Transfers of one book that gather for an item, in their order."""

    __slots__ = ("_bytes_max", "_packed_bytes", "_text_bytes")

    def __init__(self, counter: str) -> None:
        super().__init__(counter)
        self._text_bytes = 2
        self._packed_bytes = 0
        """As far as it is known: what came since it was packed last counts as it is."""
        self._bytes_max = text_room(counter)

    def take(self, legs: Legs) -> bool:
        """Take one more; return False if it has no room. The first always has."""
        text = transfers.text_of(legs)
        size = len(text.encode()) + 1
        packed = self._packed_bytes + size
        if self.texts:
            if self._text_bytes + size > transfers.TEXT_BYTES_MAX or self.size >= PARTS_MAX:
                return False
            if packed > self._bytes_max:
                packed = len(books.compressed(joined([*self.texts, text])))
            if packed > self._bytes_max:
                return False
        self.texts.append(text)
        self._text_bytes += size
        self._packed_bytes = packed
        return True


class GatheredParts(Gathered):
    """Amounts of one counter that gather for an item, in their order."""

    __slots__ = ("_are_short", "_room")

    def __init__(self, counter: str) -> None:
        super().__init__(counter)
        self._room = text_room(counter)
        self._are_short = True

    def take(self, change: Decimal) -> bool:
        """Take one more; return False if it has no room, or the sum would not fit in 38 digits.

        The first change always has room.
        """
        text, texts = amounts.to_text(change), self.texts
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


def gathering(counter: str, part: Part) -> Gathered:
    """Return what gathers changes for an item, with its first."""
    made: Gathered = (GatheredTransfers if isinstance(part, tuple) else GatheredParts)(counter)
    made.take(part)
    return made


def part_of(whole: Entry, place: int, part: Part, *, parts: str = "") -> Entry:
    """Return one change of an item; with the item's `parts` it may be written again."""
    return replace(parts_of(whole, [part], first=place)[0], parts=parts)


def parts_of(whole: Entry, parts: Iterable[Part], *, first: int = 0) -> list[Entry]:
    """Return the changes of an item in their order, from one on, as they are when acknowledged."""
    counter, id_, region, shard = whole.counter, whole.id, whole.region, whole.shard
    repeated, key = whole.repeated, whole.key
    made, ends = list[Entry](), PART_ENDS[first:] if first else PART_ENDS
    for end, part in zip(ends, parts, strict=False):
        is_book = isinstance(part, tuple)
        change, legs = (_NOTHING, part) if is_book else (part, ())
        said = None, None, 1, shard, None, repeated, None, key, "", legs
        made.append(Entry(counter, id_ + end, change, region, *said))  # type: ignore[arg-type]
    return made


def expanded(entry: Entry) -> list[Entry]:
    """Return the changes of an entry as it was read: its parts, or itself.

    Raises:
        DamagedItem: the parts are not amounts, or transfers, in canonical form, as many as the
            entry counts, or they do not add up to its change.
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


def changes_in(entry: Entry) -> Sequence[Part]:
    """Return what each change of an item adds.

    Raises:
        DamagedItem: as `expanded`.
    """
    parts = _read(entry.parts)
    if (len(parts), _sum_of(parts)) != (entry.count, entry.change):
        what = "transfers" if transfers.is_text(entry.parts) else "amounts"
        raise DamagedItem(
            f"item {entry.id!r} of counter {entry.counter!r} is damaged: its parts must be"
            f" {entry.count} {what} that add up to {amounts.to_text(entry.change)}, got"
            f" {entry.parts[:100]!r}"
        )
    return parts


def part_texts(entry: Entry) -> list[str]:
    """Return how each change of an item is written; of what cannot be read the whole text."""
    if not transfers.is_text(entry.parts):
        return entry.parts.split(" ")
    parts = _read(entry.parts)
    return [part_text(part) for part in parts] or [entry.parts]


def _sum_of(parts: Iterable[Part]) -> Decimal:
    return amounts.total_wide(_NOTHING if isinstance(part, tuple) else part for part in parts)


def _read(text: str) -> Sequence[Part]:
    """Return the changes in what `parts_text` wrote; none of any other text."""
    try:
        parts = transfers.transfers_in(text) if transfers.is_text(text) else _amounts_in(text)
    except ValueError:
        return []
    return parts if len(parts) <= PARTS_MAX and parts_text(parts) == text else []


def _amounts_in(text: str) -> list[Part]:
    texts = text.split(" ", PARTS_MAX)
    return [amounts.parse(one) for one in texts]


@lru_cache(SUMS_KEPT)
def _asked(text: str) -> tuple[Sequence[Part], Decimal]:
    """Return the changes in a text, and their sum; none of any other than `parts_text` wrote.

    Or of one with a change that no call makes. Kept, since a repeat asks several times, for each of
    the changes that share an item.
    """
    is_long = len(text.encode(errors="replace")) > transfers.TEXT_BYTES_MAX
    parts = [] if is_long else _read(text)
    try:
        checked = [_checked(part) for part in parts]
    except InvalidInput:
        checked = []
    return checked, _sum_of(checked)


def _checked(part: Part) -> Part:
    return books.checked_legs(part) if isinstance(part, tuple) else amounts.addend(part)


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
    parts, change = _asked(entry.parts)
    whole = replace(entry, id=item_id, change=change, count=len(parts), legs=())
    own = [whole] if place is None else parts_of(whole, parts[place : place + 1], first=place)
    asked = replace(entry, legs=books.checked_legs(entry.legs)) if entry.legs else entry
    said = entry.note, entry.effective, entry.reverses, entry.spending, entry.metadata
    if not parts or own != [asked] or said != (None,) * 5:
        what = "the sum" if place is None else f"change {place}"
        raise InvalidEntry(
            f"entry {entry.id} must be {what} of its parts, and say nothing else, got"
            f" {entry.parts[:100]!r}"
        )
    amounts.within_range(change)
    return whole


def part_like(whole: Entry, asked: Entry) -> Entry:
    """Return the change of an item that was asked for: the item itself, or one of its parts."""
    _, place = ids.split(asked.id)
    return whole if place is None else part_of(whole, place, part_in(asked))


def part_in(asked: Entry) -> Part:
    """Return what a change adds."""
    return books.ordered(asked.legs) if asked.legs else asked.change


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

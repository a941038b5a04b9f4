"""What a call asked for, change by change, and the items that it is written as.

Several changes may share an item. The call writes items; its caller gets the entries of the changes
that were asked for, in order, also in the error of an unknown outcome.
"""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import compress
from operator import not_
from typing import Any, NamedTuple, cast

from ledger.core import amounts, ids, keys, transfers
from ledger.core.books import checked_legs
from ledger.core.entry import entry_id
from ledger.core.errors import InvalidEntry, InvalidInput, OutcomeUnknown
from ledger.core.fold import Portions
from ledger.core.own_keys import list_suffix
from ledger.core.parts import (
    Gathered,
    Part,
    gathering,
    joined,
    part_in,
    part_of,
    part_text,
    whole_of,
)
from ledger.core.tokens import one_spelling
from ledger.core.transfers import Legs
from ledger.core.values import Entry, Spending
from ledger.settings import Settings
from ledger.writes.entry_plan import (
    Change,
    GroupedChange,
    PlannedEntry,
    checked_key,
    grouped_parts,
    time_of,
)
from ledger.writes.planner import Planner

LISTED_MAX = 100
"""Changes of one counter in a list with a key that share an item. It is a part of the format: a
repeat by another release must make the same items.
"""
_KINDS: Mapping[str, Any] = {
    "region": str | None,
    "note": str | None,
    "effective": date | None,
    "count": int,
    "reverses": str | None,
    "spending": Spending | None,
    "parts": str,
}
"""Of what fields of an entry are that is written again, and that nothing else checks."""
WHOLES_AT_ONCE = 4
"""Items of a call that are checked in one turn of the loop: full ones take 1.5 ms together."""


class PartPlace(NamedTuple):
    """Where a change is: the number of its item, and its place there if it shares the item."""

    item: int
    part: int | None = None
    change: Part = Decimal(0)

    def entry(self, whole: Entry, *, is_open: bool = False) -> Entry:
        """Return the change, of the item as it was written; an open one may be repeated."""
        if self.part is None:
            return whole
        return part_of(whole, self.part, self.change, parts=whole.parts if is_open else "")


@dataclass(frozen=True, slots=True)
class AskedParts:
    """The items of a call, and the place of each change in them; None if none are shared."""

    planned: Sequence[PlannedEntry]
    places: Sequence[PartPlace] | None

    async def answered(self, written: Awaitable[Sequence[Entry]]) -> list[Entry]:
        """Return the entries of the changes once their items are written.

        Raises:
            OutcomeUnknown: with the changes whose items are not confirmed.
        """
        if self.places is None:
            return list(await written)
        try:
            items = await written
        except OutcomeUnknown as error:
            open_items = {(item.counter, item.id): item for item in error.entries}
            error.entries = tuple(
                place.entry(item, is_open=True)
                for place in self.places
                if (item := open_items.get(self._item(place))) is not None
            )
            raise
        return [place.entry(items[place.item]) for place in self.places]

    def _item(self, place: PartPlace) -> tuple[str, str]:
        entry = self.planned[place.item].entry
        return entry.counter, entry.id


def shared_legs(change: Change, settings: Settings) -> Legs | None:
    """Return the legs of a transfer that shares an item with others of its book; else None.

    It says nothing else, the contract combines the book, and an item has room for its text.

    Raises:
        InvalidInput: a leg breaks a rule.
    """
    if change.legs is None or change.change or not change.says_nothing:
        return None
    if not (settings.is_book(change.counter) and settings.combines(change.counter)):
        return None
    legs = checked_legs(change.legs)
    return legs if transfers.size_of(part_text(legs)) <= transfers.TEXT_BYTES_MAX else None


def plan_changes(changes: Sequence[Change], planner: Planner, settings: Settings) -> AskedParts:
    """Plan changes; those of a combined counter that say nothing else share items, in their order.

    Raises:
        InvalidInput: a change breaks a rule; nothing was planned.
        ContractConflict: as `Planner.plan`.
    """
    if not settings.combine:
        return AskedParts(_plan_alone(changes, planner), None)
    legs = [shared_legs(change, settings) for change in changes]
    is_shared = [change.is_plain or its for change, its in zip(changes, legs, strict=True)]
    planned = [planner.plan(each) for each in compress(changes, map(not_, is_shared))]
    plain, alone = _PlainChanges(settings, first=len(planned)), iter(range(len(planned)))
    places = [
        plain.take(change, its) if shared else PartPlace(next(alone))
        for change, its, shared in zip(changes, legs, is_shared, strict=True)
    ]
    return AskedParts([*planned, *planner.plan_group(plain.grouped())], places)


@dataclass(frozen=True, slots=True)
class ListedChanges:
    """Changes that have one key together: the items that they are, and the place of each."""

    items: Sequence[Entry]
    places: Sequence[PartPlace]

    @staticmethod
    def of(changes: Sequence[Change], key: str | None, at: datetime | None) -> "ListedChanges":
        """Return changes that have one key; those of each counter share items, in their order.

        Whatever the contract combines, and however long the amounts are: a repeat makes the same
        items. They have no region yet.

        Raises:
            InvalidInput: a change breaks a rule, or says more than an amount or the legs of a
                transfer; or `at` has no key.
            AmountOverflow: the sum of an item does not fit in 38 digits.
        """
        if key is None:
            raise InvalidEntry("at belongs to a key, and with it makes ids: give both, or neither")
        key = one_spelling(checked_key(key))
        lists, places, numbers = list[_List](), list[PartPlace](), list[tuple[str, int]]()
        last: dict[str, int] = {}
        for change in changes:
            counter, part, text = _listed_part(change)
            item = last.get(counter)
            if item is None or not lists[item].has_room(text):
                numbers.append((counter, 0 if item is None else numbers[item][1] + 1))
                last[counter] = item = len(lists)
                lists.append(_List())
            places.append(PartPlace(item, lists[item].take(part, text), part))
        items = [
            Entry(
                counter,
                str(entry_id(time_of(counter, key, at), list_suffix(counter, key, number))),
                listed.change(counter),
                count=len(listed.texts),
                key=key,
                parts=joined(listed.texts),
            )
            for (counter, number), listed in zip(numbers, lists, strict=True)
        ]
        return ListedChanges(items, places)

    def entries(self) -> list[Entry]:
        """Return the entries of the changes, as they may be repeated."""
        return [place.entry(self.items[place.item], is_open=True) for place in self.places]


class _List:
    """Changes of one counter that share an item of a list with a key."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._amounts: list[Decimal] = []
        self._room = transfers.TEXT_BYTES_MAX
        """Of which a hundred amounts take half."""

    def has_room(self, text: str) -> bool:
        """Return whether the item takes one more."""
        return len(self.texts) < LISTED_MAX and transfers.size_of(text) <= self._room

    def take(self, part: Part, text: str) -> int:
        """Take one more; return its place."""
        self._room -= transfers.size_of(text)
        self._amounts += [] if isinstance(part, tuple) else [part]
        self.texts.append(text)
        return len(self.texts) - 1

    def change(self, counter: str) -> Decimal:
        """Return the change of the item: the sum of amounts, 0 of transfers.

        Raises:
            InvalidEntry: some changes are amounts, and others transfers.
            AmountOverflow: the sum does not fit in 38 digits.
        """
        if 0 < len(self._amounts) < len(self.texts):
            raise InvalidEntry(f"changes of {counter!r} must be all amounts, or all transfers")
        return amounts.total(self._amounts)


def _listed_part(change: Change) -> tuple[str, Part, str]:
    """Return the counter of a change, what it adds, and how an item has that.

    Raises:
        InvalidInput: it breaks a rule, says more, or is too long.
    """
    counter = keys.checked_new_counter(change.counter)
    if not change.says_nothing or (change.legs is not None and change.change):
        raise InvalidEntry(
            f"change of {counter!r}: in a list with a key each change is an amount alone, or the"
            f" legs of a transfer, without note, date, metadata, key or time, got {change!r:.200}"
        )
    part: Part = amounts.addend(change.change) if change.legs is None else checked_legs(change.legs)
    text = part_text(part)
    if (size := transfers.size_of(text)) > transfers.TEXT_BYTES_MAX:
        raise InvalidEntry(
            f"transfer in {counter!r}: in a list with a key it must have at most"
            f" {transfers.TEXT_BYTES_MAX:,} bytes as JSON, got {size:,}: give it a key of its own"
        )
    return counter, part, text


def _plan_alone(changes: Sequence[Change], planner: Planner) -> list[PlannedEntry]:
    """Plan changes that share no item, by a fast path if they are only amounts."""
    if not all(change.is_plain for change in changes):
        return [planner.plan(change) for change in changes]
    checked, addend = keys.checked_new_counter, amounts.addend
    return planner.plan_group(
        [(checked(change.counter), addend(change.change), 1, "") for change in changes]
    )


def plan_again(entries: Iterable[object], planner: Planner) -> Portions[AskedParts]:
    """Plan to write again the items of entries, in portions: each may have a thousand changes.

    Raises:
        InvalidInput: something is no entry.
        InvalidEntry: one was acknowledged with others in its item, or read there.
        RetryHorizonPassed: too late to repeat one.
        ContractConflict: as `Planner.replan`.
    """
    asked, wholes = _checked(entries), list[Entry]()
    for entry in asked:
        wholes.append(whole_of(entry))
        if len(wholes) % WHOLES_AT_ONCE == 0:
            yield
    planned = planner.replan(wholes)
    places = [
        PartPlace(item, ids.split(entry.id)[1], part_in(entry)) for item, entry in enumerate(asked)
    ]
    return AskedParts(planned, places)


class _PlainChanges:
    """Changes that say nothing else, as they share items or have items of their own."""

    def __init__(self, settings: Settings, *, first: int) -> None:
        """Take the number of the first item."""
        self._settings = settings
        self._first = first
        self._items: list[GroupedChange | Gathered] = []
        self._open: dict[str, tuple[int, Gathered]] = {}

    def take(self, change: Change, legs: Legs | None) -> PartPlace:
        """Take one more, with the legs if it is a transfer; return its place.

        Raises:
            InvalidInput: its counter or its amount breaks a rule.
        """
        counter, amount = keys.checked_new_counter(change.counter), amounts.addend(change.change)
        if not self._settings.combines(counter):
            return PartPlace(self._add((counter, amount, 1, "")))
        part: Part = legs or amount
        item, gathered = self._open.get(counter, (0, None))
        if gathered is None or not gathered.take(part):
            gathered = gathering(counter, part)
            item = self._add(gathered)
            self._open[counter] = item, gathered
        return PartPlace(item, gathered.size - 1, part)

    def _add(self, item: GroupedChange | Gathered) -> int:
        self._items.append(item)
        return self._first + len(self._items) - 1

    def grouped(self) -> list[GroupedChange]:
        """Return what the items are planned from."""
        return [item if isinstance(item, tuple) else grouped_parts(item) for item in self._items]


def _checked(entries: Iterable[object]) -> list[Entry]:
    rule = "entries must be a list of the entries of an OutcomeUnknown"
    try:
        listed = list(entries)
    except TypeError:
        raise InvalidInput(f"{rule}, got {entries!r}") from None
    for entry in listed:
        if not isinstance(entry, Entry):
            raise InvalidInput(f"{rule}, got {entry!r} in it")
        for name, kind in _KINDS.items():
            if not isinstance(value := getattr(entry, name), kind):
                raise InvalidInput(f"{rule}, got one whose {name} is {value!r:.100}")
        if entry.count != 1 and not entry.parts:
            raise InvalidInput(f"{rule}, got one of {entry.count} changes without their parts")
    return cast("list[Entry]", listed)

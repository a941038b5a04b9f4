"""What a call asked for, change by change, and the items that it is written as.

Several changes may share an item. The call writes items; its caller gets the entries of the changes
that were asked for, in order, also in the error of an unknown outcome.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple, cast

from ledger.core import amounts, ids, keys
from ledger.core.errors import InvalidInput, OutcomeUnknown
from ledger.core.fold import Portions
from ledger.core.parts import GatheredParts, part_of, whole_of
from ledger.core.values import Entry
from ledger.writes.entry_plan import Change, GroupedChange, PlannedEntry, grouped_parts
from ledger.writes.planner import Planner

WHOLES_AT_ONCE = 16
"""Items that are checked in one turn of the loop: full ones take some 6 ms together."""


class PartPlace(NamedTuple):
    """Where a change is: the number of its item, and its place there if it shares the item."""

    item: int
    part: int | None = None
    change: Decimal = Decimal(0)

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


def plan_changes(
    changes: Sequence[Change], planner: Planner, is_combined: Callable[[str], bool]
) -> AskedParts:
    """Plan changes; the plain ones of a combined counter share items, in their order.

    Raises:
        InvalidInput: a change breaks a rule; nothing was planned.
        ContractConflict: as `Planner.plan`.
    """
    counters = {change.counter for change in changes}
    if not any(map(is_combined, counters)):
        return AskedParts(_plan_alone(changes, planner), None)
    planned = [planner.plan(change) for change in changes if not change.is_plain]
    plain, alone = _PlainChanges(is_combined, first=len(planned)), iter(range(len(planned)))
    places = [
        plain.take(change) if change.is_plain else PartPlace(next(alone)) for change in changes
    ]
    return AskedParts([*planned, *planner.plan_group(plain.grouped())], places)


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
        PartPlace(item, ids.split(entry.id)[1], entry.change) for item, entry in enumerate(asked)
    ]
    return AskedParts(planned, places)


class _PlainChanges:
    """Changes that are only amounts, as they share items or have items of their own."""

    def __init__(self, is_combined: Callable[[str], bool], *, first: int) -> None:
        """Take the number of the first item."""
        self._is_combined = is_combined
        self._first = first
        self._items: list[GroupedChange | GatheredParts] = []
        self._open: dict[str, tuple[int, GatheredParts]] = {}

    def take(self, change: Change) -> PartPlace:
        """Take one more; return its place.

        Raises:
            InvalidInput: its counter or its amount breaks a rule.
        """
        counter, amount = keys.checked_new_counter(change.counter), amounts.addend(change.change)
        if not self._is_combined(counter):
            return PartPlace(self._add((counter, amount, 1, "")))
        item, gathered = self._open.get(counter, (0, None))
        if gathered is None or not gathered.take(amount):
            gathered = GatheredParts(counter)
            gathered.take(amount)
            item = self._add(gathered)
            self._open[counter] = item, gathered
        return PartPlace(item, gathered.size - 1, amount)

    def _add(self, item: GroupedChange | GatheredParts) -> int:
        self._items.append(item)
        return self._first + len(self._items) - 1

    def grouped(self) -> list[GroupedChange]:
        """Return what the items are planned from."""
        return [
            grouped_parts(item) if isinstance(item, GatheredParts) else item for item in self._items
        ]


def _checked(entries: Iterable[object]) -> list[Entry]:
    rule = "entries must be a list of the entries of an OutcomeUnknown"
    try:
        listed = list(entries)
    except TypeError:
        raise InvalidInput(f"{rule}, got {entries!r}") from None
    for entry in listed:
        if not isinstance(entry, Entry):
            raise InvalidInput(f"{rule}, got {entry!r} in it")
    return cast("list[Entry]", listed)

"""The item of a set of slots: its two forms, and the updates that take slots and give them back.

::

    plain      slots = {a, b}                                    2 slots are taken, one by each
    counted    slots = {a, b}, slot~c = 3, filled = 5            c holds 3

A set is plain until a token takes another number of slots than one: then it is counted, for good.
Each update has a condition on the form that it is for, and the one that makes a plain set counted
on the number of its members too, so it finds them all counted. A token of one slot is in `slots`,
any other an attribute of its own: no token is both, so a condition on either knows how many it
holds.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Self

from ledger.core import amounts
from ledger.core.entry import AttributeValue, Item, Key, number_of
from ledger.primitives.counters.thresholds import edge_of
from ledger.store.conditions import (
    AllOf,
    AnyOf,
    Compares,
    Condition,
    Contains,
    Equals,
    Has,
    Not,
    Shorter,
)
from ledger.store.writes import Update

SLOTS = "slots"
FILLED = "filled"
_HOLDER = "slot~"
"""Before a token in the name of its attribute."""
ONE = Decimal(1)


@dataclass(frozen=True, slots=True)
class SlotSet:
    """The content of an item: how many slots each token holds, and whether it is counted."""

    singles: AbstractSet[str] = frozenset()
    holders: dict[str, Decimal] = field(default_factory=dict)
    counted: Decimal | None = None

    @classmethod
    def of(cls, item: Item | None) -> Self:
        """Read an item; one that is not there is an empty set.

        Raises:
            DamagedItem: it has an invalid number.
        """
        found = item or {}
        return cls(
            frozenset(found.get(SLOTS, {}).get("SS", ())),
            {
                name.removeprefix(_HOLDER): number_of(found, name)
                for name in found
                if name.startswith(_HOLDER)
            },
            number_of(found, FILLED) if FILLED in found else None,
        )

    @property
    def is_counted(self) -> bool:
        """Whether the item has the number of slots taken."""
        return self.counted is not None

    @property
    def filled(self) -> Decimal:
        """How many slots are taken."""
        return Decimal(len(self.singles)) if self.counted is None else self.counted

    @property
    def tokens(self) -> int:
        """How many tokens hold slots."""
        return len(self.singles) + len(self.holders)

    def held(self, token: str) -> Decimal:
        """Return how many slots a token holds, 0 for none."""
        return ONE if token in self.singles else self.holders.get(token, Decimal(0))

    def has_room(self, size: Decimal, maximum: Decimal | None) -> bool:
        """Return whether this many more can be taken."""
        return maximum is None or amounts.total_wide([self.filled, size]) <= maximum


COUNTED = SlotSet(counted=Decimal(0))
"""The guess of a counted set, of which nothing else is known."""


def taking(
    key: Key, token: str, size: Decimal, *, maximum: Decimal | None, seen: SlotSet
) -> Update:
    """Return the update by which a token takes slots in a set of the form seen.

    Only to make a plain set counted has `seen` to be what the item showed, with room in it.

    Raises:
        AmountOverflow: maximum and size, or the number taken, are beyond 38 digits.
    """
    if seen.is_counted:
        return _taking_counted(key, token, size, maximum)
    if size != ONE:
        return _counting(key, token, size, seen)
    free: tuple[Condition, ...] = ()
    if maximum is not None:
        free = (AnyOf((Not(Has(SLOTS)), Shorter(SLOTS, int(maximum)))),)
    return Update(
        key,
        add={SLOTS: {"SS": [token]}},
        condition=AllOf((Not(Has(FILLED)), *free, Not(Contains(SLOTS, {"S": token})))),
    )


def _taking_counted(key: Key, token: str, size: Decimal, maximum: Decimal | None) -> Update:
    free: Condition = Has(FILLED)
    if maximum is not None:
        free = Compares(FILLED, "<=", _number(edge_of("maximum", maximum, size)))
    absent = (Not(Contains(SLOTS, {"S": token})), Not(Has(_HOLDER + token)))
    singles = {SLOTS: {"SS": [token]}} if size == ONE else {}
    return Update(
        key,
        add={FILLED: _number(size), **singles},
        set={} if size == ONE else {_HOLDER + token: _number(size)},
        condition=AllOf((free, *absent)),
    )


def _counting(key: Key, token: str, size: Decimal, seen: SlotSet) -> Update:
    """Return the update that makes a plain set counted; other members may come, not more of them.

    A member that took the place of another since holds one slot as well.
    """
    members = len(seen.singles)
    same: Condition = Not(Has(SLOTS))
    if members:
        same = AllOf((Shorter(SLOTS, members + 1), Not(Shorter(SLOTS, members))))
    absent = Not(Contains(SLOTS, {"S": token}))
    filled = amounts.total([seen.filled, size])
    return Update(
        key,
        set={FILLED: _number(filled), _HOLDER + token: _number(size)},
        condition=AllOf((Not(Has(FILLED)), same, absent)),
    )


def giving_back(key: Key, token: str, seen: SlotSet) -> Update:
    """Return the update that gives back the slots that a token was seen to hold."""
    size = seen.held(token)
    holds: Condition = Contains(SLOTS, {"S": token})
    if size != ONE:
        holds = Equals(_HOLDER + token, _number(size))
    form = Has(FILLED) if seen.is_counted else Not(Has(FILLED))
    return Update(
        key,
        add={FILLED: _number(size.copy_negate())} if seen.is_counted else {},
        discard={SLOTS: {"SS": [token]}} if size == ONE else {},
        remove=() if size == ONE else (_HOLDER + token,),
        condition=AllOf((form, holds)),
    )


def bytes_of(token: str, size: Decimal) -> int:
    """Return how many bytes a token takes in the item, at most."""
    return len(token.encode()) + (0 if size == ONE else len(_HOLDER) + len(amounts.to_text(size)))


def _number(number: Decimal) -> AttributeValue:
    return {"N": amounts.to_text(number)}

"""Entries and net changes as plain values.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

from ledger.core import ids
from ledger.core.ids import EntryId

Made = TypeVar("Made")


class Leg(NamedTuple):
    """What a transfer moves into an account of a book, in one asset; out of it if negative."""

    account: str
    asset: str
    amount: Decimal


def names_no_grant(name: str) -> bool:
    """Return whether the name of a grant says which holder would have paid, and that none did."""
    return name.partition("@")[0].endswith("/0")


@dataclass(frozen=True, slots=True)
class Spending:
    """What an entry says of the budgets that it was spent from (`ledger.budgets`).

    `grants` are the names of the grants that pay for it. `hold` is when a hold expires, in whole
    seconds since 1970, `resolved` how it ended: settled, void or expired; of what was let through,
    whether it was charged. `until` is the last time at which a request for it may be signed: known
    where it was made, None of what was read.
    """

    grants: tuple[str, ...] = ()
    hold: int | None = None
    resolved: str | None = None
    until: datetime | None = field(default=None, compare=False, repr=False)

    @property
    def is_over(self) -> bool:
        """Whether it was let through while no grant could be had: then it names none."""
        return bool(self.grants) and names_no_grant(self.grants[0])

    @property
    def is_resolvable(self) -> bool:
        """Whether it is changed once more after it was written: a hold, or what was let through."""
        return self.hold is not None or self.is_over

    @property
    def region(self) -> str | None:
        """The region whose grants pay: only through it is the entry written. None without any."""
        return self.grants[0].partition(".")[0] if self.grants else None

    @property
    def budgets(self) -> tuple[str, ...]:
        """The budgets beside the entry's own that its grants are of."""
        return tuple(sorted(name.partition("@")[2] for name in self.grants))


def quickly_made(made: type[Made]) -> type[Made]:
    """Let a frozen dataclass with slots be made as fast as one that is not frozen.

    The `__init__` of a frozen one makes a call for each field. This one has the same parameters,
    and sets the fields as a plain class does: while it runs, the instance is of one with the same
    slots. A subclass is made as before. Only for classes without `__post_init__`, whose fields are
    all parameters by position and have no factory.
    """
    names = [one.name for one in fields(made)]  # type: ignore[arg-type]
    given = ", ".join(names)
    lines = (
        f"def __init__(self, {given}):",
        " if self.__class__ is not made:",
        f"  return generated(self, {given})",
        " set_class(self, opened)",
        *(f" self.{name} = {name}" for name in names),
        " self.__class__ = made",
    )
    generated: Any = made.__init__
    space: dict[str, Any] = {
        "made": made,
        "generated": generated,
        "opened": type(made.__name__, (), {"__slots__": names}),
        "set_class": object.__dict__["__class__"].__set__,
    }
    exec("\n".join(lines), space)  # noqa: S102 (as dataclasses do; all of it is ours)
    init = space["__init__"]
    init.__defaults__, init.__annotations__ = generated.__defaults__, generated.__annotations__
    init.__qualname__ = generated.__qualname__
    type.__setattr__(made, "__init__", init)
    return made


@quickly_made
@dataclass(frozen=True, slots=True)
class Entry:
    """One change of one counter.

    `id` is its sort key; `at` the time in it, None for an entry that another tool wrote under a
    key of its own. `region` is where it was written, `effective` the date from which it applies.
    `shard` is its shard among the collections of its counter, where every repeat goes; None if
    unknown. `reverses` is the id of the entry that it reverses, if it is a reversal. `repeated` is
    whether the call that returned it found it in the table, written by an earlier call or an
    earlier try of this one.
    `spending` says which budgets it was spent from, if any. `key` is what its id follows from, if
    the call that made it knows: the caller's, or one that the service made. It is never stored, so
    it proves who wrote the entry (`ledger.core.own_keys`).

    One of several changes that share an item has the id `ID.nnn`: the item's id and its place
    there. Calls return such entries, each with its own amount, or legs. `parts` has the changes of
    the whole item, as `ledger.core.parts` writes them, where the item may be written again: in an
    `OutcomeUnknown`. An item itself, as compactors read it, has its sum and their `count`.

    `legs` are those of a transfer in a book, whose `change` is 0, by asset and account. `metadata`
    is what its caller named.
    """

    counter: str
    id: str
    change: Decimal
    region: str | None = None
    note: str | None = None
    effective: date | None = None
    count: int = 1
    shard: int | None = field(default=None, compare=False, repr=False)
    reverses: str | None = None
    repeated: bool = field(default=False, compare=False, repr=False)
    spending: Spending | None = field(default=None, compare=False)
    key: str | None = field(default=None, compare=False, repr=False)
    parts: str = field(default="", compare=False, repr=False)
    legs: tuple[Leg, ...] = ()
    metadata: Mapping[str, str] | None = field(default=None, hash=False)

    @property
    def at(self) -> datetime | None:
        """The time of the change, aware, in UTC; None for a foreign entry."""
        parsed = ids.parse_named(self.id)
        return parsed.at if parsed else None


def same_change(ours: Entry, theirs: Entry) -> bool:
    """Return whether two entries of one id are the same change; their regions may differ."""
    return _said(ours) == _said(theirs)


def _said(entry: Entry) -> tuple[object, ...]:
    return (
        *(entry.change, entry.note, entry.effective, entry.count, entry.reverses, entry.parts),
        *(entry.legs, entry.metadata),
    )


def same_call(ours: Entry, theirs: Entry) -> bool:
    """Return whether an entry that was found is what a call asked for, perhaps an earlier one.

    A hold, a spend from other budgets and a change that no budget pays for are not the same.
    """
    return _is_same_kind(ours.spending, theirs.spending) and same_asked(ours, theirs)


def _is_same_kind(ours: Spending | None, theirs: Spending | None) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    if (ours.hold is None) != (theirs.hold is None):
        return False
    return ours.budgets == theirs.budgets


def same_asked(ours: Entry, theirs: Entry) -> bool:
    """Return whether an entry has what a call asked for, whatever pays for it.

    Of a hold that was resolved meanwhile the amount is what it came to; the archive keeps nothing
    of how an entry was paid for.
    """
    is_resolved = theirs.spending is None or theirs.spending.resolved is not None
    if is_resolved and ours.spending is not None and ours.spending.hold is not None:
        ours = replace(ours, change=theirs.change)
    return same_change(ours, theirs)


@dataclass(frozen=True, slots=True)
class NetChange:
    """The item that replaces merged entries of one collection.

    `merged` holds the ids of entries that it counts and that may still be visible somewhere;
    `version` is new at each write; only the region `home` may write it. `periods` are its sums by
    period, as `ledger.core.periods` writes them; `archive` says where its entries are kept, as
    `ledger.core.archive_pointers` writes it; `accounts` are the balances of a book, as
    `ledger.core.books` packs them. Each is None if there are none.
    """

    change: Decimal
    count: int
    merged: Sequence[EntryId]
    version: str
    until: str
    home: str
    generation: int = 1
    periods: str | None = None
    archive: bytes | None = None
    accounts: bytes | None = None

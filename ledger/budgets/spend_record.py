"""What an entry says of the grants that paid for it, and when it may be folded.

A spend is an entry with `change` = -amount and `grant`: the name of its grant, or a list of several
(key, team, organization: one entry for all). A hold has `hold` too, its expiry in whole seconds
since 1970, and once it is resolved `resolved`: how; by another than its owner also `adjusted`: the
versions of the rights items that were written with that, and `held`: what was. What was let through
names no grant, only whose holder it is to be charged to; it is resolved in the same way, once it
is charged.

A grant that cannot be closed by its owner is closed by its entries. So as long as it is open they
have to be there: an entry is folded only once *every* region shows each grant it names as closed.
Shown so by the grant's own region alone it is not enough: where that region is lost before the
others know, they take the grant for unused.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal, get_args

from ledger.budgets.rights import NO_GRANT, GrantName, Holder, Rights
from ledger.core import amounts
from ledger.core.entry import (
    ADJUSTED,
    GRANT,
    HELD,
    HOLD,
    RESOLVED,
    AttributeValue,
    Item,
    damaged,
    number_of,
    spending_attributes,
)
from ledger.core.values import Spending, names_no_grant
from ledger.store.conditions import Condition, Equals

WAITING_MAX = 16
"""How many grants of an item that are over may wait until all regions show their entries alike."""

Resolution = Literal["settled", "void", "expired", "charged"]
_RESOLUTIONS: Mapping[str, Resolution] = {how: how for how in get_args(Resolution)}
View = Mapping[tuple[str, Holder], Rights]
"""The rights items that one region shows, by budget and holder; "" is the entry's own counter."""


@dataclass(frozen=True, slots=True)
class SpendRecord:
    """An entry that names grants: what it takes of each, below 0 if it gives back.

    `hold` is when it expires, in whole seconds since 1970, of an amount that is kept aside and
    counts at once; `resolved` says how that ended. Where what it came to was charged apart
    `adjusted` names the rights items that were written with it, by the versions that they got, as a
    grant is, and `held` is the amount that it had before.
    """

    id: str
    amount: Decimal
    grants: tuple[GrantName, ...]
    hold: int | None = None
    resolved: Resolution | None = None
    adjusted: tuple[GrantName, ...] = ()
    held: Decimal | None = None

    @property
    def is_open_hold(self) -> bool:
        """Whether it is a hold that can still be settled or voided."""
        return self.hold is not None and self.resolved is None

    @property
    def is_over(self) -> bool:
        """Whether it was let through: no grant pays for it."""
        return self.grants[0].version == NO_GRANT

    @property
    def is_open(self) -> bool:
        """Whether it is still to be resolved: an open hold, or let through and not charged."""
        return self.resolved is None and (self.hold is not None or self.is_over)

    @property
    def names(self) -> tuple[GrantName, ...]:
        """Whatever it names: the grants that paid, and the items that were charged apart."""
        return (*self.grants, *self.adjusted)

    def named_in(self, counter: str) -> "SpendRecord":
        """Return the spend of an entry of this counter, with the budget of each name it has."""
        grants, adjusted = (
            tuple(replace(name, budget=name.budget or counter) for name in names)
            for names in (self.grants, self.adjusted)
        )
        return replace(self, grants=grants, adjusted=adjusted)


def spend_attributes(spend: SpendRecord) -> dict[str, AttributeValue]:
    """Return what an entry has beside its own attributes (`ledger.core.entry.entry_item`)."""
    names = tuple(str(name) for name in spend.grants)
    attributes = spending_attributes(Spending(names, spend.hold, spend.resolved))
    if spend.adjusted:
        attributes[ADJUSTED] = {"L": [{"S": str(written)} for written in spend.adjusted]}
    if spend.held is not None:
        attributes[HELD] = {"N": amounts.to_text(spend.held)}
    return attributes


def change_of(amount: Decimal) -> AttributeValue:
    """Return the change of an entry that spends an amount."""
    return {"N": amounts.to_text(amount.copy_negate())}


def as_read(spend: SpendRecord) -> tuple[Condition, Condition]:
    """Return the conditions that an entry names these grants, and counts as much.

    Of a key that was used in two regions another copy may arrive, which names others.
    """
    names = Equals(GRANT, spend_attributes(spend)[GRANT])
    return names, Equals("change", change_of(spend.amount))


def spend_of(item: Item) -> SpendRecord | None:
    """Return what an entry says of its grants; None if it names none.

    Raises:
        DamagedItem: an attribute is of another kind.
    """
    if GRANT not in item:
        return None
    try:
        hold = int(item[HOLD]["N"]) if HOLD in item else None
        names = _texts(item[GRANT])
        grants = tuple(GrantName.parse(name) for name in names)
        resolved = _RESOLUTIONS[item[RESOLVED]["S"]] if RESOLVED in item else None
        adjusted = tuple(map(GrantName.parse, _texts(item[ADJUSTED]) if ADJUSTED in item else ()))
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(item, f"a spend must name its grants: {error}") from None
    amount = number_of(item, "change").copy_negate()
    held = number_of(item, HELD) if HELD in item else None
    return SpendRecord(item["sk"]["S"], amount, grants, hold, resolved, adjusted, held)


def is_open(item: Item) -> bool:
    """Return whether an entry is open (`SpendRecord.is_open`); not all of it is read."""
    if RESOLVED in item or GRANT not in item:
        return False
    if HOLD in item:
        return True
    grant = item[GRANT]
    parts = [grant] if "S" in grant else grant.get("L", [])
    return bool(parts) and names_no_grant(str(parts[0].get("S")))


def charge_of(spends: Iterable[SpendRecord], name: GrantName) -> Decimal:
    """Return what the entries that name a grant come to, below 0 if they gave back more.

    Raises:
        AmountOverflow: it does not fit in 38 digits.
    """
    return amounts.total(spend.amount for spend in spends if name in spend.grants)


def held_of(spends: Iterable[SpendRecord], name: GrantName) -> Decimal:
    """Return what the holds keep that name a grant and are open.

    Raises:
        AmountOverflow: it does not fit in 38 digits.
    """
    return charge_of((spend for spend in spends if spend.is_open_hold), name)


def charge_unagreed(spends: Iterable[SpendRecord], name: GrantName) -> Decimal:
    """Return what a grant is charged that is closed before regions agree (`to_close_unagreed`).

    What gives back is left out: under a key that was used in two regions both would credit it.

    Raises:
        AmountOverflow: it does not fit in 38 digits.
    """
    return charge_of((spend for spend in spends if spend.amount > 0), name)


def agree(name: GrantName, views: Mapping[str, Sequence[SpendRecord]]) -> bool:
    """Return whether all regions show the entries of a grant alike.

    Where one key was spent in two regions at once the last writer wins, under one of two grants. A
    region that has not got it yet would charge it under the other. So a grant is closed by reading
    only once all agree, and what gives back (a refund, a settled hold) is never credited twice.
    """
    shown = [
        frozenset(spend for spend in spends if name in spend.grants) for spends in views.values()
    ]
    return all(view == shown[0] for view in shown)


def shows_closed(view: View, name: GrantName) -> bool:
    """Return whether a region shows a grant as closed: its item is as new, and has it no more.

    Or the holder was lost, and all that it had open was counted when its rights were minted again.
    """
    item = view.get((name.budget, name.holder))
    return (item is not None and item.shows_closed(name.version)) or _is_reclaimed(view, name)


def may_fold(spend: SpendRecord, views: Mapping[str, View]) -> bool:
    """Return whether an entry that all regions show alike may be folded, by its grants and hold.

    `views` has every region. An open hold is never folded: it could not be settled any more; one
    that was charged apart only once every region shows that charge, too. So it is with what was
    let through: no other process knows that it is to be charged.
    """
    if spend.is_open:
        return False
    return all(
        (spend.is_over or all(shows_closed(view, name) for name in spend.grants))
        and all(_shows(view, written) for written in spend.adjusted)
        for view in views.values()
    )


def _shows(view: View, written: GrantName) -> bool:
    """Return whether a region shows this version of an item, or a later one.

    Of a budget without a limit, whose item none is, there is nothing to show. The version of a lost
    item may never have arrived: once the holder is reclaimed the entry was counted for it.
    """
    item = view.get((written.budget, written.holder))
    is_there = item is not None and item.version >= written.version
    return written.version == NO_GRANT or is_there or _is_reclaimed(view, written)


def _is_reclaimed(view: View, name: GrantName) -> bool:
    items = (item for (budget, _), item in view.items() if budget == name.budget)
    return any(name.holder in item.reclaimed for item in items)


def to_close_unagreed(over: Iterable[int]) -> tuple[int, ...]:
    """Return which of the grants that are over are closed although regions do not agree yet.

    The oldest beyond `WAITING_MAX`, by what their own region shows (`charge_unagreed`): a key that
    was spent in two regions at once may then be charged twice, never less than once. Else an item
    would grow without bound while a region is away.
    """
    waiting = sorted(over)
    return tuple(waiting[: max(0, len(waiting) - WAITING_MAX)])


def _texts(value: AttributeValue) -> list[str]:
    parts = [value] if "S" in value else value["L"]
    if not parts:
        raise ValueError("the list of grants is empty")
    return [str(part["S"]) for part in parts]

"""Rights items as a restore took them, and what they are once all that names them is counted.

An item may be older than entries of its grants, than what others took of it, and than what it took
itself, and newer than a hold that it was charged for. So it is given what is missing, and rid of
what comes too early:

- what was spent under grants that it does not know, or of which it knows less: it is charged, or
  granted, and no new grant has the name of a used one;
- what others show to have taken of it: it has sent that;
- what it took, if no item shows that any more: it comes out as a debt. Other holders have as much
  free that was spent already. It is sent to the debtor, from holders that have some: who had given
  it cannot be seen, and makes no difference;
- what a hold came to more or less than was held, where the table shows it open: it is resolved once
  more, so the item has it as held (`Rights.resolved`).

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from ledger.budgets.rights import NO_GRANT, GrantName, Holder, Rights, added
from ledger.budgets.rights_plan import GrantGone, adjust, excess_of, held_with, reclaim
from ledger.budgets.rolling_limits import dated, has_left
from ledger.budgets.spend_record import SpendRecord, charge_of
from ledger.core import amounts

_ZERO = Decimal(0)
Items = Mapping[Holder, Rights]
Taken = Mapping[Holder, Mapping[Holder, Decimal]]


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """By how much more a holder has charged or granted, sent and taken than it showed."""

    charged: Decimal
    sent: Decimal
    taken: Decimal

    @staticmethod
    def of(before: Rights, after: Rights) -> "RestorePlan":
        """Return what became of an item."""
        was = amounts.total_wide((before.charged, before.granted))
        return RestorePlan(
            amounts.total_wide((after.charged, after.granted, was.copy_negate())),
            _more(before.sent, after.sent),
            _more(before.taken, after.taken),
        )


@dataclass(frozen=True, slots=True)
class RestoredEntries:
    """What entries say that items may not.

    `spends` are those that name a later version than an item's, or one of its open grants;
    `reopened` those of holds that are open, though an item says that they were resolved.
    """

    spends: Sequence[SpendRecord]
    reopened: Sequence[SpendRecord] = ()


def plan_restore(
    items: Items, entries: RestoredEntries, taken: Taken, budget: str, now: float
) -> list[Rights]:
    """Return the items of a budget that change, in the order in which they are to be written.

    `items` are all that there are and may be made, `taken` what others show to have taken, by
    giver; `now` is in seconds since 1970. Each is one write. Holders that owe come last: what is
    sent to it is in flight until then, and if the rest is not written the next count finds it
    there.

    Raises:
        AmountOverflow: a sum does not fit in 38 digits.
    """
    counted: dict[Holder, Rights] = {}
    spends = entries.spends
    for holder, item in items.items():
        after = counted_item(item, entries, taken.get(holder, {}), budget, now)
        if after is not None:
            counted[holder] = after
    all_items = {**items, **counted}
    debtors = [one for one in sorted(all_items) if _left(all_items[one], spends, budget) < 0]

    def has(giver: Rights, debtor: Holder) -> Decimal:
        """Return what may be sent: where nothing was missing its grants may be at work."""
        return _left(giver, spends, budget) if debtor in counted else giver.available

    covered = _cover(all_items, debtors, has, spends, budget)
    changed = {holder: item for holder, item in covered.items() if item != items[holder]}
    order = [*sorted(changed.keys() - {*debtors}), *sorted(changed.keys() & {*debtors})]
    return [
        dated(replace(changed[holder], version=changed[holder].version + 1), now)
        for holder in order
    ]


def takers(items: Items) -> Taken:
    """Return what items show that others have taken of each holder."""
    taken: dict[Holder, dict[Holder, Decimal]] = {}
    for taker, item in items.items():
        for giver, amount in item.taken.items():
            taken.setdefault(giver, {})[taker] = amount
    return taken


def counted_item(
    item: Rights,
    entries: RestoredEntries,
    taken: Mapping[Holder, Decimal],
    budget: str,
    now: float,
) -> Rights | None:
    """Return an item that knows all that names it; None if it does already.

    It has the last version that anything names.

    Raises:
        AmountOverflow: a sum does not fit in 38 digits.
    """
    spends, shown = entries.spends, item
    item = _reopened(item, entries.reopened, budget)
    missing: dict[str, Decimal] = {}
    held: list[Decimal] = []
    last = item.version
    for spend in spends:
        versions = _versions(spend, item.holder, budget)
        last = max(last, *versions)
        if max(versions) > item.version and not _is_open(item, spend, budget):
            missing[spend.id] = _missing(item, spend, budget)
            held.append(_held(item, spend, budget))
    returned = [less for entry, less in missing.items() if less < 0 and has_left(item, entry, now)]
    sent = {taker: max(amount, item.sent.get(taker, _ZERO)) for taker, amount in taken.items()}
    grants = dict(item.grants)
    for version, grant in item.grants.items():
        excess = excess_of(item, version, charge_of(spends, _name(item, version, budget)))
        if excess:  # it was topped up
            grants[version] = replace(grant, amount=amounts.total((grant.amount, excess)))
    after = replace(
        item,
        version=last,
        charged=amounts.total((item.charged, *missing.values())),
        held=held_with(item, *held),
        returned=amounts.total((item.returned, *returned)),
        sent={**item.sent, **{taker: amount for taker, amount in sent.items() if amount}},
        grants=grants,
    )
    return None if after == shown else after


def _reopened(item: Rights, holds: Iterable[SpendRecord], budget: str) -> Rights:
    """Return an item without what it was charged for holds that are to be resolved once more."""
    for hold in holds:
        done = item.resolved.get(hold.id)
        if done is None:
            continue
        version = max(_versions(hold, item.holder, budget))
        less, held = done.amount.copy_negate(), hold.amount.copy_negate()
        before = adjust(item, version, less, held=held if version else _ZERO, over=True)
        assert isinstance(before, Rights)  # noqa: S101 (`over`: it is never short)
        if done.amount < 0 and version not in item.grants and has_left(item, hold.id, done.at):
            before = replace(before, returned=amounts.total((before.returned, less)))
        others = {entry: one for entry, one in item.resolved.items() if entry != hold.id}
        item = replace(before, version=item.version, resolved=others)
    return item


def _missing(item: Rights, spend: SpendRecord, budget: str) -> Decimal:
    """Return what an item was not charged of an entry that names a later version of it.

    Of a hold that was charged apart the difference, if what was held is charged: its grant is
    closed, or another holder's.
    """
    if spend.held is None or max(_paid_by(item, spend, budget)) > item.version:
        return spend.amount
    return amounts.total((spend.amount, spend.held.copy_negate()))


def _held(item: Rights, spend: SpendRecord, budget: str) -> Decimal:
    """Return what an item has not as held for an entry; below 0 if it was charged apart since."""
    paid_by = max(_paid_by(item, spend, budget))
    if paid_by > item.version:
        return spend.amount if spend.is_open_hold else _ZERO
    return spend.held.copy_negate() if spend.held is not None and paid_by else _ZERO


def _paid_by(item: Rights, spend: SpendRecord, budget: str) -> list[int]:
    """Return the versions of an item that granted what an entry took; 0 for none."""
    return [NO_GRANT, *(n.version for n in spend.grants if _is_of(n, item.holder, budget))]


def _cover(
    items: Items,
    debtors: Sequence[Holder],
    has: Callable[[Rights, Holder], Decimal],
    spends: Sequence[SpendRecord],
    budget: str,
) -> Items:
    """Return the items after what debtors owe was sent to them, as far as others have it."""
    after = dict(items)
    for debtor in debtors:
        after[debtor] = _taken_up(debtor, after)
    for debtor in debtors:
        for holder in sorted(after):
            owed = _left(after[debtor], spends, budget).copy_negate()
            if owed <= 0:
                break
            giver = _taken_up(holder, after)
            amount = min(owed, has(giver, debtor))
            if amount <= 0 or holder in after[debtor].cut or debtor in giver.cut:
                continue
            sent = added(giver.sent, debtor, amount)
            after[holder] = replace(giver, sent=sent)
            after[debtor] = replace(
                after[debtor], taken={**after[debtor].taken, holder: sent[debtor]}
            )
    return after


def _taken_up(holder: Holder, items: Items) -> Rights:
    """Return an item after it took up all that others have sent to it."""
    item = items[holder]
    sent = {
        giver: other.sent[holder]
        for giver, other in items.items()
        if giver not in item.cut and other.sent.get(holder, _ZERO) > item.taken.get(giver, _ZERO)
    }
    return replace(item, taken={**item.taken, **sent}) if sent else item


def _left(item: Rights, spends: Iterable[SpendRecord], budget: str) -> Decimal:
    """Return what an item has free once its open grants are closed; below 0 if it owes."""
    for version in item.grants:
        closed = reclaim(item, version, charge_of(spends, _name(item, version, budget)))
        assert not isinstance(closed, GrantGone)  # noqa: S101 (it is one of the item's)
        item = closed
    return item.available


def _name(item: Rights, version: int, budget: str) -> GrantName:
    return GrantName(item.holder, version, budget)


def _versions(spend: SpendRecord, holder: Holder, budget: str) -> list[int]:
    """Return the versions of a holder's item that an entry names; 0 for none."""
    return [NO_GRANT, *(n.version for n in spend.names if _is_of(n, holder, budget))]


def _is_open(item: Rights, spend: SpendRecord, budget: str) -> bool:
    """Return whether an entry is of a grant that the item has open: it is closed by its entries."""
    named = [name for name in spend.grants if _is_of(name, item.holder, budget)]
    return any(name.version in item.grants for name in named)


def _is_of(name: GrantName, holder: Holder, budget: str) -> bool:
    return (name.budget, name.holder) == (budget, holder)


def _more(before: Mapping[Holder, Decimal], after: Mapping[Holder, Decimal]) -> Decimal:
    less = (amount.copy_negate() for amount in before.values())
    return amounts.total_wide((*after.values(), *less))

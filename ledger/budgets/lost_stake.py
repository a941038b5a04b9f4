"""What a lost region leaves of a budget: how much may be minted again.

Until it is reclaimed what a lost region had is stranded: nothing is oversold. It may be reclaimed
once (1) no remaining region lists it among the replicas, so nothing that it still does reaches
them; (2) the contract that names it as lost is in force and a day has passed since it was given up,
so nothing of it is on its way any more, entries or items; (3) each remaining item, made where it
was absent, has cut it off (`cut_off`): from then on no holder takes up what it sent.

What is minted again is right for the ledger that remains, whatever version of the lost item is the
newest that arrived: what a newer one charged is either still there as entries, or was folded, for
which every region showed the grant as closed. It is also exactly the most that the region may have
acknowledged and that will never be seen. Operators who owe that (tickets, payments) reclaim less.

A region that was taken out while it worked leaves the same, and is reclaimed so.

Where several regions are gone, one after the other, what moved between two of them is counted in
both stakes or in neither: in both if the one that was lost later had cut the other off, as all
remaining regions have to show before anything is minted. Counted in the first alone it would be
minted twice: what it had been sent, and what the giver once minted. Counted in neither, the one
that spent what the other had sent it owes that: it is reclaimed first, or both could be over the
limit in between.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from ledger.budgets.rights import Holder, Rights, added, following
from ledger.budgets.rolling_limits import LASTING, lasting
from ledger.budgets.spend_record import SpendRecord
from ledger.core import amounts
from ledger.core.contract import Terms
from ledger.core.errors import ContractChangeRefused, InvalidInput

ARRIVED_SECONDS = 86_400.0
"""How long what a lost region wrote may still arrive, after the region was given up."""
_ZERO = Decimal(0)


def arrived_seconds(terms: Terms) -> float:
    """Return how long after the time that the contract has of a loss nothing arrives any more.

    That time is of the clock of the machine that wrote it, which may have been behind.
    """
    return ARRIVED_SECONDS + terms.longest("clock_skew")


@dataclass(frozen=True, slots=True)
class LostStake:
    """What a reclaim mints again, and of what it is made.

    `minted` less `retired` by the lost holder; `sent` to it and `taken` from it by all others, and
    in its own view by those that were lost before it; `charged` by it (of a rolling limit what has
    not come back), and what the `entries` that remain come to beyond that: those of grants that it
    had open, and of holds what it had not charged for them. Of what is charged so much is `lasting`
    as never comes back.
    """

    minted: Decimal
    sent: Decimal
    taken: Decimal
    charged: Decimal
    entries: Decimal
    lasting: Decimal = _ZERO

    @property
    def passed_on(self) -> Decimal:
        """What others had of it that it did not have: it was sent that by another that is lost."""
        had = (self.minted, self.sent, self.taken.copy_negate(), self.lasting.copy_negate())
        return max(_ZERO, amounts.total_wide(had).copy_negate())

    @property
    def amount(self) -> Decimal:
        """What is minted again; below 0 if more was spent there than it had."""
        outgo = (self.taken, self.charged, self.entries)
        return amounts.total((self.minted, self.sent, *(each.copy_negate() for each in outgo)))


def newest(holder: Holder, shown: Iterable[Rights], *, share: Decimal = _ZERO) -> Rights:
    """Return the newest version of a lost item that any remaining region shows.

    If none does it was made at most once, with its `share` of a window, as far as anybody knows:
    version 0, which has no grant open and has seen none close.
    """
    nothing = Rights(holder, minted=share)
    return max(shown, key=lambda item: item.version, default=nothing)


def named_by(items: Iterable[Rights]) -> set[Holder]:
    """Return the holders that items name: their own, and those they sent to or took from."""
    return {holder for item in items for holder in (item.holder, *item.sent, *item.taken)}


def holders_of(spends: Iterable[SpendRecord], counter: str) -> set[Holder]:
    """Return the holders of a budget's grants that entries name."""
    return {name.holder for spend in spends for name in spend.grants if name.budget == counter}


def unreclaimed(
    items: Iterable[Rights], named: Iterable[Holder], *, keeps: Callable[[Holder], bool]
) -> list[Holder]:
    """Return the holders, in order, that are gone and that no item has minted again.

    Of those that items name, or that are `named`. What they had may be more than anything shows.
    """
    shown = tuple(items)
    known = (named_by(shown) | {*named}) - reclaimed_in(shown)
    return sorted(holder for holder in known if not keeps(holder))


def cut_off(rights: Rights, lost: Holder) -> Rights | None:
    """Return a remaining item that takes up nothing more of a lost one; None if it does already."""
    if lost in rights.cut:
        return None
    cut = {**rights.cut, lost: rights.taken.get(lost, _ZERO)}
    return following(rights, cut=cut)


def cut_off_all(item: Rights, holders: Iterable[Holder]) -> Rights | None:
    """Return an item that takes up nothing more of these holders; None if it does already."""
    after = item
    for holder in holders:
        after = replace(cut_off(after, holder) or after, version=item.version)
    return replace(after, version=item.version + 1) if after != item else None


def stake_of(
    base: Rights, others: Iterable[Rights], spends: Iterable[SpendRecord], budget: str = ""
) -> LostStake:
    """Return what a lost holder had that is not spent by what remains.

    `base` is `newest`, of a rolling limit as of now, as are `spends`: what has come back is in
    neither. `others` are all remaining items, each read strongly consistent in its
    region once it has cut the holder off, and those of holders lost later that have cut it off,
    the newest that is shown; `spends` are all entries that any remaining region shows
    of the counters that name its grants. `budget` is as in `GrantName`.

    Raises:
        InvalidInput: another item has not cut it off.
        AmountOverflow: a sum does not fit in 38 digits.
    """
    lost = base.holder
    remaining = tuple(others)
    for other in remaining:
        if lost not in other.cut:
            raise InvalidInput(
                f"{other.holder} must cut off {lost} before its rights are reclaimed"
            )
    return LostStake(
        minted=amounts.total((base.minted, base.retired.copy_negate())),
        sent=amounts.total(
            (
                *(other.sent.get(lost, _ZERO) for other in remaining),
                *(base.taken.get(earlier, _ZERO) for earlier in base.cut),
            )
        ),
        taken=amounts.total(
            (
                *(other.taken.get(lost, _ZERO) for other in remaining),
                *(base.sent.get(earlier, _ZERO) for earlier in base.cut),
            )
        ),
        charged=base.spent,
        entries=_uncharged(base, spends, budget),
        lasting=lasting(base),
    )


def debt_of(stakes: Mapping[Holder, LostStake]) -> tuple[Holder, str] | None:
    """Return a holder that spent more than it had, and how much; None if there is none.

    It had spent of what others sent it. Minted again before that is charged, that would be spent
    twice.
    """
    owing = ((one, stake.amount.copy_negate()) for one, stake in stakes.items() if stake.amount < 0)
    return next(((holder, amounts.to_text(owed)) for holder, owed in owing), None)


def check_resolved_alike(
    lost: Collection[Holder], spends: Iterable[SpendRecord], counter: str
) -> None:
    """Check that no entry of lost holders is resolved in some of the remaining regions alone.

    As open it would be charged here, and as resolved by the entry that a pass brings to all: what
    was held, and given back, would be lost for good.

    Raises:
        ContractChangeRefused: one is.
    """
    shown: dict[str, SpendRecord] = {}
    for spend in spends:
        known = shown.setdefault(spend.id, spend)
        if known.is_open != spend.is_open and any(name.holder in lost for name in spend.grants):
            raise ContractChangeRefused(
                f"entry {spend.id} of budget {counter!r} is resolved in one region and open in"
                " another: `compactor run --once --search` brings what has arrived to all, then run"
                " this again"
            )


def _uncharged(base: Rights, spends: Iterable[SpendRecord], budget: str) -> Decimal:
    """Return what entries come to that the base may not have charged.

    Of an entry that regions show differently, a hold that only some show resolved, the higher. What
    the base charged for holds that it had as open is in both: it says how much (`Rights.held`), and
    which they are makes no difference to the sum.
    """
    found: dict[str, Decimal] = {}
    for spend in spends:
        if not all(_is_charged(base, spend, place, budget) for place in range(len(spend.grants))):
            found[spend.id] = max(spend.amount, found.get(spend.id, spend.amount))
    return amounts.total((*found.values(), base.held.copy_negate()))


def _is_charged(base: Rights, spend: SpendRecord, place: int, budget: str) -> bool:
    """Return whether the base has charged an entry's amount under one of its grants, or need not.

    Of an open hold it is unknown: what closed its grant may have charged what it was settled for,
    which has not arrived. What was let through, and is not marked as charged there, is charged to
    an item that remains.
    """
    name = spend.grants[place]
    if (name.budget, name.holder) != (budget, base.holder):
        return True
    if spend.is_over and not (spend.adjusted and spend.adjusted[place].holder == base.holder):
        return True
    is_there = not spend.adjusted or base.version >= spend.adjusted[place].version
    return base.shows_closed(name.version) and is_there and not spend.is_open_hold


def mint_again(
    rights: Rights, lost: Holder, amount: Decimal, *, passed_on: Decimal = _ZERO
) -> Rights | None:
    """Mint what a lost holder had, or less of it, once; None if this item has done so already.

    Before it the items of all remaining holders are looked through (`is_reclaimed`). Below 0 it is
    charged: of a rolling limit what it had spent comes back, what it had `passed_on` (`LostStake`)
    was not spent there, and never does.

    Raises:
        InvalidInput: the item has not cut it off.
        AmountOverflow: the sum minted does not fit in 38 digits.
    """
    if lost in rights.reclaimed:
        return None
    if lost not in rights.cut:
        raise InvalidInput(f"{rights.holder} must cut off {lost} before its rights are reclaimed")
    charged = max(_ZERO, amount.copy_negate())
    lasts = min(passed_on, charged) if rights.bucket else _ZERO
    return following(
        rights,
        minted=amounts.total((rights.minted, max(_ZERO, amount))),
        charged=amounts.total((rights.charged, charged)),
        buckets=added(rights.buckets, LASTING, lasts) if lasts else rights.buckets,
        reclaimed={**rights.reclaimed, lost: amount},
    )


def is_minted_again(
    lost: Holder, shown: Mapping[Holder, Rights], *, keeps: Callable[[Holder], bool]
) -> bool:
    """Return whether what a lost holder had is a holder's that remains.

    Minted in an item that is lost since, it is once what that had is minted again.
    """
    return any(
        keeps(holder) or is_minted_again(holder, shown, keeps=keeps)
        for holder, item in shown.items()
        if lost in item.reclaimed
    )


def reclaimed_in(items: Iterable[Rights]) -> set[Holder]:
    """Return the lost holders of which any of these has minted again what they had."""
    return {holder for item in items for holder in item.reclaimed}


def is_reclaimed(items: Iterable[Rights], lost: Holder) -> bool:
    """Return whether any remaining holder has minted again what a lost one had."""
    return lost in reclaimed_in(items)

"""A budget as one region shows it: what is minted, granted, charged, on its way and out of reach.

`explain_budget` says the same in lines that people read.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

from ledger.budgets import rights_plan
from ledger.budgets.balance import debts, free, in_flight
from ledger.budgets.calendar import Window
from ledger.budgets.lost_stake import named_by, reclaimed_in, stake_of
from ledger.budgets.rights import Grant, Holder, Rights
from ledger.budgets.rolling_limits import lasting
from ledger.core import amounts
from ledger.core.contract import Terms
from ledger.core.ids import EPOCH

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class RegionRights:
    """What one region has of a budget: `free` to be granted, and `granted` to processes.

    `charged` is what closed grants came to, of a rolling limit what has not come back, less what
    was credited and can be spent; `in_flight`
    was sent to it and is not taken up yet. `owed` is what was charged more than it had and than is
    on its way: it is paid by what comes back, is sent there, or raised. `is_lost` if the region is
    not one of the table any more: what it has is out of reach until it is reclaimed.
    """

    region: str
    free: Decimal
    granted: Decimal
    charged: Decimal
    in_flight: Decimal
    owed: Decimal = _ZERO
    is_lost: bool = False

    @property
    def at_stake(self) -> Decimal:
        """The most that a reclaim of the region would mint again: all that it has not charged.

        Less the spends of its open grants that other regions show by then. What was credited there
        and cannot be spent yet comes on top.
        """
        return max(_ZERO, amounts.total_wide((self.free, self.granted, self.in_flight)))


@dataclass(frozen=True, slots=True)
class OpenGrant:
    """An amount that one process may spend; times in whole seconds since 1970.

    `amount` is with what resolved holds of it came to more, or less, than was held; below 0 it is
    what was credited under it and can be spent. `is_over` if no request that names it can land any
    more: it waits to be closed by its entries.
    """

    region: str
    version: int
    amount: Decimal
    since: int
    expires: int
    is_over: bool


@dataclass(frozen=True, slots=True)
class InFlight:
    """Rights that one region sent to another, which has not taken them up yet."""

    giver: str
    taker: str
    amount: Decimal


@dataclass(frozen=True, slots=True)
class BudgetState:
    """A budget, or one window of it, as one region shows it.

    `limit` is what is minted less what is retired; it goes to `target` while it is lowered, and for
    a window that an announced step decides, of which nothing is minted before. What was spent, less
    what was credited, lies between `charged`, what closed grants came to, and `charged` and
    `granted` together, what open ones may come to. `grants` are all that are open, `in_flight` is
    by pair. `waiting` is the sum of what this process credited and cannot be spent yet, since not
    every region shows it: what other processes credited is not in it. `takes_credits` if its
    pattern has credits.
    """

    budget: str
    counter: str
    limit: Decimal
    target: Decimal
    charged: Decimal
    granted: Decimal
    regions: tuple[RegionRights, ...]
    grants: tuple[OpenGrant, ...] = ()
    in_flight: tuple[InFlight, ...] = ()
    waiting: Decimal = _ZERO
    takes_credits: bool = False

    @property
    def free(self) -> Decimal:
        """What may still be granted anywhere, with what is on its way, without lost regions."""
        reached = (region for region in self.regions if not region.is_lost)
        return amounts.total_wide(
            part for rights in reached for part in (rights.free, rights.in_flight)
        )

    @property
    def owed(self) -> Decimal:
        """What regions were charged more than they had."""
        return amounts.total_wide(region.owed for region in self.regions)

    @property
    def stranded(self) -> Decimal:
        """What cannot be spent now: of lost regions, and of grants that are over and wait."""
        lost = {region.region for region in self.regions if region.is_lost}
        return amounts.total_wide(
            (
                *(region.at_stake for region in self.regions if region.is_lost),
                *(
                    max(_ZERO, grant.amount)
                    for grant in self.grants
                    if grant.is_over and grant.region not in lost
                ),
            )
        )


def state_of(
    window: Window,
    shown: Mapping[Holder, Rights],
    *,
    target: Decimal | None,
    terms: Terms,
    is_over: Callable[[Grant], bool],
    waiting: Decimal = _ZERO,
) -> BudgetState:
    """Return what control items say of a budget, and what of this process's credits is `waiting`.

    `target` is where its limit is going, by default where it is. What was spent of a holder that
    was reclaimed counts, nothing else of it.
    """
    limit = rights_plan.limit_of(tuple(shown.values()))
    gone = reclaimed_in(shown.values())
    items = {holder: item for holder, item in shown.items() if holder not in gone}
    # What was sent to a region in which nothing was spent yet, it takes up with its first grant;
    # what others took of one that is lost, and whose item never arrived, it owes.
    unmade = named_by(items.values()) - items.keys() - gone
    items |= {holder: Rights(holder) for holder in unmade}
    lost = {one for one in items if terms.is_over(one.region, one.epoch)}
    items |= {holder: _as_reclaimed(items[holder], shown, gone) for holder in lost}
    left = free(items) if items else {}
    owed = debts(items, lost=lost)
    pairs = [
        InFlight(giver.region, taker.region, amount)
        for giver in sorted(items)
        for taker in sorted({*items, *items[giver].sent} - gone)
        if (amount := _under_way(items, giver, taker)) > 0
    ]
    credited = {holder: _taken_in(rights) for holder, rights in items.items()}
    return BudgetState(
        window.budget,
        window.counter,
        limit,
        limit if target is None else target,
        amounts.total_wide(
            (
                *(rights.spent for rights in shown.values()),
                *(_spent_uncharged(holder, shown) for holder in sorted(gone)),
                *credited.values(),
            )
        ),
        amounts.total_wide(_granted(items[holder], credited[holder]) for holder in items),
        tuple(
            RegionRights(
                holder.region,
                amounts.total_wide((left[holder], in_flight(holder, items).copy_negate())),
                _granted(rights, credited[holder]),
                amounts.total_wide((rights.spent, lasting(rights).copy_negate(), credited[holder])),
                in_flight(holder, items),
                owed.get(holder, _ZERO),
                holder in lost,
            )
            for holder, rights in sorted(items.items())
        ),
        tuple(
            OpenGrant(
                holder.region,
                version,
                _amount(rights, version),
                grant.since,
                grant.expires,
                is_over(grant),
            )
            for holder, rights in sorted(items.items())
            for version, grant in sorted(rights.grants.items())
        ),
        tuple(pairs),
        waiting,
        terms.takes_credits(window.budget),
    )


def _amount(rights: Rights, version: int) -> Decimal:
    """Return what an open grant may come to: below 0 if it is one of credits."""
    adjusted = rights.adjusted.get(version, _ZERO)
    return amounts.total_wide((rights.grants[version].amount, adjusted))


def _taken_in(rights: Rights) -> Decimal:
    """Return what open grants of credits will be charged by what was taken in of them; below 0."""
    return amounts.total_wide(min(_ZERO, _amount(rights, version)) for version in rights.grants)


def _granted(rights: Rights, credited: Decimal) -> Decimal:
    """Return what open grants may come to, without what was taken in of credits."""
    return amounts.total_wide((rights.granted, credited.copy_negate()))


def _as_reclaimed(
    lost: Rights, shown: Mapping[Holder, Rights], gone: AbstractSet[Holder]
) -> Rights:
    """Return a lost item with what moved between it and those reclaimed before as a reclaim counts.

    Of two that are gone that is in both stakes, or in neither (`lost_stake.stake_of`).
    """
    sent, taken = dict(lost.sent), dict(lost.taken)
    for earlier in gone - lost.cut.keys():
        item = shown.get(earlier, Rights(earlier))
        is_in_both = lost.holder in item.cut
        sent[earlier] = item.taken.get(lost.holder, _ZERO) if is_in_both else _ZERO
        taken[earlier] = item.sent.get(lost.holder, _ZERO) if is_in_both else _ZERO
    return replace(lost, sent=sent, taken=taken)


def with_shares(items: Mapping[Holder, Rights], unseen: Iterable[Holder]) -> dict[Holder, Rights]:
    """Return the items of a window with what reclaimed holders had as theirs, and no region shows.

    `unseen` are holders of which no item arrived. A step that is not kept any more decided their
    shares, of which the reclaim minted what was unspent: that much is known of them.
    """
    shares = {
        holder: max(_ZERO, _spent_uncharged(holder, items).copy_negate())
        for holder in reclaimed_in(items.values()).intersection(unseen)
    }
    made = {
        holder: replace(items[holder], minted=amounts.total((items[holder].minted, share)))
        for holder, share in shares.items()
    }
    return {**items, **made}


def _spent_uncharged(gone: Holder, shown: Mapping[Holder, Rights]) -> Decimal:
    """Return what a reclaimed holder spent by entries that it never charged.

    That is what it had and what was not minted again: its stake without any entries, less what the
    reclaim minted. An operator may have minted less (`--most`): that counts as spent, too. Where it
    had spent more than it had the reclaim has charged that to home.
    """
    again = next(item.reclaimed[gone] for item in shown.values() if gone in item.reclaimed)
    minted = max(_ZERO, again)
    others = [item for item in shown.values() if gone in item.cut]
    stake = stake_of(shown.get(gone, Rights(gone)), others, ())
    return amounts.total_wide((stake.amount, stake.entries, minted.copy_negate()))


def _under_way(items: Mapping[Holder, Rights], giver: Holder, taker: Holder) -> Decimal:
    taken = items[taker].taken.get(giver, _ZERO) if taker in items else _ZERO
    sent = items[giver].sent.get(taker, _ZERO)
    return max(_ZERO, amounts.total_wide((sent, taken.copy_negate())))


def explain_budget(state: BudgetState) -> list[str]:
    """Return the lines: limit and spent, each region, grant and transfer, what is stranded."""
    return list(_lines(state))


def _lines(state: BudgetState) -> Iterator[str]:
    text = amounts.to_text
    going = ""
    if state.target < state.limit:
        going = f", going to {text(state.target)}"
    elif state.target > state.limit:
        is_whole = state.counter == state.budget
        until = "what the lost home had is reclaimed"
        until = until if is_whole else "the step that is announced is in force"
        going = f", {text(state.target)} once {until}"
    yield f"budget {state.counter}: limit {text(state.limit)}{going}"
    most = amounts.total_wide((state.charged, state.granted))
    spent = "spent, less what was credited" if state.takes_credits else "spent"
    yield (
        f"{spent}: {text(state.charged)} charged, up to {text(most)} with what open grants may"
        " spend"
    )
    yield f"free: {text(state.free)}"
    if state.waiting:
        yield f"credited, and free once every region shows it: {text(state.waiting)}"
    beside = ", and what was credited there and is not free yet" if state.takes_credits else ""
    for region in state.regions:
        lost = ", lost" if region.is_lost else ""
        yield (
            f"{region.region}{lost}: {text(region.free)} free, {text(region.granted)} granted,"
            f" {text(region.in_flight)} on its way here, {text(region.charged)} charged;"
            f" a reclaim would put at most {text(region.at_stake)} at stake{beside}"
        )
        if region.owed:
            yield f"{region.region} owes {text(region.owed)}: it was charged more than it had"
    for grant in state.grants:
        times = (EPOCH + timedelta(seconds=at) for at in (grant.since, grant.expires))
        since, expires = (f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in times)
        over = ", over: waits to be closed by its entries" if grant.is_over else ""
        amount = text(grant.amount.copy_abs())
        credited = f"{amount} credited" if grant.amount < 0 else amount
        yield (
            f"grant {grant.version} of {grant.region}: {credited}, since {since}, expires"
            f" {expires}{over}"
        )
    for moved in state.in_flight:
        yield f"in flight: {text(moved.amount)} from {moved.giver} to {moved.taker}"
    yield f"stranded: {text(state.stranded)}"

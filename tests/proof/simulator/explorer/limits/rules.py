"""The production code's rules, and each broken.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from ledger.budgets import lost_stake, rights_plan, spend_record
from ledger.budgets.lost_stake import LostStake
from ledger.budgets.rights import Grant, Holder, Rights, condition_of
from ledger.budgets.rights_plan import Crowded, GrantGone, SpendPlan, TooFewRights
from ledger.budgets.spend_record import SpendRecord, View
from ledger.core.ids import EPOCH
from ledger.store.conditions import Condition

REGIONS = ("us-east-1", "eu-west-1", "ap-south-1")
_ZERO = Decimal(0)


def _spent(amount: Decimal, unsure: Decimal) -> SpendPlan:
    return SpendPlan(amount, is_sure=not unsure)


def _take_up(rights: Rights, giver: Rights, read: Rights) -> Rights | None:
    del read
    return rights_plan.take_up(rights, giver)


def _send_in_time(grant: Grant, signed_at: datetime) -> bool:
    """Return whether a request that names the grant may be sent, by its signature's own date."""
    return signed_at <= EPOCH + timedelta(seconds=grant.expires)


@dataclass(frozen=True, slots=True)
class Rules:
    """What production says; a mutant has one of them broken."""

    take: Callable[..., Rights | TooFewRights | Crowded] = rights_plan.take
    spent: Callable[[Decimal, Decimal], SpendPlan] = _spent
    close: Callable[[Rights, int, SpendPlan], Rights | GrantGone] = rights_plan.close
    top_up: Callable[..., Rights | TooFewRights | GrantGone] = rights_plan.top_up
    is_over: Callable[..., bool] = rights_plan.is_over
    reclaim: Callable[..., Rights | GrantGone] = rights_plan.reclaim
    send: Callable[[Rights, Holder, Decimal], Rights | TooFewRights] = rights_plan.send
    take_up: Callable[[Rights, Rights, Rights], Rights | None] = _take_up
    cut_off: Callable[[Rights, Holder], Rights | None] = lost_stake.cut_off
    stake: Callable[[Rights, Iterable[Rights], Iterable[SpendRecord]], LostStake] = (
        lost_stake.stake_of
    )
    mint_again: Callable[[Rights, Holder, Decimal], Rights | None] = lost_stake.mint_again
    condition: Callable[[Rights], Condition | None] = condition_of
    may_send: Callable[[Grant, datetime], bool] = _send_in_time
    may_fold: Callable[[SpendRecord, Mapping[str, View]], bool] = spend_record.may_fold


KEPT = Rules()


# Broken rules.


def _over_at_expiry(
    grant: Grant, date: int, *, signature_lifetime: float, clock_skew: float
) -> bool:
    """Take a grant for over once it expires."""
    del signature_lifetime, clock_skew
    return date > grant.expires


def _send_any_time(grant: Grant, signed_at: datetime) -> bool:
    """Send whatever was signed."""
    del grant, signed_at
    return True


def _fold_shown(spend: SpendRecord, views: Mapping[str, View]) -> bool:
    """Fold what all regions show."""
    del spend, views
    return True


def _fold_not_open_at_home(spend: SpendRecord, views: Mapping[str, View]) -> bool:
    """Take a grant for closed where home does not show it."""
    home = next(iter(views.values()))
    return all(name.version not in home["", name.holder].grants for name in spend.grants)


def _fold_closed_at_its_own(spend: SpendRecord, views: Mapping[str, View]) -> bool:
    """Fold once the grant's own region shows it closed."""
    shown = dict(zip(REGIONS, views.values(), strict=False))
    return all(
        name.holder.region in shown and spend_record.shows_closed(shown[name.holder.region], name)
        for name in spend.grants
    )


def _unknown_is_unused(amount: Decimal, unsure: Decimal) -> SpendPlan:
    """Give back what is not known to be applied."""
    return SpendPlan(amount - unsure, is_sure=True)


def _unknown_is_used(amount: Decimal, unsure: Decimal) -> SpendPlan:
    """Charge what is not known to be applied."""
    del unsure
    return SpendPlan(amount, is_sure=True)


def _unconditional(rights: Rights) -> None:
    """Write whatever has become of the item."""
    del rights


def _top_up_anyway(
    rights: Rights, version: int, amount: Decimal, *, expires: int
) -> Rights | TooFewRights:
    """Let a grant go on though it was closed."""
    if rights.available < amount:
        return TooFewRights(rights.available)
    before = rights.grants.get(version, Grant(_ZERO, 0, expires, "t"))
    grown = replace(before, amount=before.amount + amount)
    grants = {**rights.grants, version: grown}
    return replace(rights, version=rights.version + 1, grants=grants)


def _reclaim_anyway(rights: Rights, version: int, shown: Decimal, *, held: Decimal) -> Rights:
    """Charge what was read, whether the grant is open or not."""
    del held
    grants = {one: grant for one, grant in rights.grants.items() if one != version}
    charged = rights.charged + shown
    return replace(rights, version=rights.version + 1, grants=grants, charged=charged)


def _take_difference(rights: Rights, giver: Rights, read: Rights) -> Rights | None:
    """Add what is new as it was when the taker read its own item."""
    new = giver.sent.get(rights.holder, _ZERO) - read.taken.get(giver.holder, _ZERO)
    taken = {**rights.taken, giver.holder: rights.taken.get(giver.holder, _ZERO) + new}
    return replace(rights, version=rights.version + 1, taken=taken) if new > 0 else None


def _take_from_lost(rights: Rights, giver: Rights, read: Rights) -> Rights | None:
    """Take up what was sent by a holder that was cut off."""
    return _take_up(replace(rights, cut={}), giver, read)


def _stake_of_base(
    base: Rights, others: Iterable[Rights], entries: Iterable[SpendRecord]
) -> LostStake:
    """Charge only entries of grants that the base shows open."""
    known = [
        entry for entry in entries if all(name.version in base.grants for name in entry.grants)
    ]
    return lost_stake.stake_of(base, others, known)


def _stake_by_its_own(
    base: Rights, others: Iterable[Rights], entries: Iterable[SpendRecord]
) -> LostStake:
    """Take the lost item's own word for what it sent and took."""
    found = lost_stake.stake_of(base, others, entries)
    return replace(
        found, sent=sum(base.taken.values(), _ZERO), taken=sum(base.sent.values(), _ZERO)
    )


AT_EXPIRY = replace(KEPT, is_over=_over_at_expiry)
ANY_TIME = replace(KEPT, may_send=_send_any_time)
FOLDS_OPEN = replace(KEPT, may_fold=_fold_shown)
FOLDS_UNSEEN = replace(KEPT, may_fold=_fold_not_open_at_home)
FOLDS_AT_ITS_OWN = replace(KEPT, may_fold=_fold_closed_at_its_own)
AS_UNUSED = replace(KEPT, spent=_unknown_is_unused)
AS_USED = replace(KEPT, spent=_unknown_is_used)
UNCONDITIONAL = replace(KEPT, condition=_unconditional)
CLOSES_ANYWAY = replace(KEPT, condition=_unconditional, reclaim=_reclaim_anyway)
BY_DIFFERENCE = replace(KEPT, condition=_unconditional, take_up=_take_difference)
REOPENS = replace(KEPT, top_up=_top_up_anyway)
FROM_LOST = replace(KEPT, take_up=_take_from_lost)
OF_BASE = replace(KEPT, stake=_stake_of_base)
BY_ITS_OWN = replace(KEPT, stake=_stake_by_its_own)

"""Small cases of a durable hold, and each with one rule broken.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from ledger.budgets.hold_rules import HoldResolution, SeparateCharge
from ledger.budgets.lost_stake import LostStake
from ledger.budgets.rights import Rights
from ledger.budgets.rights_plan import GrantGone, SpendPlan, TooFewRights
from ledger.budgets.spend_record import SpendRecord, View
from ledger.core.entry import HOLD, RESOLVED
from ledger.store.conditions import AllOf, Condition, Has, Not
from ledger.store.writes import Update
from proof.simulator.explorer.broken_rule import BrokenRule
from proof.simulator.explorer.limits.held import (
    KEY,
    LESS,
    MORE,
    Case,
    Updating,
    charge_apart,
)
from proof.simulator.explorer.limits.rules import KEPT, UNCONDITIONAL


def _fold_open_holds(spend: SpendRecord, views: Mapping[str, Any]) -> bool:
    """Fold a hold that is not resolved."""
    return KEPT.may_fold(SpendRecord(spend.id, spend.amount, spend.grants), views)


def _entry_alone(resolved: HoldResolution, items: Mapping[str, Rights]) -> SeparateCharge:
    """Settle by the entry alone, in any process."""
    del items
    return SeparateCharge(resolved, ())


def _fold_resolved(spend: SpendRecord, views: Mapping[str, View]) -> bool:
    """Fold what is resolved whether or not all show what was charged for it."""
    return KEPT.may_fold(replace(spend, adjusted=()), views)


def _stake_of_closed(
    base: Rights, others: Iterable[Rights], entries: Iterable[SpendRecord]
) -> LostStake:
    """Take a closed grant's charge for what its holds came to."""
    plain = [replace(entry, hold=None, adjusted=()) for entry in entries]
    return _stake_without_held(base, others, plain)


def _stake_without_held(
    base: Rights, others: Iterable[Rights], entries: Iterable[SpendRecord]
) -> LostStake:
    """Charge an open hold once more, though the item says that it was charged."""
    return KEPT.stake(replace(base, held=Decimal(0)), others, entries)


def _close_as_known(rights: Rights, version: int, spent: SpendPlan) -> Rights | GrantGone:
    """Take a hold for open that another resolved, and its owner does not know of."""
    return KEPT.close(replace(rights, released={}), version, spent)


def _still_held(
    resolved: HoldResolution, items: Mapping[str, Rights]
) -> SeparateCharge | TooFewRights:
    """Charge the difference, and go on taking the hold for open."""
    apart = charge_apart(resolved, items)
    if isinstance(apart, TooFewRights):
        return apart
    [before], [after] = items.values(), apart.items
    return SeparateCharge(apart.resolved, (replace(after, held=before.held),))


def _with_condition(condition: Callable[[HoldResolution], Condition | None]) -> Updating:
    return lambda resolved: Update(KEY, condition=condition(resolved))


_UNRESOLVED = Not(Has(RESOLVED))
_OPEN = AllOf((Has(HOLD), _UNRESOLVED))
_TWICE = _with_condition(lambda _: Has(HOLD))
_ABSENT_TOO = _with_condition(lambda _: _UNRESOLVED)
_VOID_ANYWAY = _with_condition(lambda one: Has(HOLD) if one.after.resolved == "void" else _OPEN)
_WITHOUT_EXPIRY = _with_condition(lambda _: _OPEN)

CASES = {
    "hold-settled-for-less": Case(owner=(LESS,), another=(LESS, 0)),
    "hold-settled-for-more": Case(owner=(MORE,), another=(MORE,)),
    "hold-extended": Case(owner=(LESS,), another=("expired",), extends=True),
    "hold-lost": Case(owner=(LESS,), another=(LESS,), loses=True),
}
LARGE = {
    "hold": Case(owner=(LESS, MORE), another=(LESS, MORE)),
    "hold-extended-often": Case(owner=(LESS,), another=(MORE, "expired"), extends=True),
    "hold-lost-often": Case(owner=(LESS, MORE), another=(MORE, 0), loses=True),
}
MUTANTS = {
    "settled-by-entry-alone": BrokenRule(
        "another process settles a hold for less, without the rights item",
        Case(another=(LESS,), charged=_entry_alone),
    ),
    "settled-for-more-by-entry-alone": BrokenRule(
        "another process settles a hold for more, without the rights item",
        Case(another=(MORE,), charged=_entry_alone),
    ),
    "settled-twice": BrokenRule(
        "a hold is settled without the condition that nobody has resolved the hold",
        Case(owner=(LESS, MORE), another=(LESS, MORE), update=_TWICE),
    ),
    "settled-after-its-delete": BrokenRule(
        "a hold is settled without the condition that the entry exists",
        Case(another=(LESS, MORE), update=_ABSENT_TOO),
    ),
    "settled-late-by-its-owner": BrokenRule(
        "the owner settles for less by a plain write after the grant's expiry",
        Case(owner=(LESS,), owner_is_late=True),
    ),
    "settled-for-more-late-by-its-owner": BrokenRule(
        "the owner settles for more by a plain write after the grant's expiry",
        Case(owner=(MORE,), owner_is_late=True),
    ),
    "hold-closed-unconditionally": BrokenRule(
        "the grant of a hold is closed without the condition of the version",
        Case(another=(LESS,), rules=UNCONDITIONAL, closes_in_place=True),
    ),
    "voided-unconditionally": BrokenRule(
        "a hold is voided by the value read before, without a condition",
        Case(owner=(LESS,), another=(0,), update=_VOID_ANYWAY),
    ),
    "voided-though-extended": BrokenRule(
        "a hold expires without the condition of the expiry that was read",
        Case(another=("expired",), extends=True, update=_WITHOUT_EXPIRY),
    ),
    "open-hold-folded": BrokenRule(
        "a hold is folded before anybody has resolved the hold",
        Case(owner=(LESS,), rules=replace(KEPT, may_fold=_fold_open_holds)),
    ),
    "folded-before-its-charge-is-shown": BrokenRule(
        "a hold is folded before every region shows its separate charge",
        Case(another=(MORE,), loses=True, rules=replace(KEPT, may_fold=_fold_resolved)),
    ),
    "holds-of-the-lost-not-counted": BrokenRule(
        "open holds of a lost region count only in the charge of their grant",
        Case(owner=(LESS,), loses=True, rules=replace(KEPT, stake=_stake_of_closed)),
    ),
    "holds-of-the-lost-counted-twice": BrokenRule(
        "open holds of a lost region are charged again, though its item says charged",
        Case(loses=True, rules=replace(KEPT, stake=_stake_without_held)),
    ),
    "held-as-its-owner-knows": BrokenRule(
        "the owner closes its grant with a hold as open that another has resolved",
        Case(another=(LESS,), loses=True, rules=replace(KEPT, close=_close_as_known)),
    ),
    "resolved-and-still-held": BrokenRule(
        "the process that resolves a hold leaves the hold open in the rights item",
        Case(another=(LESS,), loses=True, charged=_still_held),
    ),
}

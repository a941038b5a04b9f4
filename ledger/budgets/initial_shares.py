"""What a holder of a budget begins with, and by which weights holders share a limit.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from decimal import Decimal

from ledger.budgets import rights_plan
from ledger.budgets.calendar import Window
from ledger.budgets.limit_windows import BudgetLimit, LimitUndecided, step_of
from ledger.budgets.rights import Holder, Rights, holder_in
from ledger.core.contract import Terms
from ledger.core.errors import BudgetUndecided, InvalidInput

WEIGHT_MAX = 1_000


def first_rights(rights: Rights, *, window: Window, limit: BudgetLimit) -> Rights | None:
    """Return the first version of an item that does not exist; None if it does.

    Of a window it mints its share by the step that was in force before the window began: 0 if that
    is not known any more, since others may have shared a limit that is. Of a budget without
    windows it begins with nothing: home minted all when the budget was made.

    Raises:
        BudgetUndecided: a step of the limit that would decide its share is only announced.
    """
    if rights.version:
        return None
    if window.is_whole:
        return rights_plan.create(rights.holder, Decimal(0), bucket=window.bucket)
    step = step_of(limit, window.begins)
    if isinstance(step, LimitUndecided):
        raise BudgetUndecided(
            f"{window.counter!r} begins under a limit that is only announced: repeat the call once"
            " that is in force, or withdrawn"
        )
    share = Decimal(0) if step is None else step.share_of(rights.holder)
    return rights_plan.create(rights.holder, share)


def target_in(limit: BudgetLimit, window: Window) -> Decimal | None:
    """Return to what a budget, or one window of it, is lowered; None if that is not.

    A window that was not lowered while it ran keeps the limit that it began with.
    """
    if window.is_whole:
        return limit.newest.limit
    return limit.lowered.get(window.begins)


def shares_in(limit: BudgetLimit, window: Window) -> dict[Holder, Decimal]:
    """Return the holders that a limit names for a window, with what each may have minted of it.

    Of a budget without windows nothing is shared: it names the holders that there were, with 0.
    None are known while a step that would decide them is announced: no item is made then.
    """
    if window.is_whole:
        return dict.fromkeys(limit.newest.shares, Decimal(0))
    step = step_of(limit, window.begins)
    return {} if step is None or isinstance(step, LimitUndecided) else dict(step.shares)


def _is_weight(number: object) -> bool:
    is_bool = isinstance(number, bool)
    return isinstance(number, int) and not is_bool and 0 <= number <= WEIGHT_MAX


def weighed(terms: Terms, weights: Mapping[str, int]) -> dict[Holder, int]:
    """Return weights by holder.

    Raises:
        InvalidInput: they are no whole numbers from 0 to `WEIGHT_MAX` by region of the table.
    """
    if not isinstance(weights, Mapping) or not all(map(_is_weight, weights.values())):
        raise InvalidInput(
            f"weights must be whole numbers from 0 to {WEIGHT_MAX:,} by region, got {weights!r:.80}"
        )
    if unknown := sorted(map(str, {*weights} - {*terms.regions})):
        raise InvalidInput(f"weights name {unknown[0]!r:.80}, which is not a region of the table")
    return {holder_in(region, terms): weights[region] for region in weights}

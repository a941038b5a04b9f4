"""Mutants of budgets whose limits change, whose control items cannot be had, or that lose a region.

Those of spends, holds and grants are `budget_mutants`.
"""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from compactor import budget_work as budgets_of_passes
from compactor import merge_plan as plan_of_passes
from ledger.administration import budget_recovery as lost_budgets
from ledger.budgets import fail_open, hold_rules, initial_shares, limit_changer, rights_plan
from ledger.budgets.grant_allowance import AllowanceTaken, Settling
from ledger.budgets.hold_rules import HoldResolution, SeparateCharge
from ledger.budgets.limit_windows import BudgetLimit, LimitStep, limit_item
from ledger.budgets.rights import GrantName, Rights, following
from ledger.budgets.rights_plan import TooFewRights
from ledger.budgets.spend_record import SpendRecord, View, may_fold
from ledger.budgets.spender import Spender
from ledger.core.entry import ADJUSTED, GRANT, Key
from ledger.store.conditions import Equals, Has
from ledger.store.writes import Put, Update
from ledger.writes.entry_plan import PlannedEntry
from proof.simulator.budget_mutants import budget_mutant
from proof.simulator.budgets import NAMES, has_windows, keeps_budgets, lets_through
from proof.simulator.budgets import let_through as let_through_of
from proof.simulator.losses import is_lossy
from proof.simulator.mutant import worlds_from
from proof.simulator.scenario import draw

SHORTLY_SECONDS = 400.0
LATE_SHARE = 0.3
THROTTLED_SECONDS = 600.0
TWO = 2
_charge_apart = hold_rules.charge_apart
_mark = fail_open._mark  # noqa: SLF001 (it is broken here)


def loses_budgets(seed: int) -> bool:
    """Return whether the world of a seed loses a region that has rights."""
    return keeps_budgets(seed) and is_lossy(seed)


def lets_late_through(seed: int) -> bool:
    """Return whether a world of two regions lets much through, and holds up many requests."""
    if not keeps_budgets(seed) or let_through_of(seed) != frozenset(NAMES):
        return False
    scenario = draw(seed)
    hot = scenario.budgets.hot if scenario.budgets is not None else ()
    throttled = sum(period.ends - period.begins for period in hot)
    is_late = scenario.faults.late >= LATE_SHARE and throttled >= THROTTLED_SECONDS
    return is_late and len(scenario.regions) == TWO


def raises_before_loss(seed: int) -> bool:
    """Return whether a world raises a budget without windows shortly before it loses its home."""
    scenario = draw(seed) if loses_budgets(seed) else None
    if scenario is None or scenario.loss is None or scenario.budgets is None:
        return False
    loss, settings = scenario.loss, scenario.settings
    raised = {
        change.budget
        for change in scenario.budgets.changes
        if change.raises and 0 < loss.stops_at - change.at < SHORTLY_SECONDS
    }
    rules = [settings.terms.budget_of(budget) for budget in raised]
    is_whole = any(rule is not None and rule.window == "none" for rule in rules)
    return is_whole and loss.region == settings.home


def raised_by_each(*_: object) -> bool:
    """Take no raise for made."""
    return False


def raised_again(rights: Rights, amount: Decimal, raise_id: str, *, now: int) -> Rights | None:
    """Mint for a raise whatever was minted for it."""
    del now
    raises = {**rights.raises, raise_id: amount}
    return following(rights, minted=rights.minted + amount, raises=raises)


def retires_all(rights: Rights, target: Decimal, others: tuple[Rights, ...] = ()) -> Rights | None:
    """Retire all that is above the target, granted or not."""
    amount = rights_plan.above(target, (rights, *others))
    return following(rights, retired=rights.retired + amount) if amount > 0 else None


def newest_step(limit: BudgetLimit, begins: int) -> LimitStep:
    """Share a window by the newest step, in force or announced."""
    del begins
    return limit.newest


def charged_anyway(
    resolved: HoldResolution, items: Mapping[str, Rights], *, now: float, over: bool = False
) -> SeparateCharge | TooFewRights:
    """Charge what a hold came to more, whatever there is."""
    del over
    return _charge_apart(resolved, items, now=now, over=True)


def without_more(taken: AllowanceTaken, actual: Decimal) -> Settling | None:
    """Settle a light hold for more without taking it from the grant."""
    return Settling(max(taken.amount, actual), taken.allowances, taken.amount, actual)


def folded_uncharged(spend: SpendRecord, views: Mapping[str, View]) -> bool:
    """Fold what was let through, charged or not."""
    return spend.is_over or may_fold(spend, views)


async def charges_nothing(*_: object) -> int:
    """Leave to its process what was let through."""
    return 0


def unmarked(key: Key, spend: SpendRecord, written: tuple[GrantName, ...]) -> Update:
    """Leave an entry unmarked."""
    marked = _mark(key, spend, written)
    return replace(marked, set={ADJUSTED: marked.set[ADJUSTED]}, condition=Has(GRANT))


def conditional_by_key(planned: PlannedEntry) -> bool:
    """Put again whatever has no key, and is no hold."""
    spending = planned.entry.spending
    return planned.keyed or (spending is not None and spending.hold is not None)


def refused_by_its_first(spender: Spender, sought: Any) -> bool:
    """Go by the first of several budgets."""
    terms = spender._settings.current.terms  # noqa: SLF001 (it is broken here)
    rule = terms.budget_of(sought.keepers[0].window.budget)
    return rule is None or rule.on_outage == "refuse"


def put_as_read(
    changer: limit_changer.LimitChanger, place: Any, before: BudgetLimit, after: BudgetLimit
) -> Put:
    """Change the limit of home's generation as it was read, under whichever generation."""
    del changer
    item = limit_item(replace(after, generation=place.generation), place.budget)
    return Put(item, Equals("revision", {"N": str(before.revision)}))


async def half_raises(
    changer: object, place: object, limit: BudgetLimit, **_: bool
) -> tuple[BudgetLimit, list[Put]]:
    """Leave what a lost home left of a raise as it is."""
    del changer, place
    return limit, []


async def no_spends(*_: object) -> dict[str, Any]:
    """Leave out what a lost region spent."""
    return {}


LIMIT_MUTANTS = (
    budget_mutant(
        "raise-again",
        "a raise is made once for its id",
        "a call that is repeated raises the limit twice",
        60,
        (limit_changer, "is_made", raised_by_each),
        (rights_plan, "raise_limit", raised_again),
    ),
    budget_mutant(
        "retired-granted",
        "a limit is lowered by what is free at home, no more",
        "what processes were granted is retired, and spent",
        60,
        (rights_plan, "lower_limit", retires_all),
    ),
    budget_mutant(
        "step-of-today",
        "a step of a limit is for windows that begin later, once it is in force",
        "regions share a window of two limits",
        60,
        (initial_shares, "step_of", newest_step),
        worlds=has_windows,
    ),
    budget_mutant(
        "hold-over",
        "more than was held is charged where there is as much, or `over` says so",
        "more is applied than the limit",
        60,
        (hold_rules, "charge_apart", charged_anyway),
    ),
    budget_mutant(
        "light-without-more",
        "a light hold that is settled for more takes that from its grant first",
        "more is spent under a grant than it has",
        60,
        (AllowanceTaken, "settling", without_more),
    ),
    budget_mutant(
        "through-by-its-first",
        "several budgets are let through only if each of them allows that",
        "one that lets nothing through is spent from without a grant",
        60,
        (Spender, "_refuses_in_outage", refused_by_its_first),
        worlds=lets_through,
    ),
    budget_mutant(
        "through-folded",
        "what was let through a pass charges where its process has not, and folds it after that",
        "of a process that crashed it is spent once more",
        60,
        (plan_of_passes, "may_fold", folded_uncharged),
        (budgets_of_passes, "charge_open", charges_nothing),
        worlds=lets_through,
    ),
    budget_mutant(
        "through-unmarked",
        "what was let through is marked in the transaction that charges it",
        "each pass charges it again",
        60,
        (fail_open, "_mark", unmarked),
        worlds=lets_through,
    ),
    budget_mutant(
        "through-put-again",
        "what was let through is not put again over what is there",
        "its mark is gone, and it is charged twice",
        30,
        (PlannedEntry, "is_conditional", property(conditional_by_key)),
        worlds=worlds_from(103_900, lets_late_through),
    ),
    budget_mutant(
        "limit-of-the-lost",
        "home writes the limit of an earlier one under its own generation of the contract",
        "no limit can be changed after the loss of a home",
        60,
        (limit_changer.LimitChanger, "_limit_put", put_as_read),
        worlds=loses_budgets,
    ),
    budget_mutant(
        "half-raise",
        "a raise of which a lost home left one half is made whole by the next",
        "its rights look like a lowering under way, or its limit like a raise",
        30,
        (limit_changer.LimitChanger, "_torn", half_raises),
        worlds=raises_before_loss,
    ),
    budget_mutant(
        "reclaimed-without-entries",
        "of what a lost region had its entries are taken off that it may not have charged",
        "what was spent there is minted again",
        60,
        (lost_budgets, "lost_spends", no_spends),
        worlds=loses_budgets,
    ),
)

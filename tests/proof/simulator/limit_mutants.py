"""Mutants of budgets whose limits change, whose control items cannot be had, or that lose a region.

Those of spends, holds and grants are `budget_mutants`.
"""

from proof.simulator.budget_mutants import budget_mutant
from proof.simulator.budgets import NAMES, has_windows, keeps_budgets, lets_through
from proof.simulator.budgets import let_through as let_through_of
from proof.simulator.edit import Edit
from proof.simulator.losses import is_lossy
from proof.simulator.mutant import worlds_from
from proof.simulator.scenario import draw

SHORTLY_SECONDS = 400.0
LATE_SHARE = 0.3
THROTTLED_SECONDS = 600.0
TWO = 2


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


LIMIT_MUTANTS = (
    budget_mutant(
        "raise-again",
        "a raise is made once for its id",
        "a call that is repeated raises the limit twice",
        60,
        Edit(
            "ledger.budgets.limit_changer:LimitChanger.raise_limit",
            "if is_made(raise_id, more, [*limits, *items.values()], budget)",
            "if False",
        ),
        Edit("ledger.budgets.rights_plan:raise_limit", "if raise_id in rights.raises", "if False"),
        first=2,
    ),
    budget_mutant(
        "retired-granted",
        "a limit is lowered by what is free at home, no more",
        "what processes were granted is retired, and spent",
        60,
        Edit(
            "ledger.budgets.rights_plan:lower_limit",
            "min(rights.available, above(target, (rights, *others)))",
            "above(target, (rights, *others))",
        ),
        first=2,
    ),
    budget_mutant(
        "step-of-today",
        "a step of a limit is for windows that begin later, once it is in force",
        "regions share a window of two limits",
        60,
        Edit(
            "ledger.budgets.limit_windows:step_of",
            "    announced = limit.announced\n",
            "    return limit.newest\n    announced = limit.announced\n",
        ),
        first=5,
        worlds=has_windows,
    ),
    budget_mutant(
        "step-unwaited",
        "a step of a limit waits as long as a change of the contract, beside two hosts' skews",
        "a process that has not heard of it shares a window by the step before it",
        60,
        Edit("ledger.budgets.limit_target:LimitTarget.wait", "ceil(wait + 2", "ceil(2"),
        first=2,
        worlds=has_windows,
    ),
    budget_mutant(
        "hold-over",
        "more than was held is charged where there is as much, or `over` says so",
        "more is applied than the limit",
        60,
        Edit("ledger.budgets.hold_rules:charge_apart", "over=over,", "over=True,"),
        first=5,
    ),
    budget_mutant(
        "light-without-more",
        "a light hold that is settled for more takes that from its grant first",
        "more is spent under a grant than it has",
        60,
        Edit(
            "ledger.budgets.grant_allowance:AllowanceTaken.settling",
            "        more = amounts.total(",
            "        return Settling(amount, self.allowances, self.amount, actual)\n"
            "        more = amounts.total(",
        ),
        first=6,
    ),
    budget_mutant(
        "through-by-its-first",
        "several budgets are let through only if each of them allows that",
        "one that lets nothing through is spent from without a grant",
        60,
        Edit(
            "ledger.budgets.spender:Spender._refuses_in_outage",
            "for keeper in sought.keepers]",
            "for keeper in sought.keepers[:1]]",
        ),
        first=3,
        worlds=lets_through,
    ),
    budget_mutant(
        "through-folded",
        "what was let through a pass charges where its process has not, and folds it after that",
        "of a process that crashed it is spent once more",
        60,
        Edit(
            "compactor.merge_plan:_is_closed",
            "may_fold(spend, rights)",
            "spend.is_over or may_fold(spend, rights)",
        ),
        Edit(
            "compactor.budget_work:BudgetWork._charge",
            "await charge_open(self._regions, let_through)",
            "0",
        ),
        worlds=lets_through,
    ),
    budget_mutant(
        "through-unmarked",
        "what was let through is marked in the transaction that charges it",
        "each pass charges it again",
        60,
        Edit("ledger.budgets.fail_open:_mark", "(RESOLVED, ADJUSTED)", "(ADJUSTED,)"),
        worlds=lets_through,
    ),
    budget_mutant(
        "through-put-again",
        "what was let through is not put again over what is there",
        "its mark is gone, and it is charged twice",
        30,
        Edit(
            "ledger.writes.entry_plan:PlannedEntry.is_conditional",
            "spending.is_resolvable",
            "spending.hold is not None",
        ),
        first=22,
        worlds=worlds_from(103_900, lets_late_through),
    ),
    budget_mutant(
        "limit-of-the-lost",
        "home writes the limit of an earlier one under its own generation of the contract",
        "no limit can be changed after the loss of a home",
        60,
        Edit(
            "ledger.budgets.limit_windows:limit_write",
            "if before.generation != generation",
            "if False",
        ),
        worlds=loses_budgets,
    ),
    budget_mutant(
        "half-raise",
        "a raise of which a lost home left one half is made whole by the next",
        "its rights look like a lowering under way, or its limit like a raise",
        40,
        Edit(
            "ledger.budgets.limit_changer:LimitChanger._torn",
            "        terms = self._access",
            "        return limit, []\n        terms = self._access",
        ),
        worlds=raises_before_loss,
        first=37,
    ),
    budget_mutant(
        "reclaimed-without-entries",
        "of what a lost region had its entries are taken off that it may not have charged",
        "what was spent there is minted again",
        60,
        Edit(
            "ledger.administration.budget_recovery:TableBudgets.lost_entries",
            "await lost_spends(self.regions)",
            "{}",
        ),
        worlds=loses_budgets,
    ),
)

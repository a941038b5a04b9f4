"""Mutants of credits, and the code that they put in place of production code.

The same rules are dropped in `explorer.limits.credited`, where the shortest way is found; and those
that need a rarer meeting of events than worlds draw in minutes: a copy that arrives from a lost
region, sights of before a loss, a put without its condition, a close before regions agree, a
reclaim while they do not.
"""

from proof.simulator.budget_mutants import budget_mutant
from proof.simulator.budgets import keeps_credits
from proof.simulator.edit import Edit
from proof.simulator.mutant import Mutant, Patch


def _mutant(
    name: str, rule: str, breaks: str, seeds: int, *patches: Patch, first: int = 1
) -> Mutant:
    return budget_mutant(name, rule, breaks, seeds, *patches, worlds=keeps_credits, first=first)


CREDIT_MUTANTS = (
    _mutant(
        "credited-by-its-region",
        "a credit is taken in once every region shows it (not its own alone)",
        "under a key in two regions both copies are taken in: rights made",
        60,
        Edit("ledger.budgets.credit_rules:is_everywhere", "seen >= {*terms.regions}", "bool(seen)"),
        first=2,
    ),
    _mutant(
        "credited-twice",
        "what is taken in of a grant is said as a whole (not added by each write)",
        "a write that is repeated, since its answer was lost, takes it in twice",
        60,
        Edit(
            "ledger.budgets.credit_rules:take_in",
            "amounts.total((total.copy_negate(), done.copy_negate()))",
            "total.copy_negate()",
        ),
        first=2,
    ),
    _mutant(
        "credited-by-a-repeat",
        "a repeat with its key is known as one as long as the grant is open",
        "it is taken in once more",
        60,
        Edit(
            "ledger.budgets.credit_grants:CreditGrant.put",
            "if entry in self.keyed:",
            "if entry in self.waiting:",
        ),
        first=2,
    ),
    _mutant(
        "credit-closed-by-count",
        "a grant is closed by its owner once each of its credits was taken in",
        "what was not taken in yet is never free",
        60,
        Edit(
            "ledger.budgets.credit_grants:CreditGrant.has_no_more_than",
            "self.in_flight or self.is_doubtful or self.waiting.keys() - taken",
            "self.in_flight",
        ),
        first=2,
    ),
    _mutant(
        "credit-folded-open",
        "a credit is folded once every region shows its grant as closed",
        "the close by reading does not find it: it is never free",
        120,
        Edit(
            "ledger.budgets.spend_record:may_fold",
            "    return all(",
            "    if spend.amount < 0:\n        return True\n    return all(",
        ),
        first=8,
    ),
    _mutant(
        "returned-without-rights",
        "the reversal of a spend names a credit grant of home",
        "what came back counts, and can never be spent",
        60,
        Edit(
            "ledger.budgets.creditor:Creditor.give_back",
            "if not credited:",
            "if credited:",
        ),
        first=2,
    ),
)

"""Mutants of budgets, and the code that they put in place of production code.

Those that need a rarer meeting of events than worlds draw in minutes are mutants of the explorer
(`explorer.limits`): a request signed after the grant's expiry, entries of open grants folded,
a grant taken for closed where it has not arrived, one that paid for keys closed by count or by what
one region shows, a hold settled twice, `taken` by a difference, a repeat under another grant.
"""

from typing import Any

from ledger.budgets.grant_allowance import AllowanceTaken
from ledger.budgets.rights_fetcher import RightsFetcher
from proof.simulator.budgets import has_windows, keeps_budgets
from proof.simulator.edit import Edit
from proof.simulator.mutant import Mutant, Patch

_reachable = RightsFetcher._reachable  # noqa: SLF001 (it is broken here)


def budget_mutant(
    name: str, rule: str, breaks: str, seeds: int, *patches: Patch, **options: Any
) -> Mutant:
    """Return a mutant of worlds with budgets, unless `worlds` says of which."""
    return Mutant(name, rule, breaks, seeds, patches, **{"worlds": keeps_budgets, **options})


BUDGET_MUTANTS = (
    budget_mutant(
        "grant-over-at-expiry",
        "a grant is over a signature's lifetime after it expires (not at once)",
        "a request that is held up lands after its grant was closed: sold twice",
        60,
        Edit(
            "ledger.budgets.grant_closing:RegionViews.is_over",
            "        return is_over(",
            "        return date > grant.expires\n        return is_over(",
        ),
        first=11,
    ),
    budget_mutant(
        "hold-folded",
        "an open hold is not folded",
        "it can never be resolved",
        60,
        Edit(
            "compactor.merge_plan:_is_closed",
            "may_fold(spend, rights)",
            'may_fold(replace(spend, resolved="void"), rights)',
        ),
        first=12,
    ),
    budget_mutant(
        "grant-unread",
        "a grant that its owner left open is closed by its entries",
        "what was spent under it is sold twice",
        60,
        Edit(
            "ledger.budgets.grant_closing:close_over", "charged = charge(", "charged = 0 * charge("
        ),
    ),
    budget_mutant(
        "grant-unknown-given-back",
        "what may have been applied is not given back",
        "it is sold twice",
        60,
        (AllowanceTaken, "doubted", AllowanceTaken.given_back),
        first=2,
    ),
    budget_mutant(
        "grant-unknown-as-used",
        "a grant with unknown outcomes shrinks, and is closed by its entries",
        "what was not applied is charged for good",
        60,
        Edit(
            "ledger.budgets.grant_allowance:Allowance.spent",
            "not self.is_doubtful and self.in_flight == 0",
            "True",
        ),
        first=2,
    ),
    budget_mutant(
        "grant-of-two",
        "a grant is of one process, which knows it by its token",
        "two processes spend it: sold twice",
        60,
        Edit(
            "ledger.budgets.rights_plan:granted_to",
            "next((v for v, grant in rights.grants.items() if grant.token == token), None)",
            "max(rights.grants, default=None)",
        ),
    ),
    budget_mutant(
        "rights-no-version",
        "a rights item is put in place of the version that was read",
        "two processes take the same rights",
        60,
        Edit(
            "ledger.budgets.rights:condition_of",
            "    return Equals",
            "    return None\n    return Equals",
        ),
    ),
    budget_mutant(
        "rights-through-own-region",
        "a rights item is written through its own region",
        "the last writer wins: what it granted meanwhile is available again",
        60,
        Edit(
            "ledger.budgets.rights_fetcher:RightsFetcher._reachable",
            "yield holder, regions[holder.region]",
            "yield holder, self._access.here",
        ),
    ),
    budget_mutant(
        "hold-alone",
        "who is not its owner resolves a hold with the rights item of each grant",
        "what it came to is not what is charged",
        60,
        Edit(
            "ledger.budgets.hold_rules:apart_writes",
            "    for name, after in",
            "    return writes\n    for name, after in",
        ),
    ),
    budget_mutant(
        "hold-compared",
        "a hold that was resolved is the same as the one that was asked for",
        "the repeat of a call is treated as another change, and its amount given back",
        120,
        Edit(
            "ledger.writes.entry_plan:confirm_entry",
            "not same_call(ours, theirs)",
            "(ours.change, ours.note) != (theirs.change, theirs.note)",
        ),
        first=11,
    ),
    budget_mutant(
        "window-whole",
        "the regions share a window by the step in force before it began",
        "each mints as it sees it: more than the limit",
        24,
        Edit(
            "ledger.budgets.initial_shares:first_rights",
            "Decimal(0) if step is None else step.share_of(rights.holder)",
            "limit.steps[-1].limit",
        ),
        worlds=has_windows,
    ),
)

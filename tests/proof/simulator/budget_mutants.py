"""Mutants of budgets, and the code that they put in place of production code.

Those that need a rarer meeting of events than worlds draw in minutes are mutants of the explorer
(`explorer.limits`): a request signed after the grant's expiry, entries of open grants folded,
a grant taken for closed where it has not arrived, one that paid for keys closed by count or by what
one region shows, a hold settled twice, `taken` by a difference, a repeat under another grant.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from compactor import merge_plan as compacting
from ledger.budgets import (
    grant_closing,
    grant_keeper,
    hold_rules,
    rights,
    rights_plan,
    spend_record,
)
from ledger.budgets.calendar import Window
from ledger.budgets.grant_allowance import Allowance, AllowanceTaken
from ledger.budgets.hold_rules import SeparateCharge
from ledger.budgets.limit_windows import BudgetLimit
from ledger.budgets.rights import Account, Grant, GrantName, Rights
from ledger.budgets.rights_fetcher import RightsFetcher
from ledger.budgets.rights_items import ControlItems
from ledger.budgets.rights_plan import SpendPlan
from ledger.budgets.spend_record import SpendRecord, View
from ledger.core.entry import Key
from ledger.core.values import Entry
from ledger.store.writes import Put, Update
from ledger.writes import entry_plan as planning
from proof.simulator.budgets import has_windows, keeps_budgets
from proof.simulator.mutant import Mutant

_update_of = hold_rules.update_of
_reachable = RightsFetcher._reachable  # noqa: SLF001 (it is broken here)


def over_at_expiry(
    grant: Grant, date: int, *, signature_lifetime: float, clock_skew: float
) -> bool:
    """Take a grant for over once it expires."""
    del signature_lifetime, clock_skew
    return date > grant.expires


def folds_open_holds(spend: SpendRecord, views: Mapping[str, View]) -> bool:
    """Fold a hold as any other entry."""
    return spend_record.may_fold(replace(spend, resolved="void"), views)


def sure_of_all(allowance: Allowance) -> SpendPlan:
    """Take what is not known for used."""
    amount = allowance.grant.amount - allowance.remaining
    return SpendPlan(amount, is_sure=True)


def whose_ever(shown: Rights, token: str) -> int | None:
    """Take the newest grant for one's own."""
    del token
    return max(shown.grants, default=None)


def unconditional(before: Rights) -> None:
    """Write whatever has become of the item."""
    del before


async def through_its_own_region(
    fetcher: RightsFetcher, me: Account, shown: Mapping[Account, Rights]
) -> AsyncIterator[tuple[Account, ControlItems]]:
    """Reach the items of other regions through the own region's endpoint."""
    async for account, _ in _reachable(fetcher, me, shown):
        yield account, fetcher._access.here  # noqa: SLF001 (it is broken here)


def entry_alone(
    key: Key, apart: SeparateCharge, items: Mapping[str, Rights], counter: str
) -> list[Put | Update]:
    """Resolve a hold without the rights items of its grants."""
    del items, counter
    return [_update_of(key, apart.resolved)]


def whole_limit(shown: Rights, *, window: Window, limit: BudgetLimit) -> Rights | None:
    """Let each region that sees a window first mint all of it."""
    if shown.version:
        return None
    amount = Decimal(0) if window.is_whole else limit.steps[-1].limit
    return rights_plan.create(shown.account, amount)


def nothing_shown(found: Sequence[SpendRecord], name: GrantName) -> Decimal:
    """Take a grant that is over for unused."""
    del found, name
    return Decimal(0)


def same_amount(ours: Entry, theirs: Entry) -> bool:
    """Compare a hold with what it came to."""
    return (ours.change, ours.note) == (theirs.change, theirs.note)


def budget_mutant(
    name: str, rule: str, breaks: str, seeds: int, *patches: tuple[Any, str, Any], **options: Any
) -> Mutant:
    """Return a mutant of worlds with budgets, unless `worlds` says of which."""
    return Mutant(name, rule, breaks, seeds, patches, **{"worlds": keeps_budgets, **options})


BUDGET_MUTANTS = (
    budget_mutant(
        "grant-over-at-expiry",
        "a grant is over a signature's lifetime after it expires (not at once)",
        "a request that is held up lands after its grant was closed: sold twice",
        60,
        (grant_closing, "is_over", over_at_expiry),
    ),
    budget_mutant(
        "hold-folded",
        "an open hold is not folded",
        "it can never be resolved",
        60,
        (compacting, "may_fold", folds_open_holds),
    ),
    budget_mutant(
        "grant-unread",
        "a grant that its owner left open is closed by its entries",
        "what was spent under it is sold twice",
        60,
        (grant_closing, "charge_of", nothing_shown),
    ),
    budget_mutant(
        "grant-unknown-given-back",
        "what may have been applied is not given back",
        "it is sold twice",
        60,
        (AllowanceTaken, "doubted", AllowanceTaken.given_back),
    ),
    budget_mutant(
        "grant-unknown-as-used",
        "a grant with unknown outcomes shrinks, and is closed by its entries",
        "what was not applied is charged for good",
        60,
        (Allowance, "spent", property(sure_of_all)),
    ),
    budget_mutant(
        "grant-of-two",
        "a grant is of one process, which knows it by its token",
        "two processes spend it: sold twice",
        60,
        (rights_plan, "granted_to", whose_ever),
    ),
    budget_mutant(
        "rights-no-version",
        "a rights item is put in place of the version that was read",
        "two processes take the same rights",
        60,
        (rights, "condition_of", unconditional),
    ),
    budget_mutant(
        "rights-through-own-region",
        "a rights item is written through its own region",
        "the last writer wins: what it granted meanwhile is available again",
        60,
        (RightsFetcher, "_reachable", through_its_own_region),
    ),
    budget_mutant(
        "hold-alone",
        "who is not its owner resolves a hold with the rights item of each grant",
        "what it came to is not what is charged",
        60,
        (hold_rules, "apart_writes", entry_alone),
        (grant_closing, "apart_writes", entry_alone),
    ),
    budget_mutant(
        "hold-compared",
        "a hold that was resolved is the same as the one that was asked for",
        "the repeat of a call is taken for another change, and its amount given back",
        120,
        (planning, "same_call", same_amount),
    ),
    budget_mutant(
        "window-whole",
        "the regions share a window by the step in force before it began",
        "each mints as it sees it: more than the limit",
        24,
        (grant_keeper, "first_rights", whole_limit),
        worlds=has_windows,
    ),
)

"""When what was credited to a budget can be spent, and when the grant of credits may be closed.

A credit is an entry with `change` +amount that names a grant of 0, its *credit grant*. It counts in
the total at once. It can be spent once it is taken in: by the grant's owner, in one write of its
rights item for all that wait; or, where the owner is gone, by the close of the grant by reading.

    entry, under a grant of 0 ──> every region shows it, the same one ──> taken in ──> closed
                └── its owner crashes ──> regions agree on its entries ──> closed by reading ┘

- Taken in once every region of the contract shows it: by then it is missing nowhere, and of a key
  that was used in two regions it is decided which copy stays. Before that a region that is lost
  would take the entry with it, and what was spent of it would stay.
- By the owner alone, once: what a grant is `adjusted` by is all that was taken in of it.
- Closed by its owner only once each of its credits was taken in, or is known to be none.
- What may be older than the loss of a region waits for a day (`may_have_twin`): under its key a
  copy of the lost region may still win. Each region is looked at after that.

`proof.simulator.explorer.limits.credited` runs these rules in every order of events.

Pure: no clock, no randomness, no I/O.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal

from ledger.budgets.amount_rules import CREDITED_MAX
from ledger.budgets.lost_stake import arrived_seconds
from ledger.budgets.rights import GrantName, Holder, Rights
from ledger.budgets.rights_plan import SpendPlan, adjust, close
from ledger.budgets.spend_record import SpendRecord
from ledger.core import amounts
from ledger.core.budget_rules import BudgetRule
from ledger.core.contract import Terms
from ledger.core.ids import parse

_ZERO = Decimal(0)


def highest_of(rule: BudgetRule | None, limit: Decimal) -> Decimal:
    """Return by which limit the amounts of a budget are checked, whose highest was this one."""
    return max(limit, CREDITED_MAX) if rule and rule.credits else limit


def take_in(rights: Rights, version: int, total: Decimal) -> Rights | None:
    """Make what was credited under an open grant, in all so much, free; None if it is already.

    So a write that is repeated, since its answer was lost, takes nothing in twice.

    Raises:
        AmountOverflow: a sum does not fit in 38 digits.
    """
    done = rights.adjusted.get(version, _ZERO)
    difference = amounts.total((total.copy_negate(), done.copy_negate()))
    if version not in rights.grants or not difference:
        return None
    after = adjust(rights, version, difference)
    return after if isinstance(after, Rights) else None


def close_credits(rights: Rights, version: int) -> Rights | None:
    """Close a credit grant each of whose credits was taken in; None if it is closed already."""
    after = close(rights, version, SpendPlan(_ZERO, is_sure=True))
    return after if isinstance(after, Rights) else None


def is_credit(spend: SpendRecord) -> bool:
    """Return whether an entry gives rights back, in place of taking some."""
    return spend.amount < 0


def is_everywhere(seen: AbstractSet[str], terms: Terms) -> bool:
    """Return whether a credit was seen in every region: it may be taken in.

    `terms` are those that are obeyed: while a region is added, or goes, old and new regions.
    """
    return seen >= {*terms.regions}


def shows(credit: SpendRecord, shown: Iterable[SpendRecord]) -> bool:
    """Return whether a region shows a credit, under the grant that it was put under."""
    return any((one.id, one.amount, one.grants) == _as_put(credit) for one in shown)


def _as_put(credit: SpendRecord) -> tuple[str, Decimal, tuple[GrantName, ...]]:
    return credit.id, credit.amount, credit.grants


def may_have_twin(entry: str, terms: Terms, now: float) -> bool:
    """Return whether a copy of a credit may still arrive from a region that is gone.

    `entry` is its id, `now` the least that it may be, in seconds since 1970. A copy under the same
    key may have been put there until the region was given up. Whether it has a key no entry says.
    """
    if terms.given_up_at is None:
        return False
    lost, parsed = terms.given_up_at.timestamp(), parse(entry)
    if now > lost + arrived_seconds(terms):
        return False
    # An id is ahead by the skew at most, of a clock that is; the time of the loss may be behind.
    return parsed is None or parsed.at.timestamp() <= lost + 3 * terms.longest("clock_skew")


def unagreed(
    lost: Mapping[Holder, Rights], spends: Iterable[SpendRecord], counter: str, *, regions: int
) -> str | None:
    """Return the id of a credit of a lost holder that not all regions show; None if there is none.

    `lost` are the newest items shown, `spends` what each of so many `regions` shows of their
    grants. Under its key another copy may stay, whose owner takes in as much: counted for the lost
    holder, too, it would be rights made.
    """
    shown = Counter(
        _as_put(spend)
        for spend in spends
        if is_credit(spend) and any(_is_uncharged(name, lost, counter) for name in spend.grants)
    )
    return next((credit[0] for credit, times in shown.items() if times < regions), None)


def _is_uncharged(name: GrantName, lost: Mapping[Holder, Rights], counter: str) -> bool:
    base = lost.get(name.holder)
    return name.budget == counter and base is not None and not base.shows_closed(name.version)

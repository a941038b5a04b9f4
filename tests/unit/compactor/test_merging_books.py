"""Folds of books: which transfers a net has room for, and how many make a fold worth its bytes."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from support.ledgers import HOME, WEST

from compactor.merge_plan import BOOK_FULL, MergePlan, MergeRules, Observation, plan_merge
from ledger.core import books, ids
from ledger.core.entry import entry_id
from ledger.core.fold import Collection
from ledger.core.values import Leg, NetChange
from ledger.testing.clock import START

NOW = START + timedelta(hours=1)
RULES = MergeRules(home=HOME, settle=900, fold_max=10, fold_min=1, fold_age=86_400, prune_min=3)
OLD = [str(entry_id(NOW - timedelta(seconds=1000 - place), place)) for place in range(12)]
FULL = {"EUR": {f"customer/{number * 7919:06}": Decimal(number + 1) for number in range(40)}}
KNOWN, OTHER = list(FULL["EUR"])[:2]


def net(accounts: books.Accounts) -> NetChange:
    """Return a net that keeps these balances and names nothing."""
    return NetChange(Decimal(0), 7, (), "v1", OLD[0], HOME, accounts=books.packed(accounts))


def plan_of(
    shown: NetChange | None, *to: str, rules: MergeRules = RULES, amount: int = 1
) -> MergePlan:
    """Decide on transfers from a known account to these, the oldest first."""
    views = dict[str, Collection]()
    for region in (HOME, WEST):
        views[region] = Collection(None, shown, partition="book/1", with_legs=True)
        views[region].add(
            [
                {
                    "pk": {"S": "book/1"},
                    "sk": {"S": sort_key},
                    "change": {"N": "0"},
                    "legs": books.legs_attribute(
                        [Leg(KNOWN, "EUR", Decimal(-amount)), Leg(name, "EUR", Decimal(amount))]
                    ),
                }
                for sort_key, name in zip(OLD, to, strict=False)
            ]
        )
    return plan_merge(Observation("book/1", shown, views), rules, now=NOW, version="v2")


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> NetChange:
    """Return a net that has room for no account of a long name."""
    kept = net(FULL)
    monkeypatch.setattr(books, "ACCOUNTS_BYTES_MAX", len(kept.accounts or b"") + 12)
    return kept


LONG = "".join(chr(0x4E00 + number * 37) for number in range(80))
"""Too long a name for the room that is left."""


def test_a_full_book_goes_on_with_the_accounts_that_it_has(full: NetChange) -> None:
    """What opens an account waits, and holds up nothing that opens none."""
    plan = plan_of(full, LONG, OTHER, LONG + "x", OTHER)
    assert plan.fold is not None
    assert list(map(str, plan.fold.merged)) == [OLD[1], OLD[3]]
    assert (plan.folded, plan.backlog, plan.is_cut) == (2, 4, True)
    assert plan.left == ids.moment_of(OLD[0])
    right = {**FULL["EUR"], KNOWN: FULL["EUR"][KNOWN] - 2, OTHER: FULL["EUR"][OTHER] + 2}
    assert books.accounts_of(plan.fold) == {"EUR": {name: right[name] for name in sorted(right)}}


def test_a_full_book_says_so(full: NetChange) -> None:
    """If nothing fits, nothing is folded, and the plan says why."""
    plan = plan_of(full, LONG)
    assert plan.is_idle
    assert plan.waits == BOOK_FULL
    assert (plan.backlog, plan.left) == (1, ids.moment_of(OLD[0]))


def test_the_older_half_is_taken_if_not_all_fit(full: NetChange) -> None:
    """And half of that, down to the oldest alone."""
    assert plan_of(full, OTHER, OTHER, OTHER, LONG).folded == 2
    assert plan_of(full, OTHER, LONG, LONG + "x", LONG + "y").folded == 1


def test_a_fold_is_worth_the_balances_that_it_writes() -> None:
    """By one transfer for 256 bytes; more than a fold takes are not waited for."""
    accounts = {"EUR": {f"{number:04x}" * 8: Decimal(number + 1) for number in range(300)}}
    kept = net(accounts)
    least = len(kept.accounts or b"") // 256
    assert 3 < least < 10
    names = [f"{number:04x}" * 8 for number in range(12)]
    assert plan_of(kept, *names[: least - 1], rules=replace(RULES, fold_max=99)).folded == 0
    assert plan_of(kept, *names[1 : least + 1], rules=replace(RULES, fold_max=99)).folded == least
    tight = replace(RULES, fold_max=3)
    assert plan_of(kept, *names[1:6], rules=tight).folded == 3

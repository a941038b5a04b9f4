"""Folds of books: which transfers a net has room for, and how many make a fold worth its bytes."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from support.ledgers import HOME, WEST

from compactor.merge_plan import BOOK_FULL, TOO_FEW, MergePlan, MergeRules, Observation, plan_merge
from ledger.core import books, ids
from ledger.core.entry import entry_id
from ledger.core.errors import AmountOverflow
from ledger.core.fold import Collection
from ledger.core.ids import EntryIds
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
    shown: NetChange | None,
    *to: str,
    rules: MergeRules = RULES,
    amounts_of: Sequence[int | Decimal] = (1,) * len(OLD),
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
                        [
                            Leg(KNOWN, "EUR", Decimal(amount).copy_negate()),
                            Leg(name, "EUR", Decimal(amount)),
                        ]
                    ),
                }
                for sort_key, name, amount in zip(OLD, to, amounts_of, strict=False)
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


def test_half_of_those_that_open_accounts_is_taken_if_not_all_fit(full: NetChange) -> None:
    """The older half, and so on; those that open none are taken all the same."""
    plan = plan_of(full, OTHER, OTHER, LONG, OTHER)
    assert (plan.folded, plan.left) == (3, ids.moment_of(OLD[2]))
    plan = plan_of(full, "x", LONG, OTHER, LONG + "x", LONG + "y", OTHER)
    assert plan.fold is not None
    assert list(map(str, plan.fold.merged)) == [OLD[0], OLD[2], OLD[5]]
    assert plan_of(full, LONG, "x").folded == 0


def test_balances_that_grow_fit_by_halves(full: NetChange, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a book without any room what opens no account is halved, too."""
    monkeypatch.setattr(books, "ACCOUNTS_BYTES_MAX", len(full.accounts or b"") + 4)
    amounts: list[int | Decimal] = [1, 1]
    amounts += [Decimal(f"1234567890.{number}") for number in range(6, 12)]
    assert plan_of(full, *[OTHER] * 8, amounts_of=amounts).folded == 2


def test_a_full_book_waits_for_a_fold_that_is_worth_its_cost(full: NetChange) -> None:
    """Those that are stuck make none: a fold writes all balances again."""
    few = replace(RULES, fold_min=3)
    plan = plan_of(full, LONG, OTHER, LONG + "x", OTHER, rules=few)
    assert (plan.is_idle, plan.waits, plan.backlog) == (True, BOOK_FULL, 4)
    assert plan_of(full, LONG, OTHER, OTHER, OTHER, rules=few).folded == 3
    assert plan_of(full, LONG, OTHER, rules=replace(few, fold_age=900)).folded == 1


def test_a_net_that_only_forgets_keeps_its_balances(full: NetChange) -> None:
    """What fits, and is not worth a fold, leaves no trace."""
    few = replace(RULES, fold_min=3, prune_min=1)
    named = replace(full, merged=EntryIds.of_sort_keys([OLD[11]]))
    plan = plan_of(named, LONG, OTHER, LONG + "x", OTHER, rules=few)
    assert plan.fold is not None
    assert (plan.folded, plan.fold.merged, plan.fold.accounts) == (0, (), full.accounts)


def test_what_does_not_fit_in_38_digits_holds_up_nothing_else() -> None:
    """It waits for its reversal, however many transfers lie between; alone it is an error."""
    start = net({"EUR": {KNOWN: Decimal("0.25"), OTHER: Decimal("-0.25")}})
    wrong = Decimal("1E37")
    names = [OTHER, OTHER, OTHER, OTHER]
    plan = plan_of(start, *names, amounts_of=[1, wrong, 2, 3])
    assert plan.fold is not None
    assert list(map(str, plan.fold.merged)) == [OLD[0], OLD[2], OLD[3]]
    assert books.accounts_of(plan.fold) == {
        "EUR": {KNOWN: Decimal("-5.75"), OTHER: Decimal("5.75")}
    }
    assert (plan.is_cut, plan.left) == (True, ids.moment_of(OLD[1]))
    assert plan_of(start, *names, amounts_of=[1, wrong, 2, wrong.copy_negate()]).folded == 4
    merged = replace(start, merged=EntryIds.of_sort_keys([OLD[0]]))
    plan = plan_of(merged, OTHER, OTHER, amounts_of=[1, wrong])
    assert (plan.deletes, plan.fold, plan.waits) == ((OLD[0],), None, TOO_FEW)
    with pytest.raises(AmountOverflow, match="reverse it"):
        plan_of(start, OTHER, amounts_of=[wrong])
    with pytest.raises(AmountOverflow):
        plan_of(start, *names, amounts_of=[1, wrong, 2, 3], rules=replace(RULES, fold_min=4))


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

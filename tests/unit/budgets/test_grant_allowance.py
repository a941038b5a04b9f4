"""What a process knows of what it spent under its grants."""

from decimal import Decimal

import pytest

from ledger.budgets.grant_allowance import Allowance, AllowanceTaken
from ledger.budgets.rights import Grant, GrantName, Holder, LateCharge

D = Decimal


def allowance(version: int, *, expires: int = 60, remaining: int = 10) -> Allowance:
    """Return a grant of 10."""
    name = GrantName(Holder("us-east-1"), version)
    return Allowance(name, Grant(D(10), 0, expires, "me"), D(remaining))


def taken(amount: int, *allowances: Allowance) -> AllowanceTaken:
    """Take an amount from each."""
    assert all(one.take(D(amount)) for one in allowances)
    return AllowanceTaken(D(amount), allowances)


def test_an_entry_is_sent_until_the_first_of_its_grants_ends() -> None:
    """No request that names a grant is signed later."""
    assert taken(1, allowance(1, expires=90), allowance(2), allowance(3, expires=70)).expires == 60


@pytest.mark.parametrize("keyed", [False, True])
def test_an_entry_with_a_key_may_be_another_regions(*, keyed: bool) -> None:
    """So what is known of the grant is not sure."""
    one = allowance(1)
    taken(3, one).applied(keyed=keyed)
    assert one.spent.amount == 3
    assert one.spent.is_sure is not keyed


def test_a_doubt_stays() -> None:
    """Whatever is applied after it."""
    one = allowance(1)
    taken(3, one).doubted()
    taken(2, one).applied(keyed=False)
    assert one.spent.amount == 5
    assert not one.spent.is_sure


def test_what_is_spent_is_not_sure_while_an_entry_has_no_outcome() -> None:
    """It may be given back yet: a grant that were closed by it would lose that."""
    one = allowance(1)
    taken(3, one)
    assert not one.spent.is_sure
    one.given_back(D(3))
    assert one.spent.is_sure


@pytest.mark.parametrize(("difference", "remaining"), [(-2, 9), (0, 7), (4, 3)])
def test_a_hold_that_is_resolved_is_held_no_more(difference: int, remaining: int) -> None:
    """What it came to more was taken before; what it came to less can be spent."""
    one = allowance(1)
    taken(3, one).applied(keyed=False, is_hold=True)
    assert [one.held, one.remaining] == [D(3), D(7)]
    assert one.take(D(max(0, difference)))
    one.settled("hold", D(3), LateCharge(D(difference), 0))
    assert [one.held, one.remaining] == [D(0), D(remaining)]
    assert one.spent.is_sure


@pytest.mark.parametrize("actual", [1, 3, 5])
def test_a_settlement_takes_what_it_comes_to_more(actual: int) -> None:
    """What it comes to less is free once it is applied, or may be; else the hold is as before."""
    for end in ("applied", "doubted", "given back"):
        one = allowance(1)
        settling = taken(3, one).settling(D(actual))
        assert settling is not None
        assert one.remaining == 10 - max(3, actual)
        if end == "applied":
            settling.applied(keyed=False)
        elif end == "doubted":
            settling.doubted()
        else:
            settling.given_back()
        assert one.remaining == 10 - (3 if end == "given back" else actual)
        assert one.is_quiet is (end != "given back")
        assert one.is_doubtful is (end == "doubted")


def test_a_settlement_for_more_than_one_of_the_grants_has_takes_nothing() -> None:
    """Of the other neither."""
    rich, poor = allowance(1), allowance(2, remaining=4)
    assert taken(3, rich, poor).settling(D(5)) is None
    assert [int(one.remaining) for one in (rich, poor)] == [7, 1]

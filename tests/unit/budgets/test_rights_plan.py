"""Each change of a rights item: what it becomes, or why it may not be changed."""

from dataclasses import replace
from decimal import Decimal
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.budgets import rights_plan
from ledger.budgets.rights import GRANTS_MAX, Grant, Holder, Rights, rights_item, rights_of
from ledger.budgets.rights_plan import Crowded, GrantGone, SpendPlan, TooFewRights
from ledger.core.errors import AmountOverflow, InvalidInput

HERE, THERE = Holder("us-east-1"), Holder("eu-west-1")
D = Decimal


def _granted(amount: int = 4, minted: int = 10) -> Rights:
    taken = rights_plan.take(
        rights_plan.create(HERE, D(minted)), D(amount), since=0, expires=60, token="me"
    )
    assert isinstance(taken, Rights)
    return taken


def test_a_grant_is_named_by_the_version_that_made_it() -> None:
    """So no randomness is needed for it to be unique."""
    rights = _granted()
    assert rights.version == 2
    assert rights.grants == {2: Grant(D(4), 0, 60, "me")}
    assert rights.available == 6


def test_after_a_lost_answer_the_token_tells_whose_grant_it_is() -> None:
    """Nothing is spent under a grant that is not known to be one's own."""
    rights = _granted()
    assert rights_plan.granted_to(rights, "me") == 2
    assert rights_plan.granted_to(rights, "another") is None


def test_no_more_is_granted_than_is_available() -> None:
    """The answer says how much is."""
    rights = _granted(amount=8)
    assert rights_plan.take(rights, D(3), since=0, expires=60, token="me") == TooFewRights(D(2))


def test_an_item_has_a_bounded_number_of_grants() -> None:
    """Beyond it some are to be closed by reading first."""
    full = Rights(
        HERE,
        GRANTS_MAX,
        D(2 * GRANTS_MAX),
        grants={n: Grant(D(1), 0, 60, "") for n in range(GRANTS_MAX)},
    )
    assert rights_plan.take(full, D(1), since=0, expires=60, token="me") == Crowded(GRANTS_MAX)


@pytest.mark.parametrize(("amount", "expires"), [(-1, 60), (1, 0)])
def test_a_grant_of_nothing_or_for_no_time_is_refused(amount: int, expires: int) -> None:
    """It is a mistake of the caller's."""
    with pytest.raises(InvalidInput, match=r"0 or more|after it begins"):
        rights_plan.take(
            rights_plan.create(HERE, D(9)), D(amount), since=0, expires=expires, token="me"
        )


def test_a_grant_of_known_outcomes_closes() -> None:
    """What was spent is charged, the rest is available again."""
    closed = rights_plan.close(_granted(), 2, SpendPlan(D(3), is_sure=True))
    assert isinstance(closed, Rights)
    assert closed.charged == 3
    assert closed.available == 7
    assert closed.grants == {}
    assert rights_plan.close(closed, 2, SpendPlan(D(3), is_sure=True)) == GrantGone(2)


def test_a_grant_with_an_unknown_outcome_shrinks() -> None:
    """It stays open until its entries are read, for what may have been spent."""
    shrunk = rights_plan.close(_granted(), 2, SpendPlan(D(3), is_sure=False))
    assert isinstance(shrunk, Rights)
    assert shrunk.charged == 0
    assert shrunk.available == 7
    assert shrunk.grants[2].amount == 3


def test_more_than_the_grant_was_never_spent_by_its_owner() -> None:
    """Such a count is wrong, and closes nothing."""
    with pytest.raises(InvalidInput, match="must be at most 4, got 5"):
        rights_plan.close(_granted(), 2, SpendPlan(D(5), is_sure=True))


def test_a_grant_under_which_more_was_given_back_than_spent_is_credited_once_it_closes() -> None:
    """While an outcome is unknown it shrinks to nothing, and credits nothing."""
    closed = rights_plan.close(_granted(), 2, SpendPlan(D(-2), is_sure=True))
    shrunk = rights_plan.close(_granted(), 2, SpendPlan(D(-2), is_sure=False))
    assert isinstance(closed, Rights)
    assert isinstance(shrunk, Rights)
    assert (closed.available, shrunk.available) == (D(12), D(10))


def test_a_renewal_is_one_write() -> None:
    """It closes one grant and names another by the next version."""
    steps: list[rights_plan.Step] = [
        partial(rights_plan.close, version=2, spent=SpendPlan(D(3), is_sure=True)),
        partial(rights_plan.take, amount=D(7), since=50, expires=110, token="me again"),
    ]
    renewed = rights_plan.in_one_write(_granted(10), steps)
    assert isinstance(renewed, Rights)
    assert renewed.version == 3
    assert renewed.charged == 3
    assert renewed.available == 0
    assert renewed.grants == {3: Grant(D(7), 50, 110, "me again")}
    assert rights_plan.in_one_write(renewed, steps) == GrantGone(2)


@pytest.mark.parametrize(("date", "is_over"), [(60, False), (971, False), (972, True)])
def test_a_grant_is_over_once_nothing_that_names_it_can_land(date: int, *, is_over: bool) -> None:
    """That is its expiry, the lifetime of a signature, and the skew of clocks."""
    grant = Grant(D(1), 0, 60, "me")
    assert rights_plan.is_over(grant, date, signature_lifetime=900, clock_skew=11) == is_over


def test_a_grant_is_closed_by_what_its_entries_come_to() -> None:
    """What was adjusted is not added: the entries show it."""
    adjusted = rights_plan.adjust(_granted(), 2, D(-1))
    assert isinstance(adjusted, Rights)
    assert adjusted.available == 7
    closed = rights_plan.reclaim(adjusted, 2, D(3))
    assert isinstance(closed, Rights)
    assert closed.charged == 3
    assert closed.available == 7
    assert closed.adjusted == {}
    assert rights_plan.reclaim(closed, 2, D(3)) == GrantGone(2)


def test_a_grant_that_was_used_twice_is_paid_off_before_anything_is_granted() -> None:
    """The sum is charged as it is, and the excess raises an alarm."""
    rights = _granted()
    assert rights_plan.excess_of(rights, 2, D(12)) == 8
    assert rights_plan.excess_of(rights, 2, D(4)) == 0
    closed = rights_plan.reclaim(rights, 2, D(12))
    assert isinstance(closed, Rights)
    assert closed.available == -2
    assert rights_plan.take(closed, D(1), since=0, expires=9, token="me") == TooFewRights(D(-2))


def test_a_hold_that_came_to_more_needs_what_is_available() -> None:
    """Or is charged over the limit, where the cost was incurred."""
    rights = _granted(amount=8)
    assert rights_plan.adjust(rights, 2, D(3)) == TooFewRights(D(2))
    over = rights_plan.adjust(rights, 2, D(3), over=True)
    assert isinstance(over, Rights)
    assert over.available == -1


def test_what_an_owner_closes_is_charged_with_what_others_adjusted() -> None:
    """The owner knows only what was held."""
    adjusted = rights_plan.adjust(_granted(), 2, D(-1))
    assert isinstance(adjusted, Rights)
    closed = rights_plan.close(adjusted, 2, SpendPlan(D(4), is_sure=True))
    assert isinstance(closed, Rights)
    assert closed.charged == 3


def test_after_a_close_a_difference_is_charged_at_once() -> None:
    """There is no grant any more whose close would find it."""
    closed = rights_plan.reclaim(_granted(), 2, D(4))
    assert isinstance(closed, Rights)
    adjusted = rights_plan.adjust(closed, 2, D(-1))
    assert isinstance(adjusted, Rights)
    assert adjusted.charged == 3
    assert adjusted.adjusted == {}


def test_rights_are_sent_and_taken_up_once() -> None:
    """However often the giver's item is seen, at whatever version."""
    first = rights_plan.send(rights_plan.create(HERE, D(10)), THERE, D(4))
    assert isinstance(first, Rights)
    second = rights_plan.send(first, THERE, D(1))
    assert isinstance(second, Rights)
    assert second.available == 5
    taken = rights_plan.take_up(rights_plan.create(THERE, D(0)), second)
    assert taken is not None
    assert taken.available == 5
    assert rights_plan.take_up(taken, second) is None
    assert rights_plan.take_up(taken, first) is None


@given(st.lists(st.integers(1, 5), max_size=6), st.lists(st.integers(0, 6), max_size=12))
def test_an_old_view_never_gives_more(amounts: list[int], views: list[int]) -> None:
    """In any order of views, old or new, what is taken is at most what was sent, and ends as it."""
    giver = [rights_plan.create(HERE, D(99))]
    for amount in amounts:
        sent = rights_plan.send(giver[-1], THERE, D(amount))
        assert isinstance(sent, Rights)
        giver.append(sent)
    taker = rights_plan.create(THERE, D(0))
    for view in (*views, len(giver) - 1):
        before = taker
        taker = rights_plan.take_up(taker, giver[min(view, len(giver) - 1)]) or taker
        assert before.available <= taker.available <= sum(amounts)
    assert taker.available == sum(amounts)


def test_nothing_is_sent_that_is_not_there_or_to_itself() -> None:
    """Nor to a holder that was cut off."""
    rights = rights_plan.create(HERE, D(1))
    assert rights_plan.send(rights, THERE, D(2)) == TooFewRights(D(1))
    with pytest.raises(InvalidInput, match="another holder"):
        rights_plan.send(rights, HERE, D(1))
    with pytest.raises(InvalidInput, match="above 0"):
        rights_plan.send(rights, THERE, D(0))


def test_an_item_is_made_with_its_share_and_by_nothing_else() -> None:
    """Made by what is taken up, say, it would never get it."""
    sent = rights_plan.send(rights_plan.create(HERE, D(10)), THERE, D(4))
    assert isinstance(sent, Rights)
    with pytest.raises(InvalidInput, match="must be made first, with its share"):
        rights_plan.take_up(Rights(THERE), sent)


def test_a_raise_is_made_once() -> None:
    """Its id is remembered."""
    home = rights_plan.create(HERE, D(10))
    raised = rights_plan.raise_limit(home, D(5), "ticket 7", now=0)
    assert raised is not None
    assert raised.available == 15
    assert rights_plan.raise_limit(raised, D(5), "ticket 7", now=0) is None


def test_a_limit_is_lowered_by_what_home_has() -> None:
    """What lies elsewhere is retired once it was sent home."""
    home, other = rights_plan.create(HERE, D(6)), rights_plan.create(THERE, D(4))
    lowered = rights_plan.lower_limit(home, D(2), (other,))
    assert lowered is not None
    assert lowered.retired == 6
    assert lowered.available == 0
    assert rights_plan.limit_of((lowered, other)) == 4
    assert rights_plan.above(D(2), (lowered, other)) == 2
    assert rights_plan.lower_limit(lowered, D(2), (other,)) is None


def test_a_limit_is_lowered_no_further_than_its_target() -> None:
    """What is above it stays."""
    lowered = rights_plan.lower_limit(rights_plan.create(HERE, D(6)), D(5))
    assert lowered is not None
    assert rights_plan.limit_of((lowered,)) == 5
    assert rights_plan.lower_limit(lowered, D(5)) is None


def test_figures_of_demand_are_noted_in_a_write_that_is_made_anyway() -> None:
    """They make no version of their own."""
    noted = rights_plan.note_demand(_granted(), rate=D("2.5"), want=D(7))
    assert noted.version == 2
    assert noted.rate == D("2.5")
    assert noted.want == 7


def test_a_sum_that_does_not_fit_is_refused() -> None:
    """It is never rounded."""
    wide = Rights(HERE, 1, D(10**37), charged=D(10**37))
    with pytest.raises(AmountOverflow, match="38 digits"):
        rights_plan.adjust(wide, 1, D("-0.01"))


def test_a_grant_is_closed_whatever_digits_that_takes() -> None:
    """What has over 38 is charged rounded up: nothing is sold twice, and all goes on."""
    amount = D(10**11)
    rights = replace(rights_plan.create(HERE, D(10**12)), charged=D("1e-30"))
    granted = rights_plan.take(rights, amount, since=0, expires=60, token="me")
    assert isinstance(granted, Rights)
    closed = [
        rights_plan.close(granted, granted.version, SpendPlan(amount, is_sure=True)),
        rights_plan.reclaim(granted, granted.version, amount),
        rights_plan.charge(rights, amount),
    ]
    for after in closed:
        assert isinstance(after, Rights)
        assert after.charged == D("100000000000.0000000000000000001")
        assert rights_of(rights_item(after, "counter")) == after


def test_a_grant_goes_on_until_no_earlier_time() -> None:
    """Requests that name it may be signed until its end: it would be closed before they land."""
    rights = _granted()
    with pytest.raises(InvalidInput, match="until 60 or later, got 1 until 59"):
        rights_plan.top_up(rights, 2, D(1), expires=59)
    same = rights_plan.top_up(rights, 2, D(0), expires=60)
    assert isinstance(same, Rights)
    assert same.grants == rights.grants


def test_the_highest_limit_is_the_most_that_any_item_minted() -> None:
    """Whatever the limit is by now."""
    items = [rights_plan.create(HERE, D(20)), rights_plan.create(THERE, D(30))]
    assert [rights_plan.highest_limit(D(limit), items) for limit in (10, 40)] == [30, 40]
    assert rights_plan.highest_limit(D(10), []) == 10

"""Limits as they change, and each region's share of a window."""

from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import decimals

from ledger.budgets import limit_windows
from ledger.budgets.limit_windows import BudgetLimit, LimitStep, LimitUndecided
from ledger.budgets.rights import Holder
from ledger.core.amounts import total_wide
from ledger.core.errors import DamagedItem, InvalidInput, StateConflict

A, B = Holder("us-east-1"), Holder("eu-west-1")
FIRST = LimitStep.of(10, {A: 1, B: 1})
NEXT = LimitStep.of(20, {A: 3, B: 1}, since=1000)
LIMIT = BudgetLimit(0, (FIRST,))
LOWERED = limit_windows.lower_window(LIMIT, 3600, Decimal("0.5"))


def test_a_window_that_was_lowered_is_raised_from_there() -> None:
    """No other is: it keeps the limit that it began with."""
    raised = limit_windows.raise_window(LOWERED, 3600, Decimal(2))
    assert raised == replace(LIMIT, lowered={3600: Decimal("2.5")})
    assert limit_windows.raise_window(LOWERED, 7200, Decimal(2)) == LOWERED
    assert limit_windows.raise_window(LIMIT, 3600, Decimal(2)) == LIMIT


def test_the_last_windows_that_were_lowered_are_remembered() -> None:
    """A reclaim may come once the next was lowered, too; those before can be spent from no more."""
    limit, begins = LIMIT, [hour * 3600 for hour in range(limit_windows.LOWERED_MAX + 1)]
    for at in begins:
        limit = limit_windows.lower_window(limit, at, Decimal(at))
    assert limit.lowered == {at: Decimal(at) for at in begins[1:]}
    limit = limit_windows.raise_window(limit, begins[1], Decimal(1))
    assert limit.lowered[begins[1]] == begins[1] + 1
    assert limit_windows.limit_of(limit_windows.limit_item(limit, "key/42")) == limit


@given(
    decimals(1, 10**6, places=2),
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
)
def test_shares_add_up_to_the_limit(limit: Decimal, weights: list[int]) -> None:
    """Exactly, whatever the weights."""
    shared = {Holder(f"region-{number}"): weight for number, weight in enumerate(weights)}
    assert total_wide(LimitStep.of(limit, shared).shares.values()) == limit


def test_of_a_whole_limit_the_shares_are_whole() -> None:
    """Of one that was added later the share is nothing."""
    step = LimitStep.of(10, {A: 2, B: 1})
    assert step.share_of(A) == 6
    assert step.share_of(B) == 4
    assert step.share_of(Holder("x")) == 0


@pytest.mark.parametrize(("limit", "weights"), [(-1, {A: 1}), (5, {}), (5, {A: 0})])
def test_a_limit_that_nobody_could_share_is_refused(limit: int, weights: dict[Holder, int]) -> None:
    """It is 0 or more, and somebody has a share."""
    with pytest.raises(InvalidInput, match=r"0 or more"):
        LimitStep.of(limit, weights)


def test_a_window_is_shared_by_the_step_in_force_before_it_began() -> None:
    """A later step does not change it."""
    limit = BudgetLimit(2, (FIRST, NEXT))
    assert limit_windows.step_of(limit, 999) == FIRST
    assert limit_windows.step_of(limit, 1000) == NEXT


def test_a_window_older_than_every_step_is_minted_at_home() -> None:
    """No share is known of it."""
    assert limit_windows.step_of(BudgetLimit(2, (NEXT,)), 999) is None


def test_while_a_step_is_announced_that_would_decide_nothing_is_made() -> None:
    """Windows before it are as they were."""
    announced = limit_windows.announce(LIMIT, NEXT, now=0, wait=900)
    assert limit_windows.step_of(announced, 999) == FIRST
    assert limit_windows.step_of(announced, 1000) == LimitUndecided(1000)


def test_a_step_comes_into_force_after_the_wait_or_is_withdrawn() -> None:
    """Whoever confirms it counts the wait from the own look at all regions."""
    announced = limit_windows.announce(LIMIT, NEXT, now=0, wait=900)
    assert limit_windows.confirm(announced, now=950, looked=50, wait=900) is None
    assert limit_windows.confirm(announced, now=951, looked=50, wait=900) == BudgetLimit(
        2, (FIRST, NEXT)
    )
    assert limit_windows.confirm(announced, now=1000, looked=50, wait=900) == BudgetLimit(
        2, (FIRST,)
    )
    assert limit_windows.confirm(LIMIT, now=1000, looked=50, wait=900) is None


def test_a_step_takes_the_place_of_one_that_begins_with_it() -> None:
    """A limit is changed again before its last change decides anything."""
    again = LimitStep.of(30, {A: 1}, since=1000)
    announced = limit_windows.announce(BudgetLimit(2, (FIRST, NEXT)), again, now=50, wait=900)
    assert limit_windows.step_of(announced, 1000) == LimitUndecided(1000)
    confirmed = limit_windows.confirm(announced, now=999, looked=60, wait=900)
    assert confirmed == BudgetLimit(4, (FIRST, again))


def test_steps_that_may_still_decide_a_window_are_kept() -> None:
    """The newest of those in force when the oldest such window began, and all later ones."""
    third = LimitStep.of(30, {A: 1}, since=5000)
    announced = limit_windows.announce(BudgetLimit(2, (FIRST, NEXT)), third, now=2000, wait=900)
    confirm = partial(limit_windows.confirm, announced, now=4000, looked=2000, wait=900)
    assert confirm(oldest=999) == BudgetLimit(4, (FIRST, NEXT, third))
    assert confirm(oldest=1000) == BudgetLimit(4, (NEXT, third))


def test_a_step_does_not_begin_before_the_one_in_force() -> None:
    """Windows had another length when that was announced."""
    step = LimitStep.of(30, {A: 1}, since=999)
    with pytest.raises(InvalidInput, match="must begin at 1000 or later, got 999"):
        limit_windows.announce(BudgetLimit(2, (FIRST, NEXT)), step, now=0, wait=900)


@pytest.mark.parametrize("since", [None, 500, 900])
def test_a_step_begins_after_the_wait(since: int | None) -> None:
    """Else it could not be in force by then."""
    step = LimitStep.of(20, {A: 1}, since=since)
    with pytest.raises(InvalidInput, match="must begin at 901 or later"):
        limit_windows.announce(LIMIT, step, now=0, wait=900)


def test_one_step_is_announced_at_a_time() -> None:
    """The message says of which; for the same windows it takes the other's place, and waits."""
    announced = replace(limit_windows.announce(LIMIT, NEXT, now=0, wait=900), shown=20)
    later = replace(NEXT, since=1001)
    with pytest.raises(StateConflict, match="announced, 20 from 1970-01-01T00:16:40Z on: repeat"):
        limit_windows.announce(announced, later, now=0, wait=900)
    again = LimitStep.of(30, {A: 1}, since=1000)
    assert limit_windows.announce(announced, again, now=50, wait=900) == BudgetLimit(
        2, (FIRST,), again
    )
    with pytest.raises(InvalidInput, match="must begin at 1001 or later"):
        limit_windows.announce(announced, again, now=100, wait=900)


@pytest.mark.parametrize("limit", [LIMIT, BudgetLimit(3, (FIRST, NEXT), NEXT), LOWERED])
def test_what_is_read_is_what_was_written(limit: BudgetLimit) -> None:
    """Each step with all that it says."""
    limit = replace(limit, generation=2)
    item = limit_windows.limit_item(limit, "key/42")
    assert item["pk"] == {"S": "~budget~key/42"}
    assert item["sk"] == {"S": "limit#0002"}
    assert limit_windows.limit_of(item) == limit


@pytest.mark.parametrize(
    "change",
    [
        {"steps": {"L": [{"M": {}}]}},
        {"steps": {"S": ""}},
        {"announced": {"M": {}}},
        {"lowered": {"M": {"3600": {"S": ""}}}},
    ],
)
def test_a_limit_that_cannot_be_read_whole_is_damaged(change: dict[str, Any]) -> None:
    """Nothing is minted by a part of it."""
    with pytest.raises(DamagedItem, match="readable whole"):
        limit_windows.limit_of({**limit_windows.limit_item(LIMIT, "key/42"), **change})


@given(
    decimals(1, 10**6, places=2),
    decimals(0, 10**6, places=3),
    st.lists(st.integers(0, 5), min_size=2, max_size=4).filter(any),
)
def test_another_limit_is_shared_in_the_same_proportion(
    before: Decimal, after: Decimal, weights: list[int]
) -> None:
    """Exactly; in equal parts where there are other holders by now."""
    shared = {Holder(f"region-{number}"): weight for number, weight in enumerate(weights)}
    step = LimitStep.of(before, shared).like(after, shared, since=7)
    assert total_wide(step.shares.values()) == after
    assert step.since == 7
    assert min(step.shares.values()) >= 0
    assert all(step.shares[one] == 0 for one, weight in shared.items() if not weight)
    equal = LimitStep.of(before, shared).like(after, [A, B])
    assert equal == LimitStep.of(after, {A: 1, B: 1})


def test_a_step_whose_time_came_first_is_announced_for_later() -> None:
    """In one write; when it was shown is forgotten, and the ids of raises are kept."""
    announced = limit_windows.announce(
        BudgetLimit(3, (FIRST,), raises={"x": Decimal(5)}), NEXT, now=0, wait=100
    )
    late = limit_windows.postpone(limit_windows.note_shown(announced, 50), 3000, now=1500, wait=100)
    assert late.announced is not None
    assert (late.announced.since, late.shown, late.revision) == (3000, None, 6)
    again = limit_windows.postpone(late, 5000, now=3500, wait=100)
    assert [announced.postponed, late.postponed, again.postponed] == [0, 1, 2]
    assert limit_windows.withdraw(again).postponed == 0
    item = limit_windows.limit_item(limit_windows.note_shown(late, 1600), "c")
    assert limit_windows.limit_of(item) == limit_windows.note_shown(late, 1600)
    with pytest.raises(StateConflict, match="no step of the limit is announced"):
        limit_windows.postpone(LIMIT, 3000, now=0, wait=100)

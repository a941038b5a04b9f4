"""Halves of a limit's change that arrived alone: which raises count, and what is minted."""

from collections.abc import Collection
from dataclasses import replace
from decimal import Decimal

import pytest

from ledger.budgets import half_applied_changes, rights_plan
from ledger.budgets.calendar import Window
from ledger.budgets.half_applied_changes import EDGE_SECONDS, MissingHalf
from ledger.budgets.limit_windows import BudgetLimit, LimitStep
from ledger.budgets.raise_ids import RAISE_SECONDS
from ledger.budgets.rights import Holder, Rights

HOME, LOST = Holder("us-east-1"), Holder("eu-west-1")
NOW = 10 * RAISE_SECONDS
D = Decimal


def limit_of(amount: int, *, raised: int | None = None) -> BudgetLimit:
    """Return a limit, with a raise by 5 that was made at a time."""
    limit = BudgetLimit(1, (LimitStep.of(amount, {HOME: 1}),))
    if raised is None:
        return limit
    return replace(limit, raises={"order-1": D(5)}, raised={"order-1": D(raised)})


def raised_item(at: int, *, minted: int = 0) -> Rights:
    """Return the item of a holder that minted an amount, and a raise by 5 at a time."""
    raised = rights_plan.raise_limit(rights_plan.create(LOST, D(minted)), D(5), "order-1", now=at)
    assert raised is not None
    return raised


def whole(limit: BudgetLimit, items: Collection[Rights]) -> MissingHalf:
    """Return what is missing of a budget without windows."""
    return half_applied_changes.missing_of(limit, items, Window("key/42", "key/42"), NOW)


@pytest.mark.parametrize(("ago", "counts"), [(0, True), (1, False)])
def test_a_raise_that_the_limit_may_have_forgotten_is_not_added_to_it(
    ago: int, *, counts: bool
) -> None:
    """Only the newer half of what is remembered counts, with the second at which it begins."""
    item = raised_item(NOW - RAISE_SECONDS // 2 - ago)
    known = {"order-1": D(5)} if counts else {}
    limit = replace(limit_of(10), raises={"order-2": D(1)}, raised={"order-2": D(NOW)})
    assert half_applied_changes.not_in_limit(limit, [item]) == known


def test_a_raise_is_missing_however_long_ago_it_was_restored() -> None:
    """The limit knows none at all, or only earlier ones."""
    item = raised_item(NOW - 10 * RAISE_SECONDS)
    earlier = replace(
        limit_of(10), raises={"order-0": D(1)}, raised={"order-0": D(NOW - 20 * RAISE_SECONDS)}
    )
    for limit in (limit_of(10), earlier):
        assert half_applied_changes.not_in_limit(limit, [item]) == {"order-1": D(5)}


@pytest.mark.parametrize(("after", "is_of_it"), [(EDGE_SECONDS, True), (EDGE_SECONDS - 1, False)])
def test_a_raise_made_just_as_a_window_began_is_not_minted_in_it(
    after: int, *, is_of_it: bool
) -> None:
    """It may have been planned, and minted, in the window before."""
    window = Window("key/42", "key/42@2026-11-22", begins=NOW, ends=NOW + 86_400)
    missing = half_applied_changes.missing_of(
        limit_of(10, raised=NOW + after), [], window, NOW + 900
    )
    assert len(missing.steps) == is_of_it


@pytest.mark.parametrize("limit", [3, 5])
def test_nothing_is_minted_where_raises_alone_come_to_the_limit(limit: int) -> None:
    """Nor is the limit raised to what they come to."""
    missing = whole(limit_of(limit), [raised_item(NOW)])
    assert missing == MissingHalf((), D(5))


def test_a_limit_is_minted_where_nothing_but_raises_was() -> None:
    """With a lost holder that was reclaimed, and had nothing, or owed something."""
    for left in (0, -2):
        home = replace(rights_plan.create(HOME, D(0)), reclaimed={LOST: D(left)})
        missing = whole(limit_of(10), [raised_item(NOW), home])
        assert (len(missing.steps), missing.limit) == (1, D(10))


def test_a_limit_of_which_anything_was_minted_is_not_minted_again() -> None:
    """It was made, and lowered since."""
    missing = whole(limit_of(10), [raised_item(NOW, minted=2)])
    assert missing == MissingHalf((), D(7))


def test_the_raise_that_made_a_limit_is_missing_as_any_other() -> None:
    """Of a budget without windows: all that it had was that."""
    limit = replace(limit_of(5, raised=NOW), opened_by="order-1")
    missing = whole(limit, [])
    assert missing.limit == 5
    item = rights_plan.in_one_write(rights_plan.create(HOME, D(0)), missing.steps)
    assert isinstance(item, Rights)
    assert item.minted == 5
    assert item.raises == {"order-1": 5}
    assert whole(limit, [item]) == MissingHalf((), D(5))


@pytest.mark.parametrize("raise_id", ["order-1", ""])
def test_of_a_limit_that_raises_made_nothing_else_is_minted(raise_id: str) -> None:
    """What is there is less than the limit by a lowering of which the rights arrived alone."""
    limit = replace(limit_of(5, raised=NOW), opened_by=raise_id)
    lowered = rights_plan.lower_limit(raised_item(NOW), D(2))
    assert lowered is not None
    assert whole(limit, [lowered]) == MissingHalf((), D(2))


def test_the_raise_that_made_windows_is_in_each_share() -> None:
    """Of the window that runs it is minted by its share; a later raise of it is missing."""
    window = Window("key/42", "key/42@now", begins=NOW - 100, ends=NOW + 100)
    limit = limit_of(5, raised=NOW)
    assert half_applied_changes.missing_of(limit, [], window, NOW).steps
    assert not half_applied_changes.missing_of(
        replace(limit, opened_by="order-1"), [], window, NOW
    ).steps

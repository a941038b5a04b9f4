"""Totals that tell which changes they count."""

from decimal import Decimal

import pytest

from ledger.core.amounts import exact
from ledger.demo.harness.digit_tags import CHANGES_MAX, IMPOSSIBLE, amount, describe_counts, digits


@pytest.mark.parametrize(
    ("total", "times"),
    [
        (0, {}),
        (1, {0: 1}),
        (101, {0: 1, 2: 1}),
        (Decimal(120), {1: 2, 2: 1}),
        (Decimal("1E+3"), {3: 1}),
        (9, {0: 9}),
        (-1, {IMPOSSIBLE: 1}),
        (Decimal("1.5"), {IMPOSSIBLE: 1}),
    ],
)
def test_a_total_names_the_changes_that_it_counts(
    total: int | Decimal, times: dict[int, int]
) -> None:
    """Digit n is how often change n is counted; debts and fractions come from no changes."""
    assert digits(total) == times


def test_all_changes_fit_into_a_total_even_counted_several_times() -> None:
    """The sum of all changes, nine times over, is still exact and tells them apart."""
    total = exact(9 * sum(map(amount, range(CHANGES_MAX))))
    assert digits(total) == dict.fromkeys(range(CHANGES_MAX), 9)


def test_what_is_wrong_is_told() -> None:
    """Each change is named with how often it is counted."""
    assert describe_counts({3: 2, 5: 4}) == "change 3 counted 2 times, change 5 counted 4 times"
    assert describe_counts({IMPOSSIBLE: 1}) == "a sum that no changes make up"

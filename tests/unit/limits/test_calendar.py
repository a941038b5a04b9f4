"""Windows by their names."""

from datetime import UTC, datetime

import pytest

from ledger.core.budgets import BudgetRule, WindowName
from ledger.limits.calendar import window_named, window_of


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("window", ["hour", "day", "month"])
@pytest.mark.parametrize(
    "at",
    [
        datetime(2026, 10, 25, 1, 30, tzinfo=UTC),
        datetime(2026, 3, 29, 1, tzinfo=UTC),
        datetime(2026, 12, 31, 23, 59, tzinfo=UTC),
        datetime(2024, 2, 29, tzinfo=UTC),
    ],
)
def test_a_window_is_known_by_its_counter(window: WindowName, zone: str, at: datetime) -> None:
    """Whoever finds one of its entries makes its item with the same share."""
    rule = BudgetRule(window=window, zone=zone)
    found = window_of("key/42", rule, at)
    assert window_named(found.counter, rule) == found


def test_a_budget_without_windows_is_its_own() -> None:
    """Whatever its counter is; a rolling one has its buckets."""
    for rule in (BudgetRule(), BudgetRule(rolling=3_600.0)):
        for counter in ("key/42", "key@2026-11-25"):
            assert window_named(counter, rule) == window_of(counter, rule, datetime.now(UTC))


@pytest.mark.parametrize(
    "counter", ["key/42", "key/42@", "key/42@2026", "key/42@2026-13-01", "key/42@2026-1-1", "@@"]
)
def test_what_names_no_window_is_none(counter: str) -> None:
    """Nobody spends from it."""
    assert window_named(counter, BudgetRule(window="day")) is None

"""Windows by their names."""

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from ledger.budgets.calendar import rule_of, window_named, window_of
from ledger.core.budget_rules import BudgetRule, WindowName
from ledger.core.errors import BudgetMissing, InvalidEntry
from ledger.testing import MemoryGlobalTable


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


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "Australia/Lord_Howe"])
def test_an_hour_is_named_in_utc_whatever_zone_the_time_is_in(zone: str) -> None:
    """So spends of one instant are of one window, with zones of half hours, too."""
    at = datetime(2026, 11, 25, 14, 45, tzinfo=UTC)
    found = window_of("key/42", BudgetRule(window="hour"), at.astimezone(ZoneInfo(zone)))
    assert found.counter == "key/42@2026-11-25T14Z"
    assert found.begins == at.replace(minute=0).timestamp()


def test_a_year_has_four_digits() -> None:
    """So that names of windows sort as their times do, and are read as they are written."""
    rule = BudgetRule(window="hour")
    found = window_of("key/42", rule, datetime(1, 1, 2, tzinfo=UTC))
    assert found.counter == "key/42@0001-01-02T00Z"
    assert window_named(found.counter, rule) == found


def test_a_pattern_that_is_announced_is_told_from_none() -> None:
    """The call is repeated for one, and a pattern is added for the other."""
    terms = replace(MemoryGlobalTable().settings.terms, budgets_coming=("key/*",))
    for budget, said in (("key/42", "is announced: repeat the call"), ("team", "add one by")):
        with pytest.raises(BudgetMissing, match=said):
            rule_of(terms, budget)


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


@pytest.mark.parametrize("window", ["hour", "day", "month"])
def test_a_time_at_the_end_of_the_calendar_is_in_no_window(window: WindowName) -> None:
    """Its window would end in the year 10,000; a counter that is named so is of none."""
    rule = BudgetRule(window=window)
    with pytest.raises(InvalidEntry, match="within the calendar, got 9999-12-31T23:59:59"):
        window_of("key", rule, datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))
    name = {"hour": "9999-12-31T23Z", "day": "9999-12-31", "month": "9999-12"}[window]
    assert window_named(f"key@{name}", rule) is None


def test_a_time_at_the_beginning_of_the_calendar_is_in_no_window_of_a_western_zone() -> None:
    """There it would be in the year 0."""
    rule = BudgetRule(window="day", zone="America/New_York")
    with pytest.raises(InvalidEntry, match="within the calendar, got 0001-01-01"):
        window_of("key", rule, datetime(1, 1, 1, tzinfo=UTC))

"""Windows: an hour, a day or a month of a pattern's zone, each a budget of its own.

The budget of a window is named by its counter and its beginning: `key/42@2026-11-25` is a day,
`key/42@2026-11` a month, `key/42@2026-11-25T14Z` an hour, which is named in UTC, since a zone has
an hour twice when its clocks are set back. Nothing is ever reset: the time in a spend's id says
which window it is of.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from ledger.core.budget_rules import BUCKETS, WINDOW_MARK, BudgetRule
from ledger.core.contract import Terms, matches_any
from ledger.core.errors import BudgetMissing, InvalidCounter, InvalidEntry, InvalidInput
from ledger.core.ids import EPOCH
from ledger.core.keys import checked_new_counter
from ledger.core.periods import zone_of

WINDOWS_KEPT = 1024
_DECEMBER = 12
_NAMES = {"hour": "%Y-%m-%dT%HZ", "day": "%Y-%m-%d", "month": "%Y-%m"}
"""How a window is named, after its budget's counter."""
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Window:
    """A window of a budget; times in whole seconds since 1970, `ends` is the next one's beginning.

    `counter` is the one that its spends are entries of. Without windows it is the budget's own, and
    begins and ends never. `bucket` is of a rolling limit, in seconds (`rolling_limits`).
    """

    budget: str
    counter: str
    begins: int = 0
    ends: int | None = None
    bucket: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether the budget has no windows."""
        return self.ends is None


def rule_of(terms: Terms, budget: str) -> BudgetRule:
    """Return the rule of a budget.

    Raises:
        BudgetMissing: no pattern of the contract has its counter.
        InvalidInput: it is a book.
    """
    if terms.is_book(budget):
        raise InvalidInput(
            f"{budget!r} is a book, by a pattern of `books` in the table's contract: it has no"
            " budget"
        )
    rule = terms.budget_of(budget)
    if rule is None and matches_any(budget, terms.budgets_coming):
        raise BudgetMissing(
            f"{budget!r} matches a pattern of budgets that is announced: repeat the call once it is"
            " in force (`ledger table show`)"
        )
    if rule is None:
        raise BudgetMissing(
            f"{budget!r} matches no pattern of the contract's budgets: add one by"
            " `ledger table set budgets PATTERN=window:none`"
        )
    return rule


def checked_budget(counter: str, rule: BudgetRule) -> str:
    """Return the counter of a budget.

    Raises:
        InvalidCounter: not a counter id, or one of a pattern with windows that has an `@`.
    """
    checked = checked_new_counter(counter)
    if rule.window != "none" and WINDOW_MARK in checked:
        raise InvalidCounter(
            f"budget {counter!r} must have no {WINDOW_MARK!r}: with windows that names one of them"
        )
    return checked


def window_of(budget: str, rule: BudgetRule, at: datetime) -> Window:
    """Return the window of a budget that an aware time is in.

    Raises:
        InvalidEntry: the window begins or ends outside of the calendar, the years 1 to 9999.
    """
    try:
        return _window_of(budget, rule, at)
    except (OverflowError, ValueError):
        raise InvalidEntry(
            f"time must be in a window that ends within the calendar, got {at.isoformat()}"
        ) from None


def _window_of(budget: str, rule: BudgetRule, at: datetime) -> Window:
    if rule.window == "none":
        return Window(budget, budget, bucket=int(rule.rolling) // BUCKETS)
    if rule.window == "hour":
        begins = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        return _window(budget, f"{begins.date().isoformat()}T{begins:%H}Z", begins, begins + _HOUR)
    local = at.astimezone(zone_of(rule.zone))
    if rule.window == "month":
        return _month(budget, rule.zone, local.year, local.month)
    return _day(budget, rule.zone, local.date())


def previous_of(window: Window, rule: BudgetRule) -> Window:
    """Return the window before one, of a budget that has windows."""
    return window_of(window.budget, rule, EPOCH + timedelta(seconds=window.begins - 1))


def window_named(counter: str, rule: BudgetRule) -> Window | None:
    """Return the window of this counter, of a budget by its rule; None if it names none."""
    budget, mark, name = counter.rpartition(WINDOW_MARK)
    if rule.window == "none":
        return Window(counter, counter, bucket=int(rule.rolling) // BUCKETS)
    if not mark:
        return None
    try:
        at = datetime.strptime(name, _NAMES[rule.window]).replace(tzinfo=UTC)
        if rule.window != "hour":
            at = datetime(at.year, at.month, at.day, tzinfo=zone_of(rule.zone))
        window = window_of(budget, rule, at)
    except (ValueError, OverflowError):
        return None
    return window if window.counter == counter else None


def window_in(counter: str, terms: Terms) -> Window | None:
    """Return the window, or whole budget, of this counter; None if no pattern has it."""
    rule = terms.budget_of(counter)
    return None if rule is None else window_named(counter, rule)


@lru_cache(WINDOWS_KEPT)
def _month(budget: str, zone: str, year: int, month: int) -> Window:
    begins = datetime(year, month, 1, tzinfo=zone_of(zone))
    later = (year + 1, 1) if month == _DECEMBER else (year, month + 1)
    return _window(budget, f"{year:04d}-{month:02d}", begins, begins.replace(*later))


@lru_cache(WINDOWS_KEPT)
def _day(budget: str, zone: str, day: date) -> Window:
    """Return a day's window, from local midnight to the next: it may have 23 or 25 hours."""
    begins = datetime(day.year, day.month, day.day, tzinfo=zone_of(zone))
    return _window(budget, day.isoformat(), begins, begins + _DAY)


def _window(budget: str, name: str, begins: datetime, ends: datetime) -> Window:
    return Window(
        budget, f"{budget}{WINDOW_MARK}{name}", whole_seconds(begins), whole_seconds(ends)
    )


def whole_seconds(at: datetime) -> int:
    """Return an aware time in whole seconds since 1970, rounded down."""
    return (at.astimezone(UTC) - EPOCH) // timedelta(seconds=1)

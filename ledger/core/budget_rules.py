"""The rule of budgets: how the limits of some counters are kept, equal in all processes of a table.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from typing import Literal

WINDOW_MARK = "@"
"""Stands between a budget's counter and its window's beginning; no such counter has it itself."""
BUCKETS = 24
"""Into how many parts the window of a rolling limit is divided: each comes back at once."""
WindowName = Literal["none", "hour", "day", "month"]
OnOutage = Literal["refuse", "allow"]
OnExpiry = Literal["void", "settle"]


@dataclass(frozen=True, slots=True)
class BudgetRule:
    """The rule of the budgets that match a pattern; durations in seconds.

    With a `window` each hour, day or month in `zone` is a budget of its own, which may be spent
    from for `late` after its end. With `rolling` the limit is that of any span of so many seconds.
    A grant lives for `grant_life`. While DynamoDB does not answer, spends are refused, or allowed
    and charged later (`on_outage`). A hold that is over is void, or settled as it is (`on_expiry`).
    With `credits` it may be credited in any region, and its amounts are checked as of a limit of
    10^22.
    """

    window: WindowName = "none"
    zone: str = "UTC"
    late: float = 0.0
    grant_life: float = 60.0
    on_outage: OnOutage = "refuse"
    on_expiry: OnExpiry = "void"
    rolling: float = 0.0
    credits: bool = False


def budget_in(counter: str) -> str:
    """Return the budget's counter of a window's, such as `key/42` of `key/42@2026-11-25`."""
    return counter.rpartition(WINDOW_MARK)[0] or counter

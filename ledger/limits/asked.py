"""What a caller asks to spend, or to hold.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from ledger.core import amounts
from ledger.core.errors import InvalidInput
from ledger.core.keys import checked_new_counter
from ledger.core.values import Entry
from ledger.writing.asked import listed_as
from ledger.writing.plan import Change

BUDGETS_MAX = 20
"""Budgets that one entry is paid by: resolved apart it takes an action of a transaction of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be spent: from these budgets, the narrowest first.

    `hold` is when it expires as a hold, in whole seconds since 1970. `wait` is for how many seconds
    rights that are elsewhere are waited for. `noted` is told the entry before it is sent.
    """

    budgets: tuple[str, ...]
    amount: int | Decimal
    note: str | None = None
    key: str | None = None
    at: datetime | None = None
    hold: int | None = None
    wait: float = 0.0
    noted: Callable[[Entry], None] | None = None

    def change(self, counter: str) -> Change:
        """Return the change that is recorded: what is spent is taken away."""
        change = amounts.exact(self.amount).copy_negate()
        return Change(counter, change, self.note, None, self.key, self.at)


def checked_budgets(names: Sequence[str]) -> tuple[str, ...]:
    """Return the counters of the budgets of one spend.

    Raises:
        InvalidInput: it is not a list of 1 to `BUDGETS_MAX` different counters.
    """
    listed = [] if isinstance(names, str) else listed_as("budgets", names)
    checked = tuple(checked_new_counter(name) for name in listed)
    if not checked or len({*checked}) < len(checked):
        raise InvalidInput(f"budgets must be a list of different counters, got {names!r:.80}")
    if len(checked) > BUDGETS_MAX:
        raise InvalidInput(
            f"one spend takes from up to {BUDGETS_MAX} budgets, got {len(checked)}: spend from some"
            " of them by another call"
        )
    return checked

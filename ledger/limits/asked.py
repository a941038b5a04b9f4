"""What a caller asks to spend, or to hold.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from ledger.core import amounts
from ledger.core.values import Entry
from ledger.writing.plan import Change


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

"""The optimistic counter with history: the item remembers its latest writers."""

from ledger.primitives.counters.counter import (
    EXACT_LIMITS,
    FIRST_USE,
    SINGLE_ITEM_REGIONS,
    Guarantees,
)
from ledger.primitives.counters.optimistic import OptimisticCounter

TAGS_MAX = 12
"""With tokens of `new_token` the item is then still within the first KB."""


class HistoryCounter(OptimisticCounter):
    """An optimistic counter whose item keeps the tags of its latest `tags_max` writers."""

    kind = "history"
    tags_max = TAGS_MAX
    guarantees = Guarantees(
        unknown="Never counts twice. Stays Unknown only if so many others have written before the"
        f" item is read again that its tag was pushed out: {TAGS_MAX} or more.",
        tokens=f"Recognized while its write is among the latest {TAGS_MAX}; then counts again.",
        thresholds=EXACT_LIMITS,
        regions=SINGLE_ITEM_REGIONS,
        cost="As optimistic; with long tokens the item is over 1 KB, and each write costs more."
        + FIRST_USE,
        write_units=1,
        read_units=1,
        value_units=1,
    )

"""Numbers that grow: by a counter item (fast, gaps) or by sort keys (no gaps). See README.md."""

from ledger.primitives.sequences.counter import BLOCK_MAX, CounterSequence
from ledger.primitives.sequences.numbers import (
    NUMBER_MAX,
    MaybeNumbered,
    NotNumbered,
    Numbered,
    number_of_key,
    sort_key_of,
)
from ledger.primitives.sequences.sort_key import AfterRace, SortKeySequence

__all__ = [
    "BLOCK_MAX",
    "NUMBER_MAX",
    "AfterRace",
    "CounterSequence",
    "MaybeNumbered",
    "NotNumbered",
    "Numbered",
    "SortKeySequence",
    "number_of_key",
    "sort_key_of",
]

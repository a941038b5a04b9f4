"""Numbers that grow: by counter item or by sort keys. See docs/reference/coordination.md."""

from ledger.primitives.sequences.call_queue import Queue
from ledger.primitives.sequences.contents import APPEND_MAX
from ledger.primitives.sequences.counter_sequence import BLOCK_MAX, CounterSequence, MakeItem
from ledger.primitives.sequences.numbers import (
    NUMBER_MAX,
    MaybeNumbered,
    NotNumbered,
    Numbered,
    number_of_key,
    sort_key_of,
)
from ledger.primitives.sequences.offers import AfterRace
from ledger.primitives.sequences.sort_key_sequence import ADDED_MAX, AppendOptions, SortKeySequence

__all__ = [
    "ADDED_MAX",
    "APPEND_MAX",
    "BLOCK_MAX",
    "NUMBER_MAX",
    "AfterRace",
    "AppendOptions",
    "CounterSequence",
    "MakeItem",
    "MaybeNumbered",
    "NotNumbered",
    "Numbered",
    "Queue",
    "SortKeySequence",
    "number_of_key",
    "sort_key_of",
]

"""Counters whose total shows which changes it counts, and how often.

Change number n of such a counter adds 10 to the power of n, so digit n of a total says how many
times that change is counted: 0 or 1 in every right total. The checkers of the simulator, the demo
and chaos rest on it.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from decimal import Decimal

TaggedChange = tuple[str, int]
"""A change: its counter and its number there."""
CHANGES_MAX = 36
"""Two digits fewer than DynamoDB's 38: a change counted ten times over still fits."""
IMPOSSIBLE = -1
"""Stands for a total that no changes make up: negative, or not a whole number."""


def digits(total: int | Decimal) -> dict[int, int]:
    """Return how often a total counts each change; `IMPOSSIBLE` if no changes make it up."""
    whole = int(total)
    if whole < 0 or whole != total:
        return {IMPOSSIBLE: 1}
    return {place: int(digit) for place, digit in enumerate(reversed(str(whole))) if digit != "0"}


def amount(number: int) -> int:
    """Return what change `number` adds."""
    return int(10**number)


def describe_counts(times: Mapping[int, int]) -> str:
    """Return how often each change is counted, in words."""
    if IMPOSSIBLE in times:
        return "a sum that no changes make up"
    return ", ".join(f"change {number} counted {often} times" for number, often in times.items())

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
DEBT = -1
"""Stands for a total that no changes make up: below zero, or no whole number."""


def digits(total: int | Decimal) -> dict[int, int]:
    """Return how often a total counts each change that it counts; `DEBT` for an impossible one."""
    whole = int(total)
    if whole < 0 or whole != total:
        return {DEBT: 1}
    return {place: int(digit) for place, digit in enumerate(reversed(str(whole))) if digit != "0"}


def amount(number: int) -> int:
    """Return what change `number` adds."""
    return int(10**number)


def told(times: Mapping[int, int]) -> str:
    """Say how often each change is counted."""
    if DEBT in times:
        return "a sum that no changes make up"
    return ", ".join(f"change {number} counted {often} times" for number, often in times.items())

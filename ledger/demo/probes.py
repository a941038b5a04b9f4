"""Counters whose total tells which changes it counts, and how often: pure.

Change number n of a probe adds 10 to the power of n, so digit n of a total says how many times
that change is counted: 0 or 1 in every right read, and never 0 again in a region once it was 1.
This checks the ledger's first promise from outside, on every single read, with nothing known of
what has replicated where.
"""

from dataclasses import dataclass, field
from decimal import Decimal

CHANGES_MAX = 36
PREFIX = "probe-"


@dataclass(slots=True)
class Probe:
    """One probe counter and what has been seen of it."""

    counter: str
    written: dict[int, str] = field(default_factory=dict)
    acknowledged: set[tuple[str, int]] = field(default_factory=set)
    seen: dict[str, set[int]] = field(default_factory=dict)

    def next_change(self, region: str) -> tuple[int, Decimal] | None:
        """Return the number and amount of the next change, None when all are written."""
        number = len(self.written)
        if number == CHANGES_MAX:
            return None
        self.written[number] = region
        return number, Decimal(10**number)

    def acknowledge(self, region: str, number: int) -> None:
        """Note that a change is durable in this region."""
        self.acknowledged.add((region, number))

    def expected(self, region: str) -> frozenset[int]:
        """Return the changes that a read of this region beginning now must count."""
        own = {number for place, number in self.acknowledged if place == region}
        return frozenset(own | self.seen.get(region, set()))

    def judge(self, region: str, total: Decimal, expected: frozenset[int]) -> str | None:
        """Return what is wrong with a total read in a region, None if nothing is."""
        digits = [int(digit) for digit in reversed(f"{total:f}")] if total >= 0 else [-1]
        wrong = [place for place, digit in enumerate(digits) if digit not in {0, 1}]
        if wrong:
            return f"{self.counter} in {region}: change {wrong[0]} counted {digits[wrong[0]]} times"
        counted = {place for place, digit in enumerate(digits) if digit}
        if not expected <= counted:
            missing = min(expected - counted)
            return f"{self.counter} in {region}: change {missing} is no longer counted"
        if not counted <= set(self.written):
            return f"{self.counter} in {region}: change {max(counted)} was never written"
        self.seen.setdefault(region, set()).update(counted)
        return None

    def truth(self) -> Decimal:
        """Return the sum of all that was written."""
        return Decimal(sum(10**number for number in self.written))

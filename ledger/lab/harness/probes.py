"""Probes: counters of which every single read is checked from outside: pure.

Each total tells which changes it counts (`ledger.lab.harness.tagged`): each once in every right
read, and never none again in a region that has shown it. Nothing is known of what has replicated
where.
"""

from dataclasses import dataclass, field
from decimal import Decimal

from ledger.lab.harness.tagged import CHANGES_MAX, amount, digits, told

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
        return number, Decimal(amount(number))

    def acknowledge(self, region: str, number: int) -> None:
        """Note that a change is durable in this region."""
        self.acknowledged.add((region, number))

    def expected(self, region: str) -> frozenset[int]:
        """Return the changes that a read of this region beginning now must count."""
        own = {number for place, number in self.acknowledged if place == region}
        return frozenset(own | self.seen.get(region, set()))

    def judge(self, region: str, total: Decimal, expected: frozenset[int]) -> str | None:
        """Return what is wrong with a total read in a region, None if nothing is."""
        times = digits(total)
        often = {number: count for number, count in times.items() if count > 1 or number < 0}
        if often:
            return f"{self.counter} in {region}: {told(often)}"
        counted = set(times)
        if not expected <= counted:
            missing = min(expected - counted)
            return f"{self.counter} in {region}: change {missing} is no longer counted"
        if not counted <= set(self.written):
            return f"{self.counter} in {region}: change {max(counted)} was never written"
        self.seen.setdefault(region, set()).update(counted)
        return None

    def truth(self) -> Decimal:
        """Return the sum of all that was written."""
        return Decimal(sum(map(amount, self.written)))

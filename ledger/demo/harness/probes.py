"""Probes: tagged counters whose changes are handed out and whose reads are checked.

Pure: no clock, no randomness, no I/O.
"""

from decimal import Decimal

from ledger.demo.harness.checker import Read, TaggedChecker
from ledger.demo.harness.digit_tags import CHANGES_MAX, amount

PREFIX = "probe-"


class Probe:
    """One counter, of which every single read can be checked from outside.

    Nothing is known of what has replicated where.
    """

    def __init__(self, counter: str) -> None:
        self.counter = counter
        self.written = 0
        """How many changes were handed out."""
        self._checker = TaggedChecker()

    def next_change(self) -> tuple[int, Decimal] | None:
        """Return the number and amount of the next change, None when all are written."""
        if self.written == CHANGES_MAX:
            return None
        number, self.written = self.written, self.written + 1
        self._checker.begin_call([(self.counter, number)])
        return number, Decimal(amount(number))

    def acknowledge(self, region: str, number: int) -> None:
        """Record that a change is durable in this region."""
        self._checker.end_call(region, [(self.counter, number)], "acknowledged", at=0.0)

    def begin_read(self, region: str) -> Read:
        """Record that a read begins in a region."""
        return self._checker.begin_read("probe", region, self.counter, at=0.0)

    def end_read(self, read: Read, total: Decimal) -> str | None:
        """Return what is wrong with the total that a read returned, None if nothing is."""
        found = self._checker.end_read(read, total, at=0.0)
        return None if found is None else found.text

    def expected_total(self) -> Decimal:
        """Return the sum of all changes that were handed out."""
        return Decimal(sum(map(amount, range(self.written))))

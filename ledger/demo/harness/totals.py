"""The totals of every counter in every region, beside the expected ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from ledger.core.amounts import EXACT
from ledger.session.ledger import Ledger


@dataclass(frozen=True, slots=True)
class ShownTotals:
    """What one region shows at the end of a run, and what it should show."""

    region: str
    shown: Mapping[str, Decimal]
    expected: Mapping[str, Decimal]

    @property
    def errors(self) -> Mapping[str, Decimal]:
        """The difference of each counter's total from the expected one."""
        return {
            name: EXACT.subtract(self.shown[name], total) for name, total in self.expected.items()
        }

    @property
    def wrong(self) -> Sequence[str]:
        """A sentence for each total that is not the expected one."""
        return [
            f"{name} in {self.region} shows {self.shown[name]}, not {total}"
            for name, total in self.expected.items()
            if self.shown[name] != total
        ]

    @property
    def right(self) -> int:
        """How many totals are the expected ones."""
        return len(self.expected) - len(self.wrong)


async def read_totals(
    ledgers: Mapping[str, Ledger], expected: Mapping[str, Decimal]
) -> list[ShownTotals]:
    """Read the total of each expected counter in each region.

    Raises:
        StoreError, ReadTooSlow: a total cannot be read.
    """
    found = []
    for region, ledger in ledgers.items():
        totals = await ledger.totals(expected, max_age=0)
        shown = {name: total.value for name, total in totals.items()}
        found.append(ShownTotals(region, shown, expected))
    return found

"""`MergeMemory`: what a process remembers from pass to pass."""

from dataclasses import dataclass, field

from compactor.budgets import Later
from compactor.deciding import Repeats
from compactor.own_folds import OwnFolds
from compactor.pace import Pace
from ledger.totals.seen import SeenNets


@dataclass(frozen=True, slots=True)
class MergeMemory:
    """The values that each pass reads and changes for the next; none of them decides what is true.

    A process that forgets them all merges the same entries, with more reads and writes.
    """

    seen: SeenNets = field(default_factory=SeenNets)
    own_folds: OwnFolds = field(default_factory=OwnFolds)
    pace: Pace = field(default_factory=Pace)
    repeats: Repeats = field(default_factory=Repeats)
    budgets_due: Later = field(default_factory=Later)

    def opened_again(self) -> "MergeMemory":
        """Return the memory for a table that is opened again.

        It may have another contract by then: entries are put again, and budgets looked at, anew.
        """
        return MergeMemory(self.seen, self.own_folds, self.pace)

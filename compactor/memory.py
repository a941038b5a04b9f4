"""`MergeMemory`: what a process remembers from pass to pass."""

from dataclasses import dataclass, field

from compactor.budget_work import BudgetSchedule
from compactor.decider import RepeatedReasons
from compactor.merge_pace import MergePace
from compactor.own_folds import OwnFolds
from ledger.reads.seen_nets import SeenNets


@dataclass(frozen=True, slots=True)
class MergeMemory:
    """The values that each pass reads and changes for the next; none of them decides what is true.

    A process that forgets them all merges the same entries, with more reads and writes.
    """

    seen: SeenNets = field(default_factory=SeenNets)
    own_folds: OwnFolds = field(default_factory=OwnFolds)
    pace: MergePace = field(default_factory=MergePace)
    repeats: RepeatedReasons = field(default_factory=RepeatedReasons)
    budgets_due: BudgetSchedule = field(default_factory=BudgetSchedule)

    def opened_again(self) -> "MergeMemory":
        """Return the memory for a table that is opened again.

        It may have another contract by then: entries are put again, and budgets looked at, anew.
        """
        return MergeMemory(self.seen, self.own_folds, self.pace)

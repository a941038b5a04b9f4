"""What the demo knows while it runs, and its verdict at the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from ledger.lab.demos.changes.sample import Sample

WRONG_SHOWN_MAX = 5


@dataclass(slots=True)
class Progress:
    """The live figures."""

    sample: Sample
    regions: Sequence[str]
    phase: str = "starting"
    partition: str = ""
    recorded: dict[str, int] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)
    reads: int = 0
    wrong: list[str] = field(default_factory=list)
    entries: dict[str, int] = field(default_factory=dict)
    compactor: Mapping[str, float] = field(default_factory=dict)

    def judged(self, complaint: str | None) -> None:
        """Count a read that was checked."""
        self.reads += 1
        if complaint is not None:
            self.wrong.append(complaint)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one way of counting shows in one region at the end."""

    region: str
    total: Decimal
    exact: int
    lost: int
    errors: Mapping[str, Decimal] = field(default_factory=dict)
    """How far each counter's total is from the true one."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end of the demo: both ways compared with the truth, and what the ledger cost."""

    truth: Decimal
    counters: int
    changes: int
    ledger: Sequence[Outcome]
    single: Sequence[Outcome]
    reads: int
    wrong: Sequence[str]
    items_before: int
    items_after: int
    write_units: float
    merge_units: float
    merge_read_units: float
    single_units: float
    entries_per_fold: float
    seconds: float

    @property
    def is_exact(self) -> bool:
        """Whether the ledger was right everywhere and in every read."""
        return not self.wrong and all(one.exact == self.counters for one in self.ledger)

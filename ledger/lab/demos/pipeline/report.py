"""What the demo of the pipeline found and measured.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from ledger.core import amounts
from ledger.lab.demos.pipeline.options import Options

WRONG_KEPT_MAX = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one region shows in the end: how many categories are right, and some that are not."""

    region: str
    right: int
    wrong: int
    examples: Mapping[str, tuple[str, str]]
    """Category: what it shows, and what is true."""


@dataclass(frozen=True, slots=True)
class Report:
    """The end of a run.

    `seconds` go from the first message that was sent to the last one that the totals showed;
    `cpu_seconds` are those of the pipeline's processes alone, without their start.
    """

    options: Options
    outcomes: Sequence[Outcome]
    messages: int
    seconds: float
    cpu_seconds: float
    memory_bytes: int
    p50_seconds: float
    p99_seconds: float
    worst_seconds: float
    counts: Mapping[str, int]
    """Records in, doubled, outdated, dead, entries, retried, restarts, crashes; over all lanes."""
    spoiled: Mapping[str, tuple[int, int]]
    """Stage: requests that went wrong, and all."""
    write_units: float
    poison: int
    letters: int
    waiting: int
    """Map items that nobody has reduced: none, if all is right."""

    @property
    def per_second(self) -> float:
        """Messages a second, from the first to the last."""
        return self.messages / self.seconds if self.seconds else 0.0

    @property
    def per_core(self) -> float:
        """Messages a second of a core's time in the pipeline's processes."""
        return self.messages / self.cpu_seconds if self.cpu_seconds else 0.0

    @property
    def is_exact(self) -> bool:
        """Whether every region shows the truth, and nothing is left or lost on the way."""
        return (
            all(not one.wrong for one in self.outcomes)
            and self.letters == self.poison
            and not self.waiting
        )

    def as_json(self) -> dict[str, Any]:
        """Return all of it for a file."""
        figures = {"per_second": self.per_second, "per_core": self.per_core}
        return {"exact": self.is_exact, **figures, **asdict(self)}


def outcome(region: str, shown: Mapping[str, Decimal], truth: Mapping[str, Decimal]) -> Outcome:
    """Compare what a region shows with the truth."""
    wrong = {name: (shown[name], value) for name, value in truth.items() if shown[name] != value}
    examples = {
        name: (amounts.to_text(found), amounts.to_text(value))
        for name, (found, value) in list(wrong.items())[:WRONG_KEPT_MAX]
    }
    return Outcome(region, len(truth) - len(wrong), len(wrong), examples)

"""What the demo of the pipeline found and measured."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from rich.text import Text

from ledger.core import amounts
from ledger.lab.demos.pipeline.options import PipelineDemoOptions
from ledger.lab.harness.report import Report, Section, Verdict
from ledger.runtime.command_line import FAILED

WRONG_KEPT_MAX = 20
EXAMPLES_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one region shows in the end: how many categories are right, and some that are not."""

    region: str
    right: int
    wrong: int
    examples: Mapping[str, tuple[str, str]]
    """Category: what it shows, and what was expected."""


@dataclass(frozen=True, slots=True)
class PipelineDemoReport(Report):
    """The end of a run.

    `seconds` go from the first message that was sent to the last one that the totals showed;
    `cpu_seconds` are those of the pipeline's processes alone, without their start.
    """

    options: PipelineDemoOptions
    outcomes: Sequence[Outcome]
    messages: int
    seconds: float
    cpu_seconds: float
    memory_bytes: int
    p50_seconds: float
    p99_seconds: float
    worst_seconds: float
    counts: Mapping[str, int]
    """The fields of `ledger.pipeline.progress.Figures`, and crashes; over all lanes."""
    failed_requests: Mapping[str, tuple[int, int]]
    """Stage: requests that failed, and all."""
    write_units: float
    malformed: int
    dead_letters: int
    waiting: int
    """Map items that were not reduced: none, if all is right."""

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
        """Whether every region shows the expected totals, and nothing is left or lost."""
        return (
            all(not one.wrong for one in self.outcomes)
            and self.dead_letters == self.malformed
            and not self.waiting
        )

    def verdict(self) -> Verdict:
        """Return whether every total is exact."""
        if self.is_exact:
            return Verdict("exact in every region", "bold green")
        return Verdict("the totals are wrong", "bold red", FAILED)

    def as_json(self) -> dict[str, Any]:
        """Return all of it for a file."""
        figures = {"per_second": self.per_second, "per_core": self.per_core}
        return {"exact": self.is_exact, **figures, **Report.as_json(self)}

    def sections(self) -> Sequence[Section]:
        """Return the comparison, and what was measured."""
        rows = [
            [Text(cell, style="bold red" if one.wrong else "green") for cell in cells]
            for one in self.outcomes
            for cells in [(one.region, f"{one.right:,}", f"{one.wrong:,}")]
        ]
        comparison = Section(
            title=f"{self.messages:,} messages of {self.options.trade_count:,} trades",
            columns=("region", "categories right", "wrong"),
            rows=rows,
        )
        return comparison, Section(rows=self._facts())

    def remarks(self) -> Iterable[Text]:
        """Return some categories that are wrong."""
        found = [
            f"{one.region}: {name} shows {shown}, not {expected}"
            for one in self.outcomes
            for name, (shown, expected) in one.examples.items()
        ]
        return [Text(one, style="red") for one in found[:EXAMPLES_SHOWN_MAX]]

    def _facts(self) -> list[tuple[str, str]]:
        counts, options = self.counts, self.options
        failed = ", ".join(
            f"{stage} {failed:,} of {every:,}"
            for stage, (failed, every) in self.failed_requests.items()
        )
        own = f"{self.cpu_seconds:,.1f} s of the pipeline's own {len(options.lane_names)} processes"
        times = times_text(self.p50_seconds, self.p99_seconds, self.worst_seconds)
        pace = (
            f"at {options.rate:,g} messages a second"
            if options.rate
            else f"as fast as they are taken, {options.lead:,} ahead in each lane"
        )
        left_out = f"{counts['duplicates']:,} duplicate, {counts['stale']:,} stale"
        units = f"{self.write_units / self.messages:.2f} write units a message in one region"
        return [
            ("messages a second", f"{self.per_second:,.0f}, {self.seconds:,.1f} s in all"),
            ("of one core", f"{self.per_core:,.0f} a second ({own})"),
            ("sent to counted", f"{times}, {pace}"),
            ("memory of a process", f"up to {self.memory_bytes / 2**20:,.0f} MB"),
            ("records read", f"{counts['records']:,}: {left_out}, {counts['dead']:,} dead"),
            ("dead letters", f"{self.dead_letters:,} of {self.malformed:,} malformed messages"),
            ("requests failed", failed),
            ("requests repeated", f"{counts['retried']:,}"),
            ("lanes restarted", f"{counts['crashes']:,} crashes, {counts['restarts']:,} others"),
            ("written", f"{counts['entries']:,} entries; {units}"),
            ("not reduced", f"{self.waiting:,} map items"),
        ]


def outcome(region: str, shown: Mapping[str, Decimal], expected: Mapping[str, Decimal]) -> Outcome:
    """Compare what a region shows with the expected totals."""
    wrong = {name: (shown[name], value) for name, value in expected.items() if shown[name] != value}
    examples = {
        name: (amounts.to_text(found), amounts.to_text(value))
        for name, (found, value) in list(wrong.items())[:WRONG_KEPT_MAX]
    }
    return Outcome(region, len(expected) - len(wrong), len(wrong), examples)


def times_text(p50: float, p99: float, worst: float) -> str:
    """Return latencies in one line."""
    return f"p50 {p50:.2f} s, p99 {p99:.2f} s, worst {worst:.2f} s"

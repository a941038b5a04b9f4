"""Runs of the demo at one rate after the other, with and without failures, in one report."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.text import Text

from lab.harness.report_columns import ReportColumn, section_of
from lab.pipeline_demo.options import PipelineDemoOptions
from lab.pipeline_demo.report import PipelineDemoReport, draw_curves
from ledger.demo.harness.report import RunReport, Section, Verdict
from ledger.runtime.command_line import FAILED

SEARCH_SHARES = (0.95, 0.85, 0.75, 0.65, 0.5, 0.35, 0.2)
"""Of the throughput of full lanes, the rates that are tried until one is held."""
RULE = (
    "held: the producer kept the rate, and the messages that wait did not grow from the second"
    " third of the sending to the last by more than a quarter of a second of it"
)

RunOne = Callable[[PipelineDemoOptions], PipelineDemoReport]
_HELD = {True: "yes", False: "no", None: ""}
_COLUMNS: Sequence[ReportColumn[PipelineDemoReport]] = (
    ReportColumn("rate", "rate", lambda one: one.options.rate or None, "{:,.0f}".format),
    ReportColumn(
        "failures",
        "failures",
        lambda one: one.options.failures,
        {True: "1, 2, 2 %", False: "none"}.__getitem__,
    ),
    ReportColumn("per_second", "counted/s", lambda one: one.per_second, "{:,.0f}".format),
    ReportColumn("per_core", "per core", lambda one: one.per_core, "{:,.0f}".format),
    ReportColumn("p50", "p50 s", lambda one: one.latency["p50"], "{:.2f}".format),
    ReportColumn("p99", "p99 s", lambda one: one.latency["p99"], "{:.2f}".format),
    ReportColumn("worst", "worst s", lambda one: one.latency["worst"], "{:.2f}".format),
    ReportColumn("held", "held", lambda one: one.is_held, _HELD.__getitem__),
    ReportColumn("exact", "exact", lambda one: one.is_exact, _HELD.__getitem__),
)


@dataclass(frozen=True, slots=True)
class LadderReport(RunReport):
    """Several runs, in the order in which they were made."""

    runs: Sequence[PipelineDemoReport]

    @property
    def most_held(self) -> float:
        """The highest rate that was held, in messages a second; 0 if none was."""
        return max((run.options.rate for run in self.runs if run.is_held), default=0.0)

    def sections(self) -> Sequence[Section]:
        """Return a line for each run; one without a rate was of full lanes."""
        return (section_of(_COLUMNS, self.runs, caption=RULE),)

    def remarks(self) -> Iterator[Text]:
        """Return the most that was held, and the remarks of the runs."""
        if any(run.options.rate for run in self.runs):
            yield Text(f"the most that was held: {self.most_held:,.0f} messages a second")
        for run in self.runs:
            yield from run.remarks()

    def verdict(self) -> Verdict:
        """Return whether every run was exact."""
        if all(run.is_exact for run in self.runs):
            return Verdict("exact in every region and run", "bold green")
        return Verdict("the totals are wrong", "bold red", FAILED)

    def as_json(self) -> dict[str, Any]:
        """Return all runs for a file."""
        runs = [run.as_json() for run in self.runs]
        return {"most_held": self.most_held, "rule": RULE, "runs": runs}

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        """Return a line for each second of each run."""
        return [row for run in self.runs for row in run.as_rows()]

    def draw(self, figure: Any) -> None:
        """Draw throughput and latency of all runs over time."""
        draw_curves(figure, {_named(run.options): run.curve for run in self.runs})


def climb(options: PipelineDemoOptions, run_one: RunOne) -> LadderReport:
    """Make the runs of a ladder; without one, the run of the options alone."""
    runs: list[PipelineDemoReport] = []

    def run(chosen: PipelineDemoOptions) -> PipelineDemoReport:
        runs.append(run_one(chosen))
        return runs[-1]

    plain = replace(options, ladder="", beside=False)
    for rate in options.rungs() or [plain.rate]:
        chosen = _at(plain, rate, is_rung=bool(options.ladder)) if rate is not None else None
        if chosen is not None:
            run(chosen)
        else:
            chosen = _search(plain, run, runs)
        if options.beside:
            run(replace(chosen, failures=False))
    return LadderReport(runs)


def _search(
    plain: PipelineDemoOptions, run: RunOne, runs: Sequence[PipelineDemoReport]
) -> PipelineDemoOptions:
    """Run full lanes, then at shares of the highest throughput so far until one is held."""
    run(replace(plain, rate=0.0))
    full = max(report.per_second for report in runs)
    for share in SEARCH_SHARES:
        chosen = _at(plain, round(full * share), is_rung=True)
        if run(chosen).is_held:
            break
    return chosen


def _at(plain: PipelineDemoOptions, rate: float, *, is_rung: bool) -> PipelineDemoOptions:
    """Return the options of one rate, in a ladder with as many messages as its seconds take."""
    messages = max(1, round(rate * plain.seconds)) if is_rung else plain.messages
    return replace(plain, rate=rate, messages=messages)


def _named(options: PipelineDemoOptions) -> str:
    rate = f"{options.rate:,.0f} a second" if options.rate else "full lanes"
    return rate if options.failures else f"{rate}, no failures"

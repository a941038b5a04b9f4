import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from lab.pipeline_demo.curve import Curve
from lab.pipeline_demo.ladder import LadderReport, climb
from lab.pipeline_demo.options import FAIL, PipelineDemoOptions
from lab.pipeline_demo.report import PipelineDemoReport
from rich.console import Console

from ledger.core.errors import InvalidInput
from ledger.demo.harness.report import ReportFiles, finish
from ledger.demo.harness.totals import ShownTotals

CAPACITY = 1_000
SECONDS = 12
A = {"a": Decimal(1)}


def a_run(options: PipelineDemoOptions) -> PipelineDemoReport:
    """Return what a pipeline reports that takes `CAPACITY` messages a second."""
    rate, curve = options.rate or CAPACITY, Curve()
    for second in range(SECONDS):
        curve.send(int(rate), at=second)
        curve.count(int(min(rate, CAPACITY)), at=second, latency=0.25)
    stages = {f"{stage}_{what}": 50 for stage in FAIL for what in ("requests", "failed")}
    return PipelineDemoReport(
        options=options,
        totals=[ShownTotals("us-east-1", A, A)],
        seconds=options.messages / min(rate, CAPACITY),
        latency={"p50": 0.25, "p99": 0.5, "worst": 1.0},
        work={**stages, "cpu_seconds": 2.0},
        memory_bytes=1,
        malformed=0,
        dead_letters=0,
        waiting=0,
        sending_seconds=SECONDS,
        curve=curve.points(),
    )


def climbed(**options: object) -> LadderReport:
    """Return the report of a ladder."""
    return climb(PipelineDemoOptions(seconds=SECONDS, **options), a_run)  # type: ignore[arg-type]


def test_each_rung_runs_as_long_at_its_rate() -> None:
    """Messages go by rate and seconds; the highest that was held is named."""
    report = climbed(ladder="500, 900,2000")
    assert [(run.options.rate, run.options.messages) for run in report.runs] == [
        (500, 6_000),
        (900, 10_800),
        (2_000, 24_000),
    ]
    assert [run.is_held for run in report.runs] == [True, True, False]
    assert report.most_held == 900


def test_the_most_is_searched_for_below_the_throughput_of_full_lanes() -> None:
    """Full lanes first, then a share of what they took."""
    report = climbed(ladder="max")
    assert [run.options.rate for run in report.runs] == [0, 950]
    assert report.most_held == 950


def test_a_rung_that_was_too_high_shows_what_can_be_held() -> None:
    """Lanes that are kept few messages ahead take less than those before which more waits."""

    def slow_if_full(options: PipelineDemoOptions) -> PipelineDemoReport:
        report = a_run(options)
        return report if options.rate else replace(report, seconds=2 * report.seconds)

    report = climb(PipelineDemoOptions(seconds=SECONDS, ladder="2000,max"), slow_if_full)
    assert [run.options.rate for run in report.runs] == [2_000, 0, 950]


def test_beside_each_run_stands_one_without_failures() -> None:
    """Of a ladder, and of a single run, which keeps its messages."""
    report = climbed(ladder="500", beside=True)
    assert [run.options.failures for run in report.runs] == [True, False]
    single = climbed(messages=7_000, beside=True)
    assert [(run.options.failures, run.options.messages) for run in single.runs] == [
        (True, 7_000),
        (False, 7_000),
    ]


@pytest.mark.parametrize("ladder", ["500,", "0", "-1", "fast", "inf", "nan"])
def test_a_rung_that_is_no_rate_is_refused(ladder: str) -> None:
    """Before anything is run, by its word."""
    with pytest.raises(InvalidInput, match="neither messages a second"):
        PipelineDemoOptions(ladder=ladder)


@pytest.mark.tools("matplotlib")
def test_the_curves_are_saved_as_table_and_picture(tmp_path: Path) -> None:
    """A line for each second of each run; the picture has a curve for each."""
    files = ReportFiles(
        json_file=tmp_path / "a.json", csv_file=tmp_path / "a.csv", picture=tmp_path / "a.svg"
    )
    console = Console(record=True, width=140)
    finish(climbed(ladder="500,2000", beside=True), console, files)
    shown = console.export_text()
    assert "the most that was held: 500 messages a second" in shown
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert lines[0] == ("rate,failures,second,sent,counted,backlog,worst,throughput,latency")
    assert lines[1] == "500.0,True,0,500,500,0,0.25,500.0,0.25"
    assert len(lines) == 1 + 4 * SECONDS
    picture = (tmp_path / "a.svg").read_text()
    assert all(name in picture for name in ("2,000 a second", "500 a second, no failures"))
    written = json.loads((tmp_path / "a.json").read_text())
    assert (written["most_held"], len(written["runs"])) == (500, 4)

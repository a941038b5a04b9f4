import json
from dataclasses import replace
from decimal import Decimal

from lab.pipeline_demo.options import FAIL, PipelineDemoOptions
from lab.pipeline_demo.report import PipelineDemoProgress, PipelineDemoReport
from rich.console import Console

from ledger.demo.harness.display import line, panel
from ledger.demo.harness.report import render
from ledger.demo.harness.totals import ShownTotals

A, B = {"a": Decimal(1), "b": Decimal(2)}, {"a": Decimal(1), "b": Decimal(3)}
RIGHT, WRONG = ShownTotals("us-east-1", B, B), ShownTotals("eu-west-1", A, B)
WORK = ["records", "duplicates", "stale", "dead", "entries", "retried", "restarts", "crashes"]
FAULTS = [f"{stage}_{what}" for stage in FAIL for what in ("failed", "requests")]


def report(*totals: ShownTotals, letters: int = 3, waiting: int = 0) -> PipelineDemoReport:
    """Return a report of 1,000 messages."""
    work: dict[str, float] = dict.fromkeys([*WORK, *FAULTS], 7)
    return PipelineDemoReport(
        options=PipelineDemoOptions(messages=1000),
        totals=totals,
        seconds=4.0,
        latency={"p50": 0.1, "p99": 0.5, "worst": 1.0},
        work={**work, "write_units": 1500.0, "read_units": 10.0, "cpu_seconds": 2.0},
        memory_bytes=100 << 20,
        malformed=3,
        dead_letters=letters,
        waiting=waiting,
    )


def test_exact_is_every_category_in_every_region_and_nothing_left() -> None:
    """A wrong total, a lost dead letter, or a map item that waits: not exact."""
    assert report(RIGHT).is_exact
    assert not report(RIGHT, WRONG).is_exact
    assert not report(RIGHT, letters=2).is_exact
    assert not report(RIGHT, waiting=1).is_exact


def test_the_report_is_shown_and_written() -> None:
    """Rates, shares and what is wrong stand in the table, and in the JSON."""
    found = report(RIGHT, WRONG)
    console = Console(record=True, width=120)
    console.print(*map(render, found.sections()), *found.remarks())
    text = console.export_text()
    wrong = "b in eu-west-1 shows 2, not 3"
    for part in ("250, 4.0 s", "500 a second", "1.50 write and 0.01 read units", "100.0%", wrong):
        assert part in text
    written = json.loads(json.dumps(found.as_json()))
    assert (written["per_second"], written["per_core"], written["exact"]) == (250, 500, False)
    assert written["wrong"] == [wrong]


def test_progress_is_shown_as_it_comes() -> None:
    """Totals beside the expected ones, latency and rate, before there is anything and after."""
    progress, console = PipelineDemoProgress(PipelineDemoOptions()), Console(record=True, width=120)
    console.print(panel(progress.view()))
    assert progress.snapshot()["totals"] == []
    progress.seconds = 2.0
    progress.count(500, sent_at=1.0, at=1.25)
    expected = {f"risk/{risk}": Decimal("12.50") for risk in ("Delta", "Gamma", "Rho", "Vega")}
    progress.totals = [ShownTotals("us-east-1", expected, expected)]
    console.print(panel(progress.view()))
    text = console.export_text()
    assert "12.50" in text
    assert "250 a second; latency: p50 0.25 s, p99 0.25 s, worst 0.25 s" in line(progress.view())


def test_a_stage_that_met_no_failure_is_named() -> None:
    """A remark says so, but not where none were asked for."""
    found = report(RIGHT)
    assert not list(found.remarks())
    quiet = replace(found, work={**found.work, "map_failed": 0})
    assert ["no request of map failed" in line.plain for line in quiet.remarks()] == [True]
    assert not list(replace(quiet, options=PipelineDemoOptions(failures=False)).remarks())

import json
from decimal import Decimal

from rich.console import Console

from ledger.lab.demos.pipeline.options import PipelineDemoOptions
from ledger.lab.demos.pipeline.progress import PipelineDemoProgress
from ledger.lab.demos.pipeline.report import Outcome, PipelineDemoReport, outcome
from ledger.lab.harness.display import line, panel
from ledger.lab.harness.report import render

RIGHT = Outcome("us-east-1", right=2, wrong=0, examples={})
WRONG = outcome("eu-west-1", {"a": Decimal(1), "b": Decimal(2)}, {"a": Decimal(1), "b": Decimal(3)})


def report(*outcomes: Outcome, letters: int = 3, waiting: int = 0) -> PipelineDemoReport:
    """Return a report of 1,000 messages."""
    names = "records duplicates stale dead entries retried restarts crashes"
    return PipelineDemoReport(
        options=PipelineDemoOptions(messages=1000),
        outcomes=outcomes,
        messages=1000,
        seconds=4.0,
        cpu_seconds=2.0,
        memory_bytes=100 << 20,
        p50_seconds=0.1,
        p99_seconds=0.5,
        worst_seconds=1.0,
        counts=dict.fromkeys(names.split(), 7),
        failed_requests={"state": (1, 10)},
        write_units=1500.0,
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
    assert (WRONG.right, WRONG.wrong, WRONG.examples) == (1, 1, {"b": ("2", "3")})


def test_the_report_is_shown_and_written() -> None:
    """Rates, shares and what is wrong stand in the table, and in the JSON."""
    found = report(RIGHT, WRONG)
    console = Console(record=True, width=120)
    console.print(*map(render, found.sections()), *found.remarks())
    text = console.export_text()
    for part in ("250, 4.0 s", "500 a second", "1.50 write units", "b shows 2, not 3"):
        assert part in text
    told = json.loads(json.dumps(found.as_json()))
    assert (told["per_second"], told["per_core"], told["exact"]) == (250, 500, False)
    assert told["outcomes"][1]["examples"] == {"b": ["2", "3"]}


def test_progress_is_shown_as_it_comes() -> None:
    """Totals beside the expected ones, latency and rate, before there is anything and after."""
    progress, console = PipelineDemoProgress(PipelineDemoOptions()), Console(record=True, width=120)
    console.print(panel(progress.view()))
    progress.counted, progress.seconds = 500, 2.0
    progress.latencies.add(0.25, 500)
    progress.expected = {"risk/Delta": Decimal("12.50")}
    progress.shown = {"us-east-1": {"risk/Delta": Decimal("12.50")}, "eu-west-1": {}}
    console.print(panel(progress.view()))
    text = console.export_text()
    assert "12.50" in text
    assert "250 a second; latency: p50 0.25 s, p99 0.25 s, worst 0.25 s" in line(progress.view())

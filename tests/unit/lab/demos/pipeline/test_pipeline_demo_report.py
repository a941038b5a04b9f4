import json
from decimal import Decimal

import pytest
from rich.console import Console

from ledger.lab.demos.pipeline.display import line, panel, report_table
from ledger.lab.demos.pipeline.latency import Latencies
from ledger.lab.demos.pipeline.options import Options
from ledger.lab.demos.pipeline.report import Outcome, Report, outcome
from ledger.lab.demos.pipeline.state import Progress

RIGHT = Outcome("us-east-1", right=2, wrong=0, examples={})
WRONG = outcome("eu-west-1", {"a": Decimal(1), "b": Decimal(2)}, {"a": Decimal(1), "b": Decimal(3)})


def report(*outcomes: Outcome, letters: int = 3, waiting: int = 0) -> Report:
    """Return a report of 1,000 messages."""
    names = "records doubled outdated dead entries retried restarts crashes"
    return Report(
        options=Options(messages=1000),
        outcomes=outcomes,
        messages=1000,
        seconds=4.0,
        cpu_seconds=2.0,
        memory_bytes=100 << 20,
        p50_seconds=0.1,
        p99_seconds=0.5,
        worst_seconds=1.0,
        counts=dict.fromkeys(names.split(), 7),
        spoiled={"state": (1, 10)},
        write_units=1500.0,
        poison=3,
        letters=letters,
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
    console.print(report_table(found))
    text = console.export_text()
    for part in ("250, 4.0 s", "500 a second", "1.50 write units", "b shows 2, not 3"):
        assert part in text
    told = json.loads(json.dumps(found.as_json()))
    assert (told["per_second"], told["per_core"], told["exact"]) == (250, 500, False)
    assert told["outcomes"][1]["examples"] == {"b": ["2", "3"]}


def test_progress_is_shown_as_it_comes() -> None:
    """Totals beside the truth, latency and rate, before there is anything and after."""
    progress, console = Progress(Options()), Console(record=True, width=120)
    console.print(panel(progress))
    progress.counted, progress.seconds = 500, 2.0
    progress.latencies.add(0.25, 500)
    progress.truth = {"risk/Delta": Decimal("12.50")}
    progress.shown = {"us-east-1": {"risk/Delta": Decimal("12.50")}, "eu-west-1": {}}
    console.print(panel(progress))
    text = console.export_text()
    assert "12.50" in text
    assert "250 a second; latency p50 0.25 s, p99 0.25 s, worst 0.25 s" in line(progress)


@pytest.mark.parametrize(
    ("share", "seconds"), [(0.5, 0.010), (0.98, 0.020), (0.99, 0.020), (1.0, 3.0)]
)
def test_latencies_are_counted_to_the_millisecond(share: float, seconds: float) -> None:
    """The share of messages within a time is that of the counts."""
    found = Latencies()
    found.add(0.0101, 60)
    found.add(0.0199, 39)
    found.add(3.0)
    assert found.at(share) == seconds
    assert (found.count, Latencies().at(share)) == (100, 0.0)

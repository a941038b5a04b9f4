"""What a soak shows at its end, and its report for a file."""

import json
from contextlib import suppress

import pytest
import typer
from lab.faults.schedule import KILLED_WRITER, SERVICE_ROUND, USUAL
from lab.soak.curves import Curves
from lab.soak.report import SoakOptions, SoakProgress, SoakReport
from lab.soak.run import SoakRun
from rich.console import Console

from ledger.demo.harness.checker import TaggedChecker, Violation
from ledger.demo.harness.report import ReportFiles, finish
from ledger.testing import ManualClock

OPTIONS = SoakOptions(seed=7, minutes=2.0)
MB = 1_000_000


def some_progress() -> SoakProgress:
    """Return what was measured of a run of two intervals."""
    clock = ManualClock(instant=True)
    progress = SoakProgress(OPTIONS, TaggedChecker(), clock, curves=Curves(60.0))
    progress.started, progress.ended = 0.0, 70.0
    for at, seconds in ((5.0, 0.012), (65.0, 3.4)):
        interval = progress.curves.at(at)
        interval.calls["write"] += 1
        interval.latencies["write"].add(seconds)
        interval.outcomes["acknowledged"] += 1
        interval.attempts.update({"201": 1, "cut": 2})
        for name, size in (("a-steady", 100), ("a-0", 90)):
            progress.curves.memory[name].append((at, size * MB + int(at) * MB))
    progress.starts = {"a-steady": 1, "a-0": 4}
    progress.calm.update({"201": 5, "503": 1})
    progress.rolled = 1
    progress.late += [(10.0, 0.5), (20.0, 1.25)]
    return progress


def ended(report: SoakReport) -> str:
    """Return what the command prints in the end."""
    console = Console(width=160)
    with console.capture() as capture, suppress(typer.Exit):
        finish(report, console, ReportFiles())
    return capture.get()


def test_all_that_was_measured_is_shown() -> None:
    """Latencies and failures by interval, memory by process, rolling restarts, the verdict."""
    text = ended(SoakReport(some_progress(), "held"))
    for part in (
        "soak on memory",
        "2 acknowledged",
        "2 201, 4 cut",
        "1; attempts meanwhile: 5 201, 1 503",
        "by intervals of 60 s; latencies from when a call was due, in ms",
        "3,400",
        "2 cut",
        "2 times, 1.2 s at most: not judged then",
        "a-steady, never restarted: +57.1% from the first to the last quarter",
        "every promise held",
    ):
        assert part in text, part
    assert "a-0, never restarted" not in text


def test_without_a_steady_instance_nothing_is_said_of_leaks() -> None:
    """As where a run ended before its memory was measured."""
    progress = some_progress()
    progress.curves.memory.clear()
    assert SoakReport(progress, "held").memory_verdict == "no instance ran all the time"


def test_a_broken_promise_ends_with_status_1_and_the_command() -> None:
    """What fails a soak is told as chaos tells it."""
    progress = some_progress()
    progress.add(Violation("drain", "POST /v1/entries at a-0: cut after 0.10 s"))
    report = SoakReport(progress, "held")
    assert report.verdict().status == 1
    text = ended(report)
    assert "drain broken: POST /v1/entries at a-0: cut after 0.10 s" in text
    assert "python -m lab soak --seed 7 --minutes 2" in text


def test_the_report_is_plain_json() -> None:
    """All curves go into the file, beside what every run under faults reports."""
    found = json.loads(json.dumps(SoakReport(some_progress(), "held").as_json()))
    assert found["verdict"] == "held"
    assert [one["from_seconds"] for one in found["intervals"]] == [0.0, 60.0]
    assert found["intervals"][1]["write_max_seconds"] == pytest.approx(3.4)
    assert found["intervals"][0]["attempts"] == {"201": 1, "cut": 2}
    assert found["memory"]["a-0"] == [[5.0, 95 * MB], [65.0, 155 * MB]]
    assert found["growth"]["a-0"]["restarts"] == 3
    assert "--rate 10 --instances 2 --drain 5" in found["command"]


@pytest.mark.tools("matplotlib")
def test_the_picture_has_calls_latencies_and_memory() -> None:
    """Three axes over the same minutes."""
    from matplotlib.figure import Figure  # noqa: PLC0415 (optional)

    figure = Figure()
    SoakReport(some_progress(), "held").draw(figure)
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert [title.split(",")[0].split(" ")[0] for title in titles] == [
        "calls",
        "latency",
        "resident",
    ]


def test_faults_hit_tables_compactors_and_instances_but_the_steady_one() -> None:
    """The seed and the number of the cycle decide."""
    run = SoakRun(OPTIONS, clock=ManualClock(instant=True))
    schedule = run.schedule(0, 200.0)
    assert schedule == run.schedule(0, 200.0) != run.schedule(1, 200.0)
    kinds = {fault.kind for fault in schedule.faults}
    assert {"kill instance", "restart instance", "stall instance", "kill compactor"} <= kinds
    assert "kill writer" not in kinds
    assert not any("steady" in fault.process for fault in schedule.faults)
    assert len(SERVICE_ROUND) == len(USUAL) - USUAL.count(KILLED_WRITER) + 5

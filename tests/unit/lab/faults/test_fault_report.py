"""What chaos shows while it runs and at the end, and its report for a file."""

import json
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal

import typer
from lab.chaos.run import ChaosOptions, ChaosRun
from lab.faults.fault_run import describe_item
from lab.faults.report import FaultProgress, FaultReport
from rich.console import Console, RenderableType
from support.ledgers import net

from ledger.core.entry import entry_item
from ledger.core.ids import parse
from ledger.core.values import Entry
from ledger.demo.harness.checker import Outcome, TaggedChecker, Violation
from ledger.demo.harness.display import line, panel
from ledger.demo.harness.report import ReportFiles, finish
from ledger.testing.clock import ManualClock

OPTIONS = ChaosOptions(seed=7, minutes=1.5)
ID = "2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887"
WRONG = Violation("P1", "a shows 2", "a", ("change 0: called 1 times",))


def shown(*content: RenderableType) -> str:
    """Return what a terminal would show."""
    console = Console(width=160)
    with console.capture() as capture:
        for one in content:
            console.print(one)
    return capture.get()


def ended(report: FaultReport) -> str:
    """Return what the command prints in the end."""
    console = Console(width=160)
    with console.capture() as capture, suppress(typer.Exit):
        finish(report, console, ReportFiles())
    return capture.get()


def some_progress() -> FaultProgress:
    """Return the figures of a run, 12 seconds after its beginning."""
    clock, checker = ManualClock(instant=True), TaggedChecker()
    progress = FaultProgress(OPTIONS, checker, clock, phase="injecting faults")
    progress.started = clock.monotonic() - 12
    for number in range(1203):
        change = [(f"c{number}", 0)]
        checker.begin_call(change)
        outcome: Outcome = "acknowledged" if number < 1200 else "unknown"
        checker.end_call("us-east-1", change, outcome, at=1.0)
    checker.reads.update({"fresh": 4000, "cached": 500})
    progress.process_faults["kill compactor"] = 2
    progress.faults = {"hang": 5, "throttle": 1000}
    progress.links_cut, progress.merged, progress.entries, progress.leaders = 3, 900, 300, 4
    progress.note("cut a -> b")
    return progress


def test_the_panel_and_the_line_show_what_goes_on() -> None:
    """Time, changes, faults, links, merging and checked reads are in both."""
    progress = some_progress()
    for text in (shown(panel(progress.view())), line(progress.view())):
        for part in (
            "injecting faults",
            "12 s, faults until 90 s",
            "1,200 acknowledged, 3 unknown",
            "2 kill compactor",
            "1,005",
            "900, entries left: 300",
            "reads checked: 4,500, wrong: 0",
        ):
            assert part in text
    assert "12.00 s  cut a -> b" in shown(panel(progress.view()))


def test_before_it_begins_no_time_has_passed() -> None:
    """While the table starts the clock of the run stands; at its end it stops."""
    progress = FaultProgress(OPTIONS, TaggedChecker(), ManualClock(instant=True))
    assert progress.seconds == 0.0
    progress.started, progress.ended = 100.0, 105.0
    assert progress.seconds == 5.0


def test_a_run_that_held_says_so_with_all_its_figures() -> None:
    """The report has what was written, read, injected, merged and checked."""
    progress = some_progress()
    progress.checked.append("P4: one net change each")
    report = FaultReport(progress, "held")
    text = ended(report)
    for part in (
        "chaos on memory",
        "4,500: 500 cached, 4,000 fresh",
        "1,005: 5 hang, 1,000 throttle",
        "900 entries, under 4 leaders in turn",
        "P4: one net change each",
        "every promise held: no wrong total in any region",
    ):
        assert part in text
    assert report.verdict().status == 0


def test_a_run_that_was_interrupted_says_what_held() -> None:
    """It is no success, and no broken promise either."""
    report = FaultReport(some_progress(), "interrupted")
    assert "interrupted: what was checked so far held" in ended(report)
    assert report.verdict().status == 130


def test_a_run_whose_end_cannot_be_checked_is_no_success() -> None:
    """It says what stood in the way."""
    progress = some_progress()
    progress.obstacle = "eu-west-1 cannot be read"
    report = FaultReport(progress, "unfinished")
    text = ended(report)
    assert "nothing was wrong, but the end could not be checked: eu-west-1 cannot be read" in text
    assert report.verdict().status == 1


def test_a_broken_promise_is_shown_with_all_that_is_known_and_how_to_repeat_it() -> None:
    """Whatever ended the run: the first wrong read, the context, the seed and the command."""
    progress = some_progress()
    progress.wrong += [WRONG, replace(WRONG, text="b shows 3")]
    report = FaultReport(progress, "held", ("us-east-1 shows a x: change 0",))
    assert report.verdict().status == 1
    text = ended(report)
    command = "python -m lab chaos --seed 7 --minutes 1.5 --engine memory --lag 0.05"
    for part in (
        "P1 broken: a shows 2",
        "P1 broken: b shows 3",
        "change 0: called 1 times",
        "us-east-1 shows a x: change 0",
        f"seed 7; the same schedule again: {command} --jitter 0.3",
        "a promise was broken",
    ):
        assert part in text


def test_the_report_is_plain_json() -> None:
    """All figures go into the file, with the command."""
    progress = some_progress()
    progress.wrong.append(WRONG)
    content = json.loads(json.dumps(FaultReport(progress, "held", ("seen",)).as_json()))
    assert content["verdict"] == "broken"
    assert content["options"]["seed"] == 7
    assert content["wrong"][0]["known"] == ["change 0: called 1 times"]
    assert content["command"].startswith("python -m lab chaos --seed 7")


def test_the_schedule_is_shown_before_it_begins() -> None:
    """How much of each kind is going to happen."""
    text = str(ChaosRun(OPTIONS, clock=ManualClock(instant=True)).schedule)
    assert text.startswith("schedule of seed 7: 90 s, ")
    assert "kill writer" in text


def test_an_item_is_told_by_what_it_counts() -> None:
    """An entry by its change, a net by its changes and ids, anything else as it is."""
    entry = entry_item(Entry("a", ID, Decimal(1000)))
    assert describe_item(entry) == f"a {ID}: change 3"
    parsed = parse(ID)
    assert parsed is not None
    told = describe_item(net("a", 101, [parsed]))
    assert told == f"a ~net#0001 version v1: changes 0, 2; merged ids: {ID}"
    assert "merged ids: none" in describe_item(net("a", 1, []))
    assert "'N': 'x'" in describe_item({**entry, "change": {"N": "x"}})

"""What the demo shows while it runs and at the end."""

from dataclasses import replace
from decimal import Decimal

from rich.console import Console, RenderableType

from ledger.demo.harness.display import panel
from ledger.demo.harness.report import render
from ledger.demo.harness.totals import ShownTotals
from ledger.demo.report import DemoProgress, DemoReport

REGIONS = ("us-east-1", "eu-west-1")
EXPECTED = {"a": Decimal(1000), "b": Decimal("234.50")}
LOST = {"a": Decimal(1000), "b": Decimal(0)}
EXACT = DemoReport(
    changes=100,
    ledger=[ShownTotals(region, EXPECTED, EXPECTED) for region in REGIONS],
    single=[ShownTotals(region, LOST, EXPECTED) for region in REGIONS],
    lost=[40, 40],
    reads=5_000,
    wrong=[],
    items_before=110,
    items_after=8,
    write_units=100.0,
    merge_units=104.0,
    merge_read_units=50.0,
    entries_per_fold=25.0,
    seconds=30.0,
)


def shown(*content: RenderableType) -> str:
    """Return what a terminal would show."""
    console = Console(width=120)
    with console.capture() as capture:
        console.print(*content)
    return capture.get()


def printed(report: DemoReport) -> str:
    """Return the figures and remarks of a report."""
    return shown(*map(render, report.sections()), *report.remarks())


def test_the_verdict_compares_both_ways() -> None:
    """Sums, errors, exact counters, lost changes, reads, items and costs are all there."""
    text = printed(EXACT)
    assert EXACT.is_exact
    for region in REGIONS:
        assert text.count(region) == 2
    for figure in ("1,234.50", "-234.50", "40", "5,000, of which wrong: 0", "110 written, 8 left"):
        assert figure in text
    assert "1.00 to write, 1.04 to merge and delete" in text


def test_wrong_reads_are_shown_and_count() -> None:
    """One wrong read is enough for the verdict, and the first few are shown word for word."""
    wrong = replace(EXACT, wrong=[f"probe-{number} is wrong" for number in range(9)])
    assert not wrong.is_exact
    text = printed(wrong)
    assert "of which wrong: 9" in text
    assert "probe-0 is wrong" in text
    assert "probe-8 is wrong" not in text


def test_an_inexact_counter_in_one_region_is_wrong() -> None:
    """A single counter that is not exact in a single region is enough for the verdict."""
    off = ShownTotals(REGIONS[1], {**EXPECTED, "a": Decimal("1000.1")}, EXPECTED)
    assert not replace(EXACT, ledger=[EXACT.ledger[0], off]).is_exact


def test_the_live_panel() -> None:
    """The panel shows the phase, each region, the partition, and wrong reads at once."""
    progress = DemoProgress(20, phase="writing", partition="cut off")
    progress.recorded["us-east-1"] = 7
    progress.add_read(None)
    text = shown(panel(progress.view()))
    for part in ("writing", "us-east-1", "eu-west-1", "cut off", "reads checked: 1, wrong: 0"):
        assert part in text
    progress.add_read("wrong")
    assert "reads checked: 2, wrong: 1" in shown(panel(progress.view()))
    assert progress.wrong == ["wrong"]

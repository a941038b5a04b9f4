"""The picture of what single-item counters lose and the ledger does not."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from ledger.demo.harness.picture import save_picture
from ledger.demo.harness.totals import ShownTotals
from ledger.demo.report import DemoReport

EXPECTED = {"a": Decimal(7), "b": Decimal(3)}
EXACT = ShownTotals("us-east-1", EXPECTED, EXPECTED)
LOST = ShownTotals("us-east-1", {**EXPECTED, "a": Decimal(0)}, EXPECTED)
VERDICT = DemoReport(
    changes=3_021,
    ledger=[EXACT],
    single=[LOST],
    lost=[40],
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

pytestmark = pytest.mark.tools("matplotlib")


def drawn(verdict: DemoReport, path: Path) -> str:
    """Return the picture's text."""
    save_picture(verdict.draw, path)
    return path.read_text(encoding="utf-8")


def test_both_ways_are_shown_with_what_they_lost(tmp_path: Path) -> None:
    """The legend gives the changes lost and the totals that are right."""
    text = drawn(VERDICT, tmp_path / "picture.svg")
    assert "ledger: 0 changes lost, 2 of 2 totals right" in text
    assert "one item per counter: 40 changes lost, 1 of 2 totals right" in text
    assert "3,021 changes" in text


def test_the_same_verdict_gives_the_same_file(tmp_path: Path) -> None:
    """A picture is a function of the verdict; another verdict gives another picture."""
    first, second = drawn(VERDICT, tmp_path / "1.svg"), drawn(VERDICT, tmp_path / "2.svg")
    assert first == second
    assert first != drawn(replace(VERDICT, single=[EXACT]), tmp_path / "3.svg")


def test_no_background_and_no_black(tmp_path: Path) -> None:
    """On a dark page nothing is drawn in black, and on none a white page lies behind it."""
    text = drawn(VERDICT, tmp_path / "picture.svg")
    assert "#ffffff" not in text
    assert "#000000" not in text

import io
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from lab.compare.choices import NEEDS
from lab.compare.promises import claims
from lab.compare.report import CompareReport
from lab.compare.ways import COMPARED
from rich.console import Console
from support.comparing import figures, recounted, report

from ledger.demo.harness.picture import save_picture
from ledger.runtime.console_tables import print_grid

PAGE = (files("lab.compare") / "README.md").read_text(encoding="utf-8")


def shown(one: CompareReport, width: int = 80) -> str:
    """Return what is printed on a terminal of this width."""
    console = Console(file=io.StringIO(), width=width, highlight=False)
    for section in one.sections():
        print_grid(section.grid(), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_every_promise_stands_beside_its_figure(width: int) -> None:
    """On any terminal no cell is cut, and every promise of every method is in its table."""
    text = shown(report(), width)
    assert "…" not in text
    if width == 120:
        assert max(map(len, text.splitlines())) <= width
        promised, _, _ = text.partition("6. Writers of one counter")
        for method in COMPARED:
            lines = [line for line in promised.splitlines() if line.startswith(f" {method} ")]
            for claim, line in zip(
                [claims(figures(method))[about] for about in
                 ("unknown", "cost", "tokens", "regions", "thresholds")], lines, strict=True
            ):  # fmt: skip
                assert line.rstrip().endswith(claim.text)


def test_a_broken_promise_and_an_unseen_one_are_marked() -> None:
    """What a figure contradicts says so, and so does what none has shown."""
    text = shown(report(recounted("marker", value=203)), 140)
    assert "exact (BROKEN)" in text
    assert "(not seen)" not in text
    assert "exact (not seen)" in shown(report(lost=0), 140)


def test_the_needs_are_at_the_end() -> None:
    """The last table names the methods that met each need."""
    _, _, shown_last = shown(report(), 200).partition("9. Methods that met a need")
    assert all(need in shown_last for need in NEEDS)


def test_backlogs_and_the_retries_of_the_sdk_are_shown() -> None:
    """A rate of arrivals has its column, and a method that was retried its line."""
    text = shown(report(), 120)
    left_out = r"optimistic +150/s, 1,300 then 2,500 *\n +collection +151/s, 5 then 4 +151/s, 5"
    assert re.search(left_out, text)
    assert re.search(r"atomic +applied +2 +applied +2 +applied", text)


def test_a_report_without_methods_is_shown() -> None:
    """Nothing to compare is no error."""
    nothing = replace(report(), figures=(), curves={}, backlogs={}, retried=())
    assert "Writers" in shown(nothing)


@pytest.mark.tools("matplotlib")
def test_the_picture_has_every_method(tmp_path: Path) -> None:
    """Every method has its bars, and every curve its line."""
    path = tmp_path / "compare.svg"
    save_picture(report().draw, path)
    drawn = path.read_text(encoding="utf-8")
    assert all(f">{method}</text>" in drawn for method in COMPARED)


def test_the_page_names_the_options() -> None:
    """Options that the page mentions exist."""
    import typer  # noqa: PLC0415
    from lab.compare.compare_command import compare  # noqa: PLC0415
    from typer.testing import CliRunner  # noqa: PLC0415

    app = typer.Typer()
    app.command()(compare)
    helped = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "120"}).stdout
    options = set(re.findall(r"--[a-z]+", PAGE))
    assert options
    assert all(option in helped for option in options)

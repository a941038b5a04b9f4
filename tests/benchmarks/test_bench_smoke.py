"""`ledger bench` in small: every part runs, and units and requests are those of the design."""

import json
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from typer.testing import CliRunner

from ledger.commands.main import app
from ledger.lab.bench import cases
from ledger.lab.bench.report import VERSION, BenchReport


def read(path: Path) -> BenchReport:
    """Read a report from its JSON file."""
    return TypeAdapter(BenchReport).validate_json(path.read_bytes())


def bench(*options: str) -> str:
    """Run the command as a user would; returns what it printed."""
    result = CliRunner().invoke(
        app,
        ["bench", "--quick", "--no-pin", *options],
        catch_exceptions=False,
        env={"COLUMNS": "160"},
    )
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.slow
def test_the_report(tmp_path: Path) -> None:
    """The chosen cases are there with baseline, ratio, units and proof, as a table and as JSON."""
    path = tmp_path / "figures.json"
    shown = bench("--cases", "group commit, lean", "--cases", "total, lean", "--json", str(path))
    found = read(path)
    results = {result.name: result for result in found.results}
    ours = results["group commit, lean"]
    assert ours.baseline == cases.PUT
    assert ours.figures is not None
    assert 1 <= ours.figures.units_per_work < 1.1  # a few hints to the compactor
    for one in results.values():
        assert one.figures is not None
        assert one.figures.work_per_second > 0
        assert len(one.rounds) == 1
        assert (one.times_baseline is None) == (one.baseline is None)
    assert results["total, lean"].figures.requests_per_second > 0  # type: ignore[union-attr]
    assert found.note in " ".join(shown.split())
    assert json.loads(path.read_text())["version"] == VERSION


@pytest.mark.slow
def test_a_change_s_life(tmp_path: Path) -> None:
    """A change costs little over 2 units in a region, merged as usual over 3; a total one read."""
    path = tmp_path / "figures.json"
    bench("--cases", "life", "--json", str(path))
    results = {result.name: result for result in read(path).results}
    ours, usual = results["life of a change"], results["merge in one transaction"]
    assert ours.figures is not None
    assert usual.figures is not None
    assert 2.0 < ours.figures.units_per_work < 2.2
    assert usual.figures.units_per_work > 3.0
    assert ours.rounds[0].extra["merged_total_requests"] == 1
    assert ours.rounds[0].extra["merged_total_read_units"] <= 3


def test_what_fits_nothing_is_refused() -> None:
    """A word that names no case is an error that names the groups."""
    result = CliRunner().invoke(app, ["bench", "--cases", "speed of light"])
    assert result.exit_code == 1
    assert "groups are" in str(result.exception)


@pytest.mark.tools("matplotlib")
def test_the_picture(tmp_path: Path) -> None:
    """A picture of the bars is drawn."""
    path = tmp_path / "figures.svg"
    bench("--cases", "record, one caller", "--picture", str(path))
    assert "record, one caller" in path.read_text()


@pytest.mark.slow
def test_curves_and_overload(tmp_path: Path) -> None:
    """Every curve has its points, and an overload its samples of memory."""
    path = tmp_path / "figures.json"
    bench("--cases", "record_many", "--curves", "--overload", "--json", str(path))
    found = read(path)
    assert len(found.curves) == 7
    assert all(len(curve.points) >= 2 for curve in found.curves)
    assert found.overload is not None
    assert len(found.overload.samples["MB"]) > 10
    assert 0 < found.overload.extra["queued, most"] <= 10_000

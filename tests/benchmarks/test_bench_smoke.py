"""`ledger bench` in small: every part runs, and units and requests are those of the design."""

import csv
import json
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from typer.testing import CliRunner

from ledger.commands.main import app
from ledger.lab.bench import cases
from ledger.lab.bench.report import NOTE, VERSION, BenchReport


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
    """The chosen cases are there with baseline, ratio and units, as table, JSON and CSV."""
    path, rows = tmp_path / "figures.json", tmp_path / "figures.csv"
    words = ("--cases", "group commit, lean", "--cases", "total, lean")
    shown = bench(*words, "--json", str(path), "--csv", str(rows))
    found = read(path)
    results = {result.name: result for result in found.results}
    ours = results["group commit, lean"]
    assert ours.baseline == cases.PUT
    assert 1 <= ours.figures["units_per_work"] < 1.1  # a few hints to the compactor
    for one in results.values():
        assert one.figures["work_per_second"] > 0
        assert len(one.rounds) == 1
        assert ("times_baseline" in one.figures) == (one.baseline is not None)
    assert results["total, lean"].figures["requests_per_second"] > 0
    assert NOTE in " ".join(shown.split())
    assert [row["case"] for row in csv.DictReader(rows.read_text().splitlines())] == [*results]
    assert json.loads(path.read_text())["version"] == VERSION


@pytest.mark.slow
def test_a_change_s_life(tmp_path: Path) -> None:
    """A change costs little over 2 units in a region, merged as usual over 3; a total one read.

    In small folds it costs more.
    """
    path = tmp_path / "figures.json"
    shown = bench("--cases", "life", "--json", str(path))
    results = {result.name: result for result in read(path).results}
    units = {name: result.figures["units_per_work"] for name, result in results.items()}
    assert 2.0 < units["life of a change"] < units["folds of 100"] < units["folds of 20"] < 3.0
    assert units["life of a change"] < 2.2
    assert units["merge in one transaction"] > 3.0
    ours = results["life of a change"].further
    assert ours["requests of a merged total"] == 1
    assert ours["read units of a merged total"] <= 3
    assert "life of a change: read units of a merged total" in shown


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
def test_an_overload(tmp_path: Path) -> None:
    """With more callers than can be served the memory is compared, early with late."""
    path = tmp_path / "figures.json"
    bench("--cases", "overload", "--json", str(path))
    results = {result.name: result for result in read(path).results}
    further = results["20,000 callers, lean"].further
    assert 0 < further["MB, first fifth"] <= 1.1 * further["MB, last fifth"]

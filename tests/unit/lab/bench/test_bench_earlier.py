"""`lab bench --from`: what an earlier run wrote is shown and drawn, and nothing is measured."""

import json
from pathlib import Path
from typing import Any

import pytest
from lab.__main__ import app
from lab.bench.earlier import read_reports
from lab.bench.options import BenchOptions
from lab.bench.report import LADDER, VERSION
from lab.bench.scale_stages import STAGES
from typer.testing import CliRunner

from ledger.core.errors import InvalidInput

DOCUMENTED = Path(__file__).parents[4] / "tests/lab/bench"


def rung(counters: int, **changed: object) -> dict[str, Any]:
    """Return a rung of the ladder as a file has it; `changed` replaces figures."""
    figures = {f"{stage}: work": 100 for stage in STAGES} | {"write: CPU s": 0.5} | changed
    return {"name": f"{counters:,} counters", "group": "scale", "figures": figures}


def saved(folder: Path, *results: Any, **changed: object) -> Path:
    """Write a report as `--json` does; `changed` replaces parts of it."""
    path = folder / f"{len(list(folder.iterdir()))}.json"
    report = {"machine": {}, "options": {}, "results": results, "version": VERSION} | changed
    path.write_text(json.dumps(report))
    return path


@pytest.mark.tools("matplotlib")
def test_the_rungs_of_several_runs_are_one_picture(tmp_path: Path) -> None:
    """Each file is a rung; the picture has the curves, and the same files give the same bytes."""
    files = [saved(tmp_path, rung(1_000)), saved(tmp_path, rung(10_000))]
    words = [word for file in files for word in ("--from", str(file))]
    pictures = tmp_path / "ladder.svg", tmp_path / "again.svg"
    for picture in pictures:
        result = CliRunner().invoke(app, ["bench", *words, "--picture", str(picture)])
        assert result.exit_code == 0, result.output
    first, again = (picture.read_text() for picture in pictures)
    assert first == again
    assert "CPU µs of each change, entry or total" in first
    assert "MB of the client" not in first  # no file has that figure


def test_the_measured_ladder_can_be_read() -> None:
    """The file behind the picture of the README is a report of this version."""
    (file,) = DOCUMENTED.glob("full-*.json")
    report = read_reports([file], BenchOptions())
    rungs = [one for one in report.results if one.group == LADDER]
    assert len(report.as_rows()) == len(report.results) + len(rungs) * (len(STAGES) - 1) > 60


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "invalid JSON"),
        ("[]", "the file: input should be an object"),
        ("{}", "machine: field required"),
    ],
)
def test_what_is_no_report_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    """The message names the file and what is wrong with it."""
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=f"report.json: .*{reason}"):
        read_reports([path], BenchOptions())


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """The message has the reason of the operating system."""
    with pytest.raises(InvalidInput, match=r"none\.json: No such file"):
        read_reports([tmp_path / "none.json"], BenchOptions())


def test_another_version_is_refused(tmp_path: Path) -> None:
    """Its figures may mean something else."""
    path = saved(tmp_path, rung(1_000), version=VERSION - 1)
    with pytest.raises(InvalidInput, match=f"version {VERSION - 1}, not {VERSION}"):
        read_reports([path], BenchOptions())


@pytest.mark.parametrize("value", [-1, "NaN", "Infinity"])
def test_what_cannot_be_drawn_is_refused(tmp_path: Path, value: object) -> None:
    """No figure is negative or without end."""
    path = saved(tmp_path, rung(1_000, **{"merge: MB": value}))
    with pytest.raises(InvalidInput, match="'1,000 counters': 'merge: MB' is"):
        read_reports([path], BenchOptions())


def test_a_case_without_its_figures_is_refused(tmp_path: Path) -> None:
    """A rung has the work of each stage, any other case the figures of a round."""
    short = rung(1_000)
    del short["figures"]["merge: work"]
    with pytest.raises(InvalidInput, match="has no figure 'merge: work'"):
        read_reports([saved(tmp_path, short)], BenchOptions())
    case = {"name": "put_item", "group": "write", "figures": {"work_per_second": 1.0}}
    with pytest.raises(InvalidInput, match="'put_item' has no figure 'cpu_micro"):
        read_reports([saved(tmp_path, case)], BenchOptions())


def test_a_rung_of_another_ladder_is_refused(tmp_path: Path) -> None:
    """Where it belongs on the axis is in its name."""
    with pytest.raises(InvalidInput, match="'7 counters' is not a rung of the ladder"):
        read_reports([saved(tmp_path, rung(7))], BenchOptions())


def test_a_case_of_two_files_is_refused(tmp_path: Path) -> None:
    """Which of them is meant cannot be known."""
    files = [saved(tmp_path, rung(1_000)), saved(tmp_path, rung(1_000))]
    with pytest.raises(InvalidInput, match="'1,000 counters' is there twice"):
        read_reports(files, BenchOptions())

"""`lab pipeline-demo` as a user runs it, in small: exact, but for the mutants."""

import csv
import json
from functools import partial
from pathlib import Path

import pytest
from lab.__main__ import app
from lab.pipeline_demo import options, run
from lab.pipeline_demo.traffic import Shares, Traffic
from support.engines import DYNOXIDE
from typer.testing import CliRunner, Result

SMALL = ("--messages", "800", "--batch", "25", "--lead", "100", "--lag", "0.01")
FAIL = {"state": 0.05, "map": 0.4, "reduce": 0.4}
SLOW = pytest.mark.slow


@pytest.fixture(autouse=True)
def bad(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let much go wrong within few messages."""
    monkeypatch.setattr(options, "MUTANT_BATCH", 25)
    for name in ("FAIL", "MUTANT_FAIL"):
        monkeypatch.setattr(options, name, FAIL)
    monkeypatch.setattr(run, "Traffic", partial(Traffic, shares=Shares(malformed=0.01)))


def demo(*words: str) -> Result:
    """Run the command in this process, its workers in others."""
    return CliRunner().invoke(app, ["pipeline-demo", *SMALL, *words])


@pytest.mark.parametrize("engine", [DYNOXIDE, pytest.param("memory", marks=SLOW)])
def test_it_ends_exact_whatever_goes_wrong(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Crashes, late requests, lost answers, a cut between the regions: every category is right."""
    monkeypatch.setattr("lab.pipeline_demo.pipeline_demo_command.LINGER_SECONDS", 0)
    written = tmp_path / "report.json"
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ran = demo("--engine", engine, "--json", str(written), "--page", "0")
    assert ran.exit_code == 0, ran.output
    assert "exact in every region" in ran.output
    assert "totals on http://127.0.0.1:" in ran.output
    report = json.loads(written.read_text())
    assert (report["wrong"], len(report["totals"])) == ([], 2)
    assert report["malformed"] == report["dead_letters"] > 0
    assert report["work"]["crashes"] > 0
    assert all(report["work"][f"{stage}_failed"] for stage in FAIL)
    assert [one.name for one in tmp_path.iterdir()] == ["report.json"]


@pytest.mark.engines("dynoxide")
def test_lanes_use_the_engine_itself_where_there_is_one_region() -> None:
    """The table that has nothing before it carries a contract too."""
    ran = demo("--engine", "dynoxide", "--regions", "1")
    assert ran.exit_code == 0, ran.output
    assert "exact in every region" in ran.output


@pytest.mark.slow
@pytest.mark.parametrize("mutant", ["no-token", "no-version", "no-hash"])
def test_without_a_rule_it_ends_wrong(mutant: str) -> None:
    """Each rule left out shows in the totals, and in the exit status."""
    ran = demo("--regions", "1", "--mutant", mutant)
    assert ran.exit_code == 1, ran.output
    assert "the totals are wrong" in ran.output


def test_an_unknown_mutant_is_refused() -> None:
    """The error lists those that there are."""
    assert "is not one of no-version" in str(demo("--mutant", "all").exception)


@pytest.mark.slow
def test_the_lambda_function_is_exact_under_the_same_failures(tmp_path: Path) -> None:
    """Two shards in two regions: invocations fail, events come again, every category is right."""
    written = tmp_path / "report.json"
    ran = demo("--lambda", "--json", str(written))
    assert ran.exit_code == 0, ran.output
    report = json.loads(written.read_text())
    assert (report["wrong"], report["waiting"]) == ([], 0)
    assert report["malformed"] == report["dead_letters"] > 0
    assert report["work"]["crashes"] > 0
    assert all(report["work"][f"{stage}_failed"] for stage in FAIL)


@pytest.mark.slow
def test_rates_are_climbed_by_lanes_that_share_a_process(tmp_path: Path) -> None:
    """Three lanes in two processes at two rates, exact in both; the curve adds up."""
    written = tmp_path / "curve.csv"
    lanes = ("--regions", "1", "--lanes", "3", "--processes", "2")
    ran = demo(*lanes, "--ladder", "50,100", "--seconds", "7", "--csv", str(written))
    assert ran.exit_code == 0, ran.output
    assert "the most that was held: " in ran.output  # what it is depends on the machine
    with written.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    for rate, messages in (("50.0", 350), ("100.0", 700)):
        of_rate = [row for row in rows if row["rate"] == rate]
        assert sum(int(row["sent"]) for row in of_rate) == messages
        assert sum(int(row["counted"]) for row in of_rate) == messages
        assert of_rate[-1]["backlog"] == "0"

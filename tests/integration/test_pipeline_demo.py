"""`ledger pipeline demo` as a user runs it, in small: exact, but for the mutants."""

import json
from pathlib import Path

import pytest
from support.engines import DYNOXIDE
from typer.testing import CliRunner, Result

from ledger.commands.main import app

SMALL = ("--messages", "800", "--trades", "60", "--batch", "25", "--lead", "100", "--lag", "0.01")
BAD = ("--fail-state", "0.05", "--fail-map", "0.4", "--fail-reduce", "0.4", "--malformed", "0.01")
SLOW = pytest.mark.slow


def demo(*words: str) -> Result:
    """Run the command in this process, its workers in others."""
    return CliRunner().invoke(app, ["pipeline", "demo", *SMALL, *words])


@pytest.mark.parametrize("engine", [DYNOXIDE, pytest.param("memory", marks=SLOW)])
def test_it_ends_exact_whatever_goes_wrong(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Crashes, late requests, lost answers, a cut between the regions: every category is right."""
    monkeypatch.setattr("ledger.lab.demos.pipeline.pipeline_demo_command.LINGER_SECONDS", 0)
    written = tmp_path / "report.json"
    files = ("--json", str(written), "--folder", str(tmp_path))
    ran = demo(*BAD, "--engine", engine, *files, "--page", "0")
    assert ran.exit_code == 0, ran.output
    assert "exact in every region" in ran.output
    assert "totals on http://127.0.0.1:" in ran.output
    told = json.loads(written.read_text())
    assert [one["wrong"] for one in told["outcomes"]] == [0, 0]
    assert told["malformed"] == told["dead_letters"] > 0
    assert told["counts"]["crashes"] > 0
    assert all(failed for failed, _ in told["failed_requests"].values())
    assert [one.name for one in tmp_path.iterdir()] == ["report.json"]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", ["no-token", "no-version", "no-hash"])
def test_without_a_rule_it_ends_wrong(mutant: str) -> None:
    """Each rule left out shows in the totals, and in the exit status."""
    ran = demo(*BAD, "--regions", "1", "--mutant", mutant)
    assert ran.exit_code == 1, ran.output
    assert "the totals are wrong" in ran.output


def test_an_unknown_mutant_is_refused() -> None:
    """The error lists those that there are."""
    assert "is not one of no-version" in str(demo("--mutant", "all").exception)

"""`lab soak` as a user runs it: the service behind a balancer, under faults, restarted."""

import json
from pathlib import Path

import pytest
import typer
from lab.faults.fault_run import REGIONS
from lab.soak import run, service
from lab.soak.soak_command import soak
from support.faulty_runs import FOLD_AGE_SECONDS, SHORT_TIMES
from typer.testing import CliRunner


@pytest.mark.slow
def test_a_short_run_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every read right, nothing lost or doubled, no request cut while all instances restart."""
    monkeypatch.setattr(run, "REGIONS", REGIONS[:2])
    monkeypatch.setattr(run, "TIMES", SHORT_TIMES)
    monkeypatch.setattr(run, "MERGE", {**run.MERGE, "fold_age": FOLD_AGE_SECONDS})
    monkeypatch.setattr(run, "RECOVERY_SECONDS", 1.0)
    monkeypatch.setattr(run, "GAP_SECONDS", (0.2, 0.5))
    monkeypatch.setattr(service, "CALL_SECONDS_MAX", 2.0)
    app = typer.Typer()
    app.command()(soak)
    file = tmp_path / "report.json"
    words = ["--minutes", "0.1", "--rate", "4", "--drain", "3", "--seed", "3", "--json", str(file)]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "160"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text(encoding="utf-8"))
    assert report["verdict"] == "held"
    assert report["rolled"] == 1
    assert report["changes"]["acknowledged"] > 0
    assert report["changes"]["refused"] > 0
    assert report["merged"] > 0
    assert min(report["reads"][kind] for kind in ("fresh", "cached", "live")) > 0
    assert sum(report["process_faults"].values()) > 0
    assert report["calm"]["201"] > 0
    assert "every promise held: no wrong total in any region" in result.stdout

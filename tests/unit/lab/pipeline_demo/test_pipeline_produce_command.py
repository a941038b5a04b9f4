"""`lab produce` as a user runs it, into a file."""

import json
from pathlib import Path
from typing import Any

import pytest
from lab.pipeline_demo.producer.produce_command import app
from support.ledgers import make_settings
from typer.testing import CliRunner

from ledger.core.amounts import to_text, total_wide
from ledger.core.errors import InvalidInput, SettingsError
from ledger.pipeline.core.records import Delivery, Record, RecordForm


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Write settings of a pipeline that reads what is produced."""
    fields = {"id": "TradeID", "version": "Version", "value": "Value", "time": "Timestamp"}
    settings = make_settings(
        pipeline={"fields": fields, "categories": ["risk/{Hierarchy.RiskType}"]}
    )
    path = tmp_path / "regions.yaml"
    path.write_text(settings.model_dump_json(exclude_none=True), encoding="utf-8")
    return path


def run(config: Path, *arguments: object) -> Any:
    """Run the command."""
    return CliRunner().invoke(app, [*map(str, arguments), "--config", str(config)])


def test_what_is_written_adds_up_to_the_totals_that_are_told(config: Path, tmp_path: Path) -> None:
    """As the pipeline reads it; a second run with the same seed adds no other record."""
    target, totals = tmp_path / "records.jsonl", tmp_path / "totals.json"
    words = (target, "--count", 400, "--rate", 0, "--totals", totals, "--force")
    found = []
    for _ in range(2):
        result = run(config, *words)
        assert result.exit_code == 0, result.output
        assert f"400 records written to {target}" in result.stdout
        assert result.stdout.endswith(" a second; 0 refused and sent again\n")
        form, newest = RecordForm(make_settings_of(config)), dict[str, Record]()
        for line in target.read_bytes().splitlines():
            record = form.take(Delivery("", line))
            if isinstance(record, Record) and (
                record.id not in newest or record.version > newest[record.id].version
            ):
                newest[record.id] = record
        told = json.loads(totals.read_text(encoding="utf-8"))
        found.append({record.id: record.version for record in newest.values()})
        for risk in ("Delta", "Gamma", "Rho", "Vega"):
            of_risk = [one.value for one in newest.values() if one.categories == (f"risk/{risk}",)]
            assert to_text(total_wide(of_risk)) == told[f"risk/{risk}"]
    assert found[0] == found[1]
    assert len(target.read_bytes().splitlines()) == 800


def make_settings_of(config: Path) -> Any:
    """Read the settings again, as the command does."""
    values = json.loads(config.read_text(encoding="utf-8"))
    return make_settings(pipeline=values["pipeline"])


def test_what_cannot_be_is_refused(config: Path, tmp_path: Path) -> None:
    """Totals of a file that is not ours to know; a region that is none."""
    lines = tmp_path / "lines"
    lines.write_text("x\n", encoding="utf-8")
    both = run(config, tmp_path / "out", "--file", lines, "--totals", tmp_path / "totals")
    assert isinstance(both.exception, InvalidInput)
    nowhere = run(config, tmp_path / "out", "--region", "mars-1")
    assert isinstance(nowhere.exception, SettingsError)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("target", "more", "said"),
    [
        ("out", ["--rate", "inf"], "--rate inf: records a second are a number"),
        ("out", ["--totals", "{}/none/totals"], "there is no folder"),
        ("out.csv", [], "name it .jsonl"),
        ("out.jsonl.gz", [], "name it .jsonl"),
        ("out", ["--file", "{}/lines.gz"], "unpack it first"),
        ("lines", ["--file", "{}/lines"], "it is the file to write to as well"),
        ("settings", [], "records are appended to a file of them, and this one begins with b'a: 1"),
    ],
)
def test_what_would_fail_later_is_refused_at_once(
    config: Path, tmp_path: Path, target: str, more: list[str], said: str
) -> None:
    """Before anything is written."""
    for name in ("lines", "lines.gz"):
        (tmp_path / name).write_text("{}\n", encoding="utf-8")
    (tmp_path / "settings").write_text("a: 1\n", encoding="utf-8")
    words = [word.format(tmp_path) for word in more]
    result = run(config, tmp_path / target, "--count", 3, "--rate", 0, *words)
    assert isinstance(result.exception, InvalidInput)
    assert said in str(result.exception)
    assert (tmp_path / "lines").read_text(encoding="utf-8") == "{}\n"
    assert (tmp_path / "settings").read_text(encoding="utf-8") == "a: 1\n"
    assert not (tmp_path / "out").exists()


def test_a_line_without_an_end_is_completed_first(config: Path, tmp_path: Path) -> None:
    """Else the first record would be a part of it."""
    target = tmp_path / "records.jsonl"
    target.write_text('{"half": 1', encoding="utf-8")
    assert run(config, target, "--count", 3, "--rate", 0).exit_code == 0
    half, *lines = target.read_bytes().splitlines()
    assert half == b'{"half": 1'
    assert len([json.loads(line) for line in lines]) == 3

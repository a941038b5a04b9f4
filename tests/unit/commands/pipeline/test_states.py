"""What `ledger pipeline rebuild` says of what it has done, and which files it reads."""

from decimal import Decimal
from pathlib import Path

import pytest
from support.pipelines import pipeline_settings
from typer.testing import CliRunner

from ledger.commands.main import app
from ledger.commands.pipeline.states import _sources, lines_of
from ledger.pipeline.auditing.reread import LISTED_MAX, RereadResult


def test_what_was_left_is_said_with_what_to_do() -> None:
    """Categories by what changed, the first of what was left, and how much of each there is."""
    done = RereadResult(records=3, rewritten=3, changes={"b": Decimal("-2.5"), "a": Decimal(0)})
    assert lines_of(done, is_dry=True) == ["b: -2.5", "3 states, 3 would be rewritten"]
    done = RereadResult(records=99, lacking=40, refused=1, dead=2, older=1, newer=2, unknown=3)
    for number in range(43):
        done.list(f"record {number}")
        done.list(f"record {number}")
    assert lines_of(done, is_dry=False) == [
        *(f"record {number}" for number in range(LISTED_MAX)),
        "... of 43",
        (
            "40 states do not keep what the settings need, and were left as they are: run it again"
            " --from the files that have their records"
        ),
        "1 states hold values that the settings refuse: left as they are",
        (
            "records read once more: 1 older than their states, 2 newer than their states"
            " (run their lanes), 3 without a state (run their lanes), 2 not taken"
        ),
        "99 states, 0 rewritten",
    ]


def test_files_and_directories_are_read(tmp_path: Path) -> None:
    """Each file once, whatever names it."""
    for name in ("a.jsonl", "b.csv"):
        (tmp_path / name).write_text("{}\n")
    names = [str(tmp_path / name) for name in ("a.jsonl", "b.csv")]
    assert sorted(_sources([tmp_path, tmp_path / "b.csv"], pipeline_settings())) == names


def test_a_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is opened."""
    monkeypatch.setenv("LEDGER_REGIONS", '{"us-east-1": {}}')
    result = CliRunner().invoke(app, ["pipeline", "rebuild", "--from", "/no/such/file"])
    assert result.exit_code != 0
    assert "there is no such file" in f"{result.output}{result.exception}"

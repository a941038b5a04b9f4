"""`ledger pipeline move-states` and `forget` say what they did, in a line."""

from typing import Any

import pytest
from typer.testing import CliRunner

from ledger.commands.main import app
from ledger.commands.pipeline import states
from ledger.pipeline.auditing.forget import Forgotten
from ledger.pipeline.auditing.move import Moved
from ledger.settings import Settings

ONE = '{"fields": {"id": "a", "version": "b", "value": "c"}, "categories": ["k"]}'


def run(*arguments: str) -> Any:
    """Run the command."""
    return CliRunner().invoke(app, ["pipeline", *arguments])


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_REGIONS", '{"us-east-1": {}}')
    monkeypatch.setenv("LEDGER_PIPELINE", ONE)


@pytest.mark.parametrize(("table", "where"), [("", "the table itself"), ("aside", "table aside")])
def test_where_states_lie_is_said(monkeypatch: pytest.MonkeyPatch, table: str, where: str) -> None:
    """And how many were moved."""

    def move(settings: Settings, *_task: object) -> Moved:
        assert (settings.pipeline.state_table or "") == table
        return Moved(1234, 5)

    monkeypatch.setattr(states, "run_task", move)
    if table:
        monkeypatch.setenv("LEDGER_PIPELINE__STATE_TABLE", table)
    assert run("move-states").stdout == f"states lie in {where}: 1,234 moved, 5 lanes marked\n"


@pytest.mark.parametrize(
    ("left", "lanes", "end"),
    [
        (0, set[str](), ""),
        (7, {"b", "a", "d", "c"}, ", 7 not settled yet are held by lanes a, b, c"),
        (7, set[str](), ", 7 not settled yet are held"),
    ],
)
def test_what_was_forgotten_is_said(
    monkeypatch: pytest.MonkeyPatch, left: int, lanes: set[str], end: str
) -> None:
    """And what was not, held by which lanes, unless that is from before it was cut off."""

    def forget(*_task: object) -> Forgotten:
        return Forgotten(1_700_000_000, 1234, left, lanes)

    monkeypatch.setattr(states, "run_task", forget)
    said = "1,234 records from before 2023-11-14T22:13:20+00:00 forgotten"
    assert run("forget").stdout == f"{said}{end}\n"

"""`ledger pipeline reset` acts only on a pipeline that was named to it."""

from typing import Any

import pytest
from typer.testing import CliRunner

from ledger.commands.main import app
from ledger.commands.pipeline import states
from ledger.pipeline.auditing.reset import ResetResult
from ledger.settings import Settings

ONE = '{"fields": {"id": "a", "version": "b", "value": "c"}, "categories": ["k"]}'


@pytest.fixture
def resets(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Return what was reset: names of pipelines, and whether it was forced."""
    found: list[tuple[str, bool]] = []

    def reset(settings: Settings, *_task: object, is_forced: bool) -> ResetResult:
        found.append((settings.pipeline.name, is_forced))
        return ResetResult(1234, {"a", "b"}, 3)

    monkeypatch.setattr(states, "run_task", reset)
    monkeypatch.setenv("LEDGER_REGIONS", '{"us-east-1": {}}')
    monkeypatch.setenv("LEDGER_TABLE", "money")
    monkeypatch.setenv("LEDGER_PIPELINES", f'{{"fx": {ONE}, "bonds": {ONE}}}')
    return found


def run(*arguments: str) -> Any:
    """Run the command."""
    return CliRunner().invoke(app, ["pipeline", "reset", *arguments])


def test_what_was_reset_is_said(resets: list[tuple[str, bool]]) -> None:
    """Records, totals and lanes; the name says which pipeline."""
    result = run("--pipeline", "fx", "--confirm", "fx")
    assert result.exit_code == 0, result.output
    assert result.stdout == "1,234 records taken out of 2 totals; 3 lanes begin again\n"
    assert run("--pipeline", "bonds", "--confirm", "bonds", "--force").exit_code == 0
    assert resets == [("fx", False), ("bonds", True)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--pipeline", "fx"), "confirm with --confirm fx"),
        (("--pipeline", "fx", "--confirm", "bonds"), "--confirm must be 'fx', got 'bonds'"),
        (("--confirm", "fx"), "several pipelines, and none named"),
    ],
)
def test_another_name_or_none_resets_nothing(
    resets: list[tuple[str, bool]], arguments: tuple[str, ...], message: str
) -> None:
    """A prompt is for terminals alone."""
    result = run(*arguments)
    assert message in str(result.exception)
    assert resets == []


def test_a_pipeline_without_a_name_is_named_by_its_table(
    resets: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has none of its own."""
    monkeypatch.delenv("LEDGER_PIPELINES")
    monkeypatch.setenv("LEDGER_PIPELINE", ONE)
    assert "--confirm must be 'money'" in str(run("--confirm", "fx").exception)
    assert run("--confirm", "money").exit_code == 0
    assert resets == [("", False)]

"""`ledger demo` as a user runs it, with a small input; and made wrong, it must not be blind."""

from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from prometheus_client import CollectorRegistry
from support.usual_merge import merge_every
from typer.testing import CliRunner, Result

from ledger.core import fold
from ledger.core.errors import LedgerError
from ledger.demo import run
from ledger.demo.demo_command import demo
from ledger.demo.harness.probes import PREFIX
from ledger.settings import Settings
from ledger.store.connections import open_store

ROWS, ACCOUNTS = 360, 5
# A request may take settle - retry_horizon: short for a test, long enough for a busy machine.
TIMES = {"settle": 4.5, "retry_horizon": 1.0, "observation_delay": 0.4}
MERGING = {"fold_min": 2, "fold_age": 4.6, "lease": 6.0, "heartbeat": 1.0}


@pytest.fixture
def changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a small input, and let the demo settle sooner."""
    monkeypatch.setattr(run, "TIMES", TIMES)
    monkeypatch.setattr(run, "MERGING", MERGING)
    path = tmp_path / "changes.csv"
    rows = [f"a{number % ACCOUNTS},{number}.25" for number in range(ROWS)]
    path.write_text("\n".join(["account,change", *rows, ""]), encoding="utf-8")
    return path


def run_demo(changes: Path, *options: str) -> Result:
    """Run the command."""
    app = typer.Typer()
    app.command()(demo)
    arguments = ["--input", str(changes), "--seconds", "1", *options]
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "120"})


async def usual_merge(settings: Settings, _registry: CollectorRegistry) -> None:
    """Stand in for the compactor: merge as usually described, entries and net in a transaction."""
    partitions = [f"a{number}" for number in range(ACCOUNTS)]
    partitions += [f"{PREFIX}{number}" for number in range(run.PROBES)]
    async with open_store(settings, settings.home) as home:
        await merge_every(home, partitions, settle=0.2, pause_seconds=0.05)


def use_usual_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merge in the usual way."""
    monkeypatch.setattr(run, "merge", usual_merge)


def count_merged_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read without the ids that are merged."""
    monkeypatch.setattr(fold, "named_by", lambda _: iter(()))


def last_count(printed: str) -> str:
    """Return the last line that counts wrong reads."""
    return [line.rstrip() for line in printed.splitlines() if "wrong: " in line][-1]


@pytest.mark.slow
def test_the_demo_ends_exact(changes: Path) -> None:
    """With the real compactor the status is 0 and every read was right."""
    result = run_demo(changes)
    assert result.exit_code == 0, result.output
    assert last_count(result.stdout).endswith("wrong: 0")
    assert "the ledger was exact in every region and in every read" in result.stdout
    assert "single item" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("make_wrong", [use_usual_merge, count_merged_twice])
def test_a_wrong_ledger_is_told(
    changes: Path,
    monkeypatch: pytest.MonkeyPatch,
    make_wrong: Callable[[pytest.MonkeyPatch], None],
) -> None:
    """With the usual merge, or a fold that counts merged entries again, the status is 1."""
    make_wrong(monkeypatch)
    result = run_demo(changes)
    assert result.exit_code == 1, result.output
    assert "the ledger was wrong" in result.stdout
    assert not last_count(result.stdout).endswith("wrong: 0")


@pytest.mark.slow
def test_a_compactor_that_fails_ends_the_demo(
    changes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setting that the compactor refuses is an error of the command, not a wait without end."""
    monkeypatch.setattr(run, "merge", refuse)
    result = run_demo(changes)
    assert isinstance(result.exception, LedgerError)
    assert "the compactor refuses" in str(result.exception)


async def refuse(_settings: Settings, _registry: CollectorRegistry) -> None:
    """Stand in for a compactor that refuses its settings."""
    raise LedgerError("the compactor refuses a setting")

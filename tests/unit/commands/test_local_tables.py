"""Which running local global table the commands of `ledger local` act on."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from ledger.commands import local_tables
from ledger.commands.local import app
from ledger.commands.local_tables import forget, remember, running_table
from ledger.core.errors import LocalTableError, SettingsError


def world(port: int) -> Any:
    """Return what stands for a running table of one region, its control a port further."""
    endpoints = {"us-east-1": f"http://127.0.0.1:{port}"}
    return SimpleNamespace(control_url=f"http://127.0.0.1:{port + 1}", endpoints=endpoints)


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the tables that answer, by control URL: two that were started one after the other."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    running = {one.control_url: one for one in (world(8000), world(9000), world(7000))}
    for place, one in enumerate(running.values()):
        path = remember(one)
        assert path is not None
        os.utime(path, (place, place))
    running.pop("http://127.0.0.1:7001")  # killed: its file stays, and nothing answers

    def connect(url: str) -> Any:
        if url not in running:
            raise LocalTableError(f"no table answers at {url}")
        return running[url]

    monkeypatch.setattr(local_tables, "LocalGlobalTable", SimpleNamespace(connect=connect))
    return running


def settings_file(folder: Path, endpoint: str | None, name: str = "regions.yaml") -> Path:
    """Write settings of one region."""
    region = "" if endpoint is None else f" {{endpoint: '{endpoint}'}}"
    path = folder / name
    path.write_text(f"regions:\n  us-east-1:{region}\n", encoding="utf-8")
    return path


def test_the_settings_in_force_choose_the_table(
    tables: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their endpoints, wherever the settings are found; not the table that was started last."""
    first = tables["http://127.0.0.1:8001"]
    file = settings_file(tmp_path, "http://localhost:8000", "a.yaml")
    assert running_table(None, file) is first
    monkeypatch.setenv("LEDGER_CONFIG", str(file))
    assert running_table(None, None) is first
    monkeypatch.delenv("LEDGER_CONFIG")
    settings_file(tmp_path, "http://127.0.0.1:8000")
    assert running_table(None, None) is first
    assert running_table("http://127.0.0.1:9001", None) is tables["http://127.0.0.1:9001"]


@pytest.mark.parametrize("has_file", [True, False])
def test_without_endpoints_it_is_the_table_started_last(
    tables: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], *, has_file: bool
) -> None:
    """Which is said; one that was killed does not answer, and is passed over."""
    if has_file:
        settings_file(tmp_path, None)
    assert running_table(None, None) is tables["http://127.0.0.1:9001"]
    said = capsys.readouterr().err
    assert said == "the table started last, --control-url http://127.0.0.1:9001:\n"


def test_settings_of_another_table_are_not_taken_for_the_one_that_runs(
    tables: dict[str, Any], tmp_path: Path
) -> None:
    """Nothing is disturbed but what was meant; wrong settings are an error as ever."""
    settings_file(tmp_path, "http://127.0.0.1:7000")
    with pytest.raises(LocalTableError, match=r"such as 127\.0\.0\.1:7000: start one"):
        running_table(None, None)
    with pytest.raises(SettingsError, match="no such settings file"):
        running_table(None, tmp_path / "none.yaml")
    (tmp_path / "regions.yaml").unlink()
    tables.clear()
    with pytest.raises(LocalTableError, match="no running local global table was found"):
        running_table(None, None)


def test_what_ends_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file goes, even twice; where none can be written the other commands need the URL."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = remember(world(8000))
    assert path is not None
    forget(path)
    forget(path)
    assert not path.exists()
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert remember(world(8000)) is None
    forget(None)


def test_the_help_lists_every_option_that_it_names() -> None:
    """The control port too, which `--ports` does not have."""
    shown = CliRunner().invoke(app, ["up", "--help"], env={"COLUMNS": "120"})
    assert "--control-port" in shown.output
    refused = CliRunner().invoke(app, ["up", "--regions", "a,b", "--ports", "1,2,3"])
    assert "one for each region (a, b), got 3" in str(refused.exception)

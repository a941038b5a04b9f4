"""Tests of how tests find their engines: a missing one is reported, and cannot hide in CI."""

from pathlib import Path

import pytest
from support import dynamodb_local
from support.needs import REQUIRED, check

from ledger.core.errors import LocalTableError

VARIABLES = {"dynoxide": "LEDGER_DYNOXIDE", "dynamodb_local": "LEDGER_DYNAMODB_LOCAL"}


@pytest.fixture(params=VARIABLES)
def missing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Return an engine that is not where its variable says."""
    engine = str(request.param)
    monkeypatch.delenv(REQUIRED, raising=False)
    monkeypatch.setenv(VARIABLES[engine], str(tmp_path / "nothing"))
    return engine


def test_a_missing_engine_skips(missing: str) -> None:
    """Without its engine a test is skipped, and says what is missing."""
    with pytest.raises(pytest.skip.Exception, match=VARIABLES[missing]):
        check(missing)


def test_a_missing_engine_fails_where_it_is_required(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that has to be there fails the test instead."""
    monkeypatch.setenv(REQUIRED, ",".join(VARIABLES))
    with pytest.raises(pytest.fail.Exception, match=VARIABLES[missing]):
        check(missing)


def test_only_engines_can_be_required(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown name fails, rather than require nothing."""
    monkeypatch.setenv(REQUIRED, "dynoxide,dynamodb-local")
    with pytest.raises(pytest.fail.Exception, match="dynamodb-local"):
        check("memory")


def test_dynamodb_local_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without Java the jar is of no use, and the reason says so."""
    (tmp_path / dynamodb_local.JAR).touch()
    monkeypatch.setenv(VARIABLES["dynamodb_local"], str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalTableError, match="Java"):
        dynamodb_local.find()


def test_dynamodb_local_that_does_not_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What ends instead of starting is told with its last words, at once."""
    (tmp_path / dynamodb_local.JAR).touch()
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho this Java is too old\nexit 1\n", encoding="utf-8")
    java.chmod(0o755)
    monkeypatch.setenv(VARIABLES["dynamodb_local"], str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with (
        pytest.raises(LocalTableError, match="ended at once: this Java is too old"),
        dynamodb_local.running(),
    ):
        pass

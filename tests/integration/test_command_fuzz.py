"""Drawn command lines on a local table, as the laboratory runs them."""

import os
import sys
from pathlib import Path

import pytest
from support.commands import run_command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it forks")

CASES_SECONDS_MAX = 600


def fuzz(cases: int, folder: Path) -> None:
    """Run so many cases, and assert that none misbehaved; only their number ends it."""
    seed = os.environ.get("LEDGER_SIM_FIRST_SEED", "7")
    words = ("--cases", str(cases), "--seconds", str(10 * CASES_SECONDS_MAX), "--seed", seed)
    ran = run_command("proof.fuzz", *words, folder=folder, seconds_max=10 * CASES_SECONDS_MAX)
    assert ran.status == 0, ran.out + ran.errors
    assert f"{cases:,} cases of seed {seed}" in ran.out


@pytest.mark.slow
@pytest.mark.timeout(CASES_SECONDS_MAX)
def test_drawn_command_lines_behave(tmp_path: Path) -> None:
    """A hundred: no traceback, no escape, no password, no file replaced, and each one ends."""
    fuzz(100, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(10 * CASES_SECONDS_MAX)
def test_many_drawn_command_lines_behave(tmp_path: Path) -> None:
    """The same of thousands."""
    fuzz(3_000, tmp_path)

"""What a wheel brings does what the README says, from a folder that is no checkout."""

from pathlib import Path

import pytest
from support.commands import Desk
from support.wheels import unpacked_wheel

import ledger

pytestmark = pytest.mark.slow


def test_the_readmes_commands_run_from_the_wheel(desk: Desk, tmp_path: Path) -> None:
    """Version, doctor, record, total, history, a pass: each of the package that was built."""
    package = unpacked_wheel(tmp_path)
    variables = {"PYTHONPATH": str(package), "LEDGER_REGION": "us-east-1"}
    for command in (
        "ledger --version",
        "ledger record from-the-wheel 3 --note refund",
        "ledger record from-the-wheel -0.5",
        "ledger total from-the-wheel",
        "ledger history from-the-wheel",
        "compactor run --once",
        "compactor status",
        "ledger table status",
        "ledger doctor",
    ):
        program, *words = command.split()
        ran = desk.run_process(program, *words, variables=variables)
        assert ran.status == 0, (command, ran)
        assert "Traceback" not in ran.errors
    assert "2.5" in desk.run_process("ledger", "total", "from-the-wheel", variables=variables).out
    assert not package.is_relative_to(Path(ledger.__file__).parents[1])
    assert not (package / "ledger/docs").exists(), "a page that no program reads"

"""`ledger doctor`: how its findings are shown, and what it sees of this machine's files."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from ledger.administration.diagnosis.diagnosis import CheckState, Diagnosis, DoctorCheck
from ledger.commands import doctor
from ledger.runtime import console_tables

FOUND = (
    Diagnosis(
        DoctorCheck.PERMISSIONS,
        "ap-southeast-1",
        CheckState.PROBLEM,
        "no Query",
        "attach the policy",
    ),
    Diagnosis(DoctorCheck.SETTINGS, "", CheckState.OK, "from regions.yaml"),
)


@pytest.mark.parametrize("characters", [40, 60, 100, console_tables.PIPED_CHARACTERS_MAX])
def test_what_is_to_be_done_stands_with_what_is_wrong(
    characters: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a narrow terminal, too, where each finding is shown line by line."""
    file = io.StringIO()
    console = Console(file=file, width=characters, color_system=None)
    monkeypatch.setattr(console_tables, "new_console", lambda: console)
    doctor._show(FOUND, title="table ledger", as_json=False)
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    (place,) = (number for number, line in enumerate(lines) if line.endswith("no Query"))
    assert lines[place + 1].strip() == "to do: attach the policy"
    assert max(map(len, lines)) < 80
    assert capsys.readouterr().out == "problems: 1, warnings: 0, unknown: 0\n"


def test_a_key_file_that_is_open_to_others_is_noticed(tmp_path: Path) -> None:
    """One that is not there is named by what needs it."""
    file = tmp_path / "keys"
    file.touch(mode=0o600)
    assert not list(doctor._key_file_findings(str(file)))
    file.chmod(0o644)
    (found,) = doctor._key_file_findings(str(file))
    assert "has mode 644" in found.what
    assert not list(doctor._key_file_findings(str(tmp_path / "none")))
    assert not list(doctor._key_file_findings(None))

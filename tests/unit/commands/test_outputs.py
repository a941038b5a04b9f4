import os
from pathlib import Path

import pytest

from ledger.commands.outputs import check_output, write_output
from ledger.core.errors import InvalidInput, LedgerError


def test_a_file_is_replaced_only_by_force(tmp_path: Path) -> None:
    """A file that is there stays as it was, unless the user says otherwise."""
    file = tmp_path / "data.csv"
    write_output(file, "first", force=False)
    with pytest.raises(LedgerError, match=r"data\.csv already exists: --force replaces it"):
        write_output(file, "second", force=False)
    assert file.read_text() == "first"
    write_output(file, "second", force=True)
    assert file.read_text() == "second"


def test_what_cannot_be_a_file_is_named(tmp_path: Path) -> None:
    """A folder, a file in none, and a name too long are refused, also by force."""
    with pytest.raises(InvalidInput, match="is a folder: name a file"):
        check_output(tmp_path, force=True)
    with pytest.raises(InvalidInput, match="there is no folder"):
        check_output(tmp_path / "missing" / "a", force=True)
    with pytest.raises(InvalidInput, match="File name too long"):
        check_output(tmp_path / ("n" * 300), force=True)


def test_what_is_no_plain_file_may_be_written() -> None:
    """A device, as /dev/stdout or /dev/null, is there and loses nothing."""
    write_output(Path(os.devnull), "text", force=False)

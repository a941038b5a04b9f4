"""Files that commands write: what is there already is replaced only if the user says so."""

from pathlib import Path
from typing import Annotated

import typer

from ledger.core.errors import InvalidInput, LedgerError

_FORCE = "--force"
_FORCE_HELP = "Replace a file that is there already."
Force = Annotated[bool, typer.Option(_FORCE, help=_FORCE_HELP)]
UnlistedForce = Annotated[bool, typer.Option(_FORCE, help=_FORCE_HELP, hidden=True)]
"""Of a command with many options: the refusal names it."""


def check_output(path: Path, *, force: bool) -> None:
    """Check that a file may be written, before there is anything to write.

    What is no plain file, such as /dev/stdout or a named pipe, may always be written.

    Raises:
        InvalidInput: it is a folder, or would be in one that is not there.
        LedgerError: the file is there, and `force` is not given.
    """
    try:
        is_folder, is_file, has_folder = path.is_dir(), path.is_file(), path.parent.is_dir()
    except OSError as error:  # a name too long, or a folder that may not be entered
        raise InvalidInput(f"{path} cannot be written: {error.strerror or error}") from None
    if is_folder:
        raise InvalidInput(f"{path} is a folder: name a file")
    if not has_folder:
        raise InvalidInput(f"{path}: there is no folder {path.parent}")
    if is_file and not force:
        raise LedgerError(f"{path} already exists: --force replaces it")


def write_output(path: Path, text: str, *, force: bool) -> None:
    """Write a file.

    Raises:
        LedgerError: as `check_output`, or it cannot be written.
    """
    check_output(path, force=force)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LedgerError(f"{path} cannot be written: {error.strerror or error}") from None

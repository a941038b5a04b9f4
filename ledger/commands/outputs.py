"""Files that commands write: an existing one is replaced only if the user says so."""

from pathlib import Path
from typing import Annotated

import typer

from ledger.core.errors import InvalidInput, LedgerError

_FORCE = "--force"
_FORCE_HELP = "Replace an existing file."
Force = Annotated[bool, typer.Option(_FORCE, help=_FORCE_HELP)]
UnlistedForce = Annotated[bool, typer.Option(_FORCE, help=_FORCE_HELP, hidden=True)]
"""The option of a command with many: the refusal names it."""


def check_output(path: Path, *, force: bool) -> None:
    """Check that a file may be written, before there is anything to write.

    A path that is not a plain file, such as /dev/stdout or a named pipe, may always be written.

    Raises:
        InvalidInput: it is a folder, or its folder does not exist.
        LedgerError: the file exists, and `force` is not given.
    """
    try:
        is_folder, is_file, has_folder = path.is_dir(), path.is_file(), path.parent.is_dir()
    except OSError as error:  # a name too long, or a folder without access
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

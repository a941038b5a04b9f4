"""Keeps bad rows unchanged, so that they can be corrected and imported as a separate file."""

import filecmp
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from ledger.core.errors import ImportRefused
from ledger.importing.form import DEFAULT_ENCODING, Form
from ledger.importing.rows import BadRow


class Rejects:
    """Receives bad rows, in the order of the file, under its header if it has one."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def header(self, text: str) -> None:
        """Write the header."""
        self._write(text)

    def add(self, bad: BadRow) -> None:
        """Write one row, byte for byte."""
        self._write(bad.raw)

    def _write(self, text: str) -> None:
        self._file.write(text if text.endswith(("\n", "\r")) or not text else f"{text}\n")


class RejectsFile:
    """A file of rejects being written, under a temporary name."""

    def __init__(self, path: Path, made: Path, rejects: Rejects, file: TextIO) -> None:
        self.rejects = rejects
        self._path = path
        self._made = made
        self._file = file

    def keep(self) -> None:
        """Move the complete file to its name.

        A file of that name with other content is never replaced: it may contain rows from an
        earlier run that are being corrected.

        Raises:
            ImportRefused: such a file exists.
        """
        self._file.close()
        if not self._path.exists():
            os.replace(self._made, self._path)  # noqa: PTH105 (Path.replace is the same)
        elif not filecmp.cmp(self._path, self._made, shallow=False):
            raise ImportRefused(
                f"{self._path} exists with other content than the rows rejected now:"
                " name another file"
            )


@contextmanager
def rejects_file(path: Path, form: Form) -> Iterator[RejectsFile]:
    """Open a file of rejects, deleted at the end unless `keep` was called.

    Raises:
        ImportRefused: it cannot be written.
    """
    # The default reads a byte order mark if there is one; it must not be written where none was.
    encoding = "utf-8" if form.encoding == DEFAULT_ENCODING else form.encoding
    made: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        made = Path(name)
        with os.fdopen(
            handle, "w", encoding=encoding, errors="surrogateescape", newline=""
        ) as file:
            yield RejectsFile(path, made, Rejects(file), file)
    except OSError as error:
        raise ImportRefused(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        if made is not None:
            made.unlink(missing_ok=True)

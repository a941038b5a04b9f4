"""Keeps bad rows as they stood, so that they can be mended and imported as a file of their own."""

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
    """Where bad rows go, in the order of the file, under its header if it has one."""

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
    """A file of rejects in the making: what was written so far is under another name."""

    def __init__(self, path: Path, made: Path, rejects: Rejects, file: TextIO) -> None:
        self.rejects = rejects
        self._path = path
        self._made = made
        self._file = file

    def keep(self) -> None:
        """Give the file its name, whole.

        A file of that name with other content is never replaced: it may hold rows that were being
        mended since an earlier run.

        Raises:
            ImportRefused: there is such a file.
        """
        self._file.close()
        if self._path.exists() and not filecmp.cmp(self._path, self._made, shallow=False):
            raise ImportRefused(
                f"{self._path} exists and holds something else than the rows left out now:"
                " name another file for them"
            )
        os.replace(self._made, self._path)  # noqa: PTH105 (Path.replace is the same)


@contextmanager
def rejects_file(path: Path, form: Form) -> Iterator[RejectsFile]:
    """Begin a file of rejects; it gets its name only by `keep`.

    Raises:
        ImportRefused: it cannot be written.
    """
    # The default reads a byte order mark if there is one; it is not to be written where none was.
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

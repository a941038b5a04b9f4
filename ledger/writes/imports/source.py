"""The bytes and lines of a file, which can be read repeatedly with the same result.

Input that cannot be read twice (standard input, a pipe) is copied to a temporary file first.
"""

import hashlib
import io
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ledger.core.errors import ImportRefused

STANDARD_INPUT = "-"
LINE_CHARACTERS_MAX = 3 << 20
"""The longest note in JSON has six characters for each of its bytes."""
_COPY_BYTES = 1 << 20


class HashedBytes(io.RawIOBase):
    """Up to `bytes_max` bytes of a file from its beginning, hashed as they are read."""

    def __init__(self, file: BinaryIO, *, bytes_max: int | None = None) -> None:
        super().__init__()
        file.seek(0)
        self._file = file
        self._left = sys.maxsize if bytes_max is None else bytes_max
        self._hash = hashlib.sha256()
        self.bytes_read: int = 0

    def readable(self) -> bool:
        """Return True: the stream is read-only."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read into the buffer; returns how many bytes were read."""
        chunk = self._file.read(min(len(buffer), self._left))
        buffer[: len(chunk)] = chunk
        self._hash.update(chunk)
        self._left -= len(chunk)
        self.bytes_read += len(chunk)
        return len(chunk)

    def hexdigest(self) -> str:
        """Return the SHA-256 of the bytes read so far."""
        return self._hash.hexdigest()


@dataclass(frozen=True, slots=True)
class ImportSource:
    """An open file to import, and its name for messages."""

    name: str
    file: BinaryIO

    def size_bytes(self) -> int:
        """Return the current size.

        Raises:
            ImportRefused: it has none, like a file of /proc.
        """
        try:
            return self.file.seek(0, os.SEEK_END)
        except OSError as error:
            raise ImportRefused(f"{self.name}: {_unreadable(error)}") from error

    def hashed(self, *, bytes_max: int | None = None) -> HashedBytes:
        """Return the bytes from the beginning."""
        return HashedBytes(self.file, bytes_max=bytes_max)

    def lines(self, content: HashedBytes, *, encoding: str) -> Iterator[str]:
        """Yield the lines with their ends unchanged; bytes outside the encoding as surrogates.

        Raises:
            ImportRefused: a line is too long, or the bytes cannot be read or decoded at all.
        """
        text = io.TextIOWrapper(
            io.BufferedReader(content), encoding=encoding, errors="surrogateescape", newline=""
        )
        number = 0
        while line := self._line(text, number + 1, encoding):
            number += 1
            yield line

    @staticmethod
    def _line(text: io.TextIOWrapper, number: int, encoding: str) -> str:
        try:
            line = text.readline(LINE_CHARACTERS_MAX + 1)
        except UnicodeError as error:
            raise ImportRefused(f"line {number} is not {encoding}: {error}") from None
        except OSError as error:
            raise _unreadable(error) from error
        if len(line) > LINE_CHARACTERS_MAX:
            raise ImportRefused(
                f"line {number} has over {LINE_CHARACTERS_MAX:,} characters:"
                " is this a text file of rows?"
            )
        return line


@contextmanager
def open_source(name: str) -> Iterator[ImportSource]:
    """Open a file, or standard input for `-`, so that it can be read twice.

    Raises:
        ImportRefused: it cannot be opened or read.
    """
    if name == STANDARD_INPUT:
        with _spooled(sys.stdin.buffer, "standard input") as source:
            yield source
        return
    try:
        file = Path(name).open("rb")  # noqa: SIM115 (closed just below)
    except (OSError, ValueError) as error:
        raise ImportRefused(f"{name}: {_unreadable(error)}") from error
    with file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            yield ImportSource(name, file)
            return
        with _spooled(file, name) as source:
            yield source


@contextmanager
def naming(source: ImportSource) -> Iterator[None]:
    """Prefix errors raised inside the block with the name of the file."""
    try:
        yield
    except ImportRefused as error:
        raise ImportRefused(f"{source.name}: {error}") from error.__cause__


@contextmanager
def _spooled(stream: BinaryIO, name: str) -> Iterator[ImportSource]:
    with tempfile.TemporaryFile(prefix="ledger-import-") as copy:
        try:
            shutil.copyfileobj(stream, copy, _COPY_BYTES)
            copy.flush()
        except OSError as error:
            raise ImportRefused(f"{name}: {_unreadable(error)}") from error
        yield ImportSource(name, copy)


def _unreadable(error: OSError | ValueError) -> ImportRefused:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return ImportRefused(f"the file cannot be read: {reason}")

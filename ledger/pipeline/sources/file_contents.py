"""The content of a file of records, plain or gzip: opened, its first line, and hashes of it."""

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ledger.core.errors import LedgerError
from ledger.pipeline.sources.file_positions import mark, new_hash
from ledger.pipeline.sources.record_cutter import HEAD_BYTES

LINE_BYTES_MAX = 1 << 20
"""A longer line becomes a dead letter; more, if `pipeline.record_bytes_max` is more."""
WINDOW_BYTES = 1 << 22
"""Read at once, and so the most bytes of a batch; at least four of the longest lines."""
_GZIP = b"\x1f\x8b"

Readable = BinaryIO | gzip.GzipFile


def open_content(path: Path) -> Readable:
    """Open a file of records, plain or gzip.

    Raises:
        OSError: it cannot be opened.
    """
    with path.open("rb") as file:
        is_gzip = file.read(len(_GZIP)) == _GZIP
    return gzip.GzipFile(path, "rb") if is_gzip else path.open("rb")


@contextmanager
def held_open(path: Path) -> Iterator[Readable]:
    """Open a file of records for a while: the same one is read, whatever comes to its path.

    Raises:
        LedgerError: it cannot be opened.
    """
    try:
        file = open_content(path)
    except OSError as error:
        raise cannot_be_read(path, error) from error
    with file:
        yield file


def is_gzip(path: Path) -> bool:
    """Return whether a file is compressed.

    Raises:
        LedgerError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(len(_GZIP)) == _GZIP
    except OSError as error:
        raise cannot_be_read(path, error) from error


def first_line(path: Path, file: Readable | None = None, *, may_grow: bool = False) -> bytes:
    """Return the first line of a file that is not blank, without its end; empty if none has ended.

    A line that has no end is one if it is the whole file, and that does not grow. Of a long one the
    beginning is returned.

    Raises:
        LedgerError: the file cannot be read.
    """
    try:
        with _from_beginning(path, file) as reading:
            for _blank in range(HEAD_BYTES):
                line = reading.readline(LINE_BYTES_MAX)
                if line.strip() or not line:
                    has_end = line.endswith(b"\n") or len(line) == LINE_BYTES_MAX
                    return line.strip() if has_end or not may_grow else b""
    except (OSError, EOFError, zlib.error) as error:
        raise cannot_be_read(path, error) from error
    return b""


def marks_at(path: Path, places: Iterable[int], file: Readable | None = None) -> Mapping[int, str]:
    """Return the hashes of what precedes these places of a file, as far as it reaches.

    Raises:
        LedgerError: the file cannot be read.
    """
    found: dict[int, str] = {}
    try:
        with _from_beginning(path, file) as reading:
            running, at = new_hash(), 0
            for place in sorted(set(places)):
                while at < place and (data := reading.read(min(place - at, WINDOW_BYTES))):
                    running.update(data)
                    at += len(data)
                if at < place:
                    break
                found[place] = mark(running)
    except (OSError, EOFError, zlib.error) as error:
        raise cannot_be_read(path, error) from error
    return found


@contextmanager
def _from_beginning(path: Path, file: Readable | None) -> Iterator[Readable]:
    """Yield a file at its beginning; one that is open is left where it was: somebody reads it."""
    if file is None:
        with open_content(path) as made:
            yield made
        return
    place = file.tell()
    file.seek(0)
    try:
        yield file
    finally:
        file.seek(place)


def cannot_be_read(path: Path, error: Exception) -> LedgerError:
    """Return the error of a file that cannot be read."""
    if isinstance(error, OSError) and error.strerror:
        return LedgerError(f"{path}: cannot be read: {error.strerror}")
    return LedgerError(
        f"{path}: cannot be read: {error}. Its complete records are taken; get the whole file, and"
        " run it again"
    )

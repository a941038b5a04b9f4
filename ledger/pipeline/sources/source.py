"""Where records come from: lanes that can be read again from any position.

A lane is one ordered, replayable part of a source: a Kinesis shard, a file. On these rests that
every record counts once:

- a position always stands for the same record, however often and by whomever it is read;
- positions are texts of one width whose order is the lane's;
- nothing is left out between a position and what is read after it.
"""

import hashlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Protocol

import anyio.to_thread

from ledger.core.errors import LedgerError
from ledger.pipeline.core.records import Delivery

POSITION_DIGITS = 20
LINE_BYTES_MAX = 1 << 24
"""A longer line is cut in pieces, none of which is a record."""
NAME_HASH_DIGITS = 12


class Source(Protocol):
    """One lane's records."""

    def batches(self, after: str, *, most: int) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield records after a position (empty: from the first), up to `most` at a time.

        It waits while there are none, and ends where the lane ends. What it yields at once becomes
        a batch: under load it hands over what has come meanwhile, at rest a record alone.
        """


class ListSource:
    """Records that are there already, in the order of their positions."""

    def __init__(self, deliveries: Sequence[Delivery]) -> None:
        self._deliveries = deliveries

    async def batches(self, after: str, *, most: int) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield what comes after a position."""
        left = [delivery for delivery in self._deliveries if delivery.position > after]
        for start in range(0, len(left), most):
            yield left[start : start + most]


class FileSource:
    """A file of JSON lines; a position is where its line ends, in bytes from the beginning.

    The file may grow, by whole lines; what was read of it must stay as it is. Empty lines are left
    out. Reading ends at the end of the file, or, where `grows` is given, goes on there: it waits
    for more, and returns False once no more will come.
    """

    def __init__(self, path: Path, *, grows: Callable[[], Awaitable[bool]] | None = None) -> None:
        self._path = path
        self._grows = grows

    async def batches(self, after: str, *, most: int) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield the lines after a position.

        Raises:
            LedgerError: the file cannot be read, or no line of it ends at the position.
        """
        may_grow = self._grows is not None
        try:
            with self._path.open("rb") as file:
                self._go_to(file, int(after or 0))
                while True:
                    # A last line that is still being written is not read yet.
                    lines = await anyio.to_thread.run_sync(_read, file, most, may_grow)
                    if lines:
                        yield lines
                    elif self._grows is None or not may_grow:
                        return
                    else:
                        may_grow = await self._grows()
        except OSError as error:
            raise LedgerError(f"{self._path}: cannot be read: {error.strerror}") from error

    def _go_to(self, file: BinaryIO, place: int) -> None:
        if not _is_border(file, place):
            raise LedgerError(
                f"{self._path}: no line of it ends after the {place:,} bytes that were read of it"
                " before: another file under the same name?"
            )
        file.seek(place)


def _is_border(file: BinaryIO, place: int) -> bool:
    """Return whether reading could have stopped at this place of a file."""
    size = file.seek(0, os.SEEK_END)
    if place in {0, size} or place > size:
        return place <= size
    file.seek(place - 1)
    if b"\n" in file.read(2):  # a last line may have come without its end
        return True
    file.seek(max(0, place - LINE_BYTES_MAX))
    return place >= LINE_BYTES_MAX and b"\n" not in file.read(LINE_BYTES_MAX)


def lane_of(path: Path) -> str:
    """Return the name of a file's lane: the file's own name, and a hash of its first line.

    So another file under the same name is another lane, and a file that grows stays the same one.

    Raises:
        LedgerError: the file cannot be read, or has no line yet.
    """
    try:
        with path.open("rb") as file:
            first = file.readline(LINE_BYTES_MAX)
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror}") from error
    if not first.strip():
        raise LedgerError(f"{path}: its first line is empty: name the lane with --lane")
    return f"{path.name}@{hashlib.sha256(first.strip()).hexdigest()[:NAME_HASH_DIGITS]}"


def _read(file: BinaryIO, most: int, may_grow: bool) -> list[Delivery]:  # noqa: FBT001 (a thread's)
    """Read up to so many lines; none at the end of the file, where a batch may be empty before."""
    place = file.tell()
    found: list[Delivery] = []
    while not found:
        lines = list(islice(iter(lambda: file.readline(LINE_BYTES_MAX), b""), most))
        if may_grow and lines and not lines[-1].endswith(b"\n") and len(lines[-1]) < LINE_BYTES_MAX:
            file.seek(-len(lines.pop()), os.SEEK_CUR)
        if not lines:
            break
        for line in lines:
            place += len(line)
            if text := line.strip():
                found.append(Delivery(f"{place:0{POSITION_DIGITS}d}", text))
    return found

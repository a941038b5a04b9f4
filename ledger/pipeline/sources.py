"""Where records come from: lanes that can be read again from any position.

A lane is one ordered, replayable part of a source: a Kinesis shard, a file. On these rests that
every record counts once:

- a position always stands for the same record, however often and by whomever it is read;
- positions are texts of one width whose order is the lane's;
- nothing is left out between a position and what is read after it.
"""

from collections.abc import AsyncGenerator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Protocol

import anyio.to_thread

from ledger.core.errors import LedgerError
from ledger.pipeline.records import Delivery

POSITION_DIGITS = 20
LINE_BYTES_MAX = 1 << 24
"""A longer line is cut in pieces, none of which is a record."""


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
        left = [one for one in self._deliveries if one.position > after]
        for start in range(0, len(left), most):
            yield left[start : start + most]


class FileSource:
    """A file of JSON lines; a position is where its line ends, in bytes from the beginning.

    The file may grow between runs, by whole lines; what was read of it must stay as it is. Empty
    lines are left out. Reading ends at the end of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    async def batches(self, after: str, *, most: int) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield the lines after a position.

        Raises:
            LedgerError: the file cannot be read, or is shorter than the position.
        """
        try:
            with self._path.open("rb") as file:
                self._go_to(file, int(after or 0))
                while lines := await anyio.to_thread.run_sync(_read, file, most):
                    yield lines
        except OSError as error:
            raise LedgerError(f"{self._path}: cannot be read: {error.strerror}") from error

    def _go_to(self, file: BinaryIO, place: int) -> None:
        if place > file.seek(0, 2):
            raise LedgerError(
                f"{self._path}: shorter than the {place:,} bytes that were read of it before:"
                " another file under the same name?"
            )
        file.seek(place)


def _read(file: BinaryIO, most: int) -> list[Delivery]:
    """Read up to so many lines; none at the end of the file, where a batch may be empty before."""
    place = file.tell()
    found: list[Delivery] = []
    while not found:
        lines = list(islice(iter(lambda: file.readline(LINE_BYTES_MAX), b""), most))
        if not lines:
            break
        for line in lines:
            place += len(line)
            if text := line.strip():
                found.append(Delivery(f"{place:0{POSITION_DIGITS}d}", text))
    return found

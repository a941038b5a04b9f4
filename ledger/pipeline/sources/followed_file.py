"""A path that is followed: one file after the other, as logs are rotated.

::

    records.jsonl  ── moved to records.jsonl.1 ── read to its end, and DRAIN_SECONDS more ──┐
                   a new records.jsonl ── seen, kept open ── ... ───────────────────────────┴─ read

A file that is followed stays open, so whatever it is renamed to, all of it is read, and what a
writer still appends within `DRAIN_SECONDS` of the last growth, too. Each file is a lane of its own.
Files that come and go between two looks, `FOLLOW_SECONDS` apart, are not seen.
"""

import os
from collections import deque
from pathlib import Path
from typing import BinaryIO

import anyio.to_thread

from ledger.core.errors import LedgerError
from ledger.pipeline.sources.file_contents import cannot_be_read, first_line
from ledger.runtime.clock import Clock

FOLLOW_SECONDS = 0.2
"""Between two looks at the end of a file that may grow, and at its path."""
DRAIN_SECONDS = 5.0
"""How long a file that was moved away must have stood still before the next one is read."""
WAITING_MAX = 100
"""Files that are open and wait to be read."""


class Followed:
    """The files at one path, in the order in which they appear there. Close it in the end."""

    def __init__(self, path: Path, clock: Clock, *, drain_seconds: float = DRAIN_SECONDS) -> None:
        self.path = path
        self._clock = clock
        self._drain_seconds = drain_seconds
        self._files: deque[BinaryIO] = deque()
        self._size = -1
        self._still_since = 0.0

    @property
    def file(self) -> BinaryIO:
        """The file that is being read."""
        return self._files[0]

    @property
    def is_last(self) -> bool:
        """Whether no other file has come to the path."""
        return len(self._files) == 1

    async def begin(self) -> None:
        """Open the file at the path.

        Raises:
            LedgerError: there is no file, or it cannot be read.
        """
        if not await anyio.to_thread.run_sync(self._look):
            raise LedgerError(f"{self.path}: cannot be read: there is no such file")

    async def has_line(self) -> None:
        """Wait until the file that is being read has a line; an empty one is passed over."""
        while not await anyio.to_thread.run_sync(self._first_line):
            if not await self.grows():
                if self.is_last:
                    return
                self.go_on()

    def go_on(self) -> None:
        """Read the next file."""
        self._files.popleft().close()
        self._size = -1

    async def grows(self) -> bool:
        """Wait for a moment; return False once the file has ended, since another one is there.

        Raises:
            LedgerError: the path cannot be read.
        """
        await self._clock.sleep(FOLLOW_SECONDS)
        await anyio.to_thread.run_sync(self._look)
        size, now = os.fstat(self.file.fileno()).st_size, self._clock.monotonic()
        if size != self._size or self.is_last:
            self._size, self._still_since = size, now
        return now - self._still_since < self._drain_seconds

    def close(self) -> None:
        """Close all files."""
        while self._files:
            self._files.popleft().close()

    def _first_line(self) -> bytes:
        return first_line(self.path, self.file, may_grow=True)

    def _look(self) -> bool:
        """Open the file at the path if it is another; return whether there is one."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:  # moved away, and not made again yet
            return False
        except OSError as error:
            raise cannot_be_read(self.path, error) from error
        if self._files and os.path.sameopenfile(file.fileno(), self._files[-1].fileno()):
            file.close()
        elif len(self._files) == WAITING_MAX:
            file.close()
            raise LedgerError(f"{self.path}: {WAITING_MAX} files wait to be read: it falls behind")
        else:
            self._files.append(file)
        return True

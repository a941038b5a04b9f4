"""Destinations of records that cannot be processed: durable before the lane's position passes them.

At least once: after a crash the same letter can come again, under the same lane and position.
"""

import hashlib
import json
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread

from ledger.core.errors import LedgerError
from ledger.core.times import time_of
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.sources.source import LagUnit, Measured, Source
from ledger.runtime.clock import Clock, SystemClock

DIGEST_DIGITS = 16


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record as it came, where it lay, why it was not taken, and when, if that is known."""

    lane: str
    position: str
    reason: str
    raw: bytes
    at: datetime | None = field(default=None, compare=False)

    @property
    def digest(self) -> str:
        """The beginning of the SHA-256 of the record: equal for equal content."""
        return hashlib.sha256(self.raw).hexdigest()[:DIGEST_DIGITS]


class DeadLetters(Protocol):
    """Keeps dead letters."""

    async def add(self, letters: Sequence[DeadLetter]) -> None:
        """Keep some; they are durable when it returns.

        Raises:
            LedgerError: they could not be stored, so the lane must not continue.
        """


class DeadLetterList:
    """Dead letters in memory, for tests."""

    def __init__(self) -> None:
        self.letters: list[DeadLetter] = []

    async def add(self, letters: Sequence[DeadLetter]) -> None:
        """Keep some."""
        self.letters += letters


class DeadLetterFile:
    """A file of JSON lines: lane, position, reason, time, hash, and the record as text.

    Bytes that are not UTF-8 stand in the text as lone surrogates, so that nothing is lost.
    """

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self._path = path
        self._clock = clock or SystemClock()
        self._lock = anyio.Lock()

    async def add(self, letters: Sequence[DeadLetter]) -> None:
        """Append some, and wait until they are on the disk.

        Raises:
            LedgerError: the file cannot be written.
        """
        now = self._clock.now()
        content = "".join(line_of(replace(letter, at=now)) for letter in letters).encode("ascii")
        async with self._lock:
            await append(self._path, content)


class LetterSource:
    """The records in a file of dead letters, at the positions of its own lines.

    A line that is not a letter, such as a truncated one, is passed on unchanged: it is refused
    again.
    """

    def __init__(self, lines: Source) -> None:
        self._lines = lines

    @property
    def lag_unit(self) -> LagUnit | None:
        """The unit of the count, if it is known."""
        return self._lines.lag_unit if isinstance(self._lines, Measured) else None

    def lag_after(self, position: str) -> float:
        """Return how much of the file is after a position."""
        return self._lines.lag_after(position) if isinstance(self._lines, Measured) else 0.0

    async def batches(self, after: str, *, most: int) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield the records after a position."""
        async with aclosing(self._lines.batches(after, most=most)) as batches:
            async for batch in batches:
                yield [delivery._replace(raw=_record_in(delivery.raw)) for delivery in batch]


def _record_in(line: bytes) -> bytes:
    try:
        return letter_of(line.decode()).raw
    except ValueError:
        return line


def line_of(letter: DeadLetter) -> str:
    """Return the line that stands for a dead letter."""
    fields = {
        "lane": letter.lane,
        "position": letter.position,
        "reason": letter.reason,
        "time": letter.at.isoformat() if letter.at else None,
        "sha256": letter.digest,
        "record": letter.raw.decode(errors="surrogateescape"),
    }
    return f"{json.dumps(fields, ensure_ascii=True)}\n"


def letter_of(line: str) -> DeadLetter:
    """Read a dead letter from its line.

    Raises:
        ValueError: it is not such a line.
    """
    fields = json.loads(line)
    try:
        raw = fields["record"].encode(errors="surrogateescape")
        at = time_of(fields["time"]) if fields["time"] else None
        return DeadLetter(fields["lane"], fields["position"], fields["reason"], raw, at)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"no dead letter: {error}") from None


async def append(path: Path, content: bytes) -> None:
    """Append lines to a file, and wait until they are on the disk.

    Raises:
        LedgerError: the file cannot be written.
    """
    try:
        await anyio.to_thread.run_sync(_append, path, content)
    except OSError as error:
        raise LedgerError(f"{path}: cannot be written: {error.strerror}") from error


def _append(path: Path, content: bytes) -> None:
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # its writer was killed: this letter comes again
                file.write(b"\n")
        file.write(content)
        file.flush()
        os.fsync(file.fileno())

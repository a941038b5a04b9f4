"""Dead letters: records that cannot be processed, kept, listed, chosen and edited.

A letter is durable before the lane's position passes its record. At least once: after a crash the
same letter can come again, under the same lane and position.

A person lists, chooses and edits letters in files. What is chosen or edited lies in a file of its
own, whose name has a hash of what it was made of: the same command finds it again. Its content
makes it a lane of its own, and since a version of a record counts once, a letter that is replayed
from two files counts once.
"""

import hashlib
import json
import os
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread

from ledger.core.errors import InvalidInput, LedgerError
from ledger.core.times import time_of
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.sources.source import LagUnit, Measured, Source
from ledger.runtime.clock import Clock, SystemClock

DIGEST_DIGITS = 16


@dataclass(frozen=True, slots=True)
class DeadRecord:
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


class LetterSink(Protocol):
    """Keeps dead letters."""

    async def add(self, letters: Sequence[DeadRecord]) -> None:
        """Keep some; they are durable when it returns.

        Raises:
            LedgerError: they could not be stored, so the lane must not continue.
        """


class DeadLetterList:
    """Dead letters in memory, for tests."""

    def __init__(self) -> None:
        self.letters: list[DeadRecord] = []

    async def add(self, letters: Sequence[DeadRecord]) -> None:
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

    async def add(self, letters: Sequence[DeadRecord]) -> None:
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


def line_of(letter: DeadRecord) -> str:
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


def letter_of(line: str) -> DeadRecord:
    """Read a dead letter from its line.

    Raises:
        ValueError: it is not such a line.
    """
    fields = json.loads(line)
    try:
        raw = fields["record"].encode(errors="surrogateescape")
        at = time_of(fields["time"]) if fields["time"] else None
        return DeadRecord(fields["lane"], fields["position"], fields["reason"], raw, at)
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


NAME_HASH_DIGITS = 8
LETTER_BYTES_MAX = 64 << 20
"""Longer than any letter: a device named by mistake never ends its line."""


@dataclass(slots=True)
class ListedLetter:
    """A dead letter, how often it came, and when first and last, as far as that is known."""

    letter: DeadRecord
    count: int = 0
    first: datetime | None = None
    last: datetime | None = None

    def add(self, letter: DeadRecord) -> None:
        """Take in one more of its kind."""
        self.count += 1
        if letter.at is not None:
            self.first = min(self.first or letter.at, letter.at)
            self.last = max(self.last or letter.at, letter.at)


def list_letters(files: Iterable[Path]) -> list[ListedLetter]:
    """Return the letters of some files as one list, each record of a position once.

    Raises:
        LedgerError: a file cannot be read.
    """
    found: dict[tuple[str, str, str], ListedLetter] = {}
    for file in files:
        for letter in letters_in(file):
            place = letter.lane, letter.position, letter.digest
            found.setdefault(place, ListedLetter(letter)).add(letter)
    return list(found.values())


def letters_in(file: Path) -> Iterator[DeadRecord]:
    """Yield the letters of a file; other lines, such as a truncated one, are skipped.

    Raises:
        LedgerError: the file cannot be read, or a line has over `LETTER_BYTES_MAX`.
    """
    try:
        with file.open("rb") as lines:
            while line := lines.readline(LETTER_BYTES_MAX + 1):
                if len(line) > LETTER_BYTES_MAX:
                    raise LedgerError(
                        f"{file}: a line has over {LETTER_BYTES_MAX:,} bytes: it is not a file of"
                        " dead letters"
                    )
                try:
                    yield letter_of(line.decode())
                except ValueError:
                    continue
    except OSError as error:
        raise LedgerError(f"{file}: cannot be read: {error.strerror}") from error


def is_chosen(letter: DeadRecord, only: str) -> bool:
    """Return whether a letter has this position, or this text in its reason."""
    return letter.position == only or only in letter.reason


def chosen(file: Path, only: str) -> Path:
    """Write the chosen letters of a file to a file beside it; return that file.

    Raises:
        InvalidInput: no letter is chosen.
        LedgerError: a file cannot be read or written.
    """
    lines = [line_of(letter) for letter in letters_in(file) if is_chosen(letter, only)]
    if not lines:
        raise InvalidInput(f"{file}: no letter is at position {only!r} or has that in its reason")
    return _written(file, "only", "".join(lines).encode("ascii"))


def editable(file: Path) -> Path:
    """Write the records of a file's letters, one a line and each once, to a file beside it.

    Edits made there before stay.

    Raises:
        InvalidInput: it has no letter, or one whose record is not a line of UTF-8.
        LedgerError: a file cannot be read or written.
    """
    records: dict[bytes, None] = {}
    for letter in letters_in(file):
        if b"\n" in letter.raw or not _is_text(letter.raw):
            raise InvalidInput(
                f"{file}: the record at {letter.position} is not a line of UTF-8: it cannot be"
                " edited as one: leave it out by --only"
            )
        records[letter.raw] = None
    if not records:
        raise InvalidInput(f"{file}: it holds no dead letter")
    return _written(file, "edit", b"".join(record + b"\n" for record in records))


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _written(file: Path, purpose: str, content: bytes) -> Path:
    """Write a file once: whole, on the disk, and never over one that is there."""
    digest = hashlib.sha256(content).hexdigest()[:NAME_HASH_DIGITS]
    path = file.with_name(f"{file.name}.{purpose}-{digest}")
    if path.exists():
        return path
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as made:
            made.write(content)
            made.flush()
            os.fsync(made.fileno())
        partial.replace(path)
    except OSError as error:
        raise LedgerError(f"{path}: cannot be written: {error.strerror}") from error
    return path

"""Files of dead letters as a person works on them: listed, some chosen, their records edited.

What is chosen or edited lies in a file of its own, whose name has a hash of what it was made of:
the same command finds it again. Its content makes it a lane of its own, and since a version of a
record counts once, a letter that is replayed from two files counts once.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ledger.core.errors import InvalidInput, LedgerError
from ledger.pipeline.sources.dead_letters import DeadLetter, letter_of, line_of

NAME_HASH_DIGITS = 8
LETTER_BYTES_MAX = 64 << 20
"""Longer than any letter: a device named by mistake never ends its line."""


@dataclass(slots=True)
class ListedLetter:
    """A dead letter, how often it came, and when first and last, as far as that is known."""

    letter: DeadLetter
    count: int = 0
    first: datetime | None = None
    last: datetime | None = None

    def add(self, letter: DeadLetter) -> None:
        """Take in one more of its kind."""
        self.count += 1
        if letter.at is not None:
            self.first = min(self.first or letter.at, letter.at)
            self.last = max(self.last or letter.at, letter.at)


def listed(files: Iterable[Path]) -> list[ListedLetter]:
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


def letters_in(file: Path) -> Iterator[DeadLetter]:
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


def is_chosen(letter: DeadLetter, only: str) -> bool:
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

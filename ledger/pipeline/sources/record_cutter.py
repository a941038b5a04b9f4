"""Cuts the bytes of a file into records: lines of JSON, or rows of CSV.

Where a record begins and ends depends on the bytes from its beginning on, never on how many of
them were read at once. So every reader finds the same records at the same places.

Pure: no clock, no randomness, no I/O.
"""

import csv
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

from ledger.core.errors import InvalidInput

FORMATS: Sequence["Format"] = ("jsonl", "csv")
DELIMITERS = ",;\t|"
HEAD_BYTES = 4096
"""Kept of a record that is too long."""
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}", flags=re.ASCII)
_SHOWN_CHARACTERS = 40

Format = Literal["jsonl", "csv"]


class Piece(NamedTuple):
    """Some bytes of a file: a record, or no record if `raw` is empty, and why it is invalid."""

    size: int
    raw: bytes
    problem: str = ""


class Cutter(Protocol):
    """Cuts one file, from its beginning or from the end of any piece."""

    def learn(self, beginning: bytes) -> None:
        """Take in the beginning of a file that is read from a later place.

        Raises:
            InvalidInput: such a file cannot begin so.
        """

    def cut(self, data: bytes, *, is_last: bool) -> Sequence[tuple[int, bytes, str]]:
        """Return the pieces that are complete, from the first byte on, each as of `Piece`.

        The rest is a piece of which more must be read, or, if `is_last`, one that has no end.

        Raises:
            InvalidInput: such a file cannot begin so, or one of its records has no certain end.
        """


def cutter_of(form: Format, *, bytes_max: int) -> Cutter:
    """Return a cutter of a format; longer records are not taken whole."""
    return JsonLines(bytes_max) if form == "jsonl" else CsvCutter(bytes_max)


def too_long(length: int, digest: str, bytes_max: int) -> str:
    """Return why a line is not taken."""
    return (
        f"the line has {length:,} bytes, SHA-256 {digest}: up to {bytes_max:,} are read, and its"
        " beginning is kept"
    )


class JsonLines:
    """One JSON object a line; blank lines are left out.

    A last line without an end is taken if it is a whole object: no longer object begins with one.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max

    def learn(self, beginning: bytes) -> None:
        """Need nothing of it."""

    def cut(self, data: bytes, *, is_last: bool) -> Sequence[tuple[int, bytes, str]]:
        """Return the lines that have ended; plain tuples, since there are very many."""
        *lines, rest = data.split(b"\n")
        most = self._bytes_max
        pieces = [
            _long(line, len(line) + 1, most) or (len(line) + 1, line.strip(), "") for line in lines
        ]
        if is_last and rest and (not rest.strip() or _is_object(rest)):
            pieces.append((len(rest), rest.strip(), ""))
        return pieces


class CsvCutter:
    """Rows of CSV under a header, each given as a JSON object; a name with dots is a path.

    A cell that is a whole number of up to 18 digits, as JSON writes it, is given as one, any other
    as a text. The delimiter is the one of `DELIMITERS` that the header has most often. A row that
    cannot be read takes up its first line only. A quote that does not close within the longest
    record ends the reading: whether what follows is rows or the inside of a cell, no one can say.
    A last row without an end is not taken: it could go on.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        # Of the whole process: a cell may be as long as a record.
        csv.field_size_limit(max(csv.field_size_limit(), bytes_max))
        self._delimiter = ","
        self._paths: list[list[str]] = []

    def learn(self, beginning: bytes) -> None:
        """Read the header."""
        if not self._take_header(beginning, is_last=False):
            raise InvalidInput("its first line, the header, has no end")

    def cut(self, data: bytes, *, is_last: bool) -> list[Piece]:
        """Return the rows that have ended."""
        pieces: list[Piece] = []
        place = 0
        if not self._paths:
            place = self._take_header(data, is_last=is_last)
            if not place:
                return []
            pieces.append(Piece(place, b""))
        while (piece := self._next(data, place)) is not None:
            pieces.append(piece)
            place += piece.size
        if is_last and place < len(data) and not data[place:].strip():
            pieces.append(Piece(len(data) - place, b""))
        return pieces

    def _take_header(self, data: bytes, *, is_last: bool) -> int:
        end = data.find(b"\n") + 1
        if not end:
            if is_last or len(data) > self._bytes_max:
                raise InvalidInput("its first line, the header, has no end")
            return 0
        try:
            text = data[:end].decode("utf-8-sig")
            self._delimiter = max(DELIMITERS, key=text.count)
            (names,) = csv.reader([text], delimiter=self._delimiter, strict=True)
        except (UnicodeDecodeError, ValueError, csv.Error) as error:
            raise InvalidInput(f"its header cannot be read: {error}") from None
        paths = [name.strip().split(".") for name in names]
        _check_header(paths)
        self._paths = paths
        return end

    def _next(self, data: bytes, start: int) -> Piece | None:
        """Return the piece from a place on; None if it has not ended yet."""
        end = data.find(b"\n", start) + 1
        if not end:
            return None
        line = data[start:end]
        try:
            return _long(line[:-1], len(line), self._bytes_max) or self._row(data, start, line)
        except _HasNoEndYet:
            return None
        except UnicodeDecodeError:
            problem = "the row is not UTF-8"
        except csv.Error as error:
            problem = f"the row cannot be read: {error}"
        return Piece(len(line), line.strip(), problem)

    def _row(self, data: bytes, start: int, line: bytes) -> Piece:
        """Return the row that begins with a line."""
        if b'"' not in line:
            cells = line.decode().rstrip("\r\n").split(self._delimiter)
            return self._piece(line, cells if cells != [""] else [])
        taken = _Lines(data, start, self._bytes_max)
        cells = next(csv.reader(taken, delimiter=self._delimiter, strict=True))
        return self._piece(data[start : taken.place], cells)

    def _piece(self, raw: bytes, cells: list[str]) -> Piece:
        if not cells:
            return Piece(len(raw), b"")
        if len(cells) != len(self._paths):
            problem = f"the row has {len(cells):,} cells, and the header {len(self._paths):,}"
            return Piece(len(raw), raw.strip(), problem)
        record: dict[str, object] = {}
        for path, cell in zip(self._paths, cells, strict=True):
            _put(record, path, int(cell) if _WHOLE_NUMBER.fullmatch(cell) else cell)
        return Piece(len(raw), json.dumps(record, separators=(",", ":")).encode())


class _HasNoEndYet(Exception):
    """More of the file is needed."""


class _Lines:
    """The lines from a place on, as texts; `place` is after those that were taken."""

    def __init__(self, data: bytes, place: int, bytes_max: int) -> None:
        self.place = place
        self._start = place
        self._data = data
        self._bytes_max = bytes_max

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        end = self._data.find(b"\n", self.place) + 1
        if (end or len(self._data)) - self._start > self._bytes_max:
            said = self._data[self._start : self._start + _SHOWN_CHARACTERS].decode(
                errors="replace"
            )
            raise InvalidInput(
                f"a quote in the row {said!r}... is not closed within {self._bytes_max:,} bytes:"
                " close it, or shorten the cell, and run the file again"
            )
        if not end:
            raise _HasNoEndYet
        line = self._data[self.place : end]
        self.place = end
        return line.decode()


def _check_header(paths: Sequence[Sequence[str]]) -> None:
    known = {tuple(path) for path in paths}
    if len(known) != len(paths) or any(not name for path in paths for name in path):
        raise InvalidInput("its header needs a name for each column, each once")
    for path in known:
        for length in range(1, len(path)):
            if path[:length] in known:
                name = ".".join(path)[:_SHOWN_CHARACTERS]
                raise InvalidInput(f"its header has both {name!r} and a field that contains it")


def _put(record: dict[str, object], path: Sequence[str], value: object) -> None:
    *above, name = path
    for part in above:
        inner = record.setdefault(part, {})
        if not isinstance(inner, dict):
            raise TypeError("unreachable: the header was checked")
        record = inner
    record[name] = value


def _long(line: bytes, size: int, bytes_max: int) -> Piece | None:
    if len(line) <= bytes_max:
        return None
    digest = hashlib.sha256(line).hexdigest()
    return Piece(size, line[:HEAD_BYTES], too_long(len(line), digest, bytes_max))


def _is_object(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False

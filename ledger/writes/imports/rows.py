"""From lines to rows, good or bad, and every rule for a row.

A row is numbered by the line on which it begins, as an editor shows it, also if quoted fields
contain line ends. Blank lines are not rows.

Pure: no clock, no randomness, no I/O.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any, Protocol

from ledger.core import amounts, keys
from ledger.core.entry import NOTE_BYTES_MAX, checked_metadata
from ledger.core.errors import BrokenRow, ImportRefused, InvalidInput
from ledger.core.spreadsheets import text_of
from ledger.writes.imports.file_format import ColumnChoice, Columns, Form, Format, listed, resolved

FIELD_CHARACTERS_MAX = 2 * NOTE_BYTES_MAX
"""Of CSV: the longest note, with an apostrophe before each of its characters."""
AMOUNT_CHARACTERS_MAX = 300
RULE_CHARACTERS_MAX = 300
_VALUE_CHARACTERS_MAX = 60
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", flags=re.ASCII)


@dataclass(frozen=True, slots=True)
class Row:
    """One change in a file; `line` is where it begins, `raw` the row as it is in the file."""

    line: int
    counter: str
    change: Decimal
    note: str | None
    effective: date | None
    raw: str
    metadata: Mapping[str, str] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the change is only an amount."""
        return self.note is None and self.effective is None and self.metadata is None


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that breaks a rule; `rule` names the value and what is wrong with it."""

    line: int
    rule: str
    raw: str


class Rows(Protocol):
    """The rows of a file, once, in order."""

    @property
    def columns(self) -> Columns:
        """Which column plays which role."""

    @property
    def header(self) -> str:
        """The header as it is in the file, empty if the format has none."""

    def __iter__(self) -> Iterator[Row | BadRow]:
        """Yield every row, good or bad."""

    def missing(self) -> str | None:
        """Return a column that the user named and that no row had, once all rows were read."""


def read_rows(lines: Iterable[str], form: Form) -> Rows:
    """Begin to read rows.

    Raises:
        ImportRefused: the file has no header, or a column is missing.
    """
    return CsvRows(lines, form) if form.format is Format.CSV else JsonRows(lines, form)


class _Lines:
    """Lines as they are consumed: how many, and which since the row began."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._taken: list[str] = []
        self._count = 0
        self.first = 1

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self._count += 1
        self._taken.append(line)
        return line

    def begin_row(self) -> None:
        self._taken.clear()
        self.first = self._count + 1

    def raw(self) -> str:
        return "".join(self._taken)


class CsvRows:
    """Rows of CSV with a header, quoted as RFC 4180 has it."""

    def __init__(self, lines: Iterable[str], form: Form) -> None:
        self._lines = _Lines(lines)
        # A limit of the whole process: it is raised, never lowered.
        csv.field_size_limit(max(csv.field_size_limit(), FIELD_CHARACTERS_MAX))
        # Strict: a quote that is never closed would silently swallow the rest of the file.
        self._reader = csv.reader(self._lines, delimiter=form.delimiter, strict=True)
        self._form = form
        self._header = self._names()
        self.header = self._lines.raw()
        self.columns = resolved(form.columns, self._header)

    def __iter__(self) -> Iterator[Row | BadRow]:
        while True:
            self._lines.begin_row()
            try:
                fields = next(self._reader)
                if fields:
                    yield self._row(fields)
            except StopIteration:
                return
            except csv.Error as error:
                yield self._bad(f"the row is not CSV: {error}")
            except InvalidInput as error:
                yield self._bad(str(error))

    def missing(self) -> str | None:
        """Return None: the header had every column."""
        return None

    def _names(self) -> list[str]:
        names: list[str] = []
        while not names:
            self._lines.begin_row()
            try:
                names = next(self._reader)
            except StopIteration:
                raise ImportRefused("the file is empty: it needs a header and rows") from None
            except csv.Error as error:
                raise ImportRefused(f"line {self._lines.first}: no CSV header: {error}") from None
        return names

    def _row(self, fields: Sequence[str]) -> Row:
        raw = self._lines.raw()
        _check_decoded(raw, self._form)
        if len(fields) != len(self._header):
            raise BrokenRow(f"the row has {len(fields)} fields, the header {len(self._header)}")
        found = dict(zip(self._header, fields, strict=True))
        return _row(self._lines.first, raw, found, self.columns, self._form, text_of)

    def _bad(self, rule: str) -> BadRow:
        return BadRow(self._lines.first, _shortened(rule), self._lines.raw())


class JsonRows:
    """Rows of JSON Lines: one object a line, numbers read exactly."""

    header = ""

    def __init__(self, lines: Iterable[str], form: Form) -> None:
        self._lines = lines
        self._form = form
        choice = form.columns
        self.columns = _all_of(choice)
        self._unseen = {name for _, name in choice.required()}

    def __iter__(self) -> Iterator[Row | BadRow]:
        for number, raw in enumerate(self._lines, start=1):
            if not raw.strip():
                continue
            try:
                yield self._row(number, raw)
            except InvalidInput as error:
                yield BadRow(number, _shortened(str(error)), raw)

    def missing(self) -> str | None:
        """Return a column that the user named and that no row had."""
        return min(self._unseen, default=None)

    def _row(self, number: int, raw: str) -> Row:
        _check_decoded(raw, self._form)
        found = _object(raw)
        self._unseen.difference_update(found)
        columns = self.columns
        for column in (columns.counter, columns.change):
            if column not in found:
                raise BrokenRow(f"the object has no {column!r}; it has: {listed(tuple(found))}")
        return _row(number, raw, found, columns, self._form, lambda value: value)


def _all_of(choice: ColumnChoice) -> Columns:
    """Return the columns to look for without a header."""
    return Columns(
        counter=choice.counter or "counter",
        change=choice.change or "change",
        note=("note" if choice.note is None else choice.note) or None,
        effective=("effective" if choice.effective is None else choice.effective) or None,
        metadata=choice.named() or ("metadata" if choice.metadata is None else None),
    )


def _row(
    line: int,
    raw: str,
    found: Mapping[str, Any],
    columns: Columns,
    form: Form,
    text: Callable[[Any], Any],
) -> Row:
    """Return a row of the values found by column; `text` is what a value of text stands for."""

    def value(column: str | None) -> Any:
        return None if column is None else text(found.get(column))

    note, metadata = _note(value(columns.note)), _metadata(value, columns.metadata)
    _check_together(note, metadata)
    return Row(
        line=line,
        counter=_counter(value(columns.counter), form),
        change=_amount(found[columns.change]),
        note=note,
        effective=_effective(found.get(columns.effective) if columns.effective else None),
        raw=raw,
        metadata=metadata,
    )


def _object(raw: str, what: str = "the line") -> dict[str, Any]:
    try:
        found = json.loads(
            raw,
            parse_float=_json_number,
            parse_int=_json_number,
            parse_constant=_no_constant,
            object_pairs_hook=_each_once,
        )
    except json.JSONDecodeError as error:
        raise BrokenRow(f"{what} is not JSON: {error.msg} at character {error.colno}") from None
    except RecursionError:
        raise BrokenRow(f"{what} is not a row: it is nested too deeply") from None
    if not isinstance(found, dict):
        raise BrokenRow(f"{what} is JSON, but not an object: {_quoted(raw.strip())}")
    return found


def _json_number(text: str) -> int | Decimal:
    if len(text) > AMOUNT_CHARACTERS_MAX:
        raise BrokenRow(
            f"number {_quoted(text)} has {len(text):,} characters:"
            f" up to {AMOUNT_CHARACTERS_MAX} are read"
        )
    try:
        return int(text) if text.lstrip("-").isdigit() else amounts.of_text(text)
    except InvalidOperation:
        raise BrokenRow(f"number {_quoted(text)} has an exponent out of range") from None


def _no_constant(name: str) -> Any:
    raise BrokenRow(f"{name} is not a finite number")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise BrokenRow(f"the object has {_quoted(name)} more than once")
        found[name] = value
    return found


def _check_decoded(raw: str, form: Form) -> None:
    """Refuse a row with bytes that the encoding does not have: they were kept as surrogates."""
    if raw.isascii():
        return
    try:
        raw.encode()
    except UnicodeEncodeError as error:
        raise BrokenRow(f"character {error.start + 1} of the row is not {form.encoding}") from None


def _counter(value: object, form: Form) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return keys.checked_new_counter(form.counter_id(value) if isinstance(value, str) else value)


def _amount(value: object) -> Decimal:
    if not isinstance(value, str):
        return amounts.addend(value)
    if len(value) > AMOUNT_CHARACTERS_MAX:
        raise BrokenRow(
            f"amount {_quoted(value)} has {len(value):,} characters:"
            f" up to {AMOUNT_CHARACTERS_MAX} are read"
        )
    return amounts.addend(amounts.parse(value))


def _note(value: object) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise BrokenRow(f"note {_quoted(value)} is a {type(value).__name__}, not text")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise BrokenRow(f"note {_quoted(value)} cannot be written in UTF-8") from None
    if size > NOTE_BYTES_MAX:
        raise BrokenRow(
            f"note {_quoted(value)} has {size:,} bytes: a note has up to {NOTE_BYTES_MAX:,}"
        )
    return value


def _metadata(
    value: Callable[[str | None], Any], column: str | tuple[str, ...] | None
) -> dict[str, str] | None:
    if isinstance(column, tuple):
        texts = {name: value(name) for name in column}
        given: object = {name: text for name, text in texts.items() if text not in (None, "")}
    else:
        given = value(column)
        if isinstance(given, str) and given:
            given = _object(given, "metadata")
    return None if given in (None, "", {}) else checked_metadata(given)


def _check_together(note: str | None, metadata: Mapping[str, str] | None) -> None:
    """Refuse a note that leaves an item no room for its metadata."""
    if note is None or metadata is None:
        return
    texts = (note, *metadata, *metadata.values())
    if (size := sum(len(text.encode()) for text in texts)) > NOTE_BYTES_MAX:
        raise BrokenRow(
            f"note {_quoted(note)} and metadata have {size:,} bytes: up to {NOTE_BYTES_MAX:,}"
        )


def _effective(value: object) -> date | None:
    if value is None or value == "":
        return None
    try:
        if isinstance(value, str) and _DATE.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise BrokenRow(f"effective {_quoted(value)} is not a date such as 1993-01-31")


def _quoted(value: object) -> str:
    if isinstance(value, str):
        long = len(value) > _VALUE_CHARACTERS_MAX
        return f"{value[:_VALUE_CHARACTERS_MAX]!r}..." if long else repr(value)
    return _quoted(str(value))


def _shortened(rule: str) -> str:
    return rule if len(rule) <= RULE_CHARACTERS_MAX else f"{rule[:RULE_CHARACTERS_MAX]}..."

"""The user's description of a file: its format, its columns, and how a value becomes a counter id.

Nothing is guessed from the content. Everything that decides how bytes become entries is written
into every marker as a canonical text, so that the same bytes are never imported in two ways.

Pure: no clock, no randomness, no I/O.
"""

import codecs
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath

from ledger.core.entry import checked_metadata
from ledger.core.errors import ImportRefused, InvalidInput
from ledger.core.visible import is_visible

BATCH_ROWS = 99
"""Rows of a batch: with the marker, the 100 actions that a transaction may hold."""
BATCH_BYTES_MAX = 3_500_000
"""The text of these rows: with all else that entries have, the 4 MB that a transaction may hold."""
COLUMN_CHARACTERS_MAX = 1024
DEFAULT_ENCODING = "utf-8-sig"
PLACE = "{}"
_NO_DELIMITERS = '"\r\n'
_NAMES_SHOWN_MAX = 20


class Format(StrEnum):
    """A format of files of changes."""

    CSV = "csv"
    JSONL = "jsonl"


_SUFFIXES = {".csv": Format.CSV, ".jsonl": Format.JSONL, ".ndjson": Format.JSONL}


def format_of(name: str) -> Format:
    """Return the format for a file's suffix.

    Raises:
        InvalidInput: the suffix is unknown.
    """
    if not isinstance(name, str):
        raise InvalidInput(f"the name of a file must be a string, got {name!r:.80}")
    found = _SUFFIXES.get(PurePath(name).suffix.lower())
    if found is None:
        known, shown = ", ".join(_SUFFIXES), name if is_visible(name) else ascii(name)
        raise InvalidInput(f"{shown}: unknown suffix (known: {known}): give --format")
    return found


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """The columns that the user named; None takes the column of that name if it is there.

    `counter` and `change` must exist. An empty `note` or `effective` means no such column.
    `metadata` are columns whose texts are kept under the column's name; an empty one means none.
    Without, a column `metadata` has the texts of a row by name, as an export writes them.
    """

    counter: str | None = None
    change: str | None = None
    note: str | None = None
    effective: str | None = None
    metadata: Sequence[str] | None = None

    def required(self) -> list[tuple[str, str]]:
        """Return the columns that must exist, each after its role."""
        wanted = [("counter", self.counter or "counter"), ("change", self.change or "change")]
        optional = [("note", self.note), ("effective", self.effective)]
        optional += [("metadata", name) for name in self.metadata or ()]
        return wanted + [(role, name) for role, name in optional if name]

    def named(self) -> tuple[str, ...]:
        """Return the columns of metadata that the user named."""
        return tuple(name for name in self.metadata or () if name)

    def one_of_all(self) -> str | None:
        """Return the choice of a column of all metadata: that of its usual name, or none."""
        return None if self.metadata is None else ""


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column plays which role in this file.

    `metadata` is a column of texts by name, or columns of one text each.
    """

    counter: str
    change: str
    note: str | None = None
    effective: str | None = None
    metadata: str | tuple[str, ...] | None = None

    def used(self) -> list[str]:
        """Return the columns, one with two roles twice."""
        named = self.metadata if isinstance(self.metadata, tuple) else (self.metadata,)
        found = (self.counter, self.change, self.note, self.effective, *named)
        return [name for name in found if name is not None]


@dataclass(frozen=True, slots=True)
class Form:
    """How the bytes of a file become rows.

    Raises:
        InvalidInput: a part breaks its rule.
    """

    format: Format = Format.CSV
    columns: ColumnChoice = field(default_factory=ColumnChoice)
    counter_format: str = PLACE
    delimiter: str = ","
    encoding: str = DEFAULT_ENCODING

    def __post_init__(self) -> None:
        if not isinstance(self.columns, ColumnChoice):
            raise InvalidInput(f"columns must be a ColumnChoice, got {self.columns!r:.80}")
        for name in ("counter_format", "delimiter", "encoding"):
            if not isinstance(value := getattr(self, name), str):
                raise InvalidInput(f"{name} must be a string, got {value!r:.80}")
        if self.counter_format.count(PLACE) != 1:
            raise InvalidInput(
                f"counter format {self.counter_format!r}: exactly one {PLACE} stands for the value"
            )
        if len(self.delimiter) != 1 or self.delimiter in _NO_DELIMITERS:
            raise InvalidInput(
                f"delimiter {self.delimiter!r}: one character, neither a quote nor a line end"
            )
        for role, name in self.columns.required():
            if len(name) > COLUMN_CHARACTERS_MAX:
                raise InvalidInput(
                    f"{role} column {name[:40]!r}...: a name has up to"
                    f" {COLUMN_CHARACTERS_MAX:,} characters"
                )
        self._check_metadata()
        self.codec_name()

    def _check_metadata(self) -> None:
        if isinstance(self.columns.metadata, str):
            raise InvalidInput(
                f"metadata columns must be a list of names, got {self.columns.metadata!r:.80}"
            )
        names = self.columns.named()
        if names and len(checked_metadata(dict.fromkeys(names, ""))) < len(names):
            raise InvalidInput(f"a metadata column is named twice: {listed(names)}")

    def codec_name(self) -> str:
        """Return Python's own name of the encoding.

        Raises:
            InvalidInput: the text encoding is unknown.
        """
        try:
            name = codecs.lookup(self.encoding).name
            "".encode(name)
        except (LookupError, ValueError):
            raise InvalidInput(f"encoding {self.encoding!r} is unknown") from None
        return name

    def counter_id(self, value: str) -> str:
        """Return the counter id for a value."""
        return self.counter_format.replace(PLACE, value)

    def text(self, columns: Columns) -> str:
        """Return the canonical text of everything that decides which entries the bytes become."""
        parts: dict[str, object] = {
            "format": self.format.value,
            "encoding": self.codec_name(),
            "counter": columns.counter,
            "counter_format": self.counter_format,
            "change": columns.change,
            "note": columns.note,
            "effective": columns.effective,
            "metadata": columns.metadata,
            "batch_rows": BATCH_ROWS,
            "batch_bytes": BATCH_BYTES_MAX,
        }
        if self.format is Format.CSV:
            parts["delimiter"] = self.delimiter
        given = {name: part for name, part in parts.items() if part is not None}
        return json.dumps(given, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def resolved(choice: ColumnChoice, names: Sequence[str]) -> Columns:
    """Return the chosen columns, found among those of a file.

    Raises:
        ImportRefused: one is missing or occurs twice; the message lists the columns found.
    """
    for role, name in choice.required():
        if name not in names:
            raise ImportRefused(
                f"the file has no column {name!r} for the {role}; it has: {listed(names)};"
                f" name the column with --{role}"
            )
    columns = Columns(
        counter=choice.counter or "counter",
        change=choice.change or "change",
        note=_optional(choice.note, "note", names),
        effective=_optional(choice.effective, "effective", names),
        metadata=choice.named() or _optional(choice.one_of_all(), "metadata", names),
    )
    for used in columns.used():
        if names.count(used) > 1:
            raise ImportRefused(f"the file has the column {used!r} {names.count(used)} times")
    return columns


def _optional(chosen: str | None, default: str, names: Sequence[str]) -> str | None:
    name = default if chosen is None else chosen
    return name if name and name in names else None


def listed(names: Sequence[str]) -> str:
    """Return the first names of a row, quoted, for a message."""
    listed = ", ".join(repr(name[:80]) for name in names[:_NAMES_SHOWN_MAX])
    return listed + (", ..." if len(names) > _NAMES_SHOWN_MAX else "")

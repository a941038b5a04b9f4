"""What `ledger export` writes, `ledger import` takes."""

import io
from decimal import Decimal

import pytest
from support.importing import FateStore, entries_of, imported

from ledger.commands.export import _Csv, _JsonLines
from ledger.core.entry import NOTE_BYTES_MAX, entry_of
from ledger.core.values import Entry
from ledger.store.memory import MemoryTable
from ledger.writes.imports.file_format import Form, Format

NOTES = ("n", "é", "\x01", '"', ";=", "\r\n")
"""Each a note when it is repeated; some of them take several characters in a file."""


def written(writer: type[_Csv] | type[_JsonLines], notes: tuple[str, ...]) -> str:
    """Return the file that the command makes of entries with these notes."""
    file = io.StringIO(newline="")
    made = writer(file)
    for number, note in enumerate(notes):
        made.take(Entry("c", f"id-{number}", Decimal(number), "us-east-1", note))
    made.end()
    return file.getvalue()


@pytest.mark.parametrize(("writer", "form"), [(_Csv, Format.CSV), (_JsonLines, Format.JSONL)])
async def test_the_longest_notes_come_back(
    writer: type[_Csv] | type[_JsonLines], form: Format
) -> None:
    """Every note that an entry can have is exported and imported unchanged."""
    longest = tuple(note * (NOTE_BYTES_MAX // len(note.encode())) for note in NOTES)
    table = MemoryTable()

    report = await imported(written(writer, longest), FateStore(table), form=Form(format=form))

    assert (report.rows, report.rows_bad) == (len(NOTES), 0)
    assert sorted(str(entry_of(item).note) for item in entries_of(table)) == sorted(longest)


NAMED: tuple[dict[str, str] | None, ...] = (
    {"order": "17", "channel": "web"},
    {"=1;+2": "'\n@SUM", '"': "é, \x01", "empty": ""},
    {f"n{number}": "x" * 99 for number in range(20)},
    None,
)


@pytest.mark.parametrize(("writer", "form"), [(_Csv, Format.CSV), (_JsonLines, Format.JSONL)])
async def test_metadata_comes_back(writer: type[_Csv] | type[_JsonLines], form: Format) -> None:
    """What callers named of entries is exported and imported unchanged."""
    file = io.StringIO(newline="")
    made = writer(file)
    for number, metadata in enumerate(NAMED):
        made.take(Entry("c", f"id-{number}", Decimal(number), "us-east-1", metadata=metadata))
    made.end()
    table = MemoryTable()

    report = await imported(file.getvalue(), FateStore(table), form=Form(format=form))

    assert (report.rows, report.rows_bad) == (len(NAMED), 0)
    entries = sorted(map(entry_of, entries_of(table)), key=lambda entry: entry.change)
    assert tuple(entry.metadata for entry in entries) == NAMED

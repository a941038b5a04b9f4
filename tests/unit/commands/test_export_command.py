"""What `ledger export` writes, `ledger import` takes."""

import io
import json
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


async def test_metadata_is_exported_and_no_import_stumbles_over_it() -> None:
    """In JSON Lines, where an entry has some; an import takes change and note alone."""
    file = io.StringIO(newline="")
    made = _JsonLines(file)
    made.take(Entry("c", "id-1", Decimal(5), "us-east-1", "n", metadata={"order": "17"}))
    made.take(Entry("c", "id-2", Decimal(7), "us-east-1"))
    made.end()
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [line.get("metadata") for line in lines] == [{"order": "17"}, None]
    table = MemoryTable()
    report = await imported(file.getvalue(), FateStore(table), form=Form(format=Format.JSONL))
    assert (report.rows, report.rows_bad) == (2, 0)
    assert sorted(entry_of(item).change for item in entries_of(table)) == [5, 7]

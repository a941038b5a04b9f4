"""Files of dead letters: listed once each, some chosen, their records edited, nothing lost."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from ledger.core.errors import InvalidInput, LedgerError
from ledger.pipeline.sources import dead_letters
from ledger.pipeline.sources.dead_letters import (
    DeadLetterFile,
    DeadRecord,
    chosen,
    editable,
    letters_in,
    list_letters,
)
from ledger.testing.clock import START, ManualClock

FIRST = DeadRecord("us-east-1/x", "07", "the record has no field Value", b'{"TradeID": "T1"}')
SECOND = DeadRecord("us-east-1/x", "08", "Version is 1.5", b'{"TradeID": "T2"}')
BINARY = DeadRecord("us-east-1/x", "09", "the record is not UTF-8", b"\xff")
OTHER = DeadRecord(FIRST.lane, FIRST.position, FIRST.reason, b"another")
TORN = b'{"lane": "us-east-1/x", "pos'


async def filled(folder: Path, *letters: DeadRecord) -> Path:
    """Return a file of letters, kept a minute apart, after a line that was cut short."""
    file, clock = folder / "dead", ManualClock(START)
    file.write_bytes(TORN)
    for letter in letters:
        await DeadLetterFile(file, clock).add([letter])
        clock.pass_by(60)
    return file


async def test_a_letter_that_came_again_is_listed_once(tmp_path: Path) -> None:
    """With its count, and when it came first and last, over all files; another record apart."""
    file, old = await filled(tmp_path, FIRST, SECOND, FIRST, OTHER), tmp_path / "old"
    fields = {
        "lane": SECOND.lane,
        "position": SECOND.position,
        "reason": "of another file",
        "time": None,
    }
    old.write_text(json.dumps({**fields, "record": SECOND.raw.decode()}))
    found = {letter.letter.raw: letter for letter in list_letters([old, file])}
    assert {raw: each.count for raw, each in found.items()} == {
        FIRST.raw: 2,
        SECOND.raw: 2,
        OTHER.raw: 1,
    }
    assert found[FIRST.raw].first == START
    assert found[FIRST.raw].last == START + timedelta(seconds=120)
    assert found[SECOND.raw].first == found[SECOND.raw].last == START + timedelta(seconds=60)


async def test_some_are_chosen_by_position_or_reason(tmp_path: Path) -> None:
    """They go to a file beside it, the same one each time; the first stays as it is."""
    file = await filled(tmp_path, FIRST, SECOND)
    before = file.read_bytes()
    by_reason = chosen(file, "no field")
    assert list(letters_in(by_reason)) == [FIRST]
    assert list(letters_in(chosen(file, "08"))) == [SECOND]
    assert chosen(file, "no field") == by_reason != chosen(file, "08")
    assert file.read_bytes() == before
    with pytest.raises(InvalidInput, match="no letter is at position '0'"):
        chosen(file, "0")
    with pytest.raises(LedgerError, match="cannot be read"):
        chosen(tmp_path / "none", "08")


async def test_records_are_edited_in_a_file_that_stays(tmp_path: Path) -> None:
    """One record a line, each once; edits that were begun are not written over."""
    file = await filled(tmp_path, FIRST, SECOND, FIRST)
    made = editable(file)
    assert made.read_bytes() == FIRST.raw + b"\n" + SECOND.raw + b"\n"
    made.write_bytes(b"mended\n")
    assert editable(file) == made
    assert made.read_bytes() == b"mended\n"


@pytest.mark.parametrize("raw", [b"\xff", b"a\nb"])
async def test_a_record_that_is_no_line_of_text_is_not_edited(tmp_path: Path, raw: bytes) -> None:
    """An editor would not give back the same bytes."""
    file = await filled(tmp_path, FIRST, DeadRecord("lane", "10", "x", raw))
    with pytest.raises(InvalidInput, match="the record at 10 is not a line of UTF-8"):
        editable(file)


async def test_without_letters_there_is_nothing_to_edit(tmp_path: Path) -> None:
    """An empty file, or one of other lines, is not taken for done."""
    with pytest.raises(InvalidInput, match="holds no dead letter"):
        editable(await filled(tmp_path))


def test_a_device_is_no_file_of_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that does not end, as of /dev/zero, is refused before it fills the memory."""
    monkeypatch.setattr(dead_letters, "LETTER_BYTES_MAX", 100)
    file = tmp_path / "zeros"
    file.write_bytes(bytes(101))
    with pytest.raises(LedgerError, match="over 100 bytes: it is not a file of dead letters"):
        list(dead_letters.letters_in(file))

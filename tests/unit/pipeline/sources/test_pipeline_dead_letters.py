from pathlib import Path

import pytest

from ledger.core.errors import LedgerError
from ledger.pipeline.sources.dead_letters import DeadLetterFile, DeadRecord, letter_of, line_of

LETTER = DeadRecord("us-east-1/x", "07", "no field Value: “V”", b'{"TradeID": "T1"}')


async def test_letters_are_appended(tmp_path: Path) -> None:
    """Each letter is a line of its own, and those before stay."""
    path = tmp_path / "dead.jsonl"
    other = DeadRecord("us-east-1/x", "08", "not UTF-8", b"\xff\x00\ned\xed\xa0\x80")
    await DeadLetterFile(path).add([LETTER])
    await DeadLetterFile(path).add([other, LETTER])
    assert [letter_of(line) for line in path.read_text().splitlines()] == [LETTER, other, LETTER]


async def test_a_torn_line_takes_no_other_with_it(tmp_path: Path) -> None:
    """After a line that a killed process left half written the next begins on its own."""
    path = tmp_path / "dead.jsonl"
    path.write_text(line_of(LETTER)[:20])
    await DeadLetterFile(path).add([LETTER])
    torn, whole = path.read_text().splitlines()
    assert letter_of(whole) == LETTER
    with pytest.raises(ValueError, match=r"."):
        letter_of(torn)


async def test_letters_that_cannot_be_kept_are_an_error(tmp_path: Path) -> None:
    """The lane must not go on over a record that is nowhere."""
    with pytest.raises(LedgerError, match="cannot be written"):
        await DeadLetterFile(tmp_path / "no" / "dead.jsonl").add([LETTER])


@pytest.mark.parametrize(
    "line", ["[]", "{}", '{"lane": 1, "position": 2, "reason": 3, "record": 4}']
)
def test_another_line_is_no_letter(line: str) -> None:
    """What is no dead letter is refused, not guessed."""
    with pytest.raises(ValueError, match="no dead letter"):
        letter_of(line)

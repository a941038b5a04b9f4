"""The output of `ledger pipeline letters`, and the options of `replay`."""

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ledger.core.errors import InvalidInput, LedgerError
from ledger.pipeline.aws.dead_letter_queue import open_queue
from ledger.pipeline.sources.dead_letters import ListedLetter, chosen, editable, list_letters
from ledger.runtime.console_tables import Column, Grid, number, print_grid, prose
from ledger.runtime.output import print_json, say
from ledger.settings import Settings

SHOWN_MAX = 50
"""Letters in the table; the JSON has all of them."""
_COLUMNS = (
    Column("first"), number("times"), Column("lane"), Column("position"), Column("record"),
    prose("reason"),
)  # fmt: skip


async def fetch(url: str, file: Path, settings: Settings, region: str) -> int:
    """Move the letters of a queue to the end of a file; return how many there were.

    Raises:
        LedgerError: SQS did not answer, or the file cannot be written; run it again.
    """
    opening = open_queue(url, region=region, request_timeout=settings.request_timeout)
    async with opening as queue:
        return await queue.move_to(file)


def prepare(file: Path, *, only: str | None, edit: bool) -> tuple[Path, bool]:
    """Return the file to replay, prepared as the options say, and whether it holds letters.

    Raises:
        InvalidInput: no letter is chosen, or one cannot be edited.
        LedgerError: a file cannot be read or written, or the editor failed.
    """
    if not file.is_file():
        raise InvalidInput(f"{file} is not a file: name a file of dead letters")
    if only is not None:
        file = chosen(file, only)
    if not edit:
        return file, True
    made = editable(file)
    _open_editor(made)
    return made, False


def _open_editor(file: Path) -> None:
    words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    try:
        status = subprocess.run([*words, str(file)], check=False).returncode  # noqa: S603 (the user's)
    except OSError as error:
        raise LedgerError(f"{words[0]}: cannot be run: {error.strerror}: set EDITOR") from error
    if status:
        raise LedgerError(f"{words[0]} ended with status {status}: nothing was replayed")


def show_letters(files: Sequence[Path], *, as_json: bool) -> None:
    """Print the letters of some files as one list, the newest last.

    Raises:
        LedgerError: a file cannot be read.
    """
    found = sorted(list_letters(files), key=_age)
    if as_json:
        print_json(map(_values, found))
        return
    if found:
        print_grid(Grid(_COLUMNS, list(map(_cells, found[-SHOWN_MAX:]))))
    left_out = f", the last {SHOWN_MAX} shown: --json has all" if len(found) > SHOWN_MAX else ""
    say(f"{len(found):,} dead letters{left_out}")


def _cells(each: ListedLetter) -> tuple[str, ...]:
    first = each.first.isoformat(timespec="seconds") if each.first else "-"
    letter = each.letter
    return first, f"{each.count:,}", letter.lane, letter.position, letter.digest, letter.reason


def _age(each: ListedLetter) -> tuple[str, str, str]:
    first = each.first.isoformat() if each.first else ""
    return first, each.letter.lane, each.letter.position


def _values(each: ListedLetter) -> dict[str, object]:
    letter = each.letter
    return {
        "lane": letter.lane,
        "position": letter.position,
        "reason": letter.reason,
        "count": each.count,
        "first": each.first.isoformat() if each.first else None,
        "last": each.last.isoformat() if each.last else None,
        "sha256": letter.digest,
        "record": letter.raw.decode(errors="backslashreplace"),
    }

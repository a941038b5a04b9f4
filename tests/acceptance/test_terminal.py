"""What the commands print: whole, harmless, on a terminal and in a pipe."""

import json
import os
import pty
import subprocess
import termios
from pathlib import Path

from support.commands import Desk, command_line, environment

LONG = "98765432109876.54"
NAMES = ("customer-balance-eur", "customer-balance-eur-2")
EVIL = "paid\x1b[2K\x1b[1A\x9b31m\u202e001"


def on_terminal(folder: Path, *words: str, columns: int) -> str:
    """Return what a command prints on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    plain = {name: value for name, value in environment(folder).items() if name != "COLUMNS"}
    with subprocess.Popen(
        command_line(*words), cwd=folder, env={**plain, "TERM": "xterm"}, stdin=theirs,
        stdout=theirs, stderr=theirs,
    ) as process:  # fmt: skip
        os.close(theirs)
        shown = b""
        try:
            while read := os.read(ours, 65536):
                shown += read
        except OSError:  # how Linux says that the other end is closed
            pass
        finally:
            os.close(ours)
    assert process.returncode == 0, shown
    return shown.decode()


def test_long_totals_and_names_are_whole(desk: Desk) -> None:
    """Two counters whose names differ at their end, at 80 and 50 columns, and into a pipe."""
    for name in NAMES:
        assert desk.run("ledger", "record", name, LONG).status == 0
    ask = ("ledger", "total", *NAMES)
    piped = desk.run(*ask).out
    rows = [line.split()[:3] for line in piped.splitlines() if LONG in line]
    assert rows == [[name, "us-east-1", LONG] for name in NAMES]
    for columns in (80, 50):
        shown = on_terminal(desk.folder, *ask, columns=columns)
        assert shown.count(LONG) == 2
        assert shown.count(NAMES[0]) == 2
        assert shown.count(NAMES[1]) == 1


def test_a_note_cannot_act_on_the_terminal(desk: Desk) -> None:
    """`history` shows its escapes, in the table as in JSON, which stays exact."""
    assert desk.run("ledger", "record", "noted", "5", "--note", EVIL).status == 0
    shown = desk.run("ledger", "history", "noted").out
    assert r"paid\x1b[2K\x1b[1A\x9b31m\u202e001" in shown
    assert not {"\x1b", "\x9b", "\u202e"} & {*shown}
    lines = desk.run("ledger", "history", "noted", "--json").out
    assert not {"\x1b", "\x9b", "\u202e"} & {*lines}
    assert json.loads(lines)["note"] == EVIL
    exported = desk.run("ledger", "export", "noted").out
    assert json.loads(exported)["note"] == EVIL
    assert lines.removesuffix("\n").isprintable()

"""What the commands print: whole, harmless, on a terminal and in a pipe."""

import json
import os
import pty
import subprocess
import termios
from pathlib import Path
from typing import Any

import pytest
from support.commands import Desk, command_line, environment

pytestmark = pytest.mark.slow

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


def test_an_unknown_counter_is_no_zero(desk: Desk) -> None:
    """One whose changes come to 0 is known; of another the table, JSON and history say so."""
    for change in ("3", "-3"):
        assert desk.run("ledger", "record", "even", change).status == 0
    table = desk.run("ledger", "total", "even", "typo")
    assert table.status == 0, table.errors
    rows = {line.split()[0]: line.split()[2] for line in table.out.splitlines() if "us-" in line}
    assert rows == {"even": "0", "typo": "unknown"}
    lines = desk.run("ledger", "total", "even", "typo", "--json").out.splitlines()
    assert [json.loads(line)["known"] for line in lines] == [True, False]
    said = desk.run("ledger", "history", "typo").out
    assert said == "typo in us-east-1: unknown, nothing is recorded of it\n"


def test_regions_that_answer_are_shown_without_one_that_is_down(desk: Desk) -> None:
    """`total --everywhere` in an outage: the others' totals, the missing region's name, 1."""
    assert desk.run("ledger", "record", "partly", "7").status == 0
    desk.wait_replicated()
    desk.write_settings(desk.settings(write_deadline=1.0, read_deadline=1.0), "hasty.yaml")
    asked = ("ledger", "total", "partly", "--everywhere", "--config", "hasty.yaml")
    desk.world.set_outage("eu-west-1", on=True)
    try:
        table, lines = desk.run(*asked), desk.run(*asked, "--json")
    finally:
        desk.world.set_outage("eu-west-1", on=False)
        desk.settings()
    assert table.status == lines.status == 1
    rows = [line.split()[1:3] for line in table.out.splitlines() if "partly" in line]
    assert rows == [["us-east-1", "7"], ["ap-southeast-1", "7"]]
    for errors in (table.errors, lines.errors):
        (line,) = errors.splitlines()
        assert line.startswith("error: no answer from eu-west-1")
    found = [json.loads(line) for line in lines.out.splitlines()]
    assert [(one["region"], one["value"]) for one in found] == [
        ("us-east-1", "7"),
        ("ap-southeast-1", "7"),
        ("eu-west-1", None),
    ]
    assert "outage" in found[-1]["error"]


def test_the_region_comes_from_the_environment_and_is_said(desk: Desk) -> None:
    """LEDGER_REGION, else AWS_REGION if it is one of the regions; not for what home alone does."""
    record = ("ledger", "record", "placed", "1")
    for variables, region in (
        ({"LEDGER_REGION": "ap-southeast-1", "AWS_REGION": "eu-west-1"}, "ap-southeast-1"),
        ({"AWS_REGION": "eu-west-1"}, "eu-west-1"),
        ({"AWS_REGION": "sa-east-1"}, "us-east-1"),
    ):
        said = desk.run(*record, variables=variables)
        assert f"recorded in {region} as" in said.out, said
    away = {"AWS_REGION": "eu-west-1"}
    count = desk.run("ledger", "reconcile", "placed", "--counted", "0", variables=away)
    assert (count.status, count.out.endswith(" in us-east-1\n")) == (0, True), count
    wrong = desk.run(*record, variables={"LEDGER_REGIO": "eu-west-1"})
    assert (wrong.status, "did you mean LEDGER_REGION?" in wrong.errors) == (1, True)


def test_a_terminal_without_utf8_is_no_fault(desk: Desk) -> None:
    """With ASCII output names are escaped, and JSON stays JSON."""
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    assert desk.run_process("ledger", "record", "café", "5", variables=ascii_only).status == 0
    table = desk.run_process("ledger", "total", "café", variables=ascii_only)
    assert (table.status, r"caf\xe9" in table.out) == (0, True), table
    for words in (("total", "café", "--json"), ("export", "café")):
        line = desk.run_process("ledger", *words, variables=ascii_only).out
        assert json.loads(line)["counter"] == "café"


def test_an_export_does_not_take_the_place_of_a_pipe(desk: Desk) -> None:
    """A named pipe, as a device, is written itself: by root /dev/null became a plain file."""
    pipe = desk.folder / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert desk.run("ledger", "record", "piped", "5").status == 0
        ran = desk.run("ledger", "export", "piped", "--output", str(pipe))
        assert ran.status == 0, ran
        assert json.loads(os.read(reading, 65_536))["counter"] == "piped"
    finally:
        os.close(reading)
    assert pipe.is_fifo()


def test_json_is_json_on_every_command(desk: Desk) -> None:
    """One object a line from processes of every group of commands, with amounts as text."""
    (desk.folder / "few.csv").write_text("counter,change\nfew,1.50\nfew,2\n")
    found: dict[str, dict[str, Any]] = {}
    for words in (
        "ledger table create",
        "ledger table status",
        "ledger table adopt",
        "ledger import few.csv",
        "ledger total few",
        "ledger lease list",
        "ledger verify few",
        "ledger local status --control-url {control}",
        "ledger local heal --control-url {control}",
        "ledger estimate 10",
        "compactor run --once",
        "compactor status",
    ):
        command, *arguments = words.format(control=desk.world.control_url).split()
        ran = desk.run_process(command, *arguments, "--json")
        assert ran.status == 0, (words, ran.errors)
        for line in ran.out.splitlines():
            found[words] = json.loads(line)
    assert found["ledger import few.csv"]["rows"] == 2
    assert found["ledger total few"]["value"] == "3.5"
    assert found["ledger table status"]["missing"] == []
    assert found["ledger table adopt"]["pending"] is False
    assert found["ledger local heal --control-url {control}"]["problems"] == []
    assert found["compactor run --once"]["led"] is True
    assert found["compactor status"]["regions"]["us-east-1"]["home"] == "us-east-1"

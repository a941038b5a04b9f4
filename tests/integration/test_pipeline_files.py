"""Files under `ledger pipeline run` as users have them: exported, renamed, rotated, cut, packed."""

import gzip
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from signal import SIGKILL, SIGTERM

import anyio
import pytest
import yaml
from support.commands import Desk, Ran, command_line, open_desk
from support.killing import Trap, running
from support.ledgers import HOME
from support.worlds import open_ledgers, totals

from ledger.local import LocalGlobalTable
from ledger.settings import Settings

pytestmark = pytest.mark.slow

PIPELINE = {
    "fields": {"id": "id", "version": "version", "value": "value"},
    "categories": ["kind/{kind}"],
    "batch_max": 100,
    "reduce_every": 0,
}
WAIT_SECONDS_MAX = 30


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Run a table for all tests here, each with a category of its own."""
    folder = tmp_path_factory.mktemp("desk")
    with open_desk(folder, regions=[HOME]) as opened:
        opened.write_settings(opened.settings(pipeline=PIPELINE))
        yield opened


def records(kind: str, first: int, last: int) -> bytes:
    """Return records, each of value 1."""
    return b"".join(
        json.dumps({"id": f"{kind}{number}", "version": 1, "value": 1, "kind": kind}).encode()
        + b"\n"
        for number in range(first, last)
    )


async def counted(settings: Settings, kind: str) -> Decimal:
    """Return how many records the total shows."""
    async with open_ledgers(settings) as ledgers:
        shown: Mapping[str, Decimal] = await totals(ledgers, f"kind/{kind}")
    return shown[HOME]


def count(desk: Desk, kind: str) -> int:
    """Return the same from a test without a loop."""
    return int(desk.portal.call(counted, desk.settings(), kind))


def run(desk: Desk, file: str, *options: str) -> Ran:
    """Run a file in."""
    return desk.run("ledger", "pipeline", "run", file, *options)


def test_an_export_with_the_first_line_of_the_last_one_is_read_whole(desk: Desk) -> None:
    """897 records, then a new file of 1,307 that begins alike: 2,203 different ones in all."""
    file = desk.folder / "export.jsonl"
    file.write_bytes(records("export", 0, 897))
    assert run(desk, file.name).status == 0
    file.write_bytes(records("export", 0, 1) + records("export", 897, 2203))
    ran = run(desk, file.name)
    assert (ran.status, count(desk, "export")) == (0, 2203), ran.errors


async def test_a_file_renamed_after_a_kill_is_finished(tmp_path: Path) -> None:
    """What the killed run had brought into states is committed by the next, under the new name."""
    trap = Trap()
    (tmp_path / "records.jsonl").write_bytes(records("kill", 0, 320))
    async with LocalGlobalTable.start(regions=[HOME], fault=trap, engine="memory") as world:
        settings = world.settings(pipeline=PIPELINE)
        content = yaml.safe_dump(settings.model_dump(mode="json"))
        (tmp_path / "regions.yaml").write_text(content, encoding="utf-8")
        trap.set("TransactWriteItems", at=2)
        words = command_line("ledger", "pipeline", "run")
        async with running([*words, "records.jsonl"], tmp_path) as process:
            trap.process = process.process.pid
            assert await process.ends() == -SIGKILL, process.said()
        trap.set(at=0)
        assert await counted(settings, "kill") < 320
        (tmp_path / "records.jsonl").rename(tmp_path / "renamed.jsonl")
        async with running([*words, "renamed.jsonl"], tmp_path) as process:
            assert await process.ends() == 0, process.said()
        assert await counted(settings, "kill") == 320


def test_half_a_last_line_is_left_and_said(desk: Desk) -> None:
    """The run ends by 1 and says what to do; completed, the file is taken to its end."""
    file, content = desk.folder / "half.jsonl", records("half", 0, 20)
    file.write_bytes(content[:-20])
    ran = run(desk, file.name)
    assert (ran.status, count(desk, "half")) == (1, 19)
    assert "a record without an end" in ran.errors
    assert not file.with_suffix(".jsonl.dead").exists()
    file.write_bytes(content)
    ran = run(desk, file.name)
    assert (ran.status, count(desk, "half")) == (0, 20), ran.errors


def test_a_line_of_100_mb_is_a_dead_letter(desk: Desk) -> None:
    """Its beginning, length and hash are kept, and the records after it are counted."""
    file = desk.folder / "long.jsonl"
    file.write_bytes(records("long", 0, 1) + b"x" * 100_000_000 + b"\n" + records("long", 1, 2))
    ran = run(desk, file.name)
    assert (ran.status, count(desk, "long")) == (0, 2), ran.errors
    (letter,) = file.with_suffix(".jsonl.dead").read_text().splitlines()
    assert "100,000,000 bytes, SHA-256" in json.loads(letter)["reason"]
    assert len(letter) < 10_000


def test_a_directory_is_a_lane_for_each_file(desk: Desk) -> None:
    """JSON lines, gzip and CSV side by side; one that cannot be read holds up no other."""
    folder = desk.folder / "folder"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(records("folder", 0, 10))
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(records("folder", 10, 30)))
    rows = "".join(f'folder{number},1,1,"folder"\n' for number in range(30, 60))
    (folder / "c.csv").write_text(f"id,version,value,kind\n{rows}")
    (folder / "d.csv").write_text("id,id\n1,2\n")
    ran = run(desk, "folder")
    assert (ran.status, count(desk, "folder")) == (1, 60), ran.errors
    assert "d.csv: its header needs a name for each column" in ran.errors
    (folder / "d.csv").unlink()
    ran = run(desk, "folder")
    assert (ran.status, " 0 records in" in ran.out) == (0, True), ran.errors


async def test_a_followed_file_that_is_rotated_is_read_whole(desk: Desk) -> None:
    """Moved away and made again: the old file to its end, then the new one."""
    file, settings = desk.folder / "rotated.jsonl", desk.settings()
    file.write_bytes(records("rotated", 0, 1))
    words = command_line("ledger", "pipeline", "run", file.name, "--follow")
    async with running(words, desk.folder, "rotated.log") as process:
        await until(settings, "rotated", 1)
        moved = file.rename(desk.folder / "rotated.jsonl.1")
        file.write_bytes(records("rotated", 1, 11))
        with moved.open("ab") as late:
            late.write(records("rotated", 11, 13))
        await until(settings, "rotated", 13)
        process.process.send_signal(SIGTERM)
        assert await process.ends() == 0, process.said()


async def test_a_file_rotated_while_nothing_followed_it_is_finished_first(desk: Desk) -> None:
    """What was appended before the rotation, and whole files between, count too."""
    file, settings = desk.folder / "between.jsonl", desk.settings()
    file.write_bytes(records("between", 0, 5))
    words = command_line("ledger", "pipeline", "run", file.name, "--follow")
    for first, last in ((0, 5), (5, 20)):
        async with running(words, desk.folder, "between.log") as process:
            await until(settings, "between", last)
            process.process.send_signal(SIGTERM)
            assert await process.ends() == 0, process.said()
        if not first:
            with file.open("ab") as late:
                late.write(records("between", 5, 10))
            file.rename(desk.folder / "between.jsonl.2")
            (desk.folder / "between.jsonl.1").write_bytes(records("between", 10, 15))
            file.write_bytes(records("between", 15, 20))


async def test_a_followed_file_that_is_copied_and_cut_is_refused(desk: Desk) -> None:
    """Started again it finishes the copy, then the file as another lane: nothing is missing."""
    file, settings = desk.folder / "cut.jsonl", desk.settings()
    file.write_bytes(records("cut", 0, 1003))
    words = command_line("ledger", "pipeline", "run", file.name, "--follow")
    async with running(words, desk.folder, "cut.log") as process:
        await until(settings, "cut", 1003)
        (desk.folder / "cut.jsonl.1").write_bytes(file.read_bytes() + records("cut", 1003, 1100))
        file.write_bytes(records("cut", 1100, 2203))
        assert await process.ends() == 1
        assert "it was cut or written over while it was read" in process.said()
    async with running(words, desk.folder, "cut.log") as process:  # as a supervisor does
        await until(settings, "cut", 2203)
        process.process.send_signal(SIGTERM)
        assert await process.ends() == 0, process.said()


async def until(settings: Settings, kind: str, wanted: int) -> None:
    """Wait until the total shows so many records."""
    with anyio.fail_after(WAIT_SECONDS_MAX):
        while await counted(settings, kind) != wanted:
            pass

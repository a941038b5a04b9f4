import gzip
import os
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest
from support.ledgers import HOME

from ledger.core.errors import LedgerError
from ledger.pipeline.core.items import lane_id, map_item, position_key
from ledger.pipeline.core.lane_state import LaneState, lane_item, lane_state_of
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.sources.file_claims import ClaimedFile, Claims, LaneFile, files_in
from ledger.pipeline.sources.file_contents import held_open
from ledger.pipeline.sources.files import FileSource
from ledger.store.memory import MemoryStore
from ledger.store.retrier import Retrier
from ledger.store.writes import Delete, Put
from ledger.testing.clock import ManualClock


class Desk:
    """Files that are read through claims, some of it committed, as a lane's worker does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = MemoryStore(HOME)
        retrier = Retrier.of(self.store, clock=ManualClock(), randomness=Random(1))  # noqa: S311
        self.claims = Claims(self.store, retrier)
        self.told: list[str] = []

    def write(self, name: str, content: bytes) -> Path:
        """Write a file."""
        path = self.folder / name
        path.write_bytes(content)
        return path

    async def find(self, name: str, lane: str | None = None) -> ClaimedFile:
        """Return the lane of a file."""
        return await self.claims.find(LaneFile(self.folder / name), lane, report=self.told.append)

    async def run(self, name: str, lane: str | None = None, *, commits: int | None = None) -> str:
        """Read a file to its end and commit it, or so many of its records; return its lane."""
        found = await self.find(name, lane)
        source = FileSource(self.folder / name, claim=found.claim, form=found.form)
        read: list[Delivery] = []
        async for batch in source.batches("", most=100):
            read.extend(batch)
        for delivery in read[:commits][-1:]:
            item = lane_item(lane_id(HOME, found.lane), LaneState(position=delivery.position))
            await self.store.write(Put(item))
        return found.lane


def position_of(store: MemoryStore, lane: str) -> str:
    """Return up to where a lane is committed."""
    return lane_state_of(store.table.get(position_key(lane_id(HOME, lane)))).position


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return a table without lanes."""
    return Desk(tmp_path)


LINES = b"1\n2\n3\n4\n"


@pytest.mark.parametrize("commits", [0, 2, 4])
async def test_a_lane_is_known_by_content(desk: Desk, commits: int) -> None:
    """Renamed, compressed, or grown after it was killed anywhere, a file is the lane it was."""
    desk.write("a.jsonl", LINES)
    lane = await desk.run("a.jsonl", commits=commits)
    assert lane.startswith("a.jsonl@")
    desk.write("b.jsonl", LINES + b"5\n")
    desk.write("c.gz", gzip.compress(LINES))
    assert [(await desk.find(name)).lane for name in ("a.jsonl", "b.jsonl", "c.gz")] == [lane] * 3


async def test_another_file_with_the_same_first_line_is_another_lane(desk: Desk) -> None:
    """An export that begins as the last one is read from its beginning, and both go on."""
    desk.write("a.jsonl", LINES)
    first = await desk.run("a.jsonl")
    desk.write("a.jsonl", b"1\n2\n3\n5\n6\n")
    second = await desk.run("a.jsonl")
    assert second == f"{first}.2"
    desk.write("old.jsonl", LINES + b"7\n")
    assert [await desk.run(name) for name in ("old.jsonl", "a.jsonl")] == [first, second]


async def test_of_two_lanes_the_one_with_more_of_the_content_goes_on(desk: Desk) -> None:
    """A file that holds all that both have read is the longer one, grown."""
    for name, content in (("short", b"1\n2\n"), ("long", b"1\n3\n4\n")):
        desk.write(name, content)
        await desk.run(name)
    desk.write("long", b"1\n3\n4\n5\n")
    assert (await desk.find("long")).lane.endswith(".2")


async def test_a_path_with_other_content_waits_for_the_former_to_be_finished(desk: Desk) -> None:
    """What a killed run left open only its file can finish, wherever that was moved to."""
    desk.write("a.jsonl", LINES)
    lane = await desk.run("a.jsonl", commits=2)
    desk.write("a.jsonl", b"1\n2\n9\n")  # the same up to the position that was committed
    with pytest.raises(LedgerError, match=r"was left unfinished between the bytes 4 and 8"):
        await desk.find("a.jsonl")
    desk.write("kept.jsonl", LINES)
    assert await desk.run("kept.jsonl") == lane
    assert await desk.run("a.jsonl") == f"{lane}.2"


@pytest.mark.parametrize("committed", [0, 2])
async def test_content_that_changes_between_the_claim_and_the_reading_is_refused(
    desk: Desk, committed: int
) -> None:
    """What was begun is not there any more: read on, the lane could never be finished."""
    desk.write("a.jsonl", LINES)
    lane = await desk.run("a.jsonl", commits=committed)
    found = await desk.find("a.jsonl")
    desk.write("a.jsonl", b"1\n2\n9\n8\n7\n")
    source = FileSource(desk.folder / "a.jsonl", claim=found.claim)
    reached = position_of(desk.store, lane)
    with pytest.raises(LedgerError, match=r"the 8 bytes that were read .* are not those"):
        _ = [batch async for batch in source.batches(reached, most=9)]
    desk.write("a.jsonl", LINES + b"5\n")
    read = [delivery.raw async for batch in source.batches(reached, most=9) for delivery in batch]
    assert read == [b"1", b"2", b"3", b"4", b"5"][committed:]


@pytest.mark.parametrize("content", [b"0\n1\n2\n", LINES + b"5\n"])
async def test_whatever_the_other_content_begins_with(desk: Desk, content: bytes) -> None:
    """The former lane is found by the path, too; a longer file is still that lane."""
    desk.write("a.jsonl", LINES)
    lane = await desk.run("a.jsonl", commits=2)
    desk.write("a.jsonl", content)
    if content.startswith(LINES):
        assert await desk.run("a.jsonl") == lane
        return
    with pytest.raises(LedgerError, match=f"lane {lane} was left unfinished between the bytes 4"):
        await desk.find("a.jsonl")
    desk.write("kept.jsonl", LINES)
    assert await desk.run("kept.jsonl") == lane
    assert await desk.run("a.jsonl") != lane


async def test_what_is_committed_and_not_in_the_totals_is_waited_for(desk: Desk) -> None:
    """A lane whose map items wait is not finished: only its worker, or a mend, adds them."""
    desk.write("a.jsonl", LINES)
    lane = await desk.run("a.jsonl")
    waiting = map_item(lane_id(HOME, lane), "0" * 64, 0, {"risk": Decimal(1)})
    await desk.store.write(Put(waiting))
    desk.write("a.jsonl", b"1\n2\n9\n")
    with pytest.raises(LedgerError, match=f"lane {lane} was left unfinished"):
        await desk.find("a.jsonl")
    await desk.store.write(Delete((waiting["pk"]["S"], waiting["sk"]["S"])))
    assert await desk.run("a.jsonl") == f"{lane}.2"


async def test_a_name_that_was_made_of_a_content_stands_for_that(desk: Desk) -> None:
    """Given by --lane, it lets no other file go on with the lane."""
    desk.write("a.jsonl", LINES)
    lane = await desk.run("a.jsonl", commits=2)
    desk.write("b.jsonl", b"7\n8\n")
    with pytest.raises(LedgerError, match=f"lane {lane} has read other content"):
        await desk.find("b.jsonl", lane)
    assert await desk.run("a.jsonl", lane) == lane


async def test_a_closed_lane_is_never_continued(desk: Desk) -> None:
    """It waits for nothing any more, and its file becomes a lane of its own."""
    desk.write("a.jsonl", LINES)
    lane = await desk.run("a.jsonl", commits=2)
    item = lane_item(lane_id(HOME, lane), LaneState(position=f"{4:020d}-x"))
    await desk.store.write(Put({**item, "closed": {"BOOL": True}}))
    assert await desk.run("a.jsonl") == f"{lane}.2"


async def test_a_named_lane_refuses_other_content(desk: Desk) -> None:
    """A name given by --lane stands for one file."""
    desk.write("a.jsonl", LINES)
    assert await desk.run("a.jsonl", "mine", commits=2) == "mine"
    desk.write("b.jsonl", LINES)
    assert await desk.run("b.jsonl", "mine") == "mine"
    desk.write("a.jsonl", b"1\n2\n")
    with pytest.raises(LedgerError, match="lane mine has read other content"):
        await desk.find("a.jsonl", "mine")


async def test_two_files_that_begin_alike_at_once_are_never_one_lane(desk: Desk) -> None:
    """Both were found to be new; the second is refused before any record of it is read."""
    for name, content in (("a.jsonl", LINES), ("b.jsonl", b"1\n7\n")):
        desk.write(name, content)
    both = [await desk.find(name) for name in ("a.jsonl", "b.jsonl")]
    assert both[0].lane.partition("@")[2] == both[1].lane.partition("@")[2]
    await _read(desk.folder / "a.jsonl", both[0])
    with pytest.raises(LedgerError, match="another file of other content"):
        await _read(desk.folder / "b.jsonl", both[1])
    assert (await desk.find("b.jsonl")).lane.endswith(".2")


async def test_two_workers_of_one_file_share_its_claim(desk: Desk) -> None:
    """The one behind takes over what the other has claimed."""
    path = desk.write("a.jsonl", LINES)
    both = [await desk.find("a.jsonl") for _ in range(2)]
    with path.open("ab") as file:
        await _read(path, both[0])
        file.write(b"5\n")
    await _read(path, both[1])
    await _read(path, both[0])
    assert (await desk.find("a.jsonl")).lane == both[0].lane


async def test_a_file_that_is_held_open_is_read_on_where_it_was(desk: Desk) -> None:
    """Its content is compared with a claim that went on meanwhile; then comes what follows.

    So it is, too, where the answer to a worker's own claim was lost.
    """
    path = desk.write("a.jsonl", b"1\n2\n")
    grown = [b"3\n", b"4\n5\n"]

    async def grows() -> bool:
        if not grown:
            return False
        for part in grown:
            with path.open("ab") as file:
                file.write(part)
            if part is grown[0]:
                await desk.run("a.jsonl")
        grown.clear()
        return True

    with held_open(path) as file:
        found = await desk.claims.find(LaneFile(path, file))
        source = FileSource(path, grows=grows, claim=found.claim, form=found.form, file=file)
        read = [delivery.raw async for batch in source.batches("", most=100) for delivery in batch]
    assert read == [b"1", b"2", b"3", b"4", b"5"]


async def test_the_format_is_the_one_that_the_lane_began_with(desk: Desk) -> None:
    """By the suffix of the file at first; later under any name."""
    desk.write("a.csv", b"a,b\n1,2\n")
    await desk.run("a.csv")
    desk.write("renamed", b"a,b\n1,2\n3,4\n")
    assert (await desk.find("renamed")).form == "csv"


async def test_what_was_rotated_away_meanwhile_is_found(desk: Desk) -> None:
    """From the file that was read last at the path, whatever it has since, to the newest."""
    path = desk.write("a.jsonl", LINES)
    assert await desk.claims.rotated(path) == []
    await desk.run("a.jsonl")
    assert await desk.claims.rotated(path) == []
    names = ("a.jsonl.3", "a.jsonl-20261121.gz", "a.jsonl.1", "a.jsonl.bak", "a.jsonl.1.dead")
    content = (b"0\n", gzip.compress(LINES + b"5\n"), b"6\n", b"7\n", b"8\n")
    for age, (name, told) in enumerate(zip(names, content, strict=True)):
        os.utime(desk.write(name, told), ns=(age, age))
    assert await desk.claims.rotated(path) == []
    desk.write("a.jsonl", b"9\n")
    found = await desk.claims.rotated(path)
    assert [one.name for one in found] == ["a.jsonl-20261121.gz", "a.jsonl.1"]
    for one in found:  # a kill after each: what is left is found again
        claim = (await desk.claims.find(LaneFile(one, moved_from=path))).claim
        async for _batch in FileSource(one, claim=claim).batches("", most=9):
            pass
        assert await desk.claims.rotated(path) == found[found.index(one) :]


async def test_a_file_without_a_line_is_refused(desk: Desk) -> None:
    """There is nothing yet by which it could be known."""
    desk.write("empty", b"\n\n")
    with pytest.raises(LedgerError, match="has no line yet"):
        await desk.find("empty")


def test_the_files_of_a_directory(tmp_path: Path) -> None:
    """By name; hidden ones, dead letters and directories are none."""
    with pytest.raises(LedgerError, match="no file of records"):
        files_in(tmp_path)
    letters = (
        "a.jsonl.dead",
        "a.jsonl.dead.only-0a",
        "a.jsonl.dead.only-0a.edit-1b",
        "b.csv.dead.dead",
    )
    for name in ("b.csv", "a.jsonl", ".hidden", *letters):
        (tmp_path / name).write_bytes(b"1\n")
    (tmp_path / "more").mkdir()
    assert [path.name for path in files_in(tmp_path)] == ["a.jsonl", "b.csv"]
    with pytest.raises(LedgerError, match="cannot be read"):
        files_in(tmp_path / "none")


async def _read(path: Path, found: ClaimedFile) -> None:
    async for _batch in FileSource(path, claim=found.claim).batches("", most=100):
        pass

import gzip
import tracemalloc
from collections.abc import Sequence
from hashlib import sha256
from os import SEEK_END
from pathlib import Path

import pytest
from support.pipelines import deliveries

from ledger.core.errors import LedgerError
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.sources.file_contents import WINDOW_BYTES
from ledger.pipeline.sources.files import FileSource
from ledger.pipeline.sources.source import ListSource, Source


async def read(source: Source, after: str = "", *, most: int = 10) -> list[Sequence[Delivery]]:
    """Read a source to its end."""
    return [batch async for batch in source.batches(after, most=most)]


async def read_into(found: list[Delivery], source: Source) -> None:
    """Note what a source yields, up to its error."""
    async for batch in source.batches("", most=10):
        found.extend(batch)


async def test_a_list_is_cut_into_batches() -> None:
    """Batches hold up to as many as asked for, in order."""
    found = await read(ListSource(deliveries([b"a", b"b", b"c"])), most=2)
    assert [[delivery.raw for delivery in batch] for batch in found] == [[b"a", b"b"], [b"c"]]


@pytest.mark.parametrize("most", [1, 2, 10])
async def test_a_file_goes_on_after_any_position(tmp_path: Path, most: int) -> None:
    """From the position of any record on a file gives the records after it, the same each time."""
    path = tmp_path / "records.jsonl"
    path.write_bytes(b'{"a": 1}\n\n  {"b": 2}\r\n\n\n{"c": 3}')
    whole = [one for batch in await read(FileSource(path), most=most) for one in batch]
    assert [one.raw for one in whole] == [b'{"a": 1}', b'{"b": 2}', b'{"c": 3}']
    for place, delivery in enumerate(whole):
        rest = await read(FileSource(path), delivery.position, most=most)
        assert [one for batch in rest for one in batch] == whole[place + 1 :]


async def test_positions_rise_as_texts(tmp_path: Path) -> None:
    """Positions are of one width, and their order is the file's."""
    path = tmp_path / "records.jsonl"
    path.write_bytes(b"{}\n" * 2000)
    found = [
        delivery.position for batch in await read(FileSource(path), most=99) for delivery in batch
    ]
    assert found == sorted(set(found))
    assert len(found) == 2000
    assert len({len(position) for position in found}) == 1


async def test_a_file_that_grew_goes_on(tmp_path: Path) -> None:
    """Lines that came since are read from the position that was reached."""
    path = tmp_path / "records.jsonl"
    path.write_bytes(b"1\n2\n")
    reached = (await read(FileSource(path)))[-1][-1].position
    assert await read(FileSource(path), reached) == []
    with path.open("ab") as file:
        file.write(b"3\n")
    (batch,) = await read(FileSource(path), reached)
    assert [delivery.raw for delivery in batch] == [b"3"]


async def test_a_file_shorter_than_what_was_read_of_it_is_refused(tmp_path: Path) -> None:
    """A file that ends before the position, or that is not there, is no lane to go on with."""
    path = tmp_path / "records.jsonl"
    with pytest.raises(LedgerError, match="cannot be read"):
        await read(FileSource(path))
    path.write_bytes(b"1\n2\n")
    reached = (await read(FileSource(path)))[-1][-1].position
    path.write_bytes(b"1\n")
    with pytest.raises(LedgerError, match="it is another file, or was changed"):
        await read(FileSource(path), reached)


@pytest.mark.parametrize("other", [b"1\n3\n", b"2\n2\n", b"1\n2 "])
async def test_a_position_is_bound_to_all_that_lies_before_it(tmp_path: Path, other: bytes) -> None:
    """One byte that differs anywhere before the position, and the file is another."""
    path = tmp_path / "records.jsonl"
    path.write_bytes(b"1\n2\n")
    reached = (await read(FileSource(path)))[-1][-1].position
    path.write_bytes(other + b"4\n")
    with pytest.raises(LedgerError, match="it is another file, or was changed"):
        await read(FileSource(path), reached)


async def test_half_a_line_of_a_growing_file_waits_for_the_rest(tmp_path: Path) -> None:
    """What is still being written is read once its line has ended, or the file is complete."""
    path = tmp_path / "records.jsonl"
    path.write_bytes(b"1\n2")
    more = [b'2\n{"c": 3}', b"", b""]

    async def grows() -> bool:
        with path.open("ab") as file:
            file.write(more.pop(0))
        return bool(more)

    found = await read(FileSource(path, grows=grows))
    assert [delivery.raw for batch in found for delivery in batch] == [b"1", b"22", b'{"c": 3}']
    assert found == await read(FileSource(path), most=1)


async def test_a_last_line_that_is_a_whole_object_needs_no_end(tmp_path: Path) -> None:
    """No longer object begins with it, and its line break may come with the lines that follow."""
    path = tmp_path / "records.jsonl"
    path.write_bytes(b'1\n{"a": 2}')
    reached = (await read(FileSource(path)))[-1][-1].position
    with path.open("ab") as file:
        file.write(b"\n3\n")
    (batch,) = await read(FileSource(path), reached)
    assert [delivery.raw for delivery in batch] == [b"3"]


async def test_a_last_line_that_could_go_on_is_left_until_it_has_ended(tmp_path: Path) -> None:
    """Half a record is not taken for one; how much was left is known."""
    path = tmp_path / "records.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2')
    source = FileSource(path)
    (batch,) = await read(source)
    assert ([delivery.raw for delivery in batch], source.unfinished_bytes) == ([b'{"a": 1}'], 7)
    with path.open("ab") as file:
        file.write(b"5}\n")
    (batch,) = await read(source, batch[-1].position)
    assert ([delivery.raw for delivery in batch], source.unfinished_bytes) == ([b'{"a": 25}'], 0)


async def test_a_line_of_any_length_is_one_record_that_cannot_be_taken(tmp_path: Path) -> None:
    """Its beginning is kept, its length and hash are named; the next line follows."""
    path, line = tmp_path / "records.jsonl", b"x" * 9_000_000
    path.write_bytes(b"1\n" + line + b"\n2\n")
    for source in (FileSource(path), FileSource(path, bytes_max=100)):
        found = [delivery for batch in await read(source) for delivery in batch]
        assert [delivery.raw[:5] for delivery in found] == [b"1", b"xxxxx", b"2"]
        assert len(found[1].raw) < 5000
        assert f"9,000,000 bytes, SHA-256 {sha256(line).hexdigest()}" in found[1].problem
        after = found[0].position
        assert [delivery for batch in await read(source, after) for delivery in batch] == found[1:]


async def test_a_line_of_100_mb_is_never_held(tmp_path: Path) -> None:
    """What is held at once is a window of the file, whatever its lines are."""
    path = tmp_path / "records.jsonl"
    with path.open("wb") as file:
        file.truncate(100_000_000)  # zeros, none of them a line break
        file.seek(0, SEEK_END)
        file.write(b"\n1\n")
    tracemalloc.start()
    try:
        found = [delivery for batch in await read(FileSource(path)) for delivery in batch]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [delivery.problem[:27] for delivery in found] == ["the line has 100,000,000 by", ""]
    assert peak < 6 * WINDOW_BYTES


async def test_a_batch_is_bounded_in_bytes(tmp_path: Path) -> None:
    """Of long lines fewer are handed on at once than of short ones."""
    path = tmp_path / "records.jsonl"
    path.write_bytes((b"y" * 400_000 + b"\n") * 30)
    found = await read(FileSource(path), most=500)
    assert sum(len(batch) for batch in found) == 30
    assert max(len(batch) for batch in found) * 400_001 <= WINDOW_BYTES


@pytest.mark.parametrize("content", [b"", b"4\n", b"7\n8\n9\n10\n"])
async def test_a_file_that_is_cut_while_it_is_followed_stops_the_lane(
    tmp_path: Path, content: bytes
) -> None:
    """Whether what came since is shorter or longer than what was read: nothing is skipped."""
    path = tmp_path / "records.jsonl"
    path.write_bytes(b"1\n2\n3\n")

    async def grows() -> bool:
        path.write_bytes(content)  # the same file, cut and written over
        return True

    found: list[Delivery] = []
    with pytest.raises(LedgerError, match=r"cut or written over .* after 6 bytes"):
        await read_into(found, FileSource(path, grows=grows))
    assert [delivery.raw for delivery in found] == [b"1", b"2", b"3"]


async def test_a_compressed_file_has_the_positions_of_what_it_holds(tmp_path: Path) -> None:
    """It goes on where the plain file was left, and the other way round."""
    plain, packed = tmp_path / "records.jsonl", tmp_path / "records.jsonl.gz"
    plain.write_bytes(b"".join(b"%d\n" % number for number in range(1000)))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    found = [delivery for batch in await read(FileSource(plain)) for delivery in batch]
    assert [delivery for batch in await read(FileSource(packed)) for delivery in batch] == found
    rest = await read(FileSource(packed), found[499].position)
    assert [delivery for batch in rest for delivery in batch] == found[500:]


async def test_a_compressed_file_that_is_cut_short_gives_what_it_has(tmp_path: Path) -> None:
    """Its whole records are handed on, then it is refused; whole, it goes on from there."""
    path = tmp_path / "records.jsonl.gz"
    lines = b"".join(sha256(b"%d" % number).hexdigest().encode() + b"\n" for number in range(9000))
    content = gzip.compress(lines)
    path.write_bytes(content[:-2000])
    found: list[Delivery] = []
    with pytest.raises(LedgerError, match="get the whole file"):
        await read_into(found, FileSource(path))
    assert len(found) > 1000
    path.write_bytes(content)
    rest = [
        delivery for batch in await read(FileSource(path), found[-1].position) for delivery in batch
    ]
    assert b"".join(delivery.raw + b"\n" for delivery in found + rest) == lines


async def test_what_is_handed_on_was_claimed_before(tmp_path: Path) -> None:
    """No record leaves the source before the claim reaches up to it."""
    path, claimed = tmp_path / "records.jsonl", list[str]()
    path.write_bytes(b"1\n2\n3\n")

    class Noted:
        begun = ""

        async def extend(self, position: str) -> None:
            claimed.append(position)

    async for batch in FileSource(path, claim=Noted()).batches("", most=1):
        assert claimed[-1] >= batch[-1].position
    assert len(claimed) == 1

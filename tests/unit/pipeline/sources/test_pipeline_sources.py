from collections.abc import Sequence
from pathlib import Path

import pytest
from support.pipelines import deliveries

from ledger.core.errors import LedgerError
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.sources.source import FileSource, ListSource, Source, lane_of


async def read(source: Source, after: str = "", *, most: int = 10) -> list[Sequence[Delivery]]:
    """Read a source to its end."""
    return [batch async for batch in source.batches(after, most=most)]


async def test_a_list_is_cut_into_batches() -> None:
    """Batches hold up to as many as asked for, in order."""
    found = await read(ListSource(deliveries([b"a", b"b", b"c"])), most=2)
    assert [[one.raw for one in batch] for batch in found] == [[b"a", b"b"], [b"c"]]


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
    found = [one.position for batch in await read(FileSource(path), most=99) for one in batch]
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
    assert [one.raw for one in batch] == [b"3"]


async def test_another_file_under_the_name_is_refused(tmp_path: Path) -> None:
    """A file shorter than what was read of it, or none, is no lane to go on with."""
    path = tmp_path / "records.jsonl"
    with pytest.raises(LedgerError, match="cannot be read"):
        await read(FileSource(path))
    path.write_bytes(b"1\n")
    with pytest.raises(LedgerError, match="no line of it ends"):
        await read(FileSource(path), f"{99:020d}")
    path.write_bytes(b"123456\n")
    with pytest.raises(LedgerError, match="no line of it ends"):
        await read(FileSource(path), f"{3:020d}")


async def test_half_a_line_of_a_growing_file_waits_for_the_rest(tmp_path: Path) -> None:
    """What is still being written is read once its line has ended, or the file is complete."""
    path = tmp_path / "records.jsonl"
    path.write_bytes(b"1\n2")
    more = [b"2\n3", b"", b""]

    async def grows() -> bool:
        with path.open("ab") as file:
            file.write(more.pop(0))
        return bool(more)

    found = await read(FileSource(path, grows=grows))
    assert [one.raw for batch in found for one in batch] == [b"1", b"22", b"3"]
    assert found == await read(FileSource(path), most=1)


async def test_a_last_line_without_its_end_is_a_place_to_go_on_from(tmp_path: Path) -> None:
    """The end of the line may come with the lines that follow."""
    path = tmp_path / "records.jsonl"
    path.write_bytes(b"1\n2")
    reached = (await read(FileSource(path)))[-1][-1].position
    with path.open("ab") as file:
        file.write(b"\n3\n")
    (batch,) = await read(FileSource(path), reached)
    assert [one.raw for one in batch] == [b"3"]


def test_a_lane_is_named_by_its_file_and_first_line(tmp_path: Path) -> None:
    """Another file under the same name is another lane; one that grew is the same."""
    path, names = tmp_path / "records.jsonl", []
    for content in (b"1\n", b"1\n2\n", b"3\n2\n"):
        path.write_bytes(content)
        names.append(lane_of(path))
    assert names[0] == names[1] != names[2]
    assert names[0].startswith("records.jsonl@")
    path.write_bytes(b"")
    with pytest.raises(LedgerError, match="name the lane"):
        lane_of(path)

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.pipelines import deliveries

from ledger.core.errors import LedgerError
from ledger.pipeline.records import Delivery
from ledger.pipeline.sources import FileSource, ListSource, Source


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
    with pytest.raises(LedgerError, match="shorter"):
        await read(FileSource(path), f"{99:020d}")

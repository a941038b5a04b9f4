import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ledger.core.errors import InvalidInput
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.sources.file_contents import LINE_BYTES_MAX
from ledger.pipeline.sources.files import FileSource
from ledger.pipeline.sources.record_cutter import CsvCutter


def rows(content: bytes, *, bytes_max: int = 1000) -> list[tuple[Any, str]]:
    """Return what the rows of a CSV file say, and why those that cannot be taken are not."""
    pieces = CsvCutter(bytes_max).cut(content, is_last=True)
    return [
        (piece.raw if piece.problem else json.loads(piece.raw), piece.problem)
        for piece in pieces
        if piece.raw
    ]


async def read(path: Path, after: str = "") -> list[Delivery]:
    """Read a CSV file to its end."""
    source = FileSource(path, form="csv")
    return [delivery async for batch in source.batches(after, most=2) for delivery in batch]


def test_names_of_the_header_are_fields() -> None:
    """A name with dots is a path; whole numbers are numbers, all else is text as it stands."""
    found = rows(b"ID,Version,Value,Place.Desk,Place.Region\nT1,2,2.50,A,007\r\n\nT2,-3,,1e5,0\n")
    assert found == [
        ({"ID": "T1", "Version": 2, "Value": "2.50", "Place": {"Desk": "A", "Region": "007"}}, ""),
        ({"ID": "T2", "Version": -3, "Value": "", "Place": {"Desk": "1e5", "Region": 0}}, ""),
    ]


@pytest.mark.parametrize("delimiter", [b",", b";", b"\t", b"|"])
def test_the_header_says_what_divides_cells(delimiter: bytes) -> None:
    """The one that it has most often."""
    assert rows(b"\xef\xbb\xbfa,b\n1,2\n".replace(b",", delimiter)) == [({"a": 1, "b": 2}, "")]


def test_a_quoted_cell_may_hold_line_breaks_quotes_and_delimiters() -> None:
    """A record may be several lines; its cell is what the quotes hold."""
    assert rows(b'a,b\n"x\n""y"",\r\nz",2\n3,4\n') == [
        ({"a": 'x\n"y",\r\nz', "b": 2}, ""),
        ({"a": 3, "b": 4}, ""),
    ]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (b"1", "1 cells, and the header 2"),
        (b"1,2,3", "3 cells, and the header 2"),
        (b'"1"x,2', "cannot be read"),
        (b"\xff,2", "not UTF-8"),
        (b"1," + b"2" * 2000, "2,002 bytes"),
    ],
)
def test_a_row_that_cannot_be_read_is_one_line_that_dies(row: bytes, problem: str) -> None:
    """It is handed on as it stands with the reason, and the rows after it are taken."""
    (dead, said), *others = rows(b"a,b\n" + row + b"\n" + b"3,4\n" * 300 + b'5,"6"\n')
    assert row.startswith(dead)
    assert problem in said
    assert others == [({"a": 3, "b": 4}, "")] * 300 + [({"a": 5, "b": 6}, "")]


@pytest.mark.parametrize(
    "header", [b"a,a\n", b"a,\n", b"a.b,a\n", b"\xff\n", b'"a\n', b"a", b"a..b\n"]
)
def test_a_header_that_names_no_columns_is_refused(header: bytes) -> None:
    """Each column needs a name of its own."""
    with pytest.raises(InvalidInput, match="header"):
        rows(header)


def test_a_last_row_without_an_end_is_left() -> None:
    """It could go on: 1,2 is the beginning of 1,25."""
    assert rows(b"a,b\n1,2\n1,2") == [({"a": 1, "b": 2}, "")]


async def test_a_file_of_csv_goes_on_after_any_position(tmp_path: Path) -> None:
    """Positions are at the ends of records; the header is read again."""
    path = tmp_path / "records.csv"
    path.write_bytes(b'a,b\n1,"x\ny"\n\n2,z\nbad\n3,"\n"\n')
    whole = await read(path)
    assert [json.loads(one.raw)["a"] for one in whole if not one.problem] == [1, 2, 3]
    for place, delivery in enumerate(whole):
        assert await read(path, delivery.position) == whole[place + 1 :]


@given(
    some.lists(some.sampled_from([b"a", b'"', b",", b"\n", b"1", b"\r\n"]), max_size=60).map(
        b"".join
    )
)
def test_records_do_not_depend_on_how_much_is_read_at_once(content: bytes) -> None:
    """Cut whole or byte by byte, a file has the same records at the same places."""
    data = b"x,y\n" + content
    with suppress(InvalidInput):  # a quote that does not close is one however much is read
        whole = CsvCutter(20).cut(data, is_last=False)
        cutter, bits, rest = CsvCutter(20), [], b""
        for byte in data:
            rest += bytes([byte])
            for piece in cutter.cut(rest, is_last=False):
                bits.append(piece)
                rest = rest[piece.size :]
        assert bits == whole


def test_a_cell_may_be_as_long_as_a_record() -> None:
    """Of its lines none is taken for a row, whatever it looks like."""
    inside = "\n".join(f"{number},7" for number in range(50_000))
    data = f'a,b\n1,"{inside}"\n2,3\n'.encode()
    found = [piece for piece in CsvCutter(1 << 20).cut(data, is_last=True) if piece.raw]
    assert [json.loads(piece.raw) for piece in found] == [{"a": 1, "b": inside}, {"a": 2, "b": 3}]


async def test_a_quote_that_does_not_close_ends_the_reading(tmp_path: Path) -> None:
    """What follows may be rows or the inside of a cell: neither is guessed."""
    path = tmp_path / "records.csv"
    path.write_bytes(b'a,b\n5,6\n1,"' + b"1,7\n" * (LINE_BYTES_MAX // 4) + b'"\n2,3\n')
    with pytest.raises(InvalidInput, match=r"records.csv: a quote in the row '1,.* is not closed"):
        await read(path)

"""`ledger export`: the entries of counters, from table and archive, as a file for other tools."""

import csv
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, suppress
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Protocol, TextIO

import anyio
import orjson
import typer

from ledger.commands.outputs import Force, check_output
from ledger.commands.regions import Region, region_of
from ledger.core import amounts, keys
from ledger.core.errors import InvalidInput
from ledger.core.spreadsheets import cell_of
from ledger.core.values import Entry
from ledger.http.wire.schemas import EntryModel
from ledger.runtime.command_line import Config, new_app
from ledger.runtime.output import json_line, needing, printable, say, utf8_output
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.store.reads import Scan

ROWS = 10_000
"""Entries of one row group of a Parquet file."""
DIGITS = 38
FIELDS = ("counter", "id", "change", "region", "note", "effective", "count", "reverses")

app = new_app()


class ExportForm(StrEnum):
    """The format of an export."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class ExportWriter(Protocol):
    """Receives entries one after the other."""

    def take(self, row: dict[str, Any]) -> None:
        """Write one entry."""

    def end(self) -> None:
        """Write what is buffered."""


@app.command()
def export(
    counters: Annotated[
        list[str] | None, typer.Argument(help="Counter ids; without one, the whole table.")
    ] = None,
    *,
    form: Annotated[ExportForm, typer.Option("--format", help="Output format.")] = ExportForm.JSONL,
    output: Annotated[
        Path | None, typer.Option(help="The file to write.", show_default="standard output")
    ] = None,
    force: Force = False,
    scale: Annotated[
        int, typer.Option(min=0, max=DIGITS, help="Decimal places of Parquet's changes.")
    ] = 6,
    region: Region = None,
    config: Config = None,
) -> None:
    """Write the entries of counters, from table and archive, each once, in order.

    Amounts are exact: text in JSON Lines and CSV, decimal(38, SCALE) in Parquet (extra `parquet`).
    In CSV an apostrophe is put before what a spreadsheet would run as a formula: where a text
    begins, and after each semicolon, tab and line end in it, where some spreadsheets begin a cell.
    The file appears under its name once it is complete.
    """
    asked = [keys.checked_counter(counter) for counter in counters or ()]
    if form is ExportForm.PARQUET and output is None:
        raise InvalidInput("a Parquet file needs --output")
    if output is not None:
        check_output(output, force=force)

    settings = Settings.load(config)
    place = region_of(settings, region)

    async def call(writer: ExportWriter) -> int:
        written = 0
        async with Ledger.open(settings, region=place) as ledger:
            names = asked or await counters_in(ledger.store)
            async for entry in _entries(ledger, names):
                fields = EntryModel.fields_of(entry)
                writer.take({name: fields[name] for name in FIELDS})
                written += 1
        writer.end()
        return written

    made = None if output is None else _made(output)
    try:
        with ExitStack() as stack:
            writer = _writer(form, made, scale, stack)
            written = anyio.run(call, writer)
        if made is not None and output is not None and made != output:
            made.replace(output)
    except OSError as error:
        if made is None:
            raise
        raise InvalidInput(f"{output} cannot be written: {error.strerror or error}") from None
    finally:
        if made is not None and made != output:
            with suppress(OSError):
                made.unlink()
    say(f"{written:,} entries from {place}", err=True)


def _made(output: Path) -> Path:
    """Return the path to write: a temporary file beside it, moved to its place once complete.

    A device or a pipe is written directly, because it must not be replaced.
    """
    is_plain = output.is_file() or not output.exists()
    return output.with_name(f".{output.name}.part") if is_plain else output


async def counters_in(store: Store) -> list[str]:
    """Return the counters of which a region shows anything, sorted."""
    found: set[str] = set()
    scan = Scan(attributes=("pk",))
    while True:
        page = await store.scan(scan)
        places = (keys.counter_of(item["pk"]["S"]) for item in page.items)
        found.update(place[0] for place in places if place is not None)
        if page.after is None:
            return sorted(found)
        scan = scan.next(page)


async def _entries(ledger: Ledger, counters: Sequence[str]) -> AsyncIterator[Entry]:
    for counter in counters:
        async for entry in ledger.history(counter):
            yield entry


def _writer(form: ExportForm, path: Path | None, scale: int, stack: ExitStack) -> ExportWriter:
    if form is ExportForm.PARQUET and path is not None:
        return _Parquet(path, scale, stack)
    file = (
        utf8_output()
        if path is None
        else stack.enter_context(path.open("w", encoding="utf-8", newline=""))
    )
    return _Csv(file) if form is ExportForm.CSV else _JsonLines(file)


class _JsonLines:
    def __init__(self, file: TextIO) -> None:
        self._file = file

    def take(self, row: dict[str, Any]) -> None:
        self._file.write(json_line(orjson.dumps(row).decode()))

    def end(self) -> None:
        self._file.flush()


class _Csv:
    def __init__(self, file: TextIO) -> None:
        self._rows = csv.DictWriter(file, FIELDS, lineterminator="\n")
        self._rows.writeheader()
        self._file = file

    def take(self, row: dict[str, Any]) -> None:
        self._rows.writerow({name: self._cell(name, value) for name, value in row.items()})

    def _cell(self, name: str, value: Any) -> Any:
        """Return a text as no formula, and escaped for a terminal; an amount as it is."""
        if name == "change" or not isinstance(value, str):
            return value
        return cell_of(printable(value) if self._file.isatty() else value)

    def end(self) -> None:
        self._file.flush()


class _Parquet:
    def __init__(self, path: Path, scale: int, stack: ExitStack) -> None:
        with needing("--format parquet"):
            import pyarrow as pa  # noqa: PLC0415 (of another extra)
            from pyarrow import parquet  # noqa: PLC0415
        kinds = dict.fromkeys(FIELDS, pa.string())
        kinds |= {"change": pa.decimal128(DIGITS, scale), "count": pa.int64()}
        self._schema = pa.schema(list(kinds.items()))
        self._pyarrow, self._scale = pa, scale
        self._file = stack.enter_context(parquet.ParquetWriter(path, self._schema))
        self._rows: list[dict[str, Any]] = []

    def take(self, row: dict[str, Any]) -> None:
        self._rows.append({**row, "change": self._exact(row)})
        if len(self._rows) >= ROWS:
            self.end()

    def _exact(self, row: dict[str, Any]) -> Decimal:
        change = amounts.of_text(row["change"])
        what = f"change {row['change']} of entry {row['id']} of {row['counter']!r} has more than"
        plain = change.normalize(amounts.EXACT)
        exponent = plain.as_tuple().exponent
        if isinstance(exponent, int) and -exponent > self._scale:
            raise InvalidInput(f"{what} {self._scale} decimal places: give a greater --scale")
        room = DIGITS - self._scale
        if plain and plain.adjusted() >= room:
            raise InvalidInput(f"{what} {room} digits before the point: give a smaller --scale")
        return change

    def end(self) -> None:
        if self._rows:
            self._file.write_table(self._pyarrow.Table.from_pylist(self._rows, self._schema))
            self._rows = []

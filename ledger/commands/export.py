"""`ledger export`: the entries of counters, from table and archive, as a file for other tools."""

import csv
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Protocol, TextIO

import anyio
import orjson
import typer

from ledger.commands.entries import entry_fields, leg_fields
from ledger.commands.journal import transaction_of
from ledger.commands.outputs import Force, check_output
from ledger.commands.regions import Region, region_of
from ledger.core import amounts, keys
from ledger.core.books import before
from ledger.core.errors import InvalidInput, StateConflict
from ledger.core.spreadsheets import cell_of
from ledger.core.values import Entry, Leg
from ledger.reads.history import Merged, merged_without_archive
from ledger.runtime.command_line import Config, new_app
from ledger.runtime.output import json_line, needing, printable, say, utf8_output
from ledger.session.book import Book
from ledger.session.ledger import Ledger, live_settings
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.store.reads import Scan

ROWS = 10_000
"""Entries of one row group of a Parquet file."""
DIGITS = 38
FIELDS = ("counter", "id", "change", "region", "note", "effective", "count", "reverses", "metadata")
LEG_FIELDS = ("time", "account", "asset", "amount")
"""Further columns of an export that has a book: in the rows of its transfers, one for each leg."""
EXACT_FIELDS = frozenset({"change", "amount"})

app = new_app()


class ExportForm(StrEnum):
    """The format of an export."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    JOURNAL = "journal"


class ExportWriter(Protocol):
    """Receives entries one after the other."""

    def take(self, entry: Entry) -> None:
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
    Metadata is an object of texts, in CSV and Parquet its text. An import takes CSV and JSON Lines.
    The file appears under its name once it is complete.

    Of a book there is a row for each leg of a transfer, with time, account, asset and amount. A
    journal is of one book, for `hledger -f -` or `ledger -f -`. It begins with the balances that
    the archive began with, and is refused where merged transfers are in none.
    """
    asked = [keys.checked_counter(counter) for counter in counters or ()]
    if form is ExportForm.PARQUET and output is None:
        raise InvalidInput("a Parquet file needs --output")
    if form is ExportForm.JOURNAL and len(asked) != 1:
        raise InvalidInput("a journal is of one book: name it")
    if output is not None:
        check_output(output, force=force)

    settings = Settings.load(config)
    place = region_of(settings, region)

    made = None if output is None else _made(output)
    try:
        with ExitStack() as stack:
            make = partial(_writer, form, made, scale, stack)
            written = anyio.run(_export, settings, place, asked, form, make)
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


async def _export(
    settings: Settings,
    region: str,
    asked: Sequence[str],
    form: ExportForm,
    make: Callable[[bool], ExportWriter],
) -> int:
    """Write the entries of counters, or of all; return how many there are.

    Raises:
        InvalidInput, StateConflict: there is no whole journal.
        And as `Ledger.history`.
    """
    written = 0
    async with Ledger.open(settings, region=region) as ledger:
        names = asked or await counters_in(ledger.store)
        opening, merged = None, Merged()
        if form is ExportForm.JOURNAL:
            merged = await _merged_before(ledger, names[0])
            opening = await _opening(ledger, names[0], merged)
        writer = make(any(map(live_settings(ledger).current.is_book, names)))
        if opening is not None:
            writer.take(opening)
        async for entry in _entries(ledger, names):
            writer.take(entry)
            written += 1
        if form is ExportForm.JOURNAL and await _merged_before(ledger, names[0]) != merged:
            raise StateConflict(f"the archive of {names[0]!r} was begun meanwhile: repeat this")
    writer.end()
    return written


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


async def _merged_before(ledger: Ledger, book: str) -> Merged:
    """Return which transfers of a book no history lists: merged, and in no archive.

    Raises:
        InvalidInput: it is no book.
        StateConflict: there are some, and no archive knows what they came to.
    """
    current = live_settings(ledger).current
    if not current.is_book(book):
        raise InvalidInput(
            f"{book!r} is no book: it matches no pattern of `books` in the table's contract"
        )
    shards = current.shards_max(book)
    merged = await merged_without_archive(ledger.store, book, shards=shards)
    if merged.count and (merged.until is None or not current.terms.archive):
        raise StateConflict(
            f"book {book!r} has balances of {merged.count:,} merged transfers that are in no"
            " archive: a journal would lack them"
        )
    return merged


async def _opening(ledger: Ledger, book: str, merged: Merged) -> Entry | None:
    """Return the balances that a book's archive began with, as a transfer; None without any.

    Raises:
        StateConflict: some of what it began with is still in the table, too, or just arrives.
    """
    if merged.until is None:
        return None
    at = merged.until + timedelta(microseconds=1)
    found = await Book(book, ledger).balances(at=at, max_age=0)
    listed = [entry async for entry in ledger.history(book, before=at)]
    if found.transfers != merged.count + len(listed):
        raise StateConflict(
            f"transfers of book {book!r} from before its archive are being deleted, or arrive:"
            " repeat the command in an hour"
        )
    accounts = before(found.assets, (entry.legs for entry in listed))
    legs = [
        Leg(account, asset, balance)
        for asset, balances in accounts.items()
        for account, balance in balances.items()
    ]
    note = f"balances of {merged.count:,} transfers from before the archive"
    effective = merged.until.date()
    return Entry(book, "opening", Decimal(0), note=note, effective=effective, legs=tuple(legs))


def rows_of(entry: Entry, *, with_legs: bool) -> Iterator[dict[str, Any]]:
    """Yield the rows of an entry: one, or of a transfer one for each leg."""
    found = entry_fields(entry)
    row = {name: found.get(name) for name in FIELDS}
    if not with_legs:
        yield row
        return
    row |= dict.fromkeys(LEG_FIELDS)
    row["time"] = None if entry.at is None else entry.at.isoformat()
    if not entry.legs:
        yield row
    for leg in entry.legs:
        yield row | leg_fields(leg)


def cells_of(entry: Entry, *, with_legs: bool) -> Iterator[dict[str, Any]]:
    """Yield the rows of an entry as a table has them: metadata is the text of an object."""
    for row in rows_of(entry, with_legs=with_legs):
        named = row["metadata"]
        yield row | {"metadata": None if named is None else orjson.dumps(named).decode()}


def _writer(
    form: ExportForm,
    path: Path | None,
    scale: int,
    stack: ExitStack,
    with_legs: bool,  # noqa: FBT001 (known last)
) -> ExportWriter:
    if form is ExportForm.PARQUET and path is not None:
        return _Parquet(path, scale, stack, with_legs=with_legs)
    file = (
        utf8_output()
        if path is None
        else stack.enter_context(path.open("w", encoding="utf-8", newline=""))
    )
    if form is ExportForm.JOURNAL:
        return _Journal(file)
    kind = _Csv if form is ExportForm.CSV else _JsonLines
    return kind(file, with_legs=with_legs)


class _Journal:
    def __init__(self, file: TextIO) -> None:
        self._file = file

    def take(self, entry: Entry) -> None:
        if entry.legs:  # another moves nothing
            self._file.write(transaction_of(entry))

    def end(self) -> None:
        self._file.flush()


class _JsonLines:
    def __init__(self, file: TextIO, *, with_legs: bool = False) -> None:
        self._file = file
        self._with_legs = with_legs

    def take(self, entry: Entry) -> None:
        for row in rows_of(entry, with_legs=self._with_legs):
            self._file.write(json_line(orjson.dumps(row).decode()))

    def end(self) -> None:
        self._file.flush()


class _Csv:
    def __init__(self, file: TextIO, *, with_legs: bool = False) -> None:
        names = [*FIELDS, *(LEG_FIELDS if with_legs else ())]
        self._rows = csv.DictWriter(file, names, lineterminator="\n")
        self._rows.writeheader()
        self._file = file
        self._with_legs = with_legs

    def take(self, entry: Entry) -> None:
        for row in cells_of(entry, with_legs=self._with_legs):
            self._rows.writerow({name: self._cell(name, value) for name, value in row.items()})

    def _cell(self, name: str, value: Any) -> Any:
        """Return a text as no formula, and escaped for a terminal; an amount as it is."""
        if name in EXACT_FIELDS or not isinstance(value, str):
            return value
        return cell_of(printable(value) if self._file.isatty() else value)

    def end(self) -> None:
        self._file.flush()


class _Parquet:
    def __init__(self, path: Path, scale: int, stack: ExitStack, *, with_legs: bool) -> None:
        with needing("--format parquet"):
            import pyarrow as pa  # noqa: PLC0415 (of another extra)
            from pyarrow import parquet  # noqa: PLC0415
        kinds = dict.fromkeys((*FIELDS, *(LEG_FIELDS if with_legs else ())), pa.string())
        exact = pa.decimal128(DIGITS, scale)
        kinds |= {"count": pa.int64()} | {name: exact for name in kinds if name in EXACT_FIELDS}
        self._schema = pa.schema(list(kinds.items()))
        self._pyarrow, self._scale, self._with_legs = pa, scale, with_legs
        self._file = stack.enter_context(parquet.ParquetWriter(path, self._schema))
        self._rows: list[dict[str, Any]] = []

    def take(self, entry: Entry) -> None:
        for row in cells_of(entry, with_legs=self._with_legs):
            exact = {name: self._exact(name, row) for name in EXACT_FIELDS if row.get(name)}
            self._rows.append(row | exact)
            if len(self._rows) >= ROWS:
                self.end()

    def _exact(self, name: str, row: dict[str, Any]) -> Decimal:
        number = amounts.of_text(row[name])
        what = f"{name} {row[name]} of entry {row['id']} of {row['counter']!r} has more than"
        plain = number.normalize(amounts.EXACT)
        exponent = plain.as_tuple().exponent
        if isinstance(exponent, int) and -exponent > self._scale:
            raise InvalidInput(f"{what} {self._scale} decimal places: give a greater --scale")
        room = DIGITS - self._scale
        if plain and plain.adjusted() >= room:
            raise InvalidInput(f"{what} {room} digits before the point: give a smaller --scale")
        return number

    def end(self) -> None:
        if self._rows:
            self._file.write_table(self._pyarrow.Table.from_pylist(self._rows, self._schema))
            self._rows = []

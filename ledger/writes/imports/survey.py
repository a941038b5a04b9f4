"""The first pass over a file: reads and validates every row, and writes nothing.

The hash covers exactly the bytes that were validated. A digest of each batch is kept, so that the
second pass notices if the file has changed: nothing of a batch that changed in between is written.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import anyio.lowlevel

from ledger.core.errors import ImportRefused
from ledger.settings import Settings
from ledger.writes.imports.batches import (
    BATCHES_MAX,
    DIGEST_BYTES,
    Batch,
    Marking,
    batches,
    check_no_book,
)
from ledger.writes.imports.file_format import Form
from ledger.writes.imports.rows import BadRow, Rows, read_rows
from ledger.writes.imports.source import ImportSource, naming

BAD_SHOWN_MAX = 20


class StopSign:
    """Whether the user has asked to stop; checked between batches."""

    def __init__(self) -> None:
        self.asked: bool = False

    def ask(self) -> None:
        """Ask to stop."""
        self.asked = True


@dataclass(frozen=True, slots=True)
class Survey:
    """The result of the first pass.

    `bad` counts every bad row, `shown` has the first of them. `digests` are those of the batches.
    """

    form: Form
    header: str
    marking: Marking
    size_bytes: int
    rows: int
    bad: int
    shown: tuple[BadRow, ...]
    batches: int
    digests: bytes

    def digest(self, number: int) -> bytes:
        """Return the digest of a batch."""
        return self.digests[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES]


class _Tally:
    """The counts so far."""

    def __init__(self) -> None:
        self.rows = 0
        self.bad = 0
        self.batches = 0
        self.shown: list[BadRow] = []
        self.digests = bytearray()

    def add(self, batch: Batch) -> None:
        self.rows += len(batch.rows)
        self.bad += len(batch.bad)
        self.shown += batch.bad[: BAD_SHOWN_MAX - len(self.shown)]
        self.digests += batch.digest
        self.batches += 1
        if self.batches > BATCHES_MAX:
            raise ImportRefused(f"over {BATCHES_MAX:,} batches of rows: split the file")


async def survey(
    source: ImportSource,
    form: Form,
    settings: Settings,
    *,
    stop: StopSign,
    on_header: Callable[[str], None] = lambda _header: None,
    on_bad: Callable[[BadRow], None] = lambda _bad: None,
    on_bytes: Callable[[int], None] = lambda _bytes: None,
) -> Survey | None:
    """Read the whole file once and validate every row; returns None if asked to stop meanwhile.

    Raises:
        ImportRefused: the file is empty, a column is missing, no row is good, or one is of a book.
    """
    content = source.hashed()
    tally = _Tally()
    with naming(source):
        rows = read_rows(source.lines(content, encoding=form.encoding), form)
        on_header(rows.header)
        for batch in batches(rows):
            check_no_book(batch, settings)
            tally.add(batch)
            for bad in batch.bad:
                on_bad(bad)
            on_bytes(content.bytes_read)
            await anyio.lowlevel.checkpoint()
            if stop.asked:
                return None
        _check_usable(rows, tally)
    return Survey(
        form=form,
        header=rows.header,
        marking=Marking(content.hexdigest(), form.text(rows.columns)),
        size_bytes=content.bytes_read,
        rows=tally.rows,
        bad=tally.bad,
        shown=tuple(tally.shown),
        batches=tally.batches,
        digests=bytes(tally.digests),
    )


def second_pass(source: ImportSource, surveyed: Survey) -> Iterator[Batch]:
    """Yield the batches of a surveyed file; bytes appended since then are ignored.

    Raises:
        ImportRefused: the file has changed since; nothing of the batch named was written.
    """
    content = source.hashed(bytes_max=surveyed.size_bytes)
    form = surveyed.form
    number = taken = 0
    with naming(source):
        rows = read_rows(source.lines(content, encoding=form.encoding), form)
        if rows.header == surveyed.header:
            for batch in batches(rows):
                if batch.digest != surveyed.digest(batch.number):
                    break
                yield batch
                number += 1
                taken += len(batch.rows) + len(batch.bad)
        if number < surveyed.batches:
            raise ImportRefused(
                "the file has changed since it was checked: this run wrote nothing from row"
                f" {taken + 1:,} on; put the file back as it was and run the same"
                " command again"
            )


def _check_usable(rows: Rows, tally: _Tally) -> None:
    """Refuse a file without a usable row: its markers would only block a corrected import."""
    if not tally.batches:
        raise ImportRefused("the file has no rows")
    if not tally.rows:
        first = tally.shown[0]
        raise ImportRefused(f"none of {tally.bad:,} rows is good; line {first.line}: {first.rule}")
    missing = rows.missing()
    if missing is not None:
        raise ImportRefused(f"no row has the column {missing!r}")

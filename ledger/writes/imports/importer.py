"""Imports a file: after the survey the second pass writes its batches, each exactly once.

All writes go through the home region, because a marker's condition holds only in the region where
it is evaluated. An import that was begun through one home may be finished through another: its
markers are read in every region before anything is written, and nothing is written while the
contract's home is being moved. One begun before a region was lost is refused (`begin_marker.py`).

The importer keeps bad rows unchanged, so that you can correct and import them as a separate file.
"""

import filecmp
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import anyio
import anyio.lowlevel

from ledger.contract.open_regions import OpenOthers
from ledger.core.amounts import check_bool
from ledger.core.errors import ImportRefused, InvalidInput, LedgerError
from ledger.runtime.call_deadlines import interrupting
from ledger.runtime.services import Services
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.writes.imports.batch_writer import BatchDone, BatchWriter, check_home
from ledger.writes.imports.batches import Batch
from ledger.writes.imports.begin_marker import BeginMarker, ImportBegin
from ledger.writes.imports.file_format import DEFAULT_ENCODING, Form, format_of
from ledger.writes.imports.hints import ImportHints
from ledger.writes.imports.rows import BadRow
from ledger.writes.imports.source import ImportSource, open_source
from ledger.writes.imports.survey import StopSign, Survey, second_pass, survey

BATCHES_PARALLEL = 4
GOES_ON = "run it again: nothing is counted twice"


def no_others() -> nullcontext[dict[str, Store]]:
    """Return no stores, for a table of one region."""
    return nullcontext({})


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The result of one run.

    `rows` were written by this run, `rows_there` already existed, `rows_bad` were left out, and
    `rows_left` not reached because the run was asked to stop. `write_units` are those of the
    answered batches and of the marker that the import began, as the home region charges them; hints
    are not in them. `lost` are the regions lost since the import
    began, if that was accepted: rows may be missing or count twice. A batch whose answer was lost
    and whose marker was found afterwards counts as written by this run.
    """

    region: str
    file_hash: str
    rows: int
    rows_there: int
    rows_bad: int
    rows_left: int
    batches: int
    batches_there: int
    batches_left: int
    write_units: int
    lost: tuple[str, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether every good row of the file is in the table."""
        return self.batches_left == 0


class Importer:
    """Writes files through the home region's store, each row exactly once.

    Rows of an amount alone share items, as parts of them, where the contract combines their
    counter; each counter keeps the order of its rows.

    `stop` may be asked at any time, and takes effect between batches; `on_batch` is called after
    each.

    `others` opens the stores of the other regions when a run begins. An import begun before a move
    of the home has left its markers in the former home, and they may not have arrived here.

    Raises:
        ImportRefused: the store is not the home region's.
    """

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        *,
        others: OpenOthers = no_others,
        services: Services,
        stop: StopSign | None = None,
        on_batch: Callable[[BatchDone], None] | None = None,
    ) -> None:
        check_home(store, settings.current)
        self._store = store
        self._others = others
        self._settings = settings
        self._services = services
        self._stop = stop or StopSign()
        self._on_batch = on_batch or (lambda _done: None)

    async def run_file(
        self,
        file: Path | str,
        form: Form | None = None,
        *,
        skip_bad: bool = False,
        after_loss: bool = False,
        timeout: float | None = None,
    ) -> ImportReport | None:
        """Check a whole file, then write its rows; see `run`. Returns None if stopped before that.

        Without a form the suffix decides the format, and columns have their usual names. Rows that
        break a rule make the whole file refused, or are skipped. `timeout` is for both, in seconds.

        Raises:
            InvalidInput: the suffix is of no known format.
            NotSent: `timeout` ended before a row was written.
            ImportRefused: the file cannot be read, has bad rows, or is refused by `run`.
            OutcomeUnknown, StoreError: as `run`; calling it again finishes the import.
        """
        if form is not None and not isinstance(form, Form):
            raise InvalidInput(f"form must be a Form, got {form!r:.80}")
        check_bool("skip_bad", skip_bad)
        check_bool("after_loss", after_loss)
        chosen = form or Form(format=format_of(str(file)))
        with open_source(str(file)) as source, interrupting(timeout, GOES_ON):
            await self._settings.renew()
            surveyed = await survey(source, chosen, self._settings.current, stop=self._stop)
            if surveyed is None:
                return None
            if surveyed.bad and not skip_bad:
                raise bad_rows_refused(source, surveyed)
            return await self.run(source, surveyed, after_loss=after_loss)

    async def run(
        self,
        source: ImportSource,
        surveyed: Survey,
        *,
        after_loss: bool = False,
        timeout: float | None = None,
    ) -> ImportReport:
        """Write every batch that is not in the table yet.

        Each row is counted exactly once: a run that fails, is stopped or is killed is completed by
        the next run over the same bytes with the same options. With `after_loss` an import that
        was begun before a region was lost continues by the remaining markers: rows of batches with
        a marker may be missing, and rows of the others may count twice.

        Raises:
            ImportRefused: the file was imported with other columns, has changed, has a row of a
                book, or was begun before a region was lost; or a region does not show within a
                minute that it began.
            RegionUnreadable: a region cannot be read, and might show markers; no batch was written.
            NotSent: `timeout` seconds ended before anything was written.
            OutcomeUnknown: a batch got no answer in time, or by the end of `timeout`.
            StoreError: the table did not do what was asked.
        """
        if not isinstance(source, ImportSource) or not isinstance(surveyed, Survey):
            raise InvalidInput(
                "run takes a source of `open_source` and its survey, got"
                f" {source!r:.80} and {surveyed!r:.80}"
            )
        check_bool("after_loss", after_loss)
        with interrupting(timeout, GOES_ON):
            return await self._run(source, surveyed, after_loss=after_loss)

    async def _run(
        self, source: ImportSource, surveyed: Survey, *, after_loss: bool
    ) -> ImportReport:
        await self._settings.renew()
        check_home(self._store, self._settings.current)
        begun = await self._begin(surveyed, after_loss=after_loss)
        writer = BatchWriter(
            self._store,
            self._settings,
            surveyed.marking,
            begun,
            services=self._services,
            stop=self._stop,
        )
        hints = ImportHints(self._store, self._settings, clock=self._services.clock)
        run = _Run(writer, hints, begun, second_pass(source, surveyed), self._stop, self._on_batch)
        async with anyio.create_task_group() as workers:
            for _worker in range(BATCHES_PARALLEL):
                workers.start_soon(run.work)
        if run.failure is not None:
            raise run.failure
        return run.report(self._store.region, surveyed)

    async def _begin(self, surveyed: Survey, *, after_loss: bool) -> BeginMarker:
        beginning = ImportBegin(
            self._store,
            self._settings,
            surveyed.marking,
            services=self._services,
            stop=self._stop,
        )
        async with self._others() as others:
            return await beginning.begin(others, after_loss=after_loss)


def bad_rows_refused(source: ImportSource, surveyed: Survey) -> ImportRefused:
    """Return the error for a file with bad rows."""
    return ImportRefused(
        f"{source.name}: {surveyed.bad:,} of {surveyed.rows + surveyed.bad:,} rows break a rule,"
        f" the first on line {surveyed.shown[0].line}; nothing was written; fix them, or skip them"
    )


class _Run:
    """The batches that the workers of one run share, and their outcomes."""

    def __init__(
        self,
        writer: BatchWriter,
        hints: ImportHints,
        begun: BeginMarker,
        batches: Iterator[Batch],
        stop: StopSign,
        on_batch: Callable[[BatchDone], None],
    ) -> None:
        self.failure: LedgerError | None = None
        self._writer = writer
        self._hints = hints
        self._begun = begun
        self._batches = batches
        self._stop = stop
        self._on_batch = on_batch
        self._rows = self._rows_there = 0
        self._count = self._count_there = 0
        self._units = begun.write_units

    async def work(self) -> None:
        """Write batches until none is left; after a failure the other workers finish theirs."""
        try:
            while self.failure is None and not self._stop.asked:
                batch = next(self._batches, None)
                if batch is None:
                    return
                done = await self._write_or_skip(batch)
                if done is not None:
                    self._add(done)
                    await self._hints.wrote(batch)
        except LedgerError as error:
            self.failure = self.failure or error

    async def _write_or_skip(self, batch: Batch) -> BatchDone | None:
        if batch.number not in self._begun.batches:
            return await self._writer.write(batch)
        await anyio.lowlevel.checkpoint()
        return BatchDone(batch.number, len(batch.rows), there=True)

    def _add(self, done: BatchDone) -> None:
        if done.there:
            self._rows_there += done.rows
            self._count_there += 1
        else:
            self._rows += done.rows
            self._count += 1
        self._units += done.write_units
        self._on_batch(done)

    def report(self, region: str, surveyed: Survey) -> ImportReport:
        """Return the result of this run."""
        return ImportReport(
            region=region,
            file_hash=surveyed.marking.file_hash,
            rows=self._rows,
            rows_there=self._rows_there,
            rows_bad=surveyed.bad,
            rows_left=surveyed.rows - self._rows - self._rows_there,
            batches=self._count,
            batches_there=self._count_there,
            batches_left=surveyed.batches - self._count - self._count_there,
            write_units=self._units,
            lost=self._begun.lost,
        )


class Rejects:
    """Receives bad rows, in the order of the file, under its header if it has one."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def header(self, text: str) -> None:
        """Write the header."""
        self._write(text)

    def add(self, bad: BadRow) -> None:
        """Write one row, byte for byte."""
        self._write(bad.raw)

    def _write(self, text: str) -> None:
        self._file.write(text if text.endswith(("\n", "\r")) or not text else f"{text}\n")


class RejectsFile:
    """A file of rejects being written, under a temporary name."""

    def __init__(self, path: Path, made: Path, rejects: Rejects, file: TextIO) -> None:
        self.rejects = rejects
        self._path = path
        self._made = made
        self._file = file

    def keep(self) -> None:
        """Move the complete file to its name.

        A file of that name with other content is never replaced: it may contain rows from an
        earlier run that are being corrected.

        Raises:
            ImportRefused: such a file exists.
        """
        self._file.close()
        if not self._path.exists():
            os.replace(self._made, self._path)  # noqa: PTH105 (Path.replace is the same)
        elif not filecmp.cmp(self._path, self._made, shallow=False):
            raise ImportRefused(
                f"{self._path} exists with other content than the rows rejected now:"
                " name another file"
            )


@contextmanager
def rejects_file(path: Path, form: Form) -> Iterator[RejectsFile]:
    """Open a file of rejects, deleted at the end unless `keep` was called.

    Raises:
        ImportRefused: it cannot be written.
    """
    # The default reads a byte order mark if there is one; it must not be written where none was.
    encoding = "utf-8" if form.encoding == DEFAULT_ENCODING else form.encoding
    made: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        made = Path(name)
        with os.fdopen(
            handle, "w", encoding=encoding, errors="surrogateescape", newline=""
        ) as file:
            yield RejectsFile(path, made, Rejects(file), file)
    except OSError as error:
        raise ImportRefused(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        if made is not None:
            made.unlink(missing_ok=True)

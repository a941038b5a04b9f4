"""`ledger import`: changes from a CSV or JSONL file, or standard input, each exactly once.

An import shows bars on a terminal's standard error, and its last line on standard output.
"""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from ledger.contract.open_regions import OpenTable, open_table
from ledger.core.errors import ImportRefused, InvalidInput, LedgerError
from ledger.runtime.clock import SystemClock, system_random
from ledger.runtime.command_line import AsJson, Config, new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.console_tables import new_console
from ledger.runtime.loops import run_tuned
from ledger.runtime.output import print_json, say
from ledger.runtime.services import Services
from ledger.runtime.signals import stopped_by_signals
from ledger.settings import Settings
from ledger.writes.imports.batch_writer import BatchDone
from ledger.writes.imports.file_format import (
    DEFAULT_ENCODING,
    PLACE,
    ColumnChoice,
    Form,
    Format,
    format_of,
)
from ledger.writes.imports.importer import Importer, ImportReport, bad_rows_refused, rejects_file
from ledger.writes.imports.source import STANDARD_INPUT, ImportSource, open_source
from ledger.writes.imports.survey import StopSign, Survey, survey


class RateColumn(ProgressColumn):
    """Rows a second."""

    def render(self, task: Task) -> Text:
        """Show the rate; empty before there is one."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} rows/s")


@contextmanager
def checking_bar(size_bytes: int) -> Iterator["Bar"]:
    """Show how much of the file has been read and checked."""
    with _progress(DownloadColumn()) as progress:
        yield Bar(progress, "checking", size_bytes)


@contextmanager
def writing_bar(rows: int) -> Iterator["Bar"]:
    """Show rows in the table, rate and time left."""
    with _progress(MofNCompleteColumn(), RateColumn()) as progress:
        yield Bar(progress, "importing", rows)


class Bar:
    """One bar; silent if standard error is not a terminal."""

    def __init__(self, progress: Progress, title: str, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=total)

    def reach(self, completed: int) -> None:
        """Show the total that is done."""
        self._progress.update(self._task, completed=completed)

    def advance(self, by: int) -> None:
        """Show an additional amount that is done."""
        self._progress.advance(self._task, by)


def _progress(*columns: ProgressColumn) -> Progress:
    console = new_console(err=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *columns,
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def bad_rows_lines(surveyed: Survey) -> list[str]:
    """Return the bad rows that are shown, one a line, and how many more there are."""
    lines = [f"line {bad.line}: {bad.rule}" for bad in surveyed.shown]
    more = surveyed.bad - len(lines)
    if more:
        lines.append(f"... and {counted(more, 'more bad row')}")
    return lines


def summary(report: ImportReport) -> str:
    """Return the one line that summarizes a run."""
    parts = [f"imported {counted(report.rows, 'row')} in {counted(report.batches, 'batch')}"]
    if report.batches_there:
        batches = counted(report.batches_there, "batch")
        parts.append(f"{counted(report.rows_there, 'row')} in {batches} already there")
    if report.rows_bad:
        parts.append(f"{counted(report.rows_bad, 'bad row')} skipped")
    if not report.finished:
        parts.append(f"stopped with {counted(report.rows_left, 'row')} left")
    parts.append(f"{counted(report.write_units, 'write unit')} in {report.region}")
    return "; ".join(parts)


def doubt(report: ImportReport) -> str:
    """Return the warning about an import that was continued after a loss."""
    names = ", ".join(dict.fromkeys(report.lost))
    return (
        f"warning: this import began before the loss of {names}: rows of the batches already there"
        " may be missing, and rows of the others may count twice; compare the counters with the"
        " source"
    )


def counted(number: int, noun: str) -> str:
    """Return "1 row", "2,000 rows", "3 batches"."""
    plural = "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"


AGAIN = "run the same command again to finish: nothing is counted twice"
_TAB_NAMES = {"tab": "\t", "\\t": "\t"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """The file, how its rows are read, and the result of bad ones."""

    file: Annotated[str, typer.Argument(help="CSV or JSONL file, or - for standard input.")]
    counter: Annotated[
        str | None, typer.Option(help="Column of the counter.", show_default="counter")
    ] = None
    change: Annotated[
        str | None, typer.Option(help="Column of the amount.", show_default="change")
    ] = None
    note: Annotated[
        str | None,
        typer.Option(help="Column of the note, '' for none.", show_default="note, if present"),
    ] = None
    effective: Annotated[
        str | None,
        typer.Option(
            help="Column of the ISO date on which a change takes effect.",
            show_default="effective, if present",
        ),
    ] = None
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            help="Column kept with a change, under its name; repeatable, '' for none.",
            show_default="metadata, if present, with texts by name",
        ),
    ] = None
    counter_format: Annotated[
        str, typer.Option(help="Template of the counter id, such as account-{}.")
    ] = PLACE
    format: Annotated[
        Format | None,
        typer.Option(help="File format; required if the file's name does not show it."),
    ] = None
    delimiter: Annotated[
        str, typer.Option(help="Field separator of a CSV file, or the word tab.")
    ] = ","
    encoding: Annotated[str, typer.Option(help="Character encoding of the file.")] = (
        DEFAULT_ENCODING
    )
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip rows that break a rule and import the rest.")
    ] = False
    rejects: Annotated[
        Path | None,
        typer.Option(help="With --skip-bad: write the skipped rows to this file, unchanged."),
    ] = None
    after_loss: Annotated[
        bool,
        typer.Option(
            "--after-loss",
            hidden=True,  # the refusal names it, with its risk
            help="Finish an import begun before a region was lost: rows may be missing or double.",
        ),
    ] = False
    config: Config = None
    as_json: AsJson = False

    def form(self) -> Form:
        """Return how the rows are read.

        Raises:
            InvalidInput: the format is not given, and the file's name does not show it.
        """
        return Form(
            format=self.format or self._format_of_file(),
            columns=ColumnChoice(
                counter=self.counter,
                change=self.change,
                note=self.note,
                effective=self.effective,
                metadata=self.metadata or None,
            ),
            counter_format=self.counter_format,
            delimiter=_TAB_NAMES.get(self.delimiter, self.delimiter),
            encoding=self.encoding,
        )

    def _format_of_file(self) -> Format:
        if self.file == STANDARD_INPUT:
            raise InvalidInput("--format is required for standard input")
        return format_of(self.file)


app = new_app()


@app.command("import")
@spread_options
def import_file(options: ImportOptions) -> None:
    """Import changes from a file, each exactly once, even if interrupted and repeated.

    The whole file is checked before anything is written. The same command with the same bytes
    finishes an interrupted import, even days later. A file whose bytes have changed counts as
    another file: its rows are imported again. A file whose import began before a region was lost is
    refused. Plain rows share items where the contract combines their counter.
    """
    if options.rejects is not None and not options.skip_bad:
        raise InvalidInput("--rejects requires --skip-bad")
    form = options.form()
    settings = Settings.load(options.config)
    with open_source(options.file) as source:
        status = run_tuned(_import(source, form, options, settings))
    if status:
        raise typer.Exit(status)


async def _import(
    source: ImportSource, form: Form, options: ImportOptions, settings: Settings
) -> int:
    """Import, watching for signals; return the exit status."""
    stop = StopSign()
    status: int | None = None

    def ask(_: signal.Signals) -> None:
        stop.ask()
        say("stopping after the batches in flight", err=True)

    def cut_off(_: signal.Signals) -> None:
        # Harmless at any moment: only the report is lost.
        say(f"stopped at once; {AGAIN}", err=True)

    async with stopped_by_signals(ask, cut_off) as received:
        status = await _both_passes(source, form, options, settings, stop)
    return received.status if status is None else status


async def _both_passes(
    source: ImportSource, form: Form, options: ImportOptions, settings: Settings, stop: StopSign
) -> int | None:
    """Check, then write; return the exit status, None if stopped before the end."""
    services = Services.of(clock=SystemClock(), randomness=system_random())
    async with open_table(settings, clock=services.clock, randomness=services.randomness) as table:
        surveyed = await _checked(source, form, options, table.view.current, stop)
        if surveyed is None:
            say("stopped before anything was written", err=True)
            return None
        report = await _written(source, surveyed, options, table, services, stop)
    if options.as_json:
        print_json([report])
    else:
        say(summary(report))
    if report.lost:
        say(doubt(report), err=True)
    if report.finished:
        return 0
    say(AGAIN, err=True)
    return None


async def _checked(
    source: ImportSource, form: Form, options: ImportOptions, settings: Settings, stop: StopSign
) -> Survey | None:
    """Do the first pass and report which rows are bad.

    Raises:
        ImportRefused: there are bad rows, and they must not be skipped; or one is of a book.
    """
    with ExitStack() as stack:
        bar = stack.enter_context(checking_bar(source.size_bytes()))
        if options.rejects is None:
            surveyed = await survey(source, form, settings, stop=stop, on_bytes=bar.reach)
        else:
            kept = stack.enter_context(rejects_file(options.rejects, form))
            surveyed = await survey(
                source,
                form,
                settings,
                stop=stop,
                on_bytes=bar.reach,
                on_header=kept.rejects.header,
                on_bad=kept.rejects.add,
            )
            if surveyed is not None and surveyed.bad:
                kept.keep()
    if surveyed is not None and surveyed.bad:
        for line in bad_rows_lines(surveyed):
            say(line, err=True)
        if not options.skip_bad:
            raise ImportRefused(f"{bad_rows_refused(source, surveyed)} with --skip-bad")
    return surveyed


async def _written(
    source: ImportSource,
    surveyed: Survey,
    options: ImportOptions,
    table: OpenTable,
    services: Services,
    stop: StopSign,
) -> ImportReport:
    """Do the second pass."""
    in_table = 0
    with writing_bar(surveyed.rows) as bar:

        def on_batch(done: BatchDone) -> None:
            nonlocal in_table
            in_table += done.rows
            bar.advance(done.rows)

        try:
            home, stores = table.view.current.home, dict(table.stores)
            importer = Importer(
                stores.pop(home),
                table.view,
                others=lambda: nullcontext(stores),
                services=services,
                stop=stop,
                on_batch=on_batch,
            )
            return await importer.run(source, surveyed, after_loss=options.after_loss)
        except LedgerError as error:
            if in_table:
                # A refusal says itself what to do.
                then = "" if isinstance(error, ImportRefused) else f"; {AGAIN}"
                say(f"{counted(in_table, 'row')} are in the table{then}", err=True)
            raise

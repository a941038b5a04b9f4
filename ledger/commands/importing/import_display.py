"""The display of an import: bars on a terminal's standard error, and the last line."""

from collections.abc import Iterator
from contextlib import contextmanager

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

from ledger.importing.importer import ImportReport
from ledger.importing.survey import Survey
from ledger.runtime.console_tables import new_console


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

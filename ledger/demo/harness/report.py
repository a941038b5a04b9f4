"""Reports: sections of figures, their rendering, and the files that they are written to."""

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import typer
from pydantic_core import to_json, to_jsonable_python
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ledger.commands.outputs import check_output
from ledger.demo.harness.picture import check_picture, save_picture
from ledger.runtime import console_tables
from ledger.runtime.console_tables import Grid, as_table, number, print_grid, print_line, prose

WIDE_CHARACTERS = 130

Row = Sequence[str | Text]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Rows of figures; the first column names them. Without `columns` it is a list of facts.

    Strings are shown as they are: none of their characters is markup.
    """

    rows: Sequence[Row]
    columns: Sequence[str] = ()
    title: str = ""
    caption: str = ""
    left: int = 1
    """How many columns are text, aligned to the left."""
    ends_in_text: bool = False
    """Whether the last column is text as well."""
    wide_only: Container[str] = ()
    """Columns that only a terminal of `WIDE_CHARACTERS` shows."""

    def narrowed(self) -> "Section":
        """Return the section without the columns for wide terminals."""
        if not self.wide_only:
            return self
        shown = [place for place, name in enumerate(self.columns) if name not in self.wide_only]
        columns = [self.columns[place] for place in shown]
        rows = [[row[place] for place in shown if place < len(row)] for row in self.rows]
        return replace(self, columns=columns, rows=rows)

    def grid(self) -> Grid:
        """Return the section as a table to be printed."""
        columns = self.columns or ("figure", "value")
        rows = [[*row, *[""] * (len(columns) - len(row))] for row in self.rows]
        return Grid(
            [self._column(place, name) for place, name in enumerate(columns)],
            rows,
            title=self.title,
            caption=self.caption,
            is_headed=bool(self.columns),
        )

    def _column(self, place: int, name: str) -> console_tables.Column:
        is_last = place == len(self.columns) - 1
        is_text = not self.columns or place < self.left or (is_last and self.ends_in_text)
        return prose(name) if is_text else number(name)


class Verdict(NamedTuple):
    """How a run ended: a sentence, its style, and the exit status of the command."""

    text: str
    style: str
    status: int = 0


class RunReport(ABC):
    """What a run found: a frozen dataclass of figures that can be shown and written to files."""

    __slots__ = ()

    @abstractmethod
    def sections(self) -> Iterable[Section]:
        """Return the figures as they are shown."""

    def remarks(self) -> Iterable[Text]:
        """Return lines to be shown after the figures."""
        return ()

    def verdict(self) -> Verdict | None:
        """Return how the run ended; None if it has no verdict."""
        return None

    def as_json(self) -> dict[str, Any]:
        """Return all of it for a file."""
        found: dict[str, Any] = to_jsonable_python(self)
        return found

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        """Return the figures for CSV, a mapping for each line; none if not defined."""
        return ()

    def draw(self, figure: Any) -> None:  # noqa: B027 (optional)
        """Draw the figures into a matplotlib figure, which stays empty if this is not defined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """Where a report is written."""

    json_file: Path | None = None
    csv_file: Path | None = None
    picture: Path | None = None
    force: bool = False

    @classmethod
    def checked(cls, options: Any) -> "ReportFiles":
        """Return the files that the options of a command name, once each can be written.

        Raises:
            InvalidInput: a folder is missing, or the picture is neither .svg nor .png.
            LedgerError: a file is there already, or matplotlib is not installed.
        """
        given = {known.name for known in fields(cls) if hasattr(options, known.name)}
        files = cls(**{name: getattr(options, name) for name in given})
        for file in filter(None, (files.json_file, files.csv_file, files.picture)):
            check_output(file, force=files.force)
        if files.picture is not None:
            check_picture(files.picture)
        return files

    def write(self, report: RunReport) -> None:
        """Write the report to each file."""
        if self.json_file is not None:
            self.json_file.write_bytes(to_json(report.as_json(), indent=2) + b"\n")
        if self.csv_file is not None:
            self.csv_file.write_text(to_csv(report.as_rows()), encoding="utf-8")
        if self.picture is not None:
            save_picture(report.draw, self.picture)


def finish(report: RunReport, console: Console, files: ReportFiles) -> None:
    """Show a report, write its files, and end the command with the status of its verdict."""
    for section in report.sections():
        is_wide = console.width >= WIDE_CHARACTERS
        print_grid((section if is_wide else section.narrowed()).grid(), console)
    for remark in report.remarks():
        print_line(remark, console)
    files.write(report)
    verdict = report.verdict()
    if verdict is None:
        return
    print_line(Text(verdict.text, style=verdict.style), console)
    if verdict.status:
        raise typer.Exit(verdict.status)


def render(section: Section) -> Table:
    """Return a section as a table of a live panel, whose cells are folded where it is narrow."""
    return as_table(section.grid())


def to_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows as CSV; a row may lack columns that another has."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def counts_text(counts: Mapping[str, int]) -> str:
    """Return counts by name in one line, those above 0."""
    named = [f"{counts[name]:,} {name}" for name in sorted(counts) if counts[name]]
    return ", ".join(named) or "none"

"""Columns of a report, declared once for its tables and its CSV."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rich.text import Text

from ledger.demo.harness.report import Section

FILE_DIGITS = 4
"""Decimals of a figure in a CSV file."""

Subject = TypeVar("Subject")


@dataclass(frozen=True, slots=True)
class ReportColumn(Generic[Subject]):
    """One figure of every subject of a report, for tables and for CSV.

    Without a `heading` it is in files only, without a `name` in tables only. None is an empty cell.
    """

    name: str
    heading: str
    value: Callable[[Subject], Any]
    text: Callable[[Any], str | Text] = "{:,}".format
    wide_only: bool = False

    def cell(self, subject: Subject) -> str | Text:
        """Return what a table shows."""
        value = self.value(subject)
        return "" if value is None else self.text(value)

    def plain(self, subject: Subject) -> object:
        """Return what a file has."""
        value = self.value(subject)
        return round(value, FILE_DIGITS) if isinstance(value, float) else value


def section_of(
    columns: Iterable[ReportColumn[Subject]], subjects: Iterable[Subject], **layout: Any
) -> Section:
    """Return a table with a row for each subject; `layout` are further fields of the section."""
    shown = [column for column in columns if column.heading]
    return Section(
        columns=[column.heading for column in shown],
        rows=[[column.cell(subject) for column in shown] for subject in subjects],
        wide_only={column.heading for column in shown if column.wide_only},
        **layout,
    )


def rows_of(
    columns: Sequence[ReportColumn[Subject]], subjects: Iterable[Subject]
) -> list[Mapping[str, object]]:
    """Return a line of CSV for each subject."""
    return [
        {column.name: column.plain(subject) for column in columns if column.name}
        for subject in subjects
    ]

"""A report on the terminal and in files."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from lab.harness.report_columns import ReportColumn, rows_of, section_of
from rich.console import Console
from rich.text import Text

from ledger.core.errors import InvalidInput
from ledger.demo.harness.report import ReportFiles, RunReport, Section, Verdict, finish, to_csv


@dataclass(frozen=True, slots=True)
class SomeReport(RunReport):
    """Two figures."""

    total: Decimal
    status: int = 0

    def sections(self) -> Sequence[Section]:
        """Return both kinds of section."""
        table = Section(title="by region", columns=("region", "sum"), rows=[("[a]", "1")])
        return table, Section(rows=[("total", str(self.total))])

    def remarks(self) -> Sequence[Text]:
        """Return one remark."""
        return (Text("note"),)

    def verdict(self) -> Verdict:
        """Return the status that was given."""
        return Verdict("it ended", "bold", self.status)

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        """Return a line."""
        return [{"total": self.total}]


def shown(report: SomeReport, files: ReportFiles) -> str:
    """Return what is printed."""
    output = io.StringIO()
    finish(report, Console(file=output, width=80), files)
    return output.getvalue()


def test_sections_remarks_and_verdict_are_shown_and_files_written(tmp_path: Path) -> None:
    """Text is shown as it is, JSON and CSV have the figures."""
    files = ReportFiles.checked(
        SimpleNamespace(json_file=tmp_path / "a.json", csv_file=tmp_path / "a.csv")
    )
    text = shown(SomeReport(Decimal("1.50")), files)
    for part in ("by region", "[a]", "1.50", "note", "it ended"):
        assert part in text
    assert json.loads((tmp_path / "a.json").read_text()) == {"total": "1.50", "status": 0}
    assert (tmp_path / "a.csv").read_text() == "total\n1.50\n"


def test_a_failed_run_ends_with_its_status_once_the_files_are_written(tmp_path: Path) -> None:
    """A broken promise is an exit status, and its report is kept."""
    with pytest.raises(typer.Exit) as ended:
        shown(SomeReport(Decimal(0), 1), ReportFiles(json_file=tmp_path / "a.json"))
    assert ended.value.exit_code == 1
    assert (tmp_path / "a.json").exists()


def test_what_cannot_be_written_is_told_before_the_run(tmp_path: Path) -> None:
    """A folder that is missing and a picture of another kind are errors of input."""
    with pytest.raises(InvalidInput, match="there is no folder"):
        ReportFiles.checked(SimpleNamespace(json_file=tmp_path / "missing" / "a.json"))
    with pytest.raises(InvalidInput, match="end it with"):
        ReportFiles.checked(SimpleNamespace(picture=tmp_path / "a.gif"))


def test_rows_of_csv_may_differ() -> None:
    """The columns are those of all rows in order; what a row lacks is empty."""
    assert to_csv([{"a": 1}, {"a": 2, "b": 3}]) == "a,b\n1,\n2,3\n"


def test_columns_are_declared_once_for_tables_and_files() -> None:
    """A column may be in both or in one of them; None is an empty cell."""
    columns: list[ReportColumn[float]] = [
        ReportColumn("", "case", lambda one: one, "case {:g}".format),
        ReportColumn("half", "1/2", lambda one: one / 2, "{:,.1f}".format, wide_only=True),
        ReportColumn("third", "", lambda one: one / 3),
        ReportColumn("", "big", lambda one: one if one > 10 else None),
    ]
    section = section_of(columns, [3.0, 5_000.0], title="numbers", caption="small")
    assert section.columns == ["case", "1/2", "big"]
    assert section.rows == [["case 3", "1.5", ""], ["case 5000", "2,500.0", "5,000.0"]]
    assert section.narrowed().columns == ["case", "big"]
    assert (section.title, section.caption) == ("numbers", "small")
    assert rows_of(columns, [2.0]) == [{"half": 1.0, "third": 0.6667}]


def test_files_are_those_that_the_options_have(tmp_path: Path) -> None:
    """A command without an option for a kind of file writes none of it."""
    file = tmp_path / "a.json"
    options = SimpleNamespace(json_file=file, seed=3)
    assert ReportFiles.checked(options) == ReportFiles(json_file=file)


def test_a_report_needs_neither_rows_nor_a_picture() -> None:
    """Both are abilities that a report may lack: its CSV is empty."""

    class Plain(RunReport):
        def sections(self) -> Sequence[Section]:
            return ()

    assert Plain().as_rows() == ()
    Plain().draw(None)

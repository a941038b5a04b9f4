"""Texts as cells of CSV: no spreadsheet takes one for a formula, and each comes back."""

import csv
import io
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.importing import source_of

from ledger.commands.export import _Csv
from ledger.core.spreadsheets import cell_of, text_of
from ledger.core.values import Entry, Leg
from ledger.writes.imports.file_format import Form
from ledger.writes.imports.rows import Row, read_rows

FORMULAS = [
    *('=HYPERLINK("http://x.example","y")', "+1", "-1", "@SUM(A1)"),
    *("\uff1d1", "\uff0b1", "\uff0d1", "\uff201", "=cmd|' /C calc'!A0"),
]
TAKEN_OFF = ["", " ", "\xa0", "\ufeff", "\x00", "\u200b", "\u3000", '"', ' \xa0""']
DIVIDING = [";", "\t", "\r", "\n", "a;", "a\tb\t", "a\r\n", ";;", "a\x85"]


@pytest.mark.parametrize("text", FORMULAS)
@pytest.mark.parametrize("before", TAKEN_OFF)
def test_what_a_spreadsheet_would_run_is_a_text(before: str, text: str) -> None:
    """Whatever it begins with of what OWASP names, also behind what is taken off."""
    assert cell_of(before + text) == f"'{before}{text}"


@pytest.mark.parametrize("divided", DIVIDING)
@pytest.mark.parametrize("before", TAKEN_OFF)
def test_what_a_spreadsheet_would_divide_has_no_formula(divided: str, before: str) -> None:
    """Where semicolons or tabs are between cells, and a quote within a line is a sign."""
    text = f"{divided}{before}=1"
    assert cell_of(text) == f"{divided}'{before}=1"
    assert text_of(cell_of(text)) == text


@pytest.mark.parametrize("delimiter", [";", "\t"])
@pytest.mark.parametrize("note", ["a;=1", "a\t=1", 'a,;"=1', 'a\n;=1,"', ';" =1', "=1;-1\t+1"])
def test_an_export_has_no_formula_for_any_divider(delimiter: str, note: str) -> None:
    """Lenient as spreadsheets are with quotes that begin within a cell."""
    for line in csv.reader(io.StringIO(exported(note=note), newline=""), delimiter=delimiter):
        assert not any(cell.strip('\n "').startswith(("=", "+", "-", "@")) for cell in line)


@pytest.mark.parametrize("text", ["", "refund", "a=b", "'quoted'", "1-2", "2026-11-21", "a; b=1"])
def test_any_other_text_is_left_as_it_is(text: str) -> None:
    """It is its own cell, and no import changes it."""
    assert cell_of(text) == text_of(text) == text


@given(st.text(st.sampled_from("'=+-@;\"\t\r\n \xa0\uff1da"), max_size=10) | st.text(max_size=20))
@example("'=1")
@example("''=1")
@example("'\t'=1;'' \"=1")
def test_each_text_comes_back(text: str) -> None:
    """Also one that has apostrophes in such places; none comes back as another's."""
    assert text_of(cell_of(text)) == text


def exported(**values: Any) -> str:
    """Return an export of one entry."""
    file = io.StringIO()
    writer = _Csv(file, with_legs="legs" in values)
    writer.take(replace(Entry("a", "x", Decimal(-5)), **values))
    writer.end()
    return file.getvalue()


def test_an_export_of_a_book_has_no_formula_in_any_leg() -> None:
    """Accounts and assets are chosen by writers, too; the amounts stay numbers."""
    legs = (Leg("=1+1", "EUR", Decimal(-5)), Leg("b", "@A", Decimal(5)))
    rows = list(csv.DictReader(io.StringIO(exported(legs=legs, change=Decimal(0)))))
    shown = [(row["account"], row["asset"], row["amount"], row["change"]) for row in rows]
    assert shown == [("'=1+1", "EUR", "-5", "0"), ("b", "'@A", "5", "0")]


@pytest.mark.parametrize("name", ["counter", "id", "region", "note", "reverses"])
def test_an_export_has_no_formula_in_any_text(name: str) -> None:
    """Anybody who may write entries chooses these; the amount stays a number."""
    (row,) = csv.DictReader(io.StringIO(exported(**{name: "=1+1"})))
    assert (row[name], row["change"]) == ("'=1+1", "-5")


@pytest.mark.parametrize(
    "text", [*FORMULAS, "'=1", "''-1", "'plain", "a;=1", "a;'=1", 'a,;"=1', " =1"]
)
def test_an_export_is_imported_as_it_was(text: str) -> None:
    """Counter, note and amount."""
    source, form = source_of(exported(counter=text, note=text)), Form()
    (row,) = read_rows(source.lines(source.hashed(), encoding=form.encoding), form)
    assert isinstance(row, Row)
    assert (row.counter, row.note, row.change) == (text, text, Decimal(-5))

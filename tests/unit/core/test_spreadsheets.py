"""Texts as cells of CSV: no spreadsheet takes one for a formula, and each comes back."""

import csv
import io
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.importing import source_of

from ledger.commands.export import FIELDS, _Csv
from ledger.core.spreadsheets import cell_of, text_of
from ledger.importing.form import Form
from ledger.importing.rows import Row, read_rows

FORMULAS = [
    *('=HYPERLINK("http://x.example","y")', "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"),
    *("\uff1d1", "\uff0b1", "\uff0d1", "\uff201", "=cmd|' /C calc'!A0"),
]


@pytest.mark.parametrize("text", FORMULAS)
def test_what_a_spreadsheet_would_run_is_a_text(text: str) -> None:
    """Whatever it begins with of what OWASP names."""
    assert cell_of(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "refund", "a=b", "'quoted'", "1-2", "2026-11-21", " =1"])
def test_any_other_text_is_left_as_it_is(text: str) -> None:
    """It is its own cell, and no import changes it."""
    assert cell_of(text) == text_of(text) == text


@given(st.text(st.sampled_from("'=+-@\t\r\n\uff1da"), max_size=8) | st.text(max_size=20))
@example("'=1")
@example("''=1")
def test_each_text_comes_back(text: str) -> None:
    """Also one that begins with an apostrophe; none comes back as another's."""
    cell = cell_of(text)
    assert text_of(cell) == text
    assert cell == text or cell[0] == "'"


def exported(**values: Any) -> str:
    """Return an export of one entry."""
    row = dict.fromkeys(FIELDS) | {"counter": "a", "id": "x", "change": "-5", "count": 1} | values
    file = io.StringIO()
    writer = _Csv(file)
    writer.take(row)
    writer.end()
    return file.getvalue()


@pytest.mark.parametrize("name", ["counter", "id", "region", "note", "reverses"])
def test_an_export_has_no_formula_in_any_text(name: str) -> None:
    """Anybody who may write entries chooses these; the amount stays a number."""
    (row,) = csv.DictReader(io.StringIO(exported(**{name: "=1+1"})))
    assert (row[name], row["change"]) == ("'=1+1", "-5")


@pytest.mark.parametrize("text", FORMULAS[:4] + FORMULAS[7:] + ["'=1", "''-1", "'plain"])
def test_an_export_is_imported_as_it_was(text: str) -> None:
    """Counter, note and amount."""
    source, form = source_of(exported(counter=text, note=text)), Form()
    (row,) = read_rows(source.lines(source.hashed(), encoding=form.encoding), form)
    assert isinstance(row, Row)
    assert (row.counter, row.note, row.change) == (text, text, Decimal(-5))

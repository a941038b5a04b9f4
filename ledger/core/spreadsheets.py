"""Texts as cells of CSV that no spreadsheet takes for formulas, and back.

A spreadsheet runs a cell that begins with one of these characters, whoever wrote it. An apostrophe
before it makes the cell a text. Where a cell begins depends on who opens the file: where a comma is
for decimals, a spreadsheet divides lines at semicolons, and quotes within a line are signs like
others; some divide at tabs as well. So a text is escaped at its beginning and after each semicolon,
tab and line end, also where spaces, quotes and characters that cannot be seen stand between: they
may be taken off.

The apostrophe is put before apostrophes, too, that stand in such a place, so that each cell stands
for one text.

Source: https://owasp.org/www-community/attacks/CSV_Injection

Pure: no clock, no randomness, no I/O.
"""

import re

from ledger.core.visible import UNSEEN

_BEGINNINGS = "=+\\-@\uff1d\uff0b\uff0d\uff20"  # the last four are full-width
_DIVIDING = ";\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029"
_TAKEN_OFF = f'(?:(?![{_DIVIDING}])[\\s"\\x00-\\x1f\\x7f-\\x9f{UNSEEN}])'
_CELL_BEGINS = f"(?:\\A|(?<=[{_DIVIDING}]))"
_RUN = f"(?='*{_TAKEN_OFF}*[{_BEGINNINGS}])"
_FORMULA = re.compile(f"{_CELL_BEGINS}{_RUN}")
_ESCAPED = re.compile(f"{_CELL_BEGINS}'{_RUN}")


def cell_of(text: str) -> str:
    """Return the cell for a text."""
    return _FORMULA.sub("'", text)


def text_of(cell: str) -> str:
    """Return the text for which a cell stands: `text_of(cell_of(text))` is the text."""
    return _ESCAPED.sub("", cell)

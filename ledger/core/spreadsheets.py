"""Texts as cells of CSV that no spreadsheet takes for formulas, and back.

A spreadsheet runs a cell that begins with one of these characters, whoever wrote it. An apostrophe
before it makes the cell a text. It is put before apostrophes, too, that stand before such a
character, so that each cell stands for one text.

Source: https://owasp.org/www-community/attacks/CSV_Injection

Pure: no clock, no randomness, no I/O.
"""

import re

_BEGINNINGS = "=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20"  # the last four are full-width
_FORMULA = re.compile(f"'*[{_BEGINNINGS}]")
_ESCAPED = re.compile(f"'+[{_BEGINNINGS}]")


def cell_of(text: str) -> str:
    """Return the cell for a text."""
    return f"'{text}" if _FORMULA.match(text) else text


def text_of(cell: str) -> str:
    """Return the text for which a cell stands: `text_of(cell_of(text))` is the text."""
    return cell[1:] if _ESCAPED.match(cell) else cell

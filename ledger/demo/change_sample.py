"""The changes that the demo writes.

The shipped sample has every transaction of January to November 1993 of the first accounts in the
PKDD'99 Discovery Challenge financial data set (P. Berka and M. Sochorova): anonymised, real.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib.resources import as_file, files
from pathlib import Path

from ledger.core import amounts
from ledger.core.errors import InvalidInput
from ledger.writes.entry_plan import Change
from ledger.writes.imports.file_format import ColumnChoice, Form, format_of
from ledger.writes.imports.rows import BadRow, Row, read_rows
from ledger.writes.imports.source import open_source

_SAMPLE = files("ledger.demo") / "bank-changes.csv"


@dataclass(frozen=True, slots=True)
class ChangeSample:
    """The changes in their order, and the exact sum of each counter, computed independently."""

    name: str
    changes: Sequence[Change]
    expected: dict[str, Decimal]


def load_sample(path: Path | None, *, counter: str, change: str) -> ChangeSample:
    """Read the shipped sample, or a CSV or JSONL file with these columns.

    Raises:
        ImportRefused: the file cannot be read, or a column is missing.
        InvalidInput: a row breaks a rule, or there is none.
    """
    if path is not None:
        return _read(path, counter, change, name=path.name)
    with as_file(_SAMPLE) as sample:
        return _read(sample, "account", "change", name="the shipped sample of bank changes")


def _read(path: Path, counter: str, change: str, *, name: str) -> ChangeSample:
    choice = ColumnChoice(counter=counter, change=change, note="", effective="")
    form = Form(format=format_of(path.name), columns=choice)
    with open_source(str(path)) as source:
        lines = source.lines(source.hashed(), encoding=form.encoding)
        rows = [_good(row) for row in read_rows(lines, form)]
    if not rows:
        raise InvalidInput(f"{name} has no rows")
    sums: dict[str, list[Decimal]] = defaultdict(list)
    for row in rows:
        sums[row.counter].append(row.change)
    expected = {account: amounts.total(changes) for account, changes in sums.items()}
    return ChangeSample(name, [Change(row.counter, row.change) for row in rows], expected)


def _good(row: Row | BadRow) -> Row:
    if isinstance(row, BadRow):
        raise InvalidInput(f"line {row.line}: {row.rule}")
    return row

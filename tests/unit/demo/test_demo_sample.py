"""The changes that the demo writes."""

import csv
from decimal import Decimal
from importlib.resources import files
from pathlib import Path

import pytest

from ledger.core.amounts import scaled, total_wide
from ledger.core.errors import ImportRefused, InvalidInput, LedgerError
from ledger.demo.change_sample import load_sample


def sample_file(directory: Path, content: str, name: str = "changes.csv") -> Path:
    """Make a file."""
    path = directory / name
    path.write_text(content, encoding="utf-8")
    return path


def test_the_shipped_sample() -> None:
    """The sample is there wherever the package is, and its figures are those of the file."""
    sample = load_sample(None, counter="account", change="change")
    assert len(sample.changes) == 3021
    assert len(sample.expected) == 65
    text = (files("ledger.demo") / "bank-changes.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    cents = sum(round(float(row["change"]) * 100) for row in rows)
    assert scaled(total_wide(sample.expected.values()), 2) == cents


def test_sums_are_exact(tmp_path: Path) -> None:
    """0.1 and 0.2 are 0.3, and changes keep the order of the file."""
    path = sample_file(tmp_path, "who,amount\nb,0.1\na,-5\nb,0.2\n")
    sample = load_sample(path, counter="who", change="amount")
    assert sample.expected == {"b": Decimal("0.3"), "a": Decimal(-5)}
    assert [change.counter for change in sample.changes] == ["b", "a", "b"]
    assert sample.name == "changes.csv"


def test_lines_of_json(tmp_path: Path) -> None:
    """A JSONL file does as well."""
    lines = '{"who": "a", "amount": "1.50"}\n{"who": "a", "amount": 2}\n'
    path = sample_file(tmp_path, lines, "changes.jsonl")
    assert load_sample(path, counter="who", change="amount").expected == {"a": Decimal("3.50")}


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("who,amount\na,1\nb,much\n", InvalidInput, "line 3"),
        ("who,amount\n", InvalidInput, "no rows"),
        ("who,sum\na,1\n", ImportRefused, "amount"),
    ],
)
def test_a_bad_file_is_refused(
    tmp_path: Path, content: str, error: type[LedgerError], message: str
) -> None:
    """A bad row, an empty file and a missing column are named, before the demo starts."""
    path = sample_file(tmp_path, content)
    with pytest.raises(error, match=message):
        load_sample(path, counter="who", change="amount")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """A file that is not there is one clear error."""
    with pytest.raises(ImportRefused):
        load_sample(tmp_path / "nothing.csv", counter="who", change="amount")

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from lab.compare.figures import Backlog, Partitioned, Sold
from lab.compare.report import CompareReport
from lab.compare.ways import COMPARED
from pydantic import TypeAdapter
from support.comparing import counted, recounted, report

from ledger.demo.harness.report import ReportFiles, to_csv


@pytest.mark.parametrize(
    ("overrides", "true", "error", "silent"),
    [
        ({}, 200, 0, 0),
        ({"value": 207}, 200, 7, 7),
        ({"value": 193}, 200, -7, 7),
        ({"value": 193, "applied": 190, "unknown": 10}, 200, -7, 0),
        ({"value": 201, "applied": 190, "unknown": 10}, 200, 1, 1),
        ({"value": 180, "applied": 180, "rejected": 15, "refused": 5}, 180, 0, 0),
        ({"value": 181, "applied": 180, "rejected": 20}, 180, 1, 1),
    ],
)
def test_an_error_is_reported_or_silent(
    overrides: dict[str, Any], true: int, error: int, silent: int
) -> None:
    """Only an answer `Unknown` accounts for a missing change."""
    its = counted(**overrides)
    assert (its.true_value, its.error, its.silent_error) == (true, error, silent)


@pytest.mark.parametrize(("requests", "share"), [(200, 0.0), (400, 0.5), (0, 0.0), (190, 0.0)])
def test_repeats_are_what_was_sent_beyond_the_changes(requests: int, share: float) -> None:
    """With twice as many writes sent as changes made, half of them were repeats."""
    assert counted(requests=requests).repeated == share


def test_updates_lost_between_regions() -> None:
    """The region that shows least counts, and regions that differ do not agree."""
    same = Partitioned(200, {"a": 100, "b": 100})
    assert (same.lost, same.agree) == (100, True)
    differing = Partitioned(200, {"a": 200, "b": 150})
    assert (differing.lost, differing.agree) == (50, False)


@pytest.mark.parametrize(
    ("sold", "unknown", "oversold", "unsold"),
    [(25, 0, 0, 0), (30, 0, 5, 0), (20, 0, 0, 5), (20, 5, 0, 0), (25, 3, 0, 0)],
)
def test_a_stock_is_oversold_or_left(sold: int, unknown: int, oversold: int, unsold: int) -> None:
    """Pieces sold beyond the stock, and pieces left although 50 buyers came, are counted."""
    its = Sold(25, 50, sold, unknown)
    assert (its.oversold, its.unsold) == (oversold, unsold)


@pytest.mark.parametrize(("waiting", "is_swamped"), [(1_500, False), (1_501, True)])
def test_a_rate_is_too_high_if_more_wait_than_get_through(
    waiting: int, *, is_swamped: bool
) -> None:
    """Of 150 a second in ten seconds 1,500 are through."""
    assert Backlog(400, 700, waiting, 150.0).is_swamped == is_swamped


def test_json_has_every_figure(tmp_path: Path) -> None:
    """A report that is read from its JSON file is the same."""
    one, path = report(), tmp_path / "all.json"
    ReportFiles(json_file=path).write(one)
    assert TypeAdapter(CompareReport).validate_json(path.read_bytes()) == one


def test_csv_has_a_line_for_each_method() -> None:
    """Every method has its line, every line every column, curves only where there are some."""
    rows = list(csv.DictReader(io.StringIO(to_csv(report().as_rows()))))
    assert [row["method"] for row in rows] == list(COMPARED)
    atomic, collection = rows[0], rows[list(COMPARED).index("collection")]
    assert (atomic["error"], atomic["silent_error"], atomic["regions_lost"]) == ("7", "7", "100")
    assert (atomic["regions_value_least"], atomic["alone_units"]) == ("100", "1 / 0")
    assert atomic["useful_per_second_64_writers"] == "1000.0"
    assert (collection["error"], collection["regions_lost"]) == ("0", "0")
    assert collection["repeat_11_min"] == "refused"
    assert collection["useful_per_second_64_writers"] == ""


def test_the_price_is_of_what_was_written() -> None:
    """Changes that were reported as not written do not make the others look cheap."""
    its = recounted("marker", write_units=400.0, rejected=60, refused=40, applied=100, value=100)
    assert its.price == 4.0

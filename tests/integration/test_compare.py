"""`lab compare` on the local global table, in small, and the command as a user runs it."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from lab.__main__ import app
from lab.compare.figures import LEDGER_COMBINED
from lab.compare.options import CompareOptions
from lab.compare.parts import count, sell, sell_partitioned, write_partitioned
from lab.compare.session import open_local
from lab.compare.ways import COMPARED, WAYS
from support.engines import ENGINES
from typer.testing import CliRunner, Result

from ledger.core.errors import InvalidInput
from ledger.demo.harness.table import TestTable

pytestmark = pytest.mark.slow

SMALL = CompareOptions(changes=24, writers=4, lost=0.3)
MODEL = ("--engine", "model", "--changes", "40", "--writers", "4")


@pytest.fixture(
    scope="module",
    params=[
        "memory",
        pytest.param("dynoxide", marks=[pytest.mark.engines("dynoxide"), pytest.mark.slow]),
    ],
)
async def table(request: pytest.FixtureRequest) -> AsyncIterator[TestTable]:
    """Run a local global table of two regions, which are cut off and healed by the tests."""
    async with open_local(CompareOptions(engine=request.param)) as opened:
        yield opened


async def test_a_blindly_repeated_add_counts_too_often(table: TestTable) -> None:
    """With lost answers a repeated `ADD` over-counts silently; not repeated, it misses changes.

    Which writes get no answer is the seed's, so that the counts are the same in every run.
    """
    again, once = [await count(table, method, SMALL) for method in ("atomic", "atomic-once")]
    assert again.silent_error == again.error > 0
    assert once.error < 0 == once.silent_error


@pytest.mark.parametrize("method", ["marker", "collection", "slots"])
async def test_what_knows_repeats_counts_each_once(table: TestTable, method: str) -> None:
    """With the same lost answers these keep the true value."""
    found = await count(table, method, SMALL)
    assert found.silent_error == 0
    assert found.requests > found.changes


@pytest.mark.parametrize("method", ["atomic", "optimistic", "slots"])
async def test_two_regions_lose_updates_of_single_items(table: TestTable, method: str) -> None:
    """Written in two regions that are cut off, an item keeps the changes of one, in both."""
    found = await write_partitioned(table, method, SMALL)
    assert found.applied == 24
    assert set(found.values.values()) == {12}
    assert len(found.values) == 2


async def test_changes_that_share_items_count_each_once_for_less(table: TestTable) -> None:
    """Of callers of one process four share an item, and its units; answers are lost as ever."""
    found = await count(table, LEDGER_COMBINED, SMALL)
    assert found.silent_error == 0
    assert found.write_units < found.changes / 2


@pytest.mark.parametrize("method", ["collection", LEDGER_COMBINED])
async def test_two_regions_lose_nothing_of_the_collection(table: TestTable, method: str) -> None:
    """The ledger keeps every change of both regions."""
    found = await write_partitioned(table, method, SMALL)
    assert (found.applied, found.lost, found.agree) == (24, 0, True)


async def test_a_stock_is_oversold_by_two_regions_only(table: TestTable) -> None:
    """One region never sells more than there is; two that are cut off sell all of it twice."""
    one, two = await sell(table, "marker", SMALL), await sell_partitioned(table, "marker", SMALL)
    assert one.oversold == 0
    assert one.sold + one.unknown >= one.stock
    assert two.sold == 2 * two.stock


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few writers contend, and few changes arrive."""
    monkeypatch.setattr("lab.compare.session.WRITERS", (1, 4))
    monkeypatch.setattr("lab.compare.session.PER_SECOND", (5,))


def run(*options: str) -> Result:
    """Run the command as a user would."""
    return CliRunner().invoke(app, ["compare", *options], env={"COLUMNS": "140"})


@pytest.mark.usefixtures("few")
def test_the_command_writes_everything(tmp_path: Path) -> None:
    """Tables, needs, CSV and JSON are there, no promise is broken, and the status is 0."""
    csv, written = tmp_path / "all.csv", tmp_path / "all.json"
    ran = run(*MODEL, "--csv", str(csv), "--json", str(written))
    assert ran.exit_code == 0, ran.output
    priced = r"several regions write +collection, combined 0\.\d; collection 1\.\d"
    assert re.search(priced, ran.stdout)
    assert "BROKEN" not in ran.stdout
    report = json.loads(written.read_text())
    assert [one["method"] for one in report["figures"]] == list(COMPARED)
    assert len(csv.read_text().splitlines()) == len(COMPARED) + 1


@pytest.mark.usefixtures("few")
def test_a_broken_promise_ends_with_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """A negative control: a method that breaks its guarantees is named, and the status is 1."""
    for methods in (COMPARED, WAYS):
        monkeypatch.setitem(methods, "marker", methods["atomic"])
    ran = run(*MODEL, "--lost", "0.3")
    assert ran.exit_code == 1
    assert "broken: marker: unknown: exact" in ran.stdout
    assert "broken: marker: tokens: for a week (marker)" in ran.stdout


def test_a_file_that_cannot_be_written_is_told_before(tmp_path: Path) -> None:
    """A folder that is not there is an error at once, not after all is done."""
    ran = run("--csv", str(tmp_path / "nowhere" / "all.csv"))
    assert isinstance(ran.exception, InvalidInput)
    assert "there is no folder" in str(ran.exception)


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
def test_all_of_it_on_the_local_table(engine: str, tmp_path: Path) -> None:
    """As a new user runs it every promise of every method is seen in a figure."""
    written = tmp_path / "all.json"
    ran = run("--engine", engine, "--json", str(written))
    assert ran.exit_code == 0, ran.output
    assert "(not seen)" not in ran.stdout

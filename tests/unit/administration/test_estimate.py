"""The estimate: by hand where it is simple, against simulated partitions where it is not."""

import json
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.ledgers import seeded
from support.partitions import Partitions
from typer.testing import CliRunner

from compactor.report import CompactorReport
from ledger.administration.estimate import (
    PARTITION_WRITES,
    SHARD_SHARE,
    Estimate,
    Prices,
    Workload,
    estimate,
    estimate_alternatives,
)
from ledger.commands.main import app
from ledger.core.errors import InvalidInput
from ledger.runtime.metrics import Metrics, summed
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.book import Book, Transfer
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.store.wrappers.meter import MeteredStore
from ledger.testing import MemoryGlobalTable

SETTINGS = Settings(home="us-east-1", regions={"us-east-1": {}, "eu-west-1": {}})
MONTH_SECONDS = 730 * 3_600


def estimated(changes: float, counters: int, **more: float) -> Estimate:
    """Return the estimate of a workload in two regions."""
    workload = Workload(
        changes=changes,
        counters=counters,
        regions=2,
        skew=more.get("skew", 0.0),
        totals=more.get("totals", 0.0),
    )
    return estimate(workload, SETTINGS)


def test_counters_alike_by_hand() -> None:
    """100 counters, one change a second each: folds of a third of `settle`, all in two regions."""
    found = estimated(100, 100)
    entries = SETTINGS.settle / 3
    fold_units = -(-(250 + 16 * entries) // 1_024) + 1
    units = 2 * 100 + 100 / entries * fold_units + 2 * 100 / 100
    assert found.entries_per_fold == pytest.approx(entries)
    assert found.write_units == pytest.approx(units)
    assert found.units_per_change == pytest.approx(units / 100)
    assert found.hottest == pytest.approx(1)
    assert (found.shards, found.sharded, found.processes) == (1, 0, 1)
    assert found.write_dollars == pytest.approx(units * 2 * MONTH_SECONDS * 0.625e-6)
    assert found.waiting_entries == pytest.approx(100 * SETTINGS.settle * 4 / 3)


@pytest.mark.parametrize("counters", [1, 7, 1_000, 1_001, 50_000])
@pytest.mark.parametrize("skew", [0.0, 1.0, 1.5])
def test_every_change_belongs_to_one_counter(counters: int, skew: float) -> None:
    """Groups of ranks hold each counter once, and their rates add up."""
    groups = list(Workload(changes=500, counters=counters, regions=1, skew=skew).groups())
    assert sum(count for count, _ in groups) == counters
    assert sum(count * rate for count, rate in groups) == pytest.approx(500)
    rates = [rate for _, rate in groups]
    assert rates == pytest.approx(sorted(rates, reverse=True))


def test_rare_changes_are_folded_once_a_day() -> None:
    """One change an hour: 24 entries a fold; one a week: folds of one."""
    assert estimated(1 / 3_600, 1).entries_per_fold == pytest.approx(20)
    assert estimated(1 / 7_200, 1).entries_per_fold == pytest.approx(12)
    assert estimated(1 / (7 * 86_400), 1).entries_per_fold == 1


def test_more_of_everything_costs_more() -> None:
    """Twice the changes, or a fresh total now and then, or other prices."""
    one, two = estimated(1_000, 100, skew=1), estimated(2_000, 100, skew=1)
    assert two.write_units > 1.9 * one.write_units
    assert two.shards > one.shards
    assert two.compactor_cores > one.compactor_cores
    read = estimated(1_000, 100, skew=1, totals=50)
    assert read.read_dollars > one.read_dollars
    workload = Workload(changes=1_000, counters=100, regions=2)
    dear = estimate(workload, SETTINGS, Prices(write_million=2 * 0.625))
    assert dear.write_dollars == pytest.approx(2 * estimate(workload, SETTINGS).write_dollars)


def test_what_gives_out_first_is_named_first() -> None:
    """A small workload fits; a large one of one counter fails by its shards, all alike by units."""
    assert all(limit.share < 1 for limit in estimated(100, 100).limits)
    hot = estimated(45_000, 1)
    assert hot.limits[0].name == "write units a second of a new table"
    assert {limit.name for limit in hot.limits if limit.share > 1} == {
        "write units a second of a new table",
        "write units a second of a table, by default",
        "shards of the hottest counter",
    }


@pytest.mark.parametrize("changes", [900, 3_000, 20_000])
def test_a_hot_counter_with_its_shards_is_not_throttled(changes: int) -> None:
    """In simulated partitions; with half of the shards it is, however often they split."""
    found = estimated(changes, 1)
    for shards, is_enough in ((found.shards, True), (found.shards // 3, False)):
        units = found.write_units / shards
        partitions = Partitions(dict.fromkeys(map(str, range(shards)), units), seeded(7))
        partitions.run(3_600)  # it splits meanwhile
        assert (partitions.run(600) == 0) is is_enough


@pytest.mark.slow
@pytest.mark.parametrize("changes", [1_000, 20_000])
def test_a_table_comes_to_as_many_partitions_as_estimated(changes: int) -> None:
    """Once it has split, nothing is throttled; before, it is; from as many at once, hardly ever."""
    found = estimated(changes, 2_000)
    units = found.write_units / 2_000
    keys = dict.fromkeys(map(str, range(2_000)), units)
    grown = Partitions(keys, seeded(1))
    first = grown.run(900)
    assert (first > 0.05) is (found.write_units > 4_000)
    grown.run(3_600)
    assert grown.run(600) == 0
    least = found.write_units / PARTITION_WRITES
    assert least <= grown.count <= 2 * found.partitions
    warm = Partitions(keys, seeded(1), count=found.partitions)
    assert warm.run(900) < 0.02
    assert found.partitions == pytest.approx(least / SHARD_SHARE, rel=0.3)


@pytest.mark.parametrize(
    ("field", "value"), [("changes", -1.0), ("skew", float("nan")), ("counters", 0), ("regions", 0)]
)
def test_numbers_out_of_range_are_named(field: str, value: float) -> None:
    """With the value and the rule."""
    given: dict[str, float] = {"changes": 1.0, "counters": 1, "regions": 1, field: value}
    with pytest.raises(InvalidInput, match=rf"from .* to 1e\+15, got {value:g}"):
        estimate(Workload(**given), SETTINGS)  # type: ignore[arg-type]


def test_combining_and_periods_change_what_a_change_costs() -> None:
    """Ten changes an entry: a tenth of the units, in longer entries. Periods: 5 KB more a net."""
    workload = Workload(changes=1_000, counters=100, regions=2)
    plain = estimate(workload, SETTINGS)
    combined = estimate(replace(workload, combined=10), SETTINGS)
    tenth = estimate(replace(workload, changes=100), SETTINGS)
    assert combined.write_units == tenth.write_units
    assert combined.units_per_change == pytest.approx(tenth.units_per_change / 10)
    assert combined.waiting_bytes == pytest.approx(tenth.waiting_bytes * (110 + 10 * 6) / 110)
    periods = estimate(replace(workload, periods=True), SETTINGS)
    folds = 1_000 / plain.entries_per_fold
    assert 5 <= (periods.write_units - plain.write_units) / folds <= 11
    for wrong in (0.5, 1_001):
        with pytest.raises(InvalidInput, match=f"changes of an entry must be .* 1000, got {wrong}"):
            estimate(replace(workload, combined=wrong), SETTINGS)


def test_alternatives_stand_beside_it_by_the_same_prices() -> None:
    """Those that lose changes cost half; what they mean is said; choices made are not offered."""
    workload = Workload(changes=100, counters=10, regions=2, skew=0, totals=10)
    found = {
        alternative.name: alternative for alternative in estimate_alternatives(workload, SETTINGS)
    }
    lossy = found["one item, `ADD`"]
    assert lossy.units_per_change == 1
    dollars = (100 * 2 * 0.625e-6 + 10 * 0.125e-6) * MONTH_SECONDS
    assert lossy.month_dollars == pytest.approx(dollars)
    assert "loses changes" in lossy.means
    kept = 10 * 30 * 86_400 * 110 / 4_096
    unmerged = found["entries that are never merged"]
    assert f"{kept:,.0f} units after 30 days" in unmerged.means
    reads = (unmerged.month_dollars - 100 * 2 * 0.625e-6 * MONTH_SECONDS) / MONTH_SECONDS
    assert reads == pytest.approx(10 * kept * 0.125e-6)
    assert found["combined, 10 changes an entry"].units_per_change < lossy.units_per_change
    chosen = replace(workload, combined=5, periods=True)
    names = [alternative.name for alternative in estimate_alternatives(chosen, SETTINGS)]
    assert names[0] == "without sums by period"
    assert estimate_alternatives(replace(workload, changes=0), SETTINGS) == ()


@pytest.mark.slow
@pytest.mark.parametrize("entries", [200, 500])
async def test_the_model_is_what_a_meter_counts(entries: int) -> None:
    """Changes of one counter through their life, beside the model, by units of the memory store.

    A collection's first fold, and what a pass costs that finds nothing, are not of a change; a
    few heartbeats of the passes are left in.
    """
    table = MemoryGlobalTable(compactor={"scan_every": 0})
    meter = Metered(table)
    async with meter.ledger() as ledger:
        units = []
        for _ in range(3):
            before = meter.units()
            await ledger.record_many([("a", 1)] * entries)
            passes = await meter.merge()
            spent = meter.units() - before
            await meter.compact()
            units.append(spent - passes * (meter.units() - before - spent))
    rate = entries * 3 / table.settings.settle
    model = estimate(Workload(changes=rate, counters=1, regions=2), table.settings)
    assert model.entries_per_fold == pytest.approx(entries)
    assert units[2] / entries == pytest.approx(model.units_per_change, rel=0.03)


@pytest.mark.slow
async def test_the_model_of_a_book_is_what_a_meter_counts() -> None:
    """Transfers between a thousand accounts through their life, as above."""
    accounts, entries = 1_000, 500
    table = MemoryGlobalTable(compactor={"scan_every": 0}, books=["book"])
    meter = Metered(table)
    async with meter.ledger() as ledger:
        book, units = Book("book", ledger), []
        for turn in range(4):
            before = meter.units()
            for start in range(0, entries, 100):
                await book.transfer_many(
                    [
                        Transfer([("cash", "EUR", -turn - 1), (account, "EUR", turn + 1)])
                        for number in range(start, start + 100)
                        for account in [f"customer/{(turn * entries + number) % accounts:06}"]
                    ]
                )
            passes = await meter.merge()
            spent = meter.units() - before
            await meter.compact()
            units.append(spent - passes * (meter.units() - before - spent))
    rate = entries * 3 / table.settings.settle
    workload = Workload(changes=rate, counters=1, regions=2, legs=2, accounts=accounts)
    model = estimate(workload, table.settings)
    assert model.entries_per_fold == pytest.approx(entries)
    assert units[3] / entries == pytest.approx(model.units_per_change, rel=0.03)


def test_a_book_costs_by_its_accounts_and_its_bound_is_named() -> None:
    """As the design has it: large folds where accounts are many; a transfer of 100 legs is 2 KB."""

    def units(rate: float, accounts: int, legs: int = 2) -> float:
        workload = Workload(changes=rate, counters=1, regions=2, legs=legs, accounts=accounts)
        hints = 2 / SETTINGS.compactor.hint_every
        return estimate(workload, SETTINGS).units_per_change - hints

    by_fold = {entries: entries * 3 / SETTINGS.settle for entries in (100, 500)}
    assert units(by_fold[100], 10) == pytest.approx(2.04, abs=0.02)
    assert units(by_fold[100], 1_000) == pytest.approx(2.20, abs=0.04)
    assert units(by_fold[500], 10_000) == pytest.approx(2.33, abs=0.04)
    shared = Workload(changes=25_000, counters=1, regions=2, legs=2, accounts=1_000, combined=50)
    assert estimate(shared, SETTINGS).units_per_change == pytest.approx(0.041, abs=0.002)
    assert units(by_fold[500], 10, legs=48) == units(by_fold[500], 10)
    assert units(by_fold[500], 10, legs=100) == pytest.approx(units(by_fold[500], 10) + 2)
    few = Workload(changes=10, counters=1, regions=2, legs=2, accounts=100)
    many = replace(few, accounts=30_000)
    name = "bytes of the accounts of a book"
    found = {limit.name: limit.share for limit in estimate(many, SETTINGS).limits}
    assert found[name] > 1
    more = estimate(many, SETTINGS).total_read_units - estimate(few, SETTINGS).total_read_units
    assert more == pytest.approx(29_900 * 7.6 / 4_096, abs=1)
    assert name not in {
        limit.name for limit in estimate(replace(few, legs=0, accounts=0), SETTINGS).limits
    }
    (other,) = estimate_alternatives(few, SETTINGS)
    assert other.units_per_change == pytest.approx(6.04)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"legs": 1, "accounts": 5}, "legs of a transfer must be from 2 to 100, got 1"),
        ({"legs": 101, "accounts": 5}, "legs of a transfer must be from 2 to 100, got 101"),
        ({"accounts": 5}, "legs of a transfer must be from 2 to 100, got 0"),
        ({"legs": 2}, "accounts of a book must be from 2"),
        ({"legs": 2, "accounts": 5, "combined": 90}, "90 transfers of 2 legs share no item"),
        ({"legs": 2, "accounts": 5, "periods": True}, "no sums by period"),
    ],
)
def test_a_workload_of_books_is_checked(more: dict[str, Any], said: str) -> None:
    """Legs and accounts go together, and without what books do not have."""
    with pytest.raises(InvalidInput, match=said):
        estimate(Workload(changes=1, counters=1, regions=2, **more), SETTINGS)


class Metered:
    """A table in memory whose ledger and compactor count their units."""

    def __init__(self, table: MemoryGlobalTable) -> None:
        self._table = table
        self._registry = CollectorRegistry()
        metrics = Metrics.of(self._registry)
        self._stores = {
            region: MeteredStore(table.store(region), metrics=metrics, clock=table.clock)
            for region in table.settings.regions
        }

    def units(self) -> float:
        """Return the write units of the home region so far."""
        home = self._table.settings.home
        return summed(self._registry, "ledger_consumed_units_total", kind="write", region=home)

    def ledger(self) -> Ledger:
        """Return a ledger of the home region."""
        table = self._table
        home = table.settings.home
        return Ledger(
            table.settings,
            region=home,
            given=GivenConnections(store=self._stores[home], contract=True),
            services=Services.of(clock=table.clock, randomness=seeded(3)),
        )

    async def merge(self) -> int:
        """Settle, and do passes until one finds nothing; return how many."""
        await self._table.settle()
        for number in range(1, 20):
            if (await self.compact()).is_idle:
                return number
        raise AssertionError("it does not end")

    async def compact(self) -> CompactorReport:
        """Do one pass."""
        return await self._table.compact(self._stores)


def test_the_command() -> None:
    """For people, and as JSON; without changes all is 0."""
    result = CliRunner().invoke(app, ["estimate", "1000000", "--regions", "5"])
    assert result.exit_code == 0, result.output
    assert "gives out first: write units a second of a new table" in result.stdout
    result = CliRunner().invoke(app, ["estimate", "0", "--json"])
    assert json.loads(result.stdout)["units_per_change"] == 0
    assert CliRunner().invoke(app, ["estimate", "0"]).exit_code == 0
    of_book = ["estimate", "5", "--counters", "1", "--legs", "4", "--accounts", "1000"]
    result = CliRunner().invoke(app, of_book)
    assert result.exit_code == 0, result.output
    assert "a counter for each account" in result.stdout
    assert "bytes of the accounts of a book" in result.stdout

"""The estimate: by hand where it is simple, against simulated partitions where it is not."""

import json

import pytest
from support.ledgers import seeded
from support.partitions import Partitions
from typer.testing import CliRunner

from ledger.administration.estimating import (
    PARTITION_WRITES,
    SHARD_SHARE,
    Estimate,
    Prices,
    Workload,
    estimate,
)
from ledger.commands.main import app
from ledger.core.errors import InvalidInput
from ledger.settings import Settings

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
    assert all(one.share < 1 for one in estimated(100, 100).limits)
    hot = estimated(45_000, 1)
    assert hot.limits[0].name == "write units a second of a new table"
    assert {one.name for one in hot.limits if one.share > 1} == {
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


@pytest.mark.parametrize("changes", [1_000, pytest.param(20_000, marks=pytest.mark.slow)])
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
    with pytest.raises(InvalidInput, match=f"from .* to 1e15, got {value:g}"):
        estimate(Workload(**given), SETTINGS)  # type: ignore[arg-type]


def test_the_command() -> None:
    """For people, and as JSON; without changes all is 0."""
    result = CliRunner().invoke(app, ["estimate", "1000000", "--regions", "5"])
    assert result.exit_code == 0, result.output
    assert "gives out first: write units a second of a new table" in result.stdout
    result = CliRunner().invoke(app, ["estimate", "0", "--json"])
    assert json.loads(result.stdout)["units_per_change"] == 0
    assert CliRunner().invoke(app, ["estimate", "0"]).exit_code == 0

"""What numbers cost: the tables of the page of costs are what is measured."""

import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from proof.simulator import loop
from support.numbering import cost_of, rate_of

import ledger

PAGE = (Path(ledger.__file__).parent / "docs/reference/costs.md").read_text(encoding="utf-8")
MEASURED = json.loads(Path(__file__).with_name("sequence_costs.json").read_text(encoding="utf-8"))
COSTS = {(one["way"], one["processes"]): one["measured"] for one in MEASURED["ways"]}
WRITERS: Sequence[int] = MEASURED["writers"]
COST_ROW = re.compile(r"\| (`.+?) \| ([0-9]+|one each) \|((?: [0-9.]+ / [0-9.]+, [0-9]+/s \|){3})")
CELL = re.compile(r"([0-9.]+) / ([0-9.]+), ([0-9]+)/s")
RATE_ROW = re.compile(r"\| (`.+?) \| ([0-9]+) \| ([0-9]+) \| ([0-9]+) \| (the .+?) \|")
RATES = RATE_ROW.findall(PAGE)
ON_PAGE = (1, 10, 200)
"""The crowds that the page shows, of those that are measured."""
CROWD = 1
"""With more writers, a process each, measuring takes up to seconds."""


def cases() -> list[object]:
    """Return every figure of the file; those of the largest crowds are slow to measure."""
    return [
        pytest.param(
            way,
            writers,
            writers if processes == "one each" else min(int(processes), writers),
            tuple(measured[column]),
            marks=[pytest.mark.slow] if writers > CROWD else [],
        )
        for (way, processes), measured in COSTS.items()
        for column, writers in enumerate(WRITERS)
    ]


def test_the_page_has_rows_of_what_is_measured() -> None:
    """Each row of the page is a way that is measured below, with the same figures."""
    rows = COST_ROW.findall(PAGE)
    assert (len(COSTS), len(rows), len(RATES)) == (15, 7, 4)
    shown = [WRITERS.index(writers) for writers in ON_PAGE]
    for way, at, cells in rows:
        stated = [list(map(float, cell)) for cell in CELL.findall(cells)]
        assert stated == [COSTS[way, at][place] for place in shown]


@pytest.mark.parametrize(("way", "writers", "processes", "stated"), cases())
def test_units_and_rates_are_those_measured(
    way: str, writers: int, processes: int, stated: tuple[float, ...]
) -> None:
    """Units and rates of each way, alone and in a crowd, are stated, and nothing is given up."""
    cost = loop.run(partial(cost_of, way, writers, processes))
    # Randomness drawn otherwise moves the figures of a crowd a little.
    measured = (cost.write_units, cost.read_units, cost.per_second)
    assert measured == pytest.approx(stated, rel=0.2, abs=0.02)
    assert cost.given_up == 0


@pytest.mark.slow
@pytest.mark.parametrize(("way", "processes", "numbers", "units", "bound"), RATES)
def test_the_page_states_what_bounds_the_rate(
    way: str, processes: str, numbers: str, units: str, bound: str
) -> None:
    """At a partition's 1,000 units a second, or a call a round trip, the rates are as stated."""
    writers = max(int(processes), 8)
    rate = loop.run(partial(rate_of, way, int(processes), writers))
    stated = (float(numbers), float(units))
    assert (rate.numbers, rate.units) == pytest.approx(stated, rel=0.1)
    assert rate.units <= 1020
    assert (rate.units > 950) == (bound.startswith("the partition") and "but for" not in bound)

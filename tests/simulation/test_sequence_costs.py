"""What numbers cost: the table in the README of sequences is what is measured."""

import re
from functools import partial
from pathlib import Path

import pytest
from support.numbering import WAYS, cost_of

import ledger.primitives.sequences
from ledger.lab.simulator import loop

README = Path(ledger.primitives.sequences.__file__).with_name("README.md")
CELL = re.compile(r"([0-9.]+) / ([0-9.]+), ([0-9]+)/s")
WRITERS = (1, 4, 16)


def stated(way: str) -> list[tuple[float, ...]]:
    """Return the figures of a row of the README."""
    (row,) = (line for line in README.read_text().splitlines() if line.startswith(f"| {way} | "))
    return [tuple(map(float, found)) for found in CELL.findall(row)]


@pytest.mark.parametrize("way", WAYS)
def test_the_readme_states_what_is_measured(way: str) -> None:
    """Units and rates of each way, alone and in a crowd, are those of the README's table."""
    for writers, figures in zip(WRITERS, stated(way), strict=True):
        cost = loop.run(partial(cost_of, way, writers))
        measured = (cost.write_units, cost.read_units, cost.per_second)
        # Randomness drawn otherwise moves the figures of a crowd a little.
        assert measured == pytest.approx(figures, rel=0.2, abs=0.01)

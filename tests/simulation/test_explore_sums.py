"""Sum items in every order of events of small cases; each broken rule is found."""

import pytest
from proof.simulator.explorer.sums.__main__ import app
from proof.simulator.explorer.sums.model import Model
from proof.simulator.explorer.sums.rules import CASES, MUTANTS
from proof.simulator.explorer.walk import walk_through
from support.tiers import with_slow
from typer.testing import CliRunner

STATES = {
    "two-regions": 9_025,
    "three-regions": 1_000,
    "one-region-often": 1_791,
    "lost": 12_240,
    "lost-often": 54_794,
    "lost-and-added-again": 63_574,
}
TRACES = {
    "two-regions-on-one-item": 5,
    "deletes-without-condition": 3,
    "item-and-copy-added-up": 6,
    "copied-once": 15,
    "copied-in-place": 9,
    "one-epoch": 8,
}
SLOW = {
    *("two-regions", "lost", "lost-often", "lost-and-added-again"),
    *("copied-once", "copied-in-place"),
}


@pytest.mark.parametrize("name", with_slow(STATES, slow=SLOW))
def test_no_order_of_events_shows_a_wrong_total(name: str) -> None:
    """Each region counts exactly what has reached it, and at rest all count the same."""
    explored = walk_through(Model(CASES[name]))
    assert explored.wrong == ""
    assert explored.is_whole
    assert explored.finished > 0
    assert explored.states == STATES[name]


@pytest.mark.parametrize("name", with_slow(TRACES, slow=SLOW))
def test_each_broken_rule_is_found(name: str) -> None:
    """With one rule broken, the walk ends with the shortest way to a wrong total."""
    explored = walk_through(Model(MUTANTS[name]))
    assert explored.wrong
    assert len(explored.trace) == TRACES[name]


def test_every_case_and_mutant_is_looked_for() -> None:
    """None is left out of the tests above."""
    assert set(STATES) == set(CASES)
    assert set(TRACES) == set(MUTANTS)


def test_the_command_prints_a_readable_trace() -> None:
    """A mutant's trace is numbered and in words; found ends with 0."""
    result = CliRunner().invoke(app, ["--mutant", "two-regions-on-one-item"], standalone_mode=False)
    assert result.return_value == 0
    assert "us-east-1: a reduce of" in result.output
    assert "has reached it" in result.output

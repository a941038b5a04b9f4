"""Answers to late calls in every order of events of small cases; each broken rule is found."""

import pytest
from proof.simulator.explorer.late.__main__ import app
from proof.simulator.explorer.late.model import CASES, MUTANTS, Model
from proof.simulator.explorer.walk import walk_through
from typer.testing import CliRunner

STATES = {
    "two-regions": 26_351,
    "folds-of-one": 77_255,
    "begun-later": 38_394,
    "lost": 58_251,
}
TRACES = {
    "measured-at-act": 6,
    "settled-at-once": 3,
    "settled-at-home": 6,
    "whatever-waits": 6,
    "no-archive-from": 13,
    "no-gap": 6,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STATES)
def test_no_order_of_events_gives_a_wrong_answer(name: str) -> None:
    """What was applied, or still can be, is never said not to have been."""
    explored = walk_through(Model(CASES[name]))
    assert explored.wrong == ""
    assert explored.is_whole
    assert explored.finished > 0
    assert explored.states == STATES[name]


@pytest.mark.parametrize("name", TRACES)
def test_each_broken_rule_is_found(name: str) -> None:
    """With one rule broken, the walk ends with the shortest way to a wrong answer."""
    explored = walk_through(Model(MUTANTS[name]))
    assert explored.wrong
    assert len(explored.trace) == TRACES[name]


def test_every_case_and_mutant_is_looked_for() -> None:
    """None is left out of the tests above."""
    assert set(STATES) == set(CASES)
    assert set(TRACES) == set(MUTANTS)


def test_the_command_prints_a_readable_trace() -> None:
    """A mutant's trace is numbered and in words; found ends with 0."""
    result = CliRunner().invoke(app, ["--mutant", "no-gap"], standalone_mode=False)
    assert result.return_value == 0
    assert "the other region is lost" in result.output
    assert "was never applied" in result.output

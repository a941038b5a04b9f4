"""A change of the table's terms, in every order of events and of time; each mutant is found."""

import pytest
from proof.simulator.explorer.terms.__main__ import app
from proof.simulator.explorer.terms.model import CASES, MUTANTS, Case, Model
from proof.simulator.explorer.walk import walk_through
from support.tiers import with_slow
from typer.testing import CliRunner

STATES = {
    "writes-longer": 13_026,
    "writes-shorter": 13_377,
    "reads-longer": 67_196,
    "reads-shorter": 59_624,
}
TRACES = {
    "old-view": 16,
    "old-view-of-a-reader": 14,
    "no-signature-life": 17,
    "newer-when-shorter": 14,
    "newer-when-longer": 15,
    "newer-hold": 8,
    "newer-deadline": 9,
    "wait-of-another": 17,
    "deadline-of-the-end": 15,
}
SLOW = {
    "reads-longer",
    "reads-shorter",
    "writes-longer",
    "old-view",
    "no-signature-life",
    "newer-when-longer",
    "old-view-of-a-reader",
    "wait-of-another",
    "deadline-of-the-end",
}


@pytest.mark.parametrize("name", with_slow(STATES, slow=SLOW))
def test_no_order_of_events_breaks_a_promise(name: str) -> None:
    """No retry lands after its fold, no read ends after what it began to read was replaced."""
    explored = walk_through(Model(CASES[name]))
    assert explored.wrong == ""
    assert explored.is_whole
    assert explored.finished > 0
    assert explored.states == STATES[name]


@pytest.mark.parametrize("name", with_slow(TRACES, slow=SLOW))
def test_each_broken_rule_is_found(name: str) -> None:
    """With one rule broken, the walk ends with the shortest way to what it breaks."""
    explored = walk_through(Model(Case.of_mutant(MUTANTS[name])))
    assert explored.wrong
    assert len(explored.trace) == TRACES[name]


def test_every_case_and_mutant_is_looked_for() -> None:
    """None is left out of the tests above."""
    assert set(STATES) == set(CASES)
    assert set(TRACES) == set(MUTANTS)


def test_the_command_prints_a_readable_trace() -> None:
    """A mutant's trace is numbered and in words; found ends with 0."""
    result = CliRunner().invoke(app, ["--mutant", "newer-hold"], standalone_mode=False)
    assert result.return_value == 0
    assert "the compactor acts" in result.output
    assert "wrong after 8 steps: a read ends after" in result.output

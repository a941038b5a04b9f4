"""Slices and their leaders in every order of events of small cases; each broken rule is found."""

import pytest
from proof.simulator.explorer.slices.__main__ import app
from proof.simulator.explorer.slices.model import Model
from proof.simulator.explorer.slices.rules import CASES, MUTANTS
from proof.simulator.explorer.walk import walk_through
from support.tiers import with_slow
from typer.testing import CliRunner

STATES = {
    "two-processes": 8_138,
    "two-processes-often": 270_670,
    "first-nets": 16_321,
    "first-nets-of-two": 43_913,
    "first-nets-of-three": 27_459,
    "three-processes": 1_053_665,
}
TRACES = {
    "taken-unchecked": 13,
    "given-unfenced": 14,
    "given-and-led": 13,
    "buried-alive": 12,
    "rounded-down": 11,
    "taken-from-the-living": 13,
    "taken-from-the-head": 7,
    "first-net-unfenced": 9,
    "first-net-by-the-lease": 12,
    "first-net-by-the-slice": 9,
}
FAST = {"two-processes", "taken-from-the-head"}
SLOW = {*STATES, *TRACES} - FAST
LONG = {"two-processes-often", "three-processes"}


@pytest.mark.parametrize("name", with_slow(STATES, slow=SLOW, long=LONG))
def test_each_slice_has_one_leader_in_the_end_and_never_two(name: str) -> None:
    """Nor does a first net land that a former leader sent."""
    explored = walk_through(Model(CASES[name]))
    assert explored.wrong == ""
    assert explored.is_whole
    assert explored.finished > 0
    assert explored.states == STATES[name]


@pytest.mark.parametrize("name", with_slow(TRACES, slow=SLOW))
def test_each_broken_rule_is_found(name: str) -> None:
    """With one rule broken, the walk ends with the shortest way to what is wrong."""
    explored = walk_through(Model(MUTANTS[name]))
    assert explored.wrong
    assert len(explored.trace) == TRACES[name]


def test_every_case_and_mutant_is_looked_for() -> None:
    """None is left out of the tests above."""
    assert set(STATES) == set(CASES)
    assert set(TRACES) == set(MUTANTS)


def test_the_command_prints_a_readable_trace() -> None:
    """A mutant's trace is numbered and in words; found ends with 0."""
    result = CliRunner().invoke(app, ["--mutant", "first-net-unfenced"], standalone_mode=False)
    assert result.return_value == 0
    assert "sends a first net" in result.output
    assert "led by" in result.output

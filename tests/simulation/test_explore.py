"""Every order of events in small cases: none is wrong, and each broken rule is found.

The numbers of states are those of the model as it is: a change to the model or to the rules that
was not meant to change what can happen shows in them.
"""

from dataclasses import replace
from typing import Any

import pytest
from proof.simulator.explorer.__main__ import app
from proof.simulator.explorer.keys import Keys
from proof.simulator.explorer.model import Model
from proof.simulator.explorer.mutants import EARLY_MOVE, MUTANTS
from proof.simulator.explorer.production import ProductionCode
from proof.simulator.explorer.state import Case, State, doing_now
from proof.simulator.explorer.walk import explore
from support.tiers import with_slow
from typer.testing import CliRunner

from compactor import merge_plan

SMALL = {
    "one leader": (Case(entries=2), 334),
    "two leaders, page by page": (Case(entries=1, leaders=2, paged=True), 4_154),
    "two leaders, two entries": (Case(entries=2, leaders=2), 11_057),
    "three regions": (Case(regions=3, entries=2), 2_192),
    "three regions, two leaders": (Case(regions=3, entries=1, leaders=2), 7_569),
    "plans in flight": (Case(entries=2, in_flight=1), 1_210),
    "a reader of two pages": (Case(entries=2, reader=True), 3_177),
    "home moves": (Case(entries=1, leaders=2, move=True, in_flight=1), 2_536),
    "home moves too early": (
        Case(entries=1, leaders=2, move=True, in_flight=1, mutant=EARLY_MOVE),
        3_258,
    ),
    "one id in a net at most": (Case(entries=2, leaders=1, fold_max=1), 472),
}
SLOW = {"two leaders, two entries", "three regions, two leaders"}
LARGE = {
    "home moves": (Case(entries=2, leaders=2, move=True, in_flight=1), 104_489),
    "four entries": (Case(entries=4, in_flight=1, paged=True, reader=True), 2_718_946),
    "three regions, two leaders, two entries": (Case(regions=3, entries=2, leaders=2), 666_584),
}
LONG_STATES = 100_000
"""More than that take half a minute and more."""
TRACES = {
    "one-transaction": 7,
    "no-ids": 6,
    "home-candidates": 16,
    "home-gone": 16,
    "early-deletes": 11,
    "net-last": 15,
    "no-condition": 17,
    "no-hold": 13,
}


@pytest.mark.parametrize("name", with_slow(SMALL, slow=SLOW))
def test_no_order_of_events_is_wrong(name: str) -> None:
    """In every state each region counts what has reached it, once; and merging can be finished."""
    case, states = SMALL[name]
    explored = explore(case)
    assert explored.wrong == ""
    assert explored.is_whole
    assert explored.finished > 0
    assert explored.states == states


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if states > LONG_STATES else ())
        for name, (_, states) in LARGE.items()
    ],
)
def test_no_order_of_events_is_wrong_in_larger_cases(name: str) -> None:
    """The same over millions of states."""
    case, states = LARGE[name]
    explored = explore(case)
    assert explored.wrong == ""
    assert explored.states == states


@pytest.mark.parametrize("name", MUTANTS)
def test_each_broken_rule_is_found(name: str) -> None:
    """With one rule broken, the walk ends with the shortest way to a wrong total."""
    explored = explore(Case(entries=1).with_mutant(MUTANTS[name]))
    assert "counts" in explored.wrong
    assert len(explored.trace) == TRACES[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_only_the_broken_rule_is_to_blame(name: str) -> None:
    """The mutant's own case, every rule kept, is right in every state."""
    case = Case(entries=1).with_mutant(MUTANTS[name])
    right = explore(replace(case, mutant=Case().mutant, strict=True))
    assert right.wrong == ""
    assert right.is_whole


def test_a_broken_line_of_the_plan_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the plan took what any region shows for what all of them show, this would show it."""
    monkeypatch.setattr(merge_plan, "all", any, raising=False)
    assert "counts" in explore(Case(entries=2)).wrong


def test_a_net_that_loses_an_entry_is_found() -> None:
    """A net that counts less than the one before is wrong, even where no total shows it yet."""
    explored = explore(Case(entries=2, leaders=2, mutant=MUTANTS["no-condition"]))
    assert "a version is lost" in explored.wrong
    assert len(explored.trace) < TRACES["no-condition"]


def test_a_walk_can_be_bounded() -> None:
    """A walk stops at the number of states allowed, and says that it is not whole."""
    explored = explore(Case(entries=2, leaders=2), states_max=500)
    assert not explored.is_whole
    assert explored.states < 600


def _some_states(case: Case, most: int) -> list[State]:
    model, found = Model(case), [Model(case).initial()]
    keys, seen = Keys(model), set[int]()
    for state in found:
        for step in model.steps(state):
            key = keys.key(step.state)
            if key not in seen and len(found) < most:
                seen.add(key)
                found.append(step.state)
    return found


@pytest.mark.parametrize("regions", [2, 3])
def test_what_can_be_exchanged_has_one_key(regions: int) -> None:
    """A state, its entries in another order, and the state of its key all have the same key."""
    case = Case(regions=regions, entries=2, leaders=2, reader=True)
    keys = Keys(Model(case))
    for state in _some_states(case, 800):
        key = keys.key(state)
        assert keys.key(keys.state(key)) == key
        assert keys.key(state._replace(entries=state.entries[::-1])) == key


def test_states_that_differ_have_different_keys() -> None:
    """What is visible, decided or remembered distinguishes states."""
    model = Model(Case(entries=1, leaders=1))
    keys = Keys(model)
    before = model.initial()
    states = [step.state for step in model.steps(before)]
    states.append(doing_now(before, 0, (2, 0, 0)))
    found = {keys.key(state) for state in (before, *states)}
    assert len(found) == len(states) + 1


def test_totals_come_from_the_production_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Totals are those of the fold that readers use: broken there, they are wrong here."""
    from ledger.core import fold  # noqa: PLC0415 (patched)

    right = ProductionCode(entries=2, regions=2, fold_max=2).counts((0b1101, 0b1000), has_net=True)
    assert right == (1, 1)
    monkeypatch.setattr(fold, "named_by", lambda _: iter(()))
    wrong = ProductionCode(entries=2, regions=2, fold_max=2).counts((0b1101, 0b1000), has_net=True)
    assert wrong == (2, 1)


def _run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments), standalone_mode=False)


def test_the_command_prints_what_it_has_walked() -> None:
    """States, transitions and the verdict are printed; nothing wrong ends with 0."""
    result = _run("--entries", "2")
    assert result.return_value == 0
    assert "334 states" in result.output
    assert "no wrong total" in result.output


def test_the_command_prints_a_readable_trace() -> None:
    """A mutant's trace is numbered, in words, with what each region shows; found ends with 0."""
    result = _run("--mutant", "one-transaction")
    assert result.return_value == 0
    assert "  7  the delete of a arrives in eu-west-1" in result.output
    assert "WRONG: eu-west-1 counts a 0x; what has reached it: a" in result.output


@pytest.mark.parametrize(
    "values",
    [{"regions": 4}, {"leaders": 3}, {"in_flight": 2}, {"entries": 0}, {"move": True}],
    ids=str,
)
def test_a_case_beyond_the_model_is_refused(values: dict[str, Any]) -> None:
    """More than the model holds is an error, not a walk through something else."""
    with pytest.raises(ValueError, match=r"regions|in flight|move"):
        Case(**values)

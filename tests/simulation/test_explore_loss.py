"""A region removed for good, in every order of events: no total is wrong, each mutant is found.

The numbers of states are those of the model as it is: a change to the model or to the rules that
was not meant to change what can happen shows in them.
"""

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import pytest
from proof.simulator.explorer.loss.__main__ import app
from proof.simulator.explorer.loss.cases import LARGE, SMALL
from proof.simulator.explorer.loss.items import PAST, Item, never_written
from proof.simulator.explorer.loss.model import Model
from proof.simulator.explorer.loss.mutants import MUTANTS, Mutant
from proof.simulator.explorer.loss.production import succeed_now
from proof.simulator.explorer.loss.state import Case
from proof.simulator.explorer.walk import walk_through
from support.tiers import LONG, with_slow
from typer.testing import CliRunner

from compactor.merge_plan import MergeRules, Observation
from compactor.succession import Succession

STATES = {
    "two-regions": 2_411,
    "three-regions": 2_240,
    "two-operators": 4_312,
    "two-operators-two-regions": 323,
    "not-home": 7_885,
    "lost-one-before": 3_586,
    "repeats-three-regions": 4_858,
    "repeats-two-leaders": 1_652,
    "repeats-not-home": 2_570,
    "return-and-reader-two-regions": 11_161,
    "three-entries": 49_922,
    "two-leaders-two-entries": 59_483,
    "two-leaders-three-regions": 66_724,
    "two-leaders-not-home": 1_135_027,
    "two-leaders-lost-one-before": 101_853,
    "two-entries-three-regions": 178_058,
    "return-and-reader": 552_857,
}
LONG_STATES = 100_000
"""More than that take half a minute and more."""
TRACES = {
    "take-over-while-listed": 11,
    "fold-while-listed": 11,
    "in-place": 9,
    "no-again": 7,
    "again-at-home": 28,
    "deletes-at-home": 31,
    "outdated-at-once": 29,
    "lowest-generation": 17,
    "forgotten-at-once": 15,
}
SLOW = {
    *("two-operators", "not-home", "lost-one-before", "three-regions"),
    *("repeats-three-regions", "repeats-not-home", "repeats-two-leaders"),
}
SLOW_TRACES = {"no-wait": 29, "again-unchecked": 24, "again-if-there": 28}


@pytest.mark.parametrize("name", with_slow(SMALL, slow=SLOW))
def test_no_order_of_events_is_wrong(name: str) -> None:
    """In every state each region counts what has reached it, once; at rest all count the same."""
    explored = walk_through(Model(SMALL[name]))
    assert explored.wrong == ""
    assert explored.is_whole
    assert explored.finished > 0
    assert explored.states == STATES[name]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if STATES[name] > LONG_STATES else ())
        for name in LARGE
    ],
)
def test_no_order_of_events_is_wrong_in_larger_cases(name: str) -> None:
    """The same with two leaders, more entries, a reader, and a new replica."""
    explored = walk_through(Model(LARGE[name]))
    assert explored.wrong == ""
    assert explored.finished > 0
    assert explored.states == STATES[name]


def _found(name: str) -> int:
    explored = walk_through(Model(Case().with_mutant(MUTANTS[name])))
    assert explored.wrong
    return len(explored.trace)


@pytest.mark.parametrize("name", TRACES)
def test_each_broken_rule_is_found(name: str) -> None:
    """With one rule broken, the walk ends with the shortest way to what it breaks."""
    assert _found(name) == TRACES[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW_TRACES)
def test_each_broken_rule_is_found_in_larger_cases(name: str) -> None:
    """The same for what needs two leaders."""
    assert _found(name) == SLOW_TRACES[name]


def test_every_mutant_is_looked_for() -> None:
    """None is left out of the tests above."""
    assert {*TRACES, *SLOW_TRACES} == set(MUTANTS)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", MUTANTS)
def test_only_the_broken_rule_is_to_blame(name: str) -> None:
    """The mutant's own case, every rule kept, is right in every state."""
    case = Case().with_mutant(MUTANTS[name])
    right = walk_through(Model(replace(case, mutant=Case().mutant, strict=True)))
    assert right.wrong == ""
    assert right.is_whole


@pytest.mark.parametrize("name", with_slow(["two-regions", "two-operators", "not-home"], slow=SLOW))
def test_everything_can_be_finished_from_everywhere(name: str) -> None:
    """From each state there is a way to one at rest, after the loss, with all merged everywhere."""
    model = Model(SMALL[name])
    found: list[Any] = [model.key(model.initial())]
    before: dict[Hashable, list[Any]] = defaultdict(list)
    seen, finished = set(found), []
    for key in found:
        state = model.state(key)
        if model.is_finished(state):
            finished.append(key)
        for step in model.steps(state):
            after = model.key(step.state)
            before[after].append(key)
            if after not in seen:
                seen.add(after)
                found.append(after)
    can = set(finished)
    for key in finished:
        new = [one for one in before[key] if one not in can]
        can.update(new)
        finished.extend(new)
    assert can == seen


def _of_the_oldest(observation: Observation, rules: MergeRules, version: str) -> Succession:
    """Take over the oldest version that any region shows of the net."""
    found = succeed_now(observation, rules, version)
    nets = [net for view in observation.views.values() if (net := view.net) is not None]
    if found.take_over is None or not nets:
        return found
    oldest = min(nets, key=lambda net: (net.generation, net.count, -len(net.merged)))
    base = replace(found.take_over, change=oldest.change, count=oldest.count, merged=oldest.merged)
    return replace(found, take_over=replace(base, until=oldest.until))


@pytest.mark.parametrize("entries", [1, pytest.param(2, marks=LONG)])
def test_either_version_of_the_lost_net_can_be_taken_over(entries: int) -> None:
    """The one before the newest is as right: what it does not count is there as entries."""
    oldest = Mutant("the oldest version seen is taken over", succeeding=_of_the_oldest)
    case = Case(regions=3, entries=entries, ahead=True, mutant=oldest)
    explored = walk_through(Model(case))
    assert explored.wrong == ""
    assert explored.is_whole


@pytest.mark.parametrize("late", [False, True])
def test_a_copy_with_a_stamp_that_is_far_ahead_is_beyond_the_rules(*, late: bool) -> None:
    """Put again by a region whose clock is ahead by more than the hold, an entry counts twice.

    Its stamp beats the later delete, so it is shown after the id was forgotten. Assumed therefore:
    stamps of two regions differ by less than `observation_delay`.
    """
    explored = walk_through(Model(Case(regions=3, always=True, ahead=True, late=late)))
    assert "counts a 2x" in explored.wrong


def test_the_last_writer_wins_whatever_arrives_first() -> None:
    """A region that shows a write is never reached by one with an older stamp."""
    (first,) = never_written(2).written(0, 1, ahead=frozenset())
    (second,) = first.written(0, 2, ahead=frozenset())
    assert [place for place, _ in second.arrivals(1)] == [0, 1]
    newest = second.arrived(1, 1)
    assert (newest.shown(1), list(newest.arrivals(1))) == (2, [])


def test_a_write_is_newer_than_what_its_region_shows() -> None:
    """Towards what it does not show, of a lost region whose clock is ahead, either may win."""
    item = Item(((1, PAST), (2, PAST)), (0, 1, 0))
    orders = item.written(1, 9, ahead=frozenset({PAST}))
    places = [[what for what, _ in order.writes] for order in orders]
    assert places == [[1, 2, 9], [1, 9, 2]]
    assert len(list(item.written(1, 9, ahead=frozenset()))) == 1


@pytest.mark.parametrize("values", [{"regions": 4}, {"home": 2}, {"operators": 3}, {"entries": 0}])
def test_a_case_beyond_the_model_is_refused(values: dict[str, Any]) -> None:
    """More than the model holds is an error, not a walk through something else."""
    with pytest.raises(ValueError, match=r"regions|operators"):
        Case(**values)


def _run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments), standalone_mode=False)


def test_the_command_prints_what_it_has_walked() -> None:
    """A case's states are printed; nothing wrong ends with 0."""
    result = _run("--only", "three-regions")
    assert result.return_value == 0
    assert f"{STATES['three-regions']:,} states" in result.output


def test_the_command_prints_a_readable_trace() -> None:
    """A mutant's trace is numbered, in words, with what each region shows; found ends with 0."""
    result = _run("--mutant", "lowest-generation")
    assert result.return_value == 0
    assert "us-east-1 is lost" in result.output
    assert "17  " in result.output
    assert "wrong after 17 steps: eu-west-1 counts" in result.output


def test_a_mutant_that_is_none_is_refused() -> None:
    """The message names those that there are."""
    result = _run("--mutant", "none")
    assert "--mutant must be one of take-over-while-listed" in str(result.exception)

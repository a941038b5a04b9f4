"""The model of a lost region: its bounds, and which rule is to blame."""

from dataclasses import replace
from typing import Any

import pytest
from proof.simulator.explorer.loss.items import PAST, Item, never_written
from proof.simulator.explorer.loss.model import Model
from proof.simulator.explorer.loss.mutants import MUTANTS, Mutant
from proof.simulator.explorer.loss.production import succeed_now
from proof.simulator.explorer.loss.state import Case
from proof.simulator.explorer.walk import walk_through
from support.tiers import LONG

from compactor.merge_plan import MergeRules, Observation
from compactor.succession import Succession


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", MUTANTS)
def test_only_the_broken_rule_is_to_blame(name: str) -> None:
    """The mutant's own case, every rule kept, is right in every state."""
    case = Case().with_mutant(MUTANTS[name])
    right = walk_through(Model(replace(case, mutant=Case().mutant, strict=True)))
    assert right.wrong == ""
    assert right.is_whole


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

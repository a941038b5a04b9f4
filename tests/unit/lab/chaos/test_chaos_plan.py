"""The plan of chaos: drawn from the seed alone, every kind of trouble, nothing beyond its end."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from ledger.lab.chaos.plan import (
    CALM,
    CARDS,
    FAIR_SECONDS,
    FIRST_SECONDS,
    GAP_SECONDS,
    Cut,
    Late,
    Plan,
    Strike,
    Trouble,
    draw,
)
from ledger.local.front.faults import Fault, FaultRule

REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1")
COMPACTORS = ("compactor-0", "compactor-1")
WRITERS = ("writer-us-east-1", "writer-eu-west-1")
EAST, WEST, ASIA = REGIONS
A_DECK_SECONDS = FIRST_SECONDS + len(CARDS) * GAP_SECONDS[1]


def a_plan(seed: int, seconds: float = 60.0) -> Plan:
    """Draw a plan for two compactors and two writers."""
    return draw(seed, seconds, regions=REGIONS, compactors=COMPACTORS, writers=WRITERS)


def test_the_seed_alone_decides() -> None:
    """The same seed gives the same plan, another seed another one."""
    assert a_plan(7) == a_plan(7)
    assert a_plan(7).events != a_plan(8).events


def test_a_plan_is_known_beforehand() -> None:
    """Seed 1 means this: a change of the drawing makes old seeds mean something else."""
    assert [str(event) for event in a_plan(1).events[:3]] == [
        "lag of up to 5.1 s for 5.9 s",
        "hang for 100% in ap-southeast-1 for 0.5 s",
        "slow for 30% in ap-southeast-1 for 2.8 s",
    ]


@pytest.mark.parametrize("seed", range(20))
def test_one_deck_has_every_kind_of_trouble(seed: int) -> None:
    """A run long enough for each card once meets every fault, cut, lag, kill and stall."""
    events = a_plan(seed, A_DECK_SECONDS).events
    faults = {event.rule.kind for event in events if isinstance(event, Trouble)}
    assert faults == set(Fault)
    kinds = Counter(type(event) for event in events)
    assert kinds[Late] >= 1
    assert kinds[Cut] >= 3
    assert any(event.target is None for event in events if isinstance(event, Cut))
    blows = {
        (event.blow, event.victim.partition("-")[0])
        for event in events
        if isinstance(event, Strike)
    }
    assert blows == {("kill", "compactor"), ("stall", "compactor"), ("kill", "writer")}


@pytest.mark.parametrize("seed", range(20))
def test_all_is_over_at_the_end(seed: int) -> None:
    """Events come in order, end within the run, name what is there, and leave calm weather."""
    plan = a_plan(seed)
    moments = [event.at for event in plan.events]
    assert moments == sorted(moments)
    for event in plan.events:
        if isinstance(event, Strike):
            assert event.victim in {*COMPACTORS, *WRITERS}
            assert event.seconds > 0
            assert event.blow == "kill" or event.at + event.seconds <= plan.seconds
        else:
            assert event.at < event.ends <= plan.seconds
    assert plan.weather(plan.seconds) == CALM
    assert plan.turns() == sorted(set(plan.turns()))
    assert plan.strikes() == [event for event in plan.events if isinstance(event, Strike)]


def test_after_each_deck_comes_a_fair_spell() -> None:
    """Nothing new goes wrong for a while once every card was dealt, again and again."""
    moments = [event.at for event in a_plan(5, 300.0).events]
    gaps = [after - before for before, after in pairwise(moments)]
    long = [place for place, gap in enumerate(gaps, start=1) if gap > GAP_SECONDS[1]]
    assert long == [len(CARDS) * deck for deck in range(1, len(long) + 1)]
    assert len(long) > 5
    assert all(gaps[place - 1] >= FAIR_SECONDS[0] for place in long)


def test_weather_is_what_lasts_at_a_moment() -> None:
    """Cuts add up, a region cut off has no link left, the largest jitter holds, each rule holds."""
    rule = FaultRule(Fault.HANG, 0.5)
    plan = replace(
        a_plan(1),
        events=(
            Cut(1.0, 4.0, EAST, WEST),
            Cut(2.0, 3.0, ASIA),
            Late(2.0, 5.0, 1.0),
            Late(2.5, 3.0, 2.0),
            Trouble(3.0, 4.0, rule),
        ),
    )
    island = {(ASIA, EAST), (ASIA, WEST), (EAST, ASIA), (WEST, ASIA)}
    assert plan.weather(0.9) == CALM
    assert plan.weather(1.0).cut == {(EAST, WEST)}
    assert plan.weather(2.0).cut == {(EAST, WEST), *island}
    assert [plan.weather(moment).jitter for moment in (2.0, 2.6, 3.0)] == [1.0, 2.0, 1.0]
    assert plan.weather(3.0).cut == {(EAST, WEST)}
    assert plan.weather(3.0).rules == (rule,)
    assert plan.weather(4.0).rules == ()
    assert plan.turns() == [1.0, 2.0, 2.5, 3.0, 4.0, 5.0]

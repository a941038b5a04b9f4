"""The fault schedule: drawn from the seed alone, every kind of fault, nothing beyond its end."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise, permutations

import pytest
from lab.faults.schedule import (
    CLOCK_OFF_SECONDS,
    FIRST_SECONDS,
    GAP_SECONDS,
    LEAVING_SECONDS,
    NO_FAULTS,
    RECOVERY_SECONDS,
    ROUNDS,
    USUAL,
    Conditions,
    FaultSchedule,
    Profile,
    ScheduledFault,
    draw,
)

from ledger.local.front.faults import PASSING, Fault, FaultRule

REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1")
COMPACTORS = ("compactor-0", "compactor-1")
WRITERS = ("writer-us-east-1", "writer-eu-west-1")
EAST, WEST, ASIA = REGIONS
ROUND = ROUNDS[Profile.MIXED]
A_ROUND_SECONDS = FIRST_SECONDS + len(ROUND) * GAP_SECONDS[1]


def a_schedule(seed: int, seconds: float = 60.0) -> FaultSchedule:
    """Draw a schedule for two compactors and two writers."""
    return draw(seed, seconds, regions=REGIONS, compactors=COMPACTORS, writers=WRITERS)


def test_the_seed_alone_decides() -> None:
    """The same seed gives the same schedule, another seed another one."""
    assert a_schedule(7) == a_schedule(7)
    assert a_schedule(7).faults != a_schedule(8).faults


def test_a_schedule_is_known_beforehand() -> None:
    """Seed 1 means this: a change of the drawing makes old seeds mean something else."""
    assert [str(event) for event in a_schedule(1).faults[:3]] == [
        "suspend writer writer-eu-west-1 for 2.8 s",
        "lag of up to 4.6 s for 1.2 s",
        "hang 100% in ap-southeast-1 for 3.1 s",
    ]


@pytest.mark.parametrize("seed", range(20))
def test_one_round_has_every_kind_of_fault(seed: int) -> None:
    """A run long enough for each kind once meets every fault, cut, delay, kill and stall."""
    events = a_schedule(seed, A_ROUND_SECONDS).faults[: len(ROUND)]
    faults = {rule.kind for event in events for rule in event.conditions.rules}
    assert faults == set(PASSING)
    kinds = Counter(event.kind for event in events)
    assert (kinds["cut"], kinds["isolation"], kinds["lag"]) == (2, 1, 2)
    process_faults = {
        (event.kind, event.process.partition("-")[0]) for event in events if event.process
    }
    assert process_faults == {
        ("kill compactor", "compactor"),
        ("stall compactor", "compactor"),
        ("kill writer", "writer"),
        ("suspend compactor", "compactor"),
        ("suspend writer", "writer"),
        ("clock of a compactor", "compactor"),
        ("clock of a writer", "writer"),
    }
    assert all(event.ahead for event in events if event.kind.startswith("clock of"))
    [clock] = [event.conditions.clocks for event in events if event.kind == "clock"]
    assert abs(clock[0][1]) >= CLOCK_OFF_SECONDS[0][0]
    [isolation] = [event for event in events if event.kind == "isolation"]
    assert len(isolation.conditions.cut) == 4


@pytest.mark.parametrize("profile", Profile)
def test_every_profile_has_the_usual_faults(profile: Profile) -> None:
    """What every run has stands first in each round."""
    assert ROUNDS[profile][: len(USUAL)] == USUAL


@pytest.mark.parametrize("seed", range(20))
def test_a_home_is_lost_in_the_midst_of_a_run(seed: int) -> None:
    """Its links to the others end one by one, then all of it is gone until the end."""
    names = {"regions": REGIONS, "compactors": COMPACTORS, "writers": WRITERS}
    schedule = draw(seed, 60.0, **names, profile=Profile.LOST_HOME)
    loss = schedule.loss
    assert loss is not None
    assert (loss.home, loss.target in {WEST, ASIA}) == (EAST, True)
    gone = schedule.conditions(loss.at)
    assert {link for link in permutations(REGIONS, 2) if EAST in link} <= gone.cut
    assert FaultRule(Fault.ERROR_500, 1.0, regions=frozenset({EAST})) in gone.rules
    ends = {fault.conditions.cut: fault.at for fault in schedule.faults if fault.ends == 60.0}
    for target in (WEST, ASIA):
        assert 0 <= loss.at - ends[frozenset({(EAST, target)})] <= LEAVING_SECONDS
    assert schedule.conditions(60.0) == NO_FAULTS


@pytest.mark.parametrize("seed", range(20))
def test_all_is_over_at_the_end(seed: int) -> None:
    """Events come in order, end within the run, name what is there, and leave no fault."""
    schedule = a_schedule(seed)
    moments = [event.at for event in schedule.faults]
    assert moments == sorted(moments)
    for event in schedule.faults:
        assert event.process in {"", *COMPACTORS, *WRITERS}
        assert bool(event.process) == (event.conditions == NO_FAULTS)
        assert event.at < event.ends
        assert event.kind.startswith("kill") or event.ends <= schedule.seconds
    assert schedule.conditions(schedule.seconds) == NO_FAULTS
    assert schedule.turns() == sorted(set(schedule.turns()))
    assert schedule.turns()[-1] <= schedule.seconds


def test_after_each_round_comes_a_time_without_new_faults() -> None:
    """Nothing new goes wrong for a while once every kind was drawn, again and again."""
    moments = [event.at for event in a_schedule(5, 300.0).faults]
    gaps = [after - before for before, after in pairwise(moments)]
    long = [place for place, gap in enumerate(gaps, start=1) if gap > GAP_SECONDS[1]]
    assert long == [len(ROUND) * number for number in range(1, len(long) + 1)]
    assert len(long) > 5
    assert all(gaps[place - 1] >= RECOVERY_SECONDS[0] for place in long)


def test_conditions_are_what_lasts_at_a_moment() -> None:
    """Cuts add up, a region cut off has no link left, the largest jitter holds, each rule holds."""
    rule = FaultRule(Fault.HANG, 0.5)
    island = frozenset({(ASIA, EAST), (ASIA, WEST), (EAST, ASIA), (WEST, ASIA)})
    schedule = replace(
        a_schedule(1),
        faults=(
            ScheduledFault(1.0, 4.0, "", "", Conditions(cut=frozenset({(EAST, WEST)}))),
            ScheduledFault(2.0, 3.0, "", "", Conditions(cut=island)),
            ScheduledFault(2.0, 5.0, "", "", Conditions(jitter=1.0)),
            ScheduledFault(2.5, 3.0, "", "", Conditions(jitter=2.0)),
            ScheduledFault(3.0, 4.0, "", "", Conditions(rules=(rule,))),
        ),
    )
    assert schedule.conditions(0.9) == NO_FAULTS
    assert schedule.conditions(1.0).cut == {(EAST, WEST)}
    assert schedule.conditions(2.0).cut == {(EAST, WEST), *island}
    assert [schedule.conditions(moment).jitter for moment in (2.0, 2.6, 3.0)] == [1.0, 2.0, 1.0]
    assert schedule.conditions(3.0).cut == {(EAST, WEST)}
    assert schedule.conditions(3.0).rules == (rule,)
    assert schedule.conditions(4.0).rules == ()
    assert schedule.turns() == [1.0, 2.0, 2.5, 3.0, 4.0, 5.0]

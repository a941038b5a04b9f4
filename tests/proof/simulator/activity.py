"""When a simulated world is busy, what is called then, which links fail: drawn before its run."""

from dataclasses import replace
from random import Random

from proof.simulator.planned import BusyPeriod, Operation, Outage, SteadyRead
from proof.simulator.profiles import Profile
from proof.simulator.terms import (
    BUSY_AFTER,
    JUST_BEFORE_SECONDS,
    NEAR_SECONDS,
    OLD_SECONDS,
)

ANY_TIME_SHARE = 0.2
CROWD_SHARE = 0.5
BURST_MIN, BURST_MAX = 4, 8
"""The least and the most operations that come together in a burst."""
BURST_SECONDS = 2.0


def draw_busy(chance: Random, profile: Profile) -> tuple[BusyPeriod, ...]:
    """Draw the busy periods of a run, in their order."""
    periods, begins = [], chance.uniform(50.0, 300.0)
    for _ in range(chance.choice((5, 6, 7))):
        ends = begins + chance.uniform(100.0, 250.0)
        periods.append(BusyPeriod(begins, ends))
        begins = ends + chance.uniform(*profile.idle)
    return tuple(periods)


def busy_after(
    chance: Random, busy: tuple[BusyPeriod, ...], moments: tuple[float, ...]
) -> tuple[BusyPeriod, ...]:
    """Add busy periods after moments, in place of those that they meet."""
    periods = []
    for moment in moments:
        begins, ends = (moment + chance.uniform(*each) for each in BUSY_AFTER)
        busy = tuple(period for period in busy if period.ends < begins or period.begins > ends)
        periods.append(BusyPeriod(begins, ends))
    return tuple(sorted((*busy, *periods), key=lambda period: period.begins))


def draw_at(chance: Random, busy: tuple[BusyPeriod, ...]) -> float:
    """Draw when something is done: before or during a busy period, preferably an early one."""
    if chance.random() < ANY_TIME_SHARE:
        return chance.random() * busy[-1].ends
    period = busy[min(chance.randrange(len(busy)), chance.randrange(len(busy)))]
    return chance.uniform(max(0.0, period.begins - 100.0), period.ends)


def draw_operations(
    chance: Random, profile: Profile, regions: tuple[str, ...], busy: tuple[BusyPeriod, ...]
) -> tuple[Operation, ...]:
    """Draw the calls that make changes, until each counter has all of its own."""
    counters = [f"counter-{number}" for number in range(chance.choice((1, 1, 2, 3)))]
    left = {counter: list(range(chance.randrange(6, 37))) for counter in counters}
    operations = []
    while any(left.values()):
        kind = chance.choices(list(profile.kinds), list(profile.kinds.values()))[0]
        count = chance.randrange(2, 6) if kind in {"many", "together"} else 1
        changes = []
        for _ in range(count):
            open_counters = [counter for counter, numbers in left.items() if numbers]
            if open_counters:
                counter = chance.choice(open_counters)
                changes.append((counter, left[counter].pop(0)))
        repeats = draw_repeats(chance, profile, regions) if kind == "keyed" else ()
        at = draw_at(chance, busy)
        operations.append(Operation(at, chance.choice(regions), kind, tuple(changes), repeats))
    return tuple(sorted(operations, key=lambda operation: operation.at))


def draw_repeats(
    chance: Random, profile: Profile, regions: tuple[str, ...]
) -> tuple[tuple[float, str], ...]:
    """Draw later calls with the same key: most within the retry horizon, some long after it."""
    longest = chance.choice(profile.repeats)
    return tuple(
        (chance.random() * longest, chance.choice(regions)) for _ in range(chance.randrange(4))
    )


def crowded(sharing: Random, operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
    """Turn some calls that record many changes into many concurrent calls."""
    return tuple(
        replace(operation, kind="crowd")
        if operation.kind == "many" and sharing.random() < CROWD_SHARE
        else operation
        for operation in operations
    )


def in_bursts(
    chance: Random, profile: Profile, regions: tuple[str, ...], operations: tuple[Operation, ...]
) -> tuple[tuple[Operation, ...], tuple[SteadyRead, ...]]:
    """Let operations come together, and plan the reads meanwhile, where the profile has bursts."""
    if not profile.reads_per_burst:
        return operations, ()
    gathered: list[Operation] = []
    reads = []
    while len(gathered) < len(operations):
        burst = operations[len(gathered) :][: chance.randint(BURST_MIN, BURST_MAX)]
        begins = burst[0].at
        gathered += (
            replace(planned, at=begins + chance.random() * BURST_SECONDS) for planned in burst
        )
        reads += [
            SteadyRead(begins + chance.random() * 2 * BURST_SECONDS, region, counter)
            for counter in sorted({counter for planned in burst for counter, _ in planned.changes})
            for region in regions * profile.reads_per_burst
        ]
    return tuple(sorted(gathered, key=lambda operation: operation.at)), tuple(reads)


def near(chance: Random, operation: Operation, moment: float) -> Operation:
    """Make most keyed changes before a change of terms, repeated near it, perhaps very late."""
    if operation.kind not in {"keyed", "keyed_list"} or chance.random() < 0.2:  # noqa: PLR2004 (a share)
        return operation
    if chance.random() < 0.5:  # noqa: PLR2004 (a coin): old enough to be merged by shorter terms
        at = moment - chance.uniform(*OLD_SECONDS)
        repeated = [moment - chance.uniform(0.0, JUST_BEFORE_SECONDS) for _ in range(4)]
    else:
        at = moment - chance.uniform(NEAR_SECONDS, 4 * NEAR_SECONDS)
        repeated = [moment + chance.uniform(-NEAR_SECONDS, NEAR_SECONDS) for _ in range(4)]
    at = max(0.0, at)
    repeats = [(max(1.0, repeat_at - at), operation.region) for repeat_at in repeated]
    return replace(operation, at=at, repeats=(*repeats, *operation.repeats))


def draw_outages(
    chance: Random, profile: Profile, regions: tuple[str, ...], span: float
) -> tuple[Outage, ...]:
    """Draw links that are cut: of one direction, of both, or to every region."""
    outages = []
    for _ in range(chance.choice(profile.outages)):
        begins = chance.random() * span
        ends = begins + chance.choice((60.0, 600.0, 2800.0)) * chance.random()
        source, target = chance.sample(regions, k=2)
        kind = chance.randrange(4)
        outages.append(Outage(begins, ends, source, None if kind == 0 else target))
        if kind == 1:
            outages.append(Outage(begins, ends, target, source))
    return tuple(outages)

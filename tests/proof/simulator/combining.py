"""Calls of combined counters, which share items: in one world of three.

Some come in the same moment, some in quick succession, in several regions; some are lists without
keys. Callers give up, or have little time: before their item is sent, or while it is on its way.
Each repeats its own change, in any region, and some what was acknowledged, which must be refused.
The counters' changes are also made one by one, as those of all other counters. In some of these
worlds nothing fails: there each change must leave a hint.
"""

from random import Random

from proof.simulator.activity import draw_at
from proof.simulator.planned import BusyPeriod, Operation
from proof.simulator.profiles import Kind
from proof.simulator.randomness import stream

SHARE = 1 / 3
CALM_SHARE = 0.125
"""Of these worlds, those in which no request and no process fails."""
COUNTERS = ("counter-3", "counter-4")
"""Combined in these worlds; the rules of sums by period and of the index name them, too."""
CHANGES_MIN, CHANGES_MAX = 12, 36
CALLS_MIN, CALLS_MAX = 2, 10
SAME_MOMENT_SHARE = 0.3
"""Of the calls that come together, those that others in another region come with."""
OTHER_COUNTER_SHARE = 0.2
KINDS: dict[Kind, int] = {"shared": 6, "listed": 2, "one": 1, "keyed": 1}
GAPS_SECONDS = (0.0, 0.01, 0.04, 0.3)
"""The longest time between two calls: within a turn of a counter's calls, about one, or several."""
GIVING_UP_SHARE = 0.15
HASTY_SHARE = 0.15
PATIENCE_SECONDS = (0.02, 0.1, 2.0)
"""How long a caller waits at most who gives up, or whose call has a timeout."""
AGAIN_SHARE = 0.3
"""Of acknowledged changes, those that their caller asks to write again."""
AGAIN_SECONDS = (0.0, 200.0)
"""When: at once, before the item is in other regions, or after up to so long."""


def calls_together(seed: int) -> bool:
    """Return whether the world of a seed has counters whose calls share items."""
    return stream(seed, "combined").random() < SHARE


def is_calm(seed: int) -> bool:
    """Return whether nothing fails in a world whose callers share items."""
    return calls_together(seed) and stream(seed, "calm").random() < CALM_SHARE


def draw_shared(
    chance: Random, regions: tuple[str, ...], busy: tuple[BusyPeriod, ...]
) -> tuple[Operation, ...]:
    """Draw the calls of the combined counters, until each has all of its changes."""
    left = draw_left(chance, COUNTERS[: chance.choice((1, 2))])
    operations, at = list[Operation](), 0.0
    while any(left.values()):
        if not operations or chance.random() >= SAME_MOMENT_SHARE:
            at = draw_at(chance, busy)
        kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
        count = chance.randint(CALLS_MIN, CALLS_MAX) if kind in {"shared", "listed"} else 1
        operations.append(Operation(at, chance.choice(regions), kind, taken(chance, left, count)))
    return tuple(operations)


def draw_left(chance: Random, counters: tuple[str, ...]) -> dict[str, list[int]]:
    """Draw the changes that each counter is to have."""
    return {counter: list(range(chance.randint(CHANGES_MIN, CHANGES_MAX))) for counter in counters}


def taken(chance: Random, left: dict[str, list[int]], count: int) -> tuple[tuple[str, int], ...]:
    """Take up to so many changes, most of them of one counter."""
    changes, counter = list[tuple[str, int]](), ""
    for _ in range(count):
        names = [name for name, numbers in left.items() if numbers]
        if not names:
            break
        if counter not in names or chance.random() < OTHER_COUNTER_SHARE:
            counter = chance.choice(names)
        changes.append((counter, left[counter].pop(0)))
    return tuple(changes)

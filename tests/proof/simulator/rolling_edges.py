"""Spends of a rolling limit at the edges of what clocks and the retry horizon allow.

::

    much of it is spent ──── a window, the horizon, some skews ──── much again, under old keys
      by a clock that is ahead                                        by a clock that is behind

Both clocks are within the skew. By the ids, the spends are as near to each other as they can be.
Where a clock is far ahead, its process asks as well, once all has come back by that clock.

Which worlds have such spends is drawn from a stream of its own, so that the other worlds stay as
they were.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, product
from random import Random

from proof.simulator.budgets import (
    ROLLING,
    ROLLING_SECONDS,
    BudgetPlan,
    Place,
    PlannedSpend,
)
from proof.simulator.randomness import stream

EDGES_SHARE = 0.4
FIRST_SECONDS, CLOSED_SECONDS = 32.0, 50.0
"""When it is spent first; the process is closed before the minute is over, and charges it then."""
NEAR_SECONDS = 29.0
"""By how much the two clocks are off, beside the half of the skew by which each may be."""
BUCKET_SECONDS = 60.0
LEFT_SECONDS = FIRST_SECONDS + ROLLING_SECONDS + BUCKET_SECONDS
"""When what was spent first has left the window."""
SKEWS_SECONDS = 240.0
"""By so much what comes back is late: four skews, as `limits.rolling` says."""
YOUNGER_SECONDS = 10.0
"""How much younger than the horizon old keys are."""
PARTS = 4
FIRST, AGAIN = 6, 16
"""How many spends there are at each time; each asks for a part of the limit."""
EVERY_SECONDS = 12.0


def has_edges(seed: int) -> bool:
    """Return whether a world whose spenders have wrong clocks has such spends."""
    return stream(seed, "edges").random() < EDGES_SHARE


def with_edges(
    seed: int, plan: BudgetPlan, regions: Sequence[str], retry_horizon: float
) -> BudgetPlan:
    """Return a plan with such spends, by two processes of one region if it has so many."""
    chance = stream(seed, "edges of rolling limits")
    places = [*product(regions, range(plan.processes))]
    right = [place for place in places if place not in plan.clocks_off]
    hurried = {region for (region, _), off in plan.clocks_off.items() if off > 0}
    ahead = chance.choice([place for place in right if place[0] in hurried] or right)
    others = [place for place in right if place != ahead]
    if not others:
        return plan
    behind = chance.choice([place for place in others if place[0] == ahead[0]] or others)
    made = _spends(chance, plan, retry_horizon, ahead, behind)
    numbers = count(len(plan.spends))
    more = [replace(spend, number=number) for spend, number in zip(made, numbers, strict=False)]
    return replace(
        plan,
        spends=tuple(sorted((*plan.spends, *more), key=lambda spend: spend.at)),
        closings=((CLOSED_SECONDS, *ahead), *plan.closings),
        clocks_near={ahead: NEAR_SECONDS, behind: -NEAR_SECONDS},
    )


def _spends(
    chance: Random, plan: BudgetPlan, retry_horizon: float, ahead: Place, behind: Place
) -> Iterator[PlannedSpend]:
    part = max(1, plan.limits[ROLLING] // PARTS)
    first = PlannedSpend(0, FIRST_SECONDS, *ahead, "spend", (ROLLING,), part)
    for _ in range(FIRST):
        yield replace(first, at=FIRST_SECONDS + chance.random() * EVERY_SECONDS)
    back = LEFT_SECONDS + retry_horizon
    age = retry_horizon - YOUNGER_SECONDS
    for begins, number in product((LEFT_SECONDS, back), range(AGAIN)):
        at = begins + number * EVERY_SECONDS
        yield PlannedSpend(0, at, *behind, "keyed", (ROLLING,), part, age=age)
    for (region, process), off in plan.clocks_off.items():
        for number in range(AGAIN if off > 0 else 0):
            at = back + SKEWS_SECONDS - off + number * EVERY_SECONDS
            yield replace(first, at=at, region=region, process=process)

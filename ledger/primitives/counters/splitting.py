"""Which shards take a change, where their parts of a threshold do not let any take it.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from ledger.core import amounts
from ledger.primitives.counters.limits import Limits


def parts_for(
    change: Decimal, values: Sequence[Decimal], limits: Sequence[Limits], *, first: int, split: bool
) -> dict[int, Decimal]:
    """Return what each shard takes of a change: one all of it, or several their share.

    Shards are looked at from `first` on. Those with most room take most, so that few are needed;
    nothing is returned if there is not room enough, or only in several and `split` is False.
    """
    order = [*range(first, len(values)), *range(first)]
    for shard in order:
        if limits[shard].allows(values[shard], change):
            return {shard: change}
    return _split(change, values, limits, order) if split else {}


def _split(
    change: Decimal, values: Sequence[Decimal], limits: Sequence[Limits], order: Sequence[int]
) -> dict[int, Decimal]:
    rooms = {shard: limits[shard].room(values[shard], change) or Decimal(0) for shard in order}
    left, parts = change.copy_abs(), dict[int, Decimal]()
    for shard in sorted(rooms, key=lambda shard: rooms[shard], reverse=True):
        taken = min(left, rooms[shard])
        if not taken:
            break
        parts[shard] = taken.copy_sign(change)
        left = amounts.total_wide([left, taken.copy_negate()])
    return {} if left else parts


def is_restock(change: Decimal, limits: Limits, shards: int) -> bool:
    """Return whether a change is stock for others to take: enough for a unit in each shard.

    It goes away from a threshold that changes in the other direction go towards.
    """
    towards = limits.minimum if change > 0 else limits.maximum
    return towards is not None and change.copy_abs() >= shards


def spread_over(change: Decimal, shards: int, own: int | None) -> dict[int, Decimal]:
    """Return the even share of each shard, in whole units if it is one; `own` has one if only 0."""
    divided = amounts.whole_portion if change.copy_abs() >= shards else amounts.portion
    shares = {shard: divided(change, shard, shards) for shard in range(shards)}
    return {shard: share for shard, share in shares.items() if share or shard == own}


def values_after(values: Sequence[Decimal], shares: Mapping[int, Decimal]) -> list[Decimal]:
    """Return what the shards hold after a change."""
    return [
        amounts.total_wide([value, shares.get(shard, Decimal(0))])
        for shard, value in enumerate(values)
    ]

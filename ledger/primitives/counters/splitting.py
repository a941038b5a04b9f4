"""Which shards take a change, where their parts of a threshold do not let any take it.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Sequence
from decimal import Decimal

from ledger.core import amounts
from ledger.primitives.counters.limits import Limits, Part
from ledger.store.writes import TRANSACTION_ACTIONS_MAX

PARTS_MAX = TRANSACTION_ACTIONS_MAX - 2
"""A marker goes with them, in up to two places."""


def parts_for(
    change: Decimal, values: Sequence[Decimal], limits: Sequence[Limits], *, first: int, split: bool
) -> list[Part]:
    """Return what each shard takes of a change: one all of it, or several their share.

    Shards are looked at from `first` on. Those with most room take most, so that few are needed;
    nothing is returned if there is not room enough, or only in several and `split` is False.
    """
    order = [*range(first, len(values)), *range(first)]
    for shard in order:
        if limits[shard].allows(values[shard], change):
            return [Part(shard, change, limits[shard])]
    return _split(change, values, limits, order) if split else []


def _split(
    change: Decimal, values: Sequence[Decimal], limits: Sequence[Limits], order: Sequence[int]
) -> list[Part]:
    rooms = {shard: limits[shard].room(values[shard], change) or Decimal(0) for shard in order}
    left, parts = change.copy_abs(), []
    for shard in sorted(rooms, key=lambda shard: rooms[shard], reverse=True)[:PARTS_MAX]:
        taken = min(left, rooms[shard])
        if not taken:
            break
        parts.append(Part(shard, taken.copy_sign(change), limits[shard]))
        left = amounts.total_wide([left, taken.copy_negate()])
    return [] if left else parts

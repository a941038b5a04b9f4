"""Pieces moved between shards, so that changes find room where they come: which, and when it pays.

A move is one transaction of `ADD`s that make 0 together, each within its shard's part of the
thresholds. It leaves the sum as it is, and is refused once another move, or a change of layout, was
first. It touches every shard, to count itself there: a reader who finds shards of before and after
a move reads again, where it would see pieces twice or not at all.

Which shards take a change, where their parts of a threshold do not let any take it.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from ledger.core import amounts
from ledger.core.entry import Key
from ledger.primitives.counters.layout import LAYOUT, MOVES, both, portions, stands
from ledger.primitives.counters.thresholds import VALUE, ThresholdPart, Thresholds
from ledger.store import writes

MISSES_MIN = 10
"""How many changes without room are expected to come, for a move to be worthwhile.

Of n shards, a move costs 2n write units, its reading is done already. A change that misses costs a
refused write and n reads more than one that does not, 1 + n / 5 write units, as a read unit costs
a fifth of one: a move pays from 2n / (1 + n / 5) misses, 6 with 8 shards and never more than 10.
"""
MOVE_SECONDS_MAX = 0.5
"""How long a change already made waits for a move, which busy shards may delay."""

_ZERO = Decimal(0)


def pays(values: Sequence[Decimal], limits: Sequence[Thresholds], change: Decimal) -> bool:
    """Return whether it pays to move pieces, when more changes like this one come.

    As many as there is room for; of them those miss that come to a shard without room.
    """
    rooms = [one.room(value, change) for one, value in zip(limits, values, strict=True)]
    size = change.copy_abs()
    if not size or None in rooms:
        return False
    free = amounts.total_wide(room or _ZERO for room in rooms)
    changes = int(amounts.PROPORTION.divide(free, size))
    without = sum(room is not None and room < size for room in rooms)
    return changes >= len(rooms) and changes * without >= MISSES_MIN * len(rooms)


def balance_shards(
    values: Sequence[Decimal],
    limits: Sequence[Thresholds],
    *,
    shard: int | None = None,
    change: Decimal = _ZERO,
) -> list[Decimal] | None:
    """Return what each shard gets, or gives, so that all hold even portions of the sum.

    The one named `shard` gets room for all of a change. None if the thresholds do not let it be, or
    nothing is to be moved.
    """
    total = amounts.total_wide(values)
    bounds = [(limit.minimum, limit.maximum) for limit in limits]
    wanted = portions(total, len(values))
    if shard is not None:
        bounds[shard] = _with_room(bounds[shard], change)
        wanted[shard] = _within(wanted[shard], *bounds[shard])
        rest = portions(_less(total, wanted[shard]), len(values) - 1)
        wanted = [*rest[:shard], wanted[shard], *rest[shard:]]
    targets = _fitted(wanted, bounds, total)
    if targets is None or targets == list(values):
        return None
    return [_less(target, value) for target, value in zip(targets, values, strict=True)]


def are_even(values: Sequence[Decimal]) -> bool:
    """Return whether shards hold even portions of their sum."""
    return list(values) == portions(amounts.total_wide(values), len(values))


def move(keys: Sequence[Key], parts: Sequence[ThresholdPart], moves: int) -> list[writes.Action]:
    """Return the transaction that moves pieces: all shards' changes, and their number of moves."""
    return [
        writes.Update(
            key,
            add={VALUE: {"N": amounts.to_text(part.change)}},
            set={MOVES: {"N": str(moves + 1)}},
            condition=both(
                both(stands(LAYOUT, part.revision), stands(MOVES, moves)),
                part.limits.condition(part.change),
            ),
        )
        for key, part in zip(keys, parts, strict=True)
    ]


Bounds = tuple[Decimal | None, Decimal | None]


def _with_room(bounds: Bounds, change: Decimal) -> Bounds:
    low, high = bounds
    if change < 0 and low is not None:
        low = _less(low, change)
    if change > 0 and high is not None:
        high = _less(high, change)
    return low, high


def _fitted(
    wanted: Sequence[Decimal], bounds: Sequence[Bounds], total: Decimal
) -> list[Decimal] | None:
    """Return values of this sum within the bounds, near those wanted; None if impossible."""
    targets = []
    for one, (low, high) in zip(wanted, bounds, strict=True):
        if low is not None and high is not None and low > high:
            return None
        targets.append(_within(one, low, high))
    for place, (low, high) in enumerate(bounds):
        left = _less(total, amounts.total_wide(targets))
        targets[place] = _within(amounts.total_wide([targets[place], left]), low, high)
    return targets if amounts.total_wide(targets) == total else None


def _within(value: Decimal, low: Decimal | None, high: Decimal | None) -> Decimal:
    value = value if low is None else max(low, value)
    return value if high is None else min(high, value)


def _less(one: Decimal, other: Decimal) -> Decimal:
    return amounts.total_wide([one, other.copy_negate()])


def parts_for(
    change: Decimal,
    values: Sequence[Decimal],
    limits: Sequence[Thresholds],
    *,
    first: int,
    split: bool,
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
    change: Decimal, values: Sequence[Decimal], limits: Sequence[Thresholds], order: Sequence[int]
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


def is_restock(change: Decimal, limits: Thresholds, shards: int) -> bool:
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

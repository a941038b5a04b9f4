from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.amounts import total_wide
from ledger.primitives.counters import shard_balance
from ledger.primitives.counters.thresholds import Thresholds

VALUES = st.lists(st.integers(0, 30), min_size=2, max_size=6)
STOCK = Thresholds(minimum=Decimal(0))


def decimals(values: Sequence[int]) -> list[Decimal]:
    """Return values as amounts."""
    return list(map(Decimal, values))


@pytest.mark.parametrize(
    ("values", "change", "expected"),
    [
        ([0, 0, 0, 0, 0, 0, 0, 1000], -1, True),
        ([0, 10, 10, 10, 10, 10, 10, 20], -1, True),  # 80 left, one in 8 misses: 10 misses
        ([0, 10, 10, 10, 10, 10, 10, 19], -1, False),  # 79 left
        ([0, 10, 10, 10, 10, 10, 10, 20], -2, False),  # 40 changes left
        ([0] * 7 + [7], -1, False),  # fewer than shards
        ([9] * 8, -1, False),  # none misses
        ([0, 1000], 0, False),
        ([0, 1000], 5, False),  # no bound in this direction: nothing misses
    ],
)
def test_when_it_pays(values: list[int], change: int, *, expected: bool) -> None:
    """From ten misses to come, of the changes that there is room for."""
    assert shard_balance.pays(decimals(values), [STOCK] * len(values), Decimal(change)) == expected


@given(values=VALUES)
def test_even_portions(values: list[int]) -> None:
    """All hold even portions then, the sum is the same; what is even is not moved."""
    deltas = shard_balance.balance_shards(decimals(values), [STOCK] * len(values))
    moved = deltas or [Decimal(0)] * len(values)
    after = [value + int(delta) for value, delta in zip(values, moved, strict=True)]
    assert max(after) - min(after) <= 1
    assert sum(after) == sum(values)
    assert (deltas is None) == shard_balance.are_even(decimals(values))


@given(values=VALUES, place=st.integers(0, 5), size=st.integers(1, 40), above=st.booleans())
def test_room_for_one_change(values: list[int], place: int, size: int, *, above: bool) -> None:
    """A shard gets room for all of a change if the others can give it, and none passes a bound."""
    shard = place % len(values)
    limits = [Thresholds(Decimal(0), Decimal(30))] * len(values)
    change = Decimal(size if above else -size)
    deltas = shard_balance.balance_shards(decimals(values), limits, shard=shard, change=change)
    room = sum(30 - value for value in values) if above else sum(values)
    if limits[shard].allows(Decimal(values[shard]), change):
        return
    assert (deltas is not None) == (size <= min(room, 30))
    if deltas is not None:
        after = [value + int(delta) for value, delta in zip(values, deltas, strict=True)]
        assert total_wide(deltas) == 0
        assert limits[shard].allows(Decimal(after[shard]), change)
        assert all(0 <= value <= 30 for value in after)


def test_what_others_hold_is_left_even() -> None:
    """The shard of a token gets what it needs, the rest is divided evenly among the others."""
    deltas = shard_balance.balance_shards(
        decimals([0, 0, 0, 99]), [STOCK] * 4, shard=0, change=Decimal(-60)
    )
    assert deltas == decimals([60, 13, 13, -86])


def test_thresholds_that_do_not_let_it_be() -> None:
    """Shards without room that others could give them stay as they are."""
    limits = [Thresholds(maximum=Decimal(8)), Thresholds(maximum=Decimal(0))]
    assert shard_balance.balance_shards(decimals([8, -8]), limits) == [Decimal(-8), Decimal(8)]
    assert shard_balance.balance_shards(decimals([8, 0]), limits) is None

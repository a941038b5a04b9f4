from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.amounts import total_wide
from ledger.primitives.counters.shard_balance import is_restock, parts_for
from ledger.primitives.counters.thresholds import Thresholds

VALUES = st.lists(st.integers(0, 9), min_size=1, max_size=6)
SMALL = st.integers(-20, 20)


def parts(
    change: int, values: list[int], *, minimum: int = 0, first: int = 0, split: bool = True
) -> dict[int, int]:
    """Plan a change of shards that each have this minimum; shard to its part."""
    limits = [Thresholds(minimum=Decimal(minimum))] * len(values)
    planned = parts_for(
        Decimal(change), [Decimal(value) for value in values], limits, first=first, split=split
    )
    return {shard: int(part) for shard, part in planned.items()}


@pytest.mark.parametrize(
    ("change", "values", "first", "split", "expected"),
    [
        (-3, [1, 5, 4], 0, True, {1: -3}),  # the next one with room for all of it
        (-3, [1, 5, 4], 2, True, {2: -3}),  # looked at from the first on
        (-8, [1, 5, 4], 0, True, {1: -5, 2: -3}),  # those with most room
        (-10, [1, 5, 4], 0, True, {1: -5, 2: -4, 0: -1}),
        (-11, [1, 5, 4], 0, True, {}),  # more than there is
        (-8, [1, 5, 4], 0, False, {}),  # not in one
        (3, [1, 5, 4], 0, True, {0: 3}),  # no bound in this direction
        (-1, [0, 0], 0, True, {}),
    ],
)
def test_parts(
    change: int,
    values: list[int],
    first: int,
    split: bool,  # noqa: FBT001 (by table)
    expected: dict[int, int],
) -> None:
    """A change goes whole to a shard with room, else in parts to those with most, else nowhere."""
    assert parts(change, values, first=first, split=split) == expected


@pytest.mark.parametrize(
    ("change", "limits", "expected"),
    [
        ("8", Thresholds(minimum=Decimal(0)), True),
        ("7.9", Thresholds(minimum=Decimal(0)), False),
        ("-8", Thresholds(maximum=Decimal(0)), True),
        ("-7.9", Thresholds(maximum=Decimal(0)), False),
        ("-8", Thresholds(minimum=Decimal(0)), False),
        ("8", Thresholds(maximum=Decimal(0)), False),
    ],
)
def test_stock_is_a_unit_for_each_shard(change: str, limits: Thresholds, *, expected: bool) -> None:
    """From one unit a shard on, away from the threshold that others go towards."""
    assert is_restock(Decimal(change), limits, 8) == expected


@given(change=SMALL, values=VALUES, first=st.integers(0, 5))
def test_parts_are_allowed_and_add_up(change: int, values: list[int], first: int) -> None:
    """Parts stay within each shard's bounds and make the whole change; none only without room."""
    limits = [Thresholds(Decimal(0), Decimal(9))] * len(values)
    numbers = [Decimal(value) for value in values]
    planned = parts_for(Decimal(change), numbers, limits, first=first % len(values), split=True)
    room = sum(values) if change < 0 else sum(9 - value for value in values)
    assert bool(planned) == (abs(change) <= room)
    assert not planned or total_wide(planned.values()) == change
    for shard, part in planned.items():
        assert limits[shard].allows(numbers[shard], part)


def test_parts_of_38_digits_are_exact() -> None:
    """No digit of a large change is lost between its parts."""
    half, change = Decimal(5 * 10**37 + 1), Decimal(10**38 - 1)
    limits = [Thresholds(minimum=Decimal(0))] * 2
    planned = parts_for(change.copy_negate(), [half, half], limits, first=0, split=True)
    assert list(planned.values()) == [half.copy_negate(), Decimal(-(5 * 10**37) + 2)]

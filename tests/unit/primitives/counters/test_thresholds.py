from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.strategies import any_amounts

from ledger.core import amounts
from ledger.core.errors import AmountOverflow
from ledger.primitives.counters.thresholds import VALUE, Thresholds, checked_limits
from ledger.store.conditions import AnyOf, Compares, Has, Not, holds

LIMITS = [
    Thresholds(),
    Thresholds(minimum=Decimal(0)),
    Thresholds(maximum=Decimal(3)),
    Thresholds(Decimal(-2), Decimal(3)),
    Thresholds(Decimal(0), Decimal(0)),
]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("change", range(-5, 6))
def test_the_condition_is_true_of_what_is_allowed(limits: Thresholds, change: int) -> None:
    """DynamoDB is asked exactly what `allows` tells, of every value and of no item at all."""
    condition = limits.condition(Decimal(change))
    for value in range(-4, 6):
        item = {VALUE: {"N": str(value)}}
        assert holds(condition, item) == limits.allows(Decimal(value), Decimal(change))
    assert holds(condition, None) == limits.allows(Decimal(0), Decimal(change))
    assert holds(condition, {"other": {"S": "x"}}) == holds(condition, None)


def test_a_value_outside_may_come_back() -> None:
    """A change is judged by the bound that it moves towards."""
    limits = Thresholds(Decimal(0), Decimal(5))
    assert limits.allows(Decimal(9), Decimal(-1))
    assert not limits.allows(Decimal(9), Decimal(1))
    assert limits.allows(Decimal(-3), Decimal(1))


@pytest.mark.parametrize(
    ("value", "change", "room"), [(4, 1, 1), (5, 1, 0), (9, 1, 0), (4, -1, 4), (-1, -1, 0)]
)
def test_room(value: int, change: int, room: int) -> None:
    """There is room up to the bound in the direction of the change, and never less than none."""
    assert Thresholds(Decimal(0), Decimal(5)).room(Decimal(value), Decimal(change)) == room
    assert Thresholds().room(Decimal(value), Decimal(change)) is None


@example(bound=Decimal("1.5E-130"), shards=3)
@given(bound=any_amounts(), shards=st.integers(1, 40))
def test_parts_add_up_to_the_whole(bound: Decimal, shards: int) -> None:
    """The parts of a bound are all on its side of 0, and their sum is the bound, exactly."""
    limits = Thresholds(maximum=bound)
    parts = [limits.part(shard, shards).maximum for shard in range(shards)]
    assert amounts.total_wide(part for part in parts if part is not None) == bound
    assert all(part is not None and (part == 0 or (part > 0) == (bound > 0)) for part in parts)
    assert [amounts.within_range(part) for part in parts if part is not None] == parts


def test_parts_are_whole_units() -> None:
    """Shards differ by a unit, and one of them has the fraction."""
    limits = Thresholds(Decimal(-7), Decimal("0.5"))
    assert limits.part(0, 2) == Thresholds(Decimal(-4), Decimal("0.5"))
    assert limits.part(1, 2) == Thresholds(Decimal(-3), Decimal(0))
    assert Thresholds().part(0, 2) == Thresholds()


def test_bounds_of_38_digits_are_exact() -> None:
    """No digit is lost on the way to a condition, room, or part."""
    bound, change = Decimal(10**38 - 1), Decimal(10**37 + 1)
    limits = Thresholds(bound.copy_negate(), bound)
    edge = str(10**38 - 1 - (10**37 + 1))
    assert limits.condition(change) == AnyOf((Not(Has(VALUE)), Compares(VALUE, "<=", {"N": edge})))
    below = limits.condition(change.copy_negate())
    assert below == AnyOf((Not(Has(VALUE)), Compares(VALUE, ">=", {"N": f"-{edge}"})))
    assert limits.room(change, change) == Decimal(edge)
    assert limits.room(change.copy_negate(), change.copy_negate()) == Decimal(edge)
    assert limits.part(0, 2).minimum == Decimal(-5 * 10**37)


def test_a_bound_too_far_away_cannot_be_compared() -> None:
    """Bound and change must be close enough for DynamoDB to hold their difference."""
    limits = checked_limits(None, 10**37)
    with pytest.raises(
        AmountOverflow, match=r"maximum 10{37} less a change of 0.0{19}1, .*38 digits"
    ):
        limits.condition(Decimal("1E-20"))
    with pytest.raises(AmountOverflow, match=r"minimum -10{37} less a change of -0.0{19}1,"):
        Thresholds(minimum=Decimal(-(10**37))).condition(Decimal("-1E-20"))


def test_limits_say_what_they_are() -> None:
    """A rejection names the bounds."""
    assert str(Thresholds(Decimal(-1), Decimal(5))) == "minimum -1 and maximum 5"
    assert str(Thresholds(maximum=Decimal(5))) == "maximum 5"
    assert str(Thresholds()) == "no threshold"

from decimal import Decimal

import pytest

from ledger.core.errors import AmountOverflow
from ledger.pipeline.core.category_sums import (
    PART_CATEGORIES_MAX,
    CategorySums,
    Changes,
    difference,
    digest,
    divided,
    total,
)


def test_differences_are_exact() -> None:
    """No digit is lost between two values, however far apart they are."""
    before = CategorySums(Decimal("999999999999999.999999999999999"), ("c",))
    after = CategorySums(Decimal("-0.000000000000001"), ("c",))
    assert difference(before, after) == {"c": Decimal("-1000000000000000.000000000000000")}


@pytest.mark.parametrize(
    "before", [None, CategorySums(Decimal(0), ("c",)), CategorySums(Decimal(0), ("d",))]
)
def test_no_change_is_left_out(before: CategorySums | None) -> None:
    """From nothing, or from zero anywhere, to zero changes no category."""
    assert difference(before, CategorySums(Decimal(0), ("c",))) == {}


def test_sums_leave_out_what_cancels() -> None:
    """Changes are added by category, in order of their ids; zeroes are left out."""
    changes: list[Changes] = [
        {"b": Decimal(1), "a": Decimal("0.1")},
        {"a": Decimal("0.2"), "b": Decimal(-1)},
        {"c": Decimal(5)},
    ]
    assert list(total(changes).items()) == [("a", Decimal("0.3")), ("c", Decimal(5))]


def test_a_sum_over_38_digits_is_an_error() -> None:
    """A sum that DynamoDB cannot hold is never rounded."""
    with pytest.raises(AmountOverflow):
        total([{"a": Decimal(10**30)}, {"a": Decimal("1E-20")}])


def test_the_hash_tells_every_part() -> None:
    """Lane, both positions, categories and amounts: another of any is another hash."""
    base = ("lane", "01", "05", {"a": Decimal(1), "b": Decimal(2)})
    others = [
        ("lane2", "01", "05", {"a": Decimal(1), "b": Decimal(2)}),
        ("lane", "02", "05", {"a": Decimal(1), "b": Decimal(2)}),
        ("lane", "01", "06", {"a": Decimal(1), "b": Decimal(2)}),
        ("lane", "01", "05", {"a": Decimal(1), "b": Decimal(3)}),
        ("lane", "01", "05", {"a": Decimal(1), "c": Decimal(2)}),
        ("lane", "01", "05", {"a": Decimal(1)}),
    ]
    hashes = {digest(*one) for one in (base, *others)}
    assert len(hashes) == 1 + len(others)
    assert digest(*base) == digest("lane", "01", "05", {"a": Decimal("1.0"), "b": Decimal("2E0")})


def test_few_categories_are_one_part() -> None:
    """A batch of few categories makes one map item, one without changes none."""
    few = {f"c{number}": Decimal(1) for number in range(PART_CATEGORIES_MAX)}
    assert divided(few) == [few]
    assert divided({}) == []


def test_parts_of_different_batches_hold_the_same_categories() -> None:
    """Of two batches that hit nearly the same categories the parts nearly agree."""
    one = {f"desk/{number}": Decimal(1) for number in range(500)}
    other = {f"desk/{number}": Decimal(2) for number in range(5, 505)}
    parts, others = divided(one), divided(other)
    assert parts is not None
    assert others is not None
    assert len(parts) == len(others)
    assert all(len({*a, *b}) < len(a) + 5 for a, b in zip(parts, others, strict=True))


def test_too_many_categories_are_told() -> None:
    """What takes more map items than a transaction holds is not divided: the batch is cut."""
    assert divided({f"c{number}": Decimal(1) for number in range(5000)}) is None

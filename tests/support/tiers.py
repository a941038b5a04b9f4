"""Parameters of tests by tier: the fast one takes a few of each kind, `slow` and `long` more."""

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable
from typing import Any

import pytest

LONG = (pytest.mark.long, pytest.mark.timeout(1800))


def with_slow(
    values: Iterable[Any], *, slow: Container[Any], long: Container[Any] = ()
) -> list[Any]:
    """Return the values as parameters, those in `long` and else in `slow` marked so."""

    def marks(value: Any) -> tuple[pytest.MarkDecorator, ...]:
        if value in long:
            return LONG
        return (pytest.mark.slow,) if value in slow else ()

    return [pytest.param(value, marks=marks(value)) for value in values]


def first_of_each(
    values: Iterable[Any], *, kind: Callable[[Any], Hashable], fast: int = 1
) -> list[Any]:
    """Return the values as parameters, all but the first `fast` of each kind marked slow."""
    seen: Counter[Hashable] = Counter()
    found = []
    for value in values:
        seen[kind(value)] += 1
        is_fast = seen[kind(value)] <= fast
        found.append(pytest.param(value, marks=() if is_fast else pytest.mark.slow))
    return found


def few_fast(values: Iterable[Any], *, fast: int) -> list[Any]:
    """Return the values as parameters, all but the first `fast` marked slow."""
    return [
        pytest.param(value, marks=() if place < fast else pytest.mark.slow)
        for place, value in enumerate(values)
    ]

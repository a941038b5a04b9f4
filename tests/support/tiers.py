"""Parameters of tests by tier: the fast one takes a few of each kind, `slow` and `long` more."""

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import pytest

LONG = (pytest.mark.long, pytest.mark.timeout(1800))
LONG_SECONDS = 300
"""A test with a timeout of its own of as much may take a minute and more."""
Test = TypeVar("Test")


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


def takes_long(item: pytest.Item) -> bool:
    """Return whether a test has a timeout of its own that says so."""
    mark = item.get_closest_marker("timeout")
    return mark is not None and mark.args[0] >= LONG_SECONDS


def long_first(tests: Sequence[Test], long: Callable[[Test], bool], *, workers: int) -> list[Test]:
    """Return tests in the order in which each worker begins with its share of the long ones.

    Else one that takes minutes begins when all other workers are done. pytest-xdist gives each
    worker an equal part of the tests, in order; who is done takes over tests from another's end.
    """
    shares = [[test for test in tests if long(test)][worker::workers] for worker in range(workers)]
    others = [test for test in tests if not long(test)]
    ordered: list[Test] = []
    for worker, share in enumerate(shares):
        part = (len(tests) - len(ordered)) // (workers - worker)
        more = max(0, part - len(share))
        ordered += share + others[:more]
        del others[:more]
    return ordered

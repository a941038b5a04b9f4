"""Parameters of tests by tier: the fast tier takes a few of each kind, `slow` the rest."""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def with_slow(values: Iterable[Any], *, slow: Container[Any]) -> list[Any]:
    """Return the values as parameters, those in `slow` marked so."""
    return [
        pytest.param(value, marks=pytest.mark.slow if value in slow else ()) for value in values
    ]


def few_fast(values: Iterable[Any], *, fast: int) -> list[Any]:
    """Return the values as parameters, all but the first `fast` marked slow."""
    found = list(values)
    return with_slow(found, slow=found[fast:])

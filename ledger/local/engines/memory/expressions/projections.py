"""Projections: the attributes that an answer shows.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from typing import Any

from ledger.local.engines.memory.expressions import syntax
from ledger.local.engines.memory.expressions.binding import (
    Placeholders,
    check_apart,
    check_scalar_keys,
)
from ledger.local.engines.memory.expressions.documents import projected
from ledger.local.engines.memory.expressions.trees import Steps
from ledger.local.engines.port import Image, TableKey

_WHAT = "ProjectionExpression"


@dataclass(frozen=True, slots=True)
class Projection:
    """The paths that an answer shows."""

    paths: tuple[Steps, ...]

    def of(self, image: Image) -> Image:
        """Return what the projection leaves of an item."""
        return projected(image, self.paths)


def projection(expression: Any, placeholders: Placeholders, key: TableKey) -> Projection | None:
    """Read a projection expression on a table with this key; None if there is none.

    Raises:
        ApiError: ValidationException.
    """
    if expression is None:
        return None
    read = syntax.projection(syntax.check_text(_WHAT, expression))
    paths = [placeholders.bound(_WHAT, path) for path in read]
    check_apart(_WHAT, paths)
    check_scalar_keys(key, paths)
    return Projection(tuple(path.steps for path in paths))

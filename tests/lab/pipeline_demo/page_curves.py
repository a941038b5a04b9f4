"""The totals that the demo's page has shown, as curves in bounded memory.

Pure: no clock, no randomness, no I/O.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

POINTS_MAX = 360
"""Of one curve; once it has them, every second one of the older half is left out."""
POINTS_OF_MANY = 40
"""Of each curve where several are asked for."""
CURVES_MAX = 100
"""Curves of one answer."""

Row = dict[str, Any]
Point = tuple[float, Mapping[str, str]]


class Curves:
    """The totals of each category over time, in bounded memory."""

    def __init__(self) -> None:
        self._points: dict[str, deque[Point]] = {}

    def add(self, seconds: float, rows: Iterable[Row]) -> None:
        """Add what each category showed at a time, in seconds since 1970."""
        for row in rows:
            points = self._points.setdefault(row["category"], deque())
            points.append((seconds, row["regions"]))
            if len(points) > POINTS_MAX:
                kept = list(points)
                half = POINTS_MAX // 2
                self._points[row["category"]] = deque([*kept[:half:2], *kept[half:]])

    def of(self, categories: Sequence[str]) -> dict[str, list[Point]]:
        """Return the curves of some categories, with fewer points if they are several."""
        most = POINTS_MAX if len(categories) == 1 else POINTS_OF_MANY
        asked = categories[:CURVES_MAX]
        return {name: _thinned(list(self._points.get(name, ())), most) for name in asked}


def _thinned(points: list[Point], most: int) -> list[Point]:
    """Return up to so many points, the first and the last among them."""
    if len(points) <= most:
        return points
    step = (len(points) - 1) / (most - 1)
    return [points[round(step * place)] for place in range(most)]

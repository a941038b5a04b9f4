"""The rows of the page of totals: by category, with sums by path, and curves over time.

Pure: no clock, no randomness, no I/O.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import accumulate
from typing import Any

from ledger.core import amounts

POINTS_MAX = 360
"""Points of one curve; beyond them, every second one of the older half is dropped."""
POINTS_OF_MANY = 40
"""Points of each curve if several are asked for."""
CURVES_MAX = 100
"""The most curves of one answer."""
SEPARATOR = "/"
ANY = "*"
NEAR_SEARCHED_MAX = 5_000
"""The most names among which a similar one is looked for."""

Row = dict[str, Any]
Point = tuple[float, Mapping[str, str]]


def is_prefix(pattern: str) -> bool:
    """Return whether a pattern stands for all counters with a prefix, such as `kind/*`."""
    return pattern.endswith(ANY)


def matches(name: str, prefixes: Iterable[str]) -> bool:
    """Return whether a name begins with one of some prefix patterns."""
    return any(name.startswith(prefix.removesuffix(ANY)) for prefix in prefixes)


def without_entries(rows: Sequence[Row], unknown: Collection[str], names: Sequence[str]) -> None:
    """Mark rows of counters that never counted anything, with a similar name if one is known."""
    others = [name for name in names[:NEAR_SEARCHED_MAX] if name not in unknown]
    for row in rows:
        if row["category"] in unknown:
            row["unknown"] = True
            row["near"] = "".join(get_close_matches(row["category"], others, n=1))


def sums_below(rows: Sequence[Row]) -> list[Row]:
    """Return, for each part of a path that several categories share, the sum of those below it.

    `desk/EMEA/` stands for all that begin with it, not for `desk/EMEA` itself.
    """
    below: dict[str, list[Row]] = {}
    for row in rows:
        parts = row["category"].split(SEPARATOR)[:-1]
        for path in accumulate(f"{part}{SEPARATOR}" for part in parts):
            below.setdefault(path, []).append(row)
    return [_sum(path, members) for path, members in below.items() if len(members) > 1]


def _sum(path: str, members: Sequence[Row]) -> Row:
    shown = [row["regions"] for row in members]
    regions = [name for name in shown[0] if all(name in one for one in shown)]
    return {
        "category": path,
        "below": len(members),
        "regions": {
            name: amounts.to_text(amounts.total_wide(amounts.parse(one[name]) for one in shown))
            for name in regions
        },
    }


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
    """Return at most `points` points, including the first and the last."""
    if len(points) <= most:
        return points
    step = (len(points) - 1) / (most - 1)
    return [points[round(step * place)] for place in range(most)]

"""The value at a path of an item, the same value twice, and the attributes that an answer shows.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ledger.local.engines.memory.expressions import syntax
from ledger.local.engines.memory.expressions.placeholders import (
    Placeholders,
    check_apart,
    check_scalar_keys,
)
from ledger.local.engines.memory.expressions.syntax import Steps
from ledger.local.engines.port import Image, TableKey

_SETS = frozenset({"SS", "NS", "BS"})


def at(image: Mapping[str, Any], steps: Steps) -> dict[str, Any] | None:
    """Return the value at a path; None if there is none."""
    value: dict[str, Any] | None = image.get(str(steps[0]))
    for step in steps[1:]:
        if value is None:
            return None
        value = part(value, step)
    return value


def part(value: Mapping[str, Any], step: str | int) -> dict[str, Any] | None:
    """Return the member of a map or the element of a list; None if there is none."""
    found: dict[str, Any] | None = None
    if isinstance(step, int):
        elements = value.get("L", ())
        found = elements[step] if step < len(elements) else None
    elif "M" in value:
        found = value["M"].get(step)
    return found


def same(left: Mapping[str, Any] | None, right: Mapping[str, Any] | None) -> bool:
    """Return whether two values are there and are equal: same type, sets in any order."""
    if left is None or right is None or left.keys() != right.keys():
        return False
    ((kind, one),) = left.items()
    other = right[kind]
    if kind in _SETS:
        return set(one) == set(other)
    if kind == "L":
        return len(one) == len(other) and all(map(same, one, other))
    if kind == "M":
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return bool(one == other)


def depth(value: Mapping[str, Any]) -> int:
    """Return how deep lists and maps are nested in a value."""
    deepest, level = 0, [value]
    while level := [
        inner for outer in level for inner in (outer.get("L") or (outer.get("M") or {}).values())
    ]:
        deepest += 1
    return deepest


def projected(image: Image, paths: tuple[Steps, ...]) -> Image:
    """Return what these paths leave of an item; elements of a list in its own order."""
    wanted: dict[str | int, Any] = {}
    for steps in paths:
        level = wanted
        for step in steps:
            level = level.setdefault(step, {})
    return _members(image, wanted)


def _members(content: Mapping[str, Any], wanted: Mapping[Any, Any]) -> dict[str, Any]:
    shown = {}
    for name, inside in wanted.items():
        found = _shown(content[name], inside) if name in content else None
        if found is not None:
            shown[name] = found
    return shown


def _shown(value: dict[str, Any], wanted: Mapping[Any, Any]) -> dict[str, Any] | None:
    """Return the wanted part of a value; None if it has none of it."""
    if not wanted:
        return value
    if isinstance(next(iter(wanted)), str):
        members = _members(value.get("M", {}), wanted)
        return {"M": members} if members else None
    elements = value.get("L", ())
    chosen = [
        found
        for index in sorted(wanted)
        if index < len(elements) and (found := _shown(elements[index], wanted[index])) is not None
    ]
    return {"L": chosen} if chosen else None


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

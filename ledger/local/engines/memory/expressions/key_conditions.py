"""Key conditions: which collection a Query reads, and which part of it.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from typing import Any

from ledger.local.engines import values
from ledger.local.engines.memory.expressions import conditions, syntax
from ledger.local.engines.memory.expressions import syntax as trees
from ledger.local.engines.memory.expressions.placeholders import Placeholders, check_scalar_keys
from ledger.local.engines.memory.expressions.syntax import (
    ComparisonTree,
    FunctionCall,
    Logic,
    Path,
    Value,
)
from ledger.local.engines.memory.items import Place, SortRange, comparable
from ledger.local.engines.port import ApiError, TableKey, invalid

_WHAT = "KeyConditionExpression"
_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class KeyCondition:
    """Which collection a Query reads, and which part of it."""

    partition: Any
    sort: SortRange | None

    def covers(self, place: Place) -> bool:
        """Return whether an item at this place would be read."""
        inside = self.sort is None or self.sort.bounds([place[1]]) == (0, 1)
        return bool(place[0] == self.partition) and inside


@dataclass(frozen=True, slots=True)
class _Part:
    """One condition on one key attribute."""

    name: str
    operator: str
    operands: tuple[Value, ...]


def key_condition(expression: Any, placeholders: Placeholders, key: TableKey) -> KeyCondition:
    """Read a key condition expression on a table with this key.

    Raises:
        ApiError: ValidationException.
    """
    if expression is None:
        raise invalid(
            "Either the KeyConditions or KeyConditionExpression parameter must be specified in "
            "the request."
        )
    tree = placeholders.bound(_WHAT, syntax.condition(_WHAT, syntax.check_text(_WHAT, expression)))
    conditions.check(_WHAT, tree)
    check_scalar_keys(key, trees.paths(tree))
    parts: dict[str, _Part] = {}
    for leaf in _leaves(tree):
        part = _part(leaf)
        if part.name in parts:
            raise invalid("KeyConditionExpressions must only contain one condition per key")
        parts[part.name] = part
    if key.names[0] not in parts or not set(parts) <= set(key.names):
        raise invalid("Query condition missed key schema element")
    for position, name in enumerate(key.names):
        if name in parts:
            _check_operands(parts[name], name, key.kinds[position], sort=position > 0)
    partition = parts.pop(key.names[0])
    if partition.operator != "=":
        raise invalid("Query key condition not supported")
    return KeyCondition(comparable(_content(partition.operands[0])), _range(parts.values()))


def _range(parts: Any) -> SortRange | None:
    for part in parts:
        operands = tuple(comparable(_content(operand)) for operand in part.operands)
        return SortRange(part.operator, operands)
    return None


def _content(value: Value) -> dict[str, Any]:
    return value.content or {}


def _leaves(tree: trees.Condition) -> list[ComparisonTree | FunctionCall]:
    if not isinstance(tree, Logic):
        return [tree]
    if tree.operator != "AND":
        raise _unusable(tree.operator)
    return [leaf for part in tree.parts for leaf in _leaves(part)]


def _unusable(operator: str) -> ApiError:
    return invalid(f"Invalid operator used in KeyConditionExpression: {operator}")


def _part(leaf: ComparisonTree | FunctionCall) -> _Part:
    operator = leaf.operator if isinstance(leaf, ComparisonTree) else leaf.function
    if operator not in (*_MIRRORED, "BETWEEN", "begins_with"):
        raise _unusable(operator)
    named = [operand for operand in leaf.operands if isinstance(operand, Path)]
    given = tuple(operand for operand in leaf.operands if isinstance(operand, Value))
    if len(named) + len(given) < len(leaf.operands):
        raise invalid("KeyConditionExpressions cannot contain nested operations")
    if len(named) != 1:
        raise invalid(
            "Invalid condition in KeyConditionExpression: "
            + ("Multiple attribute names used" if named else "No key attribute specified")
            + " in one condition"
        )
    if leaf.operands[0] is not named[0]:
        if operator not in _MIRRORED:
            raise invalid(
                f"Invalid condition in KeyConditionExpression: {operator} operator must have the "
                "key attribute as its first operand"
            )
        operator = _MIRRORED[operator]
    return _Part(str(named[0].steps[0]), operator, given)


def _check_operands(part: _Part, name: str, kind: str, *, sort: bool) -> None:
    for operand in part.operands:
        if operand.kind != kind:
            raise invalid(
                "One or more parameter values were invalid: Condition parameter type does not "
                "match schema type"
            )
        values.check_key_content(name, kind, _content(operand)[kind], sort=sort)

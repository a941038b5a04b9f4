"""Conditions and filters: checked against what operators take, and evaluated on an item.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ledger.core import amounts
from ledger.local.engines.memory.expressions import syntax
from ledger.local.engines.memory.expressions import syntax as trees
from ledger.local.engines.memory.expressions.documents import at, same
from ledger.local.engines.memory.expressions.placeholders import Placeholders, check_scalar_keys
from ledger.local.engines.memory.expressions.syntax import (
    ComparisonTree,
    FunctionCall,
    Logic,
    Path,
    Tree,
    Value,
)
from ledger.local.engines.port import ApiError, Image, TableKey, invalid

KINDS = frozenset({"S", "N", "B", "SS", "NS", "BS", "BOOL", "NULL", "L", "M"})
ORDERED = frozenset({"S", "N", "B"})
_SIZED = KINDS - {"N", "BOOL", "NULL"}
_MEMBERS = {"SS": "S", "NS": "N", "BS": "B"}
_OPERANDS = {
    "attribute_exists": 1,
    "attribute_not_exists": 1,
    "attribute_type": 2,
    "begins_with": 2,
    "contains": 2,
    "size": 1,
}
_OF_UPDATES = ("if_not_exists", "list_append")
_ORDERINGS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}

AttributeValue = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition or filter expression, ready to be evaluated."""

    tree: trees.Condition

    def holds(self, image: Image | None) -> bool:
        """Return whether the expression is true for this item; a missing item has no attributes."""
        return _holds(self.tree, {} if image is None else image)

    def check_without_keys(self, key: TableKey) -> None:
        """Refuse key attributes, which a Query's filter must not name, while a Scan's may.

        Raises:
            ApiError: ValidationException.
        """
        for path in trees.paths(self.tree):
            if path.steps[0] in key.names:
                raise invalid(
                    "Filter Expression can only contain non-primary key attributes: Primary key "
                    f"attribute: {path.steps[0]}"
                )


def condition(
    what: str, expression: Any, placeholders: Placeholders, key: TableKey
) -> Condition | None:
    """Read a condition or filter expression on a table with this key; None if there is none.

    Raises:
        ApiError: ValidationException.
    """
    if expression is None:
        return None
    tree = placeholders.bound(what, syntax.condition(what, syntax.check_text(what, expression)))
    check(what, tree)
    check_scalar_keys(key, trees.paths(tree))
    return Condition(tree)


def check(what: str, tree: Tree) -> None:
    """Refuse what is wrong for any item: misplaced functions, operands of wrong types.

    Raises:
        ApiError: ValidationException.
    """
    if isinstance(tree, FunctionCall) and tree.function == "size":
        raise _out_of_place(what, tree.function)
    _check_parts(what, tree)


def _check_parts(what: str, tree: Tree) -> None:
    match tree:
        case Logic():
            for part in tree.parts:
                check(what, part)
        case ComparisonTree():
            _check_operands(what, tree)
            _check_comparison(what, tree)
        case FunctionCall():
            _check_call(what, tree)


def _out_of_place(what: str, function: str) -> ApiError:
    return invalid(
        f"Invalid {what}: The function is not allowed to be used this way in an expression; "
        f"function: {function}"
    )


def _check_operands(what: str, tree: ComparisonTree | FunctionCall) -> None:
    for operand in tree.operands:
        if isinstance(operand, FunctionCall):
            _check_parts(what, operand)
            if operand.function != "size":
                raise _out_of_place(what, operand.function)


def _check_call(what: str, call: FunctionCall) -> None:
    function, operands = call.function, call.operands
    if function in _OF_UPDATES:
        raise invalid(
            f"Invalid {what}: The function is not allowed in a condition expression; function: "
            f"{function}"
        )
    if function not in _OPERANDS:
        raise invalid(f"Invalid {what}: Invalid function name; function: {function}")
    if len(operands) != _OPERANDS[function]:
        raise invalid(
            f"Invalid {what}: Incorrect number of operands for operator or function; operator or "
            f"function: {function}, number of operands: {len(operands)}"
        )
    _check_operands(what, call)
    if function in ("attribute_exists", "attribute_not_exists"):
        if not isinstance(operands[0], Path):
            raise invalid(
                f"Invalid {what}: Operator or function requires a document path; operator or "
                f"function: {function}"
            )
        return
    if function == "size":
        check_kinds(what, call, function, _SIZED)
        return
    _check_distinct(what, function, operands)
    if function == "begins_with":
        check_kinds(what, call, function, frozenset({"S", "B"}))
    elif function == "attribute_type":
        _check_type_name(what, operands[1])


def _check_type_name(what: str, operand: Tree) -> None:
    if not isinstance(operand, Value) or operand.kind != "S":
        kind = operand.kind if isinstance(operand, Value) else "a path"
        raise _wrong_type(what, "attribute_type", kind)
    name = (operand.content or {})["S"]
    if name not in KINDS:
        raise invalid(
            f"Invalid {what}: Invalid attribute type name found; type: {name}, valid types: "
            f"{{{','.join(sorted(KINDS))}}}"
        )


def _check_comparison(what: str, comparison: ComparisonTree) -> None:
    operator, operands = comparison.operator, comparison.operands
    _check_distinct(what, operator, operands)
    if operator not in ("=", "<>", "IN"):
        check_kinds(what, comparison, operator, ORDERED)
    if operator == "BETWEEN":
        low, high = operands[1:]
        if isinstance(low, Value) and isinstance(high, Value):
            _check_bounds(what, low, high)


def _check_bounds(what: str, low: Value, high: Value) -> None:
    wrong = ""
    if low.kind != high.kind:
        wrong = "requires same data type for lower and upper bounds"
    elif not _ordered("<=", low.content, high.content):
        wrong = "requires upper bound to be greater than or equal to lower bound"
    if wrong:
        raise invalid(
            f"Invalid {what}: The BETWEEN operator {wrong}; lower bound operand: {low.name}, upper "
            f"bound operand: {high.name}"
        )


def _check_distinct(what: str, operator: str, operands: tuple[Tree, ...]) -> None:
    first = operands[0]
    if isinstance(first, Path) and first in operands[1:]:
        shown = ", ".join(map(str, first.steps))
        raise invalid(
            f"Invalid {what}: The first operand must be distinct from the remaining operands for "
            f"this operator or function; operator: {operator}, first operand: [{shown}]"
        )


def check_kinds(
    what: str, tree: ComparisonTree | FunctionCall, operator: str, allowed: frozenset[str]
) -> None:
    """Refuse operands that are known not to be of an allowed type.

    Raises:
        ApiError: ValidationException.
    """
    for operand in tree.operands:
        kind = "N" if isinstance(operand, FunctionCall) else ""
        if isinstance(operand, Value):
            kind = operand.kind
        if kind and kind not in allowed:
            raise _wrong_type(what, operator, kind)


def _wrong_type(what: str, operator: str, kind: str) -> ApiError:
    return invalid(
        f"Invalid {what}: Incorrect operand type for operator or function; operator or function: "
        f"{operator}, operand type: {kind}"
    )


def _holds(tree: Tree, image: Image) -> bool:
    match tree:
        case Logic("AND"):
            return all(_holds(part, image) for part in tree.parts)
        case Logic("OR"):
            return any(_holds(part, image) for part in tree.parts)
        case Logic():
            return not _holds(tree.parts[0], image)
        case ComparisonTree():
            return _compared(tree.operator, [_value(part, image) for part in tree.operands])
        case FunctionCall():
            return _answered(tree.function, [_value(part, image) for part in tree.operands])
        case _:
            raise AssertionError(f"{tree} is not a condition, which `check` refuses")


def _value(tree: Tree, image: Image) -> AttributeValue | None:
    match tree:
        case Value():
            return tree.content
        case Path():
            return at(image, tree.steps)
        case FunctionCall():
            return _size(_value(tree.operands[0], image))
        case _:
            raise AssertionError(f"{tree} is not an operand, which `syntax` refuses")


def _size(value: AttributeValue | None) -> AttributeValue | None:
    if value is None:
        return None
    ((kind, content),) = value.items()
    if kind not in _SIZED:
        return None
    # AWS's engine is written in Java, whose strings are measured in units of UTF-16.
    length = len(content.encode("utf-16-le")) // 2 if kind == "S" else len(content)
    return {"N": str(length)}


def _compared(operator: str, operands: list[AttributeValue | None]) -> bool:
    first, others = operands[0], operands[1:]
    match operator:
        case "=":
            return same(first, others[0])
        case "<>":
            return not same(first, others[0])
        case "IN":
            return any(same(first, other) for other in others)
        case "BETWEEN":
            return _ordered(">=", first, others[0]) and _ordered("<=", first, others[1])
        case _:
            return _ordered(operator, first, others[0])


def _ordered(operator: str, left: AttributeValue | None, right: AttributeValue | None) -> bool:
    if left is None or right is None or left.keys() != right.keys():
        return False
    ((kind, first),) = left.items()
    if kind not in ORDERED:
        return False
    second = right[kind]
    if kind == "N":
        first, second = amounts.of_text(first), amounts.of_text(second)
    return _ORDERINGS[operator](first, second)


def _answered(function: str, operands: list[AttributeValue | None]) -> bool:
    first = operands[0]
    match function:
        case "attribute_exists":
            return first is not None
        case "attribute_not_exists":
            return first is None
    if first is None or operands[1] is None:
        return False
    ((kind, content),) = first.items()
    ((other_kind, other),) = operands[1].items()
    match function:
        case "attribute_type":
            return bool(kind == other)
        case "begins_with":
            return kind == other_kind and kind in ("S", "B") and content.startswith(other)
        case _:
            return _contains(kind, content, other_kind, other)


def _contains(kind: str, content: Any, other_kind: str, other: Any) -> bool:
    if kind == "L":
        return any(same(part, {other_kind: other}) for part in content)
    if kind in _MEMBERS:
        return _MEMBERS[kind] == other_kind and other in content
    return kind == other_kind and kind in ("S", "B") and other in content

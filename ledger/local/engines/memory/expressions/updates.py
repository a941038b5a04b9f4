"""Updates: checked against what sections take, and applied to an item.

All paths of an update refer to the item as it was before: values are worked out first, then the
new item is built in one walk, in which a list is changed, then grown, then cut.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ledger.core import amounts
from ledger.core.amounts import EXACT
from ledger.local.engines import values
from ledger.local.engines.memory.expressions import syntax
from ledger.local.engines.memory.expressions import syntax as trees
from ledger.local.engines.memory.expressions.conditions import KINDS, check_kinds
from ledger.local.engines.memory.expressions.documents import at, depth, part
from ledger.local.engines.memory.expressions.placeholders import (
    Placeholders,
    check_apart,
    check_scalar_keys,
)
from ledger.local.engines.memory.expressions.syntax import (
    Action,
    FunctionCall,
    Operand,
    Path,
    Steps,
    Value,
)
from ledger.local.engines.port import ApiError, Image, TableKey, Unfit, invalid

_WHAT = "UpdateExpression"
_SETS = frozenset({"SS", "NS", "BS"})
_TAKES = {"ADD": _SETS | {"N"}, "DELETE": _SETS}
_ARITHMETIC = ("+", "-")
_FUNCTIONS = (*_ARITHMETIC, "if_not_exists", "list_append")
_OF_CONDITIONS = (
    *("attribute_exists", "attribute_not_exists", "attribute_type"),
    *("begins_with", "contains", "size"),
)
_OPERANDS = 2
_MISSING = "The provided expression refers to an attribute that does not exist in the item"
_WRONG_TYPE = "An operand in the update expression has an incorrect data type"
_WRONG_PATH = "The document path provided in the update expression is invalid for update"
_REMOVED: dict[str, Any] = {}
"""Stands for no value; no attribute value is empty."""


@dataclass(frozen=True, slots=True)
class UpdateExpression:
    """An update expression, ready to be applied."""

    actions: tuple[Action, ...]

    @property
    def targets(self) -> tuple[Steps, ...]:
        """The paths that it changes."""
        return tuple(action.path.steps for action in self.actions)

    def check_keys(self, key: TableKey) -> None:
        """Refuse to change key attributes, and to read below them.

        Raises:
            ApiError: ValidationException.
        """
        changed = {steps[0] for steps in self.targets}
        for name in key.names:
            if name in changed:
                raise Unfit(
                    f"One or more parameter values were invalid: Cannot update attribute {name}. "
                    "This attribute is part of the key"
                )

        operands = [action.operand for action in self.actions if action.operand is not None]
        try:
            check_scalar_keys(key, (path for operand in operands for path in trees.paths(operand)))
        except ApiError as error:
            raise Unfit(error.message) from None

    def apply(self, image: Image) -> Image:
        """Return the item after the update; `image` is unchanged.

        Raises:
            ApiError: ValidationException.
        """
        edits: dict[Any, Any] = {}
        for action in self.actions:
            steps = action.path.steps
            level = edits
            for step in steps[:-1]:
                level = level.setdefault(step, {})
            result = _result(action, image)
            if result and len(steps) - 1 + depth(result) >= values.DEPTH_MAX:
                raise Unfit("Nesting Levels have exceeded supported limits")
            level[steps[-1]] = _Result(result)
        return _map_after(image, edits)


@dataclass(frozen=True, slots=True)
class _Result:
    """The value that an action leaves at its path; `_REMOVED` for none."""

    value: dict[str, Any]


def update(expression: Any, placeholders: Placeholders) -> UpdateExpression:
    """Read an update expression.

    Raises:
        ApiError: ValidationException.
    """
    actions = tuple(
        Action(
            action.section,
            placeholders.bound(_WHAT, action.path),
            None if action.operand is None else placeholders.bound(_WHAT, action.operand),
        )
        for action in syntax.update(syntax.check_text(_WHAT, expression))
    )
    for action in actions:
        _check(action)
    check_apart(_WHAT, [action.path for action in actions])
    return UpdateExpression(actions)


def _check(action: Action) -> None:
    operand = action.operand
    if isinstance(operand, Value) and action.section in _TAKES:
        if operand.kind not in _TAKES[action.section]:
            raise invalid(
                f"Invalid {_WHAT}: Incorrect operand type for operator or function; operator: "
                f"{action.section}, operand type: {operand.kind}"
            )
    elif isinstance(operand, FunctionCall):
        _check_call(operand)


def _check_call(call: FunctionCall) -> None:
    function, operands = call.function, call.operands
    if function in _OF_CONDITIONS:
        raise invalid(
            f"Invalid {_WHAT}: The function is not allowed in an update expression; function: "
            f"{function}"
        )
    if function not in _FUNCTIONS:
        raise invalid(f"Invalid {_WHAT}: Invalid function name; function: {function}")
    if len(operands) != _OPERANDS:
        raise invalid(
            f"Invalid {_WHAT}: Incorrect number of operands for operator or function; operator or "
            f"function: {function}, number of operands: {len(operands)}"
        )
    for operand in operands:
        if isinstance(operand, FunctionCall):
            _check_call(operand)
            if operand.function != "if_not_exists":
                raise invalid(
                    f"Invalid {_WHAT}: The function is not allowed to be used this way in an "
                    f"expression; function: {operand.function}"
                )
    if function == "if_not_exists":
        _check_alternative(operands)
    else:
        # What `if_not_exists` gives is known with the item only.
        plain = FunctionCall(function, tuple(part for part in operands if isinstance(part, Value)))
        allowed = frozenset({"L"} if function == "list_append" else {"N"})
        check_kinds(_WHAT, plain, function, KINDS & allowed)


def _check_alternative(operands: tuple[Operand, ...]) -> None:
    if not isinstance(operands[0], Path):
        raise invalid(
            f"Invalid {_WHAT}: Operator or function requires a document path; operator or "
            "function: if_not_exists"
        )
    if operands[0] == operands[1]:
        raise invalid(
            f"Invalid {_WHAT}: The first operand must be distinct from the remaining operands for "
            "this operator or function; operator: if_not_exists"
        )


def _result(action: Action, image: Image) -> dict[str, Any]:
    """Return the value at the action's path after it."""
    if action.operand is None:
        return _REMOVED
    operand = _value(action.operand, image)
    if action.section == "SET":
        return operand
    old = at(image, action.path.steps)
    if action.section == "ADD":
        return operand if old is None else _sum(old, operand)
    return _REMOVED if old is None else _difference(old, operand)


def _sum(old: dict[str, Any], added: dict[str, Any]) -> dict[str, Any]:
    ((kind, content),) = added.items()
    if kind not in old:
        raise Unfit(_WRONG_TYPE)
    if kind == "N":
        return _number("+", old[kind], content)
    return {kind: list(dict.fromkeys([*old[kind], *content]))}


def _difference(old: dict[str, Any], taken: dict[str, Any]) -> dict[str, Any]:
    ((kind, content),) = taken.items()
    if kind not in old:
        raise Unfit(_WRONG_TYPE)
    left = [member for member in old[kind] if member not in content]
    return {kind: left} if left else _REMOVED


def _number(operator: str, left: str, right: str) -> dict[str, Any]:
    first, second = Decimal(left, EXACT), Decimal(right, EXACT)
    result = EXACT.add(first, second) if operator == "+" else EXACT.subtract(first, second)
    try:
        return {"N": values.number(amounts.as_written(result))}
    except ApiError as error:
        raise Unfit(error.message) from None


def _value(operand: Operand, image: Image) -> dict[str, Any]:
    """Return an operand's value for the item before the update."""
    match operand:
        case Value():
            return operand.content or _REMOVED
        case Path():
            found = at(image, operand.steps)
            if found is None:
                raise Unfit(_MISSING)
            return found
        case FunctionCall("if_not_exists", (Path() as path, other)):
            # The other operand has to be there even where it is not needed.
            otherwise = _value(other, image)
            return at(image, path.steps) or otherwise
        case FunctionCall():
            first, second = (_value(part, image) for part in operand.operands)
            return _computed(operand.function, first, second)


def _computed(function: str, first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    kind = "L" if function == "list_append" else "N"
    if kind not in first or kind not in second:
        raise Unfit(_WRONG_TYPE)
    if kind == "L":
        return {"L": [*first["L"], *second["L"]]}
    return _number(function, first["N"], second["N"])


def _map_after(content: Mapping[str, Any], edits: Mapping[str, Any]) -> dict[str, Any]:
    after = dict(content)
    for name, edit in edits.items():
        value = _after(content.get(name), edit)
        if value:
            after[name] = value
        else:
            after.pop(name, None)
    return after


def _after(value: dict[str, Any] | None, edit: Any) -> dict[str, Any]:
    """Return a value after the edits at it or inside it."""
    if isinstance(edit, _Result):
        return edit.value
    if isinstance(next(iter(edit)), int):
        return {"L": _list_after(_inside(value, "L"), edit)}
    return {"M": _map_after(_inside(value, "M"), edit)}


def _inside(value: dict[str, Any] | None, kind: str) -> Any:
    if value is None or kind not in value:
        raise Unfit(_WRONG_PATH)
    return value[kind]


def _list_after(content: list[Any], edits: Mapping[int, Any]) -> list[Any]:
    after = list(content)
    for index, edit in sorted(edits.items()):
        before = part({"L": content}, index)
        value = _after(before, edit)
        if before is not None:
            after[index] = value
        else:
            after.append(value)
    return [value for value in after if value]

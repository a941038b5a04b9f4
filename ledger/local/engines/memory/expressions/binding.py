"""The names and values of a request, put into the trees of its expressions.

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ledger.local.engines import values
from ledger.local.engines.memory.expressions.reserved import RESERVED
from ledger.local.engines.memory.expressions.trees import (
    Call,
    Comparison,
    Logic,
    Operand,
    Path,
    Steps,
    Tree,
    Value,
)
from ledger.local.engines.port import ApiError, TableKey, invalid

_KEYS = {"Names": re.compile(r"#[A-Za-z0-9_]+"), "Values": re.compile(r":[A-Za-z0-9_]+")}
_Tree = TypeVar("_Tree", bound=Tree)


@dataclass(slots=True)
class Placeholders:
    """The `#names` and `:values` of one request, and which of them its expressions used."""

    names: Mapping[str, str]
    values: Mapping[str, dict[str, Any]]
    used: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> "Placeholders":
        """Take them from a request, checked.

        Raises:
            ApiError: ValidationException.
        """
        names, contents = _given(body, "Names"), _given(body, "Values")
        for key, name in names.items():
            if not name:
                raise invalid(
                    f"ExpressionAttributeNames contains invalid value: Empty attribute name for "
                    f"key {key}"
                )
        return cls(names, {key: _checked(key, content) for key, content in contents.items()})

    def check_all_used(self) -> None:
        """Refuse names and values that no expression used.

        Raises:
            ApiError: ValidationException.
        """
        for field_name, given in (("Names", self.names), ("Values", self.values)):
            unused = [key for key in given if key not in self.used]
            if unused:
                raise invalid(
                    f"Value provided in ExpressionAttribute{field_name} unused in expressions: "
                    f"keys: {{{', '.join(unused)}}}"
                )

    def bound(self, what: str, tree: _Tree) -> _Tree:
        """Return a tree with names and values in place of its placeholders.

        Raises:
            ApiError: ValidationException: one is not defined, or a name is a reserved word.
        """
        bound: Tree
        match tree:
            case Path():
                bound = Path(tuple(self._step(what, step) for step in tree.steps))
            case Value():
                bound = Value(tree.name, self._value(what, tree.name))
            case Call():
                bound = Call(tree.function, self._all(what, tree.operands))
            case Comparison():
                bound = Comparison(tree.operator, self._all(what, tree.operands))
            case Logic():
                parts = tuple(self.bound(what, part) for part in tree.parts)
                bound = Logic(tree.operator, parts)
        return bound  # type: ignore[return-value]  # each case keeps its type

    def _all(self, what: str, operands: Iterable[Operand]) -> tuple[Operand, ...]:
        return tuple(self.bound(what, operand) for operand in operands)

    def _step(self, what: str, step: str | int) -> str | int:
        if isinstance(step, int):
            return step
        if not step.startswith("#"):
            if step.upper() in RESERVED:
                raise invalid(
                    f"Invalid {what}: Attribute name is a reserved keyword; reserved keyword: "
                    f"{step}"
                )
            return step
        if step not in self.names:
            raise invalid(
                f"Invalid {what}: An expression attribute name used in the document path is not "
                f"defined; attribute name: {step}"
            )
        self.used.add(step)
        return self.names[step]

    def _value(self, what: str, name: str) -> dict[str, Any]:
        if name not in self.values:
            raise invalid(
                f"Invalid {what}: An expression attribute value used in expression is not "
                f"defined; attribute value: {name}"
            )
        self.used.add(name)
        return self.values[name]


def _given(body: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    content = body.get(f"ExpressionAttribute{kind}")
    if content is None:
        return {}
    if not content:
        raise invalid(f"ExpressionAttribute{kind} must not be empty")
    for key in content:
        if not _KEYS[kind].fullmatch(key):
            raise invalid(
                f'ExpressionAttribute{kind} contains invalid key: Syntax error; key: "{key}"'
            )
    return dict(content)


def _checked(key: str, content: Any) -> dict[str, Any]:
    try:
        return values.value(content)
    except ApiError as error:
        raise invalid(
            f"ExpressionAttributeValues contains invalid value: {error.message} for key {key}"
        ) from None


def check_scalar_keys(key: TableKey, paths: Iterable[Path]) -> None:
    """Refuse paths below key attributes.

    Raises:
        ApiError: ValidationException.
    """
    for path in paths:
        if len(path.steps) > 1 and path.steps[0] in key.names:
            raise invalid(
                "Key attributes must be scalars; list random access '[]' and map lookup '.' are "
                f"not allowed: Key: {path.steps[0]}"
            )


def check_apart(what: str, paths: Iterable[Path]) -> None:
    """Refuse two paths of which one leads into the other, or that take one thing as list and map.

    Raises:
        ApiError: ValidationException.
    """
    tree: dict[str | int, Any] = {}
    for path in paths:
        level = tree
        for position, step in enumerate(path.steps):
            if level and isinstance(next(iter(level)), int) != isinstance(step, int):
                raise _not_apart(what, "conflict", path.steps)
            ends = position == len(path.steps) - 1
            if step in level and (ends or not level[step]):
                raise _not_apart(what, "overlap", path.steps)
            level = level.setdefault(step, {})


def _not_apart(what: str, how: str, steps: Steps) -> ApiError:
    shown = ", ".join(f"[{step}]" if isinstance(step, int) else step for step in steps)
    return invalid(
        f"Invalid {what}: Two document paths {how} with each other; must remove or rewrite one of "
        f"these paths; path: [{shown}]"
    )

"""DynamoDB's expressions, parsed and evaluated by moto's code behind typed functions.

This is the only module that imports moto. moto is untyped and raises many kinds of exceptions for
a bad expression; here they all become one ValidationException that names the expression. Images
come in and go out in the checked form of `values.py`.

Pure: no clock, no randomness, no I/O.
"""

import decimal
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.dynamodb.comparisons import create_condition_expression_parser
from moto.dynamodb.models.dynamo_type import DynamoType, Item
from moto.dynamodb.parsing import ast_nodes
from moto.dynamodb.parsing.executors import UpdateExpressionExecutor
from moto.dynamodb.parsing.expressions import UpdateExpressionParser
from moto.dynamodb.parsing.key_condition_expression import parse_expression
from moto.dynamodb.parsing.validators import UpdateExpressionValidator

from ledger.local.engines import values
from ledger.local.engines.memory.items import SortRange, comparable
from ledger.local.engines.port import ApiError, Image, TableKey, invalid

EXPRESSION_BYTES_MAX = 4096
_SETS = frozenset({"SS", "NS", "BS"})
_PARSED_MAX = 512
_WIDE_DIGITS = 400
"""Wide enough for any sum of two numbers of DynamoDB's range, so that arithmetic never rounds."""

_MOTO_FAULTS = (
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    AssertionError,
    NotImplementedError,
    StopIteration,
    RecursionError,
)
_PATH_STEP = re.compile(r"([^.\[\]]+)|\[([0-9]+)\]|\.")


@dataclass(slots=True)
class Placeholders:
    """The `#names` and `:values` of one request, and which of them its expressions used."""

    names: Mapping[str, str]
    values: Mapping[str, Any]
    used: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> "Placeholders":
        """Take them from a request, checked.

        Raises:
            ApiError: ValidationException.
        """
        given = {}
        for field_name, mark in (("Names", "#"), ("Values", ":")):
            content = body.get(f"ExpressionAttribute{field_name}")
            if content == {}:
                raise invalid(f"ExpressionAttribute{field_name} must not be empty")
            for key in content or {}:
                if not key.startswith(mark):
                    raise invalid(
                        f"ExpressionAttribute{field_name} contains invalid key: Syntax error; "
                        f'key: "{key}"'
                    )
            given[field_name] = content or {}
        return cls(given["Names"], values.item(given["Values"]))

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


@contextmanager
def _as_validation(what: str, expression: str) -> Iterator[None]:
    """Turn any exception of moto's for a bad expression into DynamoDB's error."""
    try:
        yield
    except JsonRESTError as error:
        raise ApiError(str(error.error_type).rpartition("#")[2], str(error.message)) from None
    except KeyError as error:
        placeholder = str(error.args[0]) if error.args else ""
        raise invalid(
            f"Invalid {what}: An expression attribute name or value used in expression is not "
            f"defined; {placeholder}"
        ) from None
    except _MOTO_FAULTS as error:
        raise invalid(f"Invalid {what}: {error or 'Syntax error'}; in: {expression}") from None


def _check_text(what: str, expression: Any) -> None:
    if not isinstance(expression, str) or not expression.strip():
        raise invalid(f"Invalid {what}: The expression can not be empty;")
    if len(expression.encode()) > EXPRESSION_BYTES_MAX:
        raise invalid(
            f"Invalid {what}: Expression size has exceeded the maximum allowed size; expression "
            f"size: {len(expression.encode())}"
        )


def _moto_item(image: Image | None) -> Any:
    if image is None:
        return None
    item = Item.__new__(Item)
    item.attrs = {name: DynamoType(value) for name, value in image.items()}
    return item


def _own(value: dict[str, Any]) -> dict[str, Any]:
    """Return an attribute value whose set, if it is one, can be changed: moto adds in place."""
    ((kind, content),) = value.items()
    return {kind: list(content)} if kind in _SETS else value


def _plain(typed: Any) -> dict[str, Any]:
    """Return the attribute value that a DynamoType stands for."""
    match typed.type:
        case "L":
            return {"L": [_plain(part) for part in typed.value]}
        case "M":
            return {"M": {name: _plain(part) for name, part in typed.value.items()}}
        case kind:
            return {kind: typed.value}


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition or filter expression, ready to be evaluated."""

    _operation: Any

    def holds(self, image: Image | None) -> bool:
        """Return whether the expression is true for this item; a missing item has no attributes."""
        try:
            return bool(self._operation.expr(_moto_item(image)))
        except (TypeError, ValueError):  # operands of different types, or size() of nothing
            return False


def condition(what: str, expression: str | None, placeholders: Placeholders) -> Condition | None:
    """Parse a condition or filter expression; None if there is none.

    Raises:
        ApiError: ValidationException.
    """
    if expression is None:
        return None
    _check_text(what, expression)
    with _as_validation(what, expression):
        parser = create_condition_expression_parser(
            expression, dict(placeholders.names), dict(placeholders.values)
        )
        operation = parser.parse()
        placeholders.used.update(parser.expr_attr_names_found, parser.expr_attr_values_found)
    return Condition(operation)


@dataclass(frozen=True, slots=True)
class Update:
    """An update expression, ready to be applied, and the attributes that it touches."""

    touched: frozenset[str]
    _tree: Any
    _placeholders: Placeholders
    _key: TableKey
    _expression: str

    def apply(self, image: Image) -> Image:
        """Return the item after the update; `image` is left as it is.

        Raises:
            ApiError: ValidationException.
        """
        item = _moto_item({name: _own(value) for name, value in image.items()})
        names = dict(self._placeholders.names)
        definitions = [
            {"AttributeName": name, "AttributeType": kind}
            for name, kind in zip(self._key.names, self._key.kinds, strict=True)
        ]
        table = SimpleNamespace(
            table_key_attrs=list(self._key.names),
            attribute_keys=list(self._key.names),
            attr=definitions,
        )
        with (
            _as_validation("UpdateExpression", self._expression),
            decimal.localcontext(decimal.Context(prec=_WIDE_DIGITS)),
        ):
            tree = UpdateExpressionValidator(
                self._tree,
                expression_attribute_names=names,
                expression_attribute_values=dict(self._placeholders.values),
                item=item,
                table=table,
            ).validate()
            tree.normalize()
            UpdateExpressionExecutor(tree, item, names).execute()
        return values.item({name: _plain(typed) for name, typed in item.attrs.items()})


@lru_cache(maxsize=_PARSED_MAX)
def _update_tree(expression: str) -> Any:
    return UpdateExpressionParser.make(expression)


_ACTIONS = [
    ast_nodes.UpdateExpressionSetAction,
    ast_nodes.UpdateExpressionAddAction,
    ast_nodes.UpdateExpressionRemoveAction,
    ast_nodes.UpdateExpressionDeleteAction,
]


def update(expression: str, placeholders: Placeholders, key: TableKey) -> Update:
    """Parse an update expression for a table with this key.

    Raises:
        ApiError: ValidationException.
    """
    _check_text("UpdateExpression", expression)
    with _as_validation("UpdateExpression", expression):
        tree = _update_tree(expression.strip())
        name_nodes = tree.find_clauses([ast_nodes.ExpressionAttributeName])
        value_nodes = tree.find_clauses([ast_nodes.ExpressionAttributeValue])
        placeholders.used.update(node.get_attribute_name_placeholder() for node in name_nodes)
        placeholders.used.update(node.get_value_name() for node in value_nodes)
        touched = frozenset(
            _first_name(action.children[0].children[0], placeholders.names)
            for action in tree.find_clauses(_ACTIONS)
        )
    return Update(touched, tree, placeholders, key, expression)


def _first_name(node: Any, names: Mapping[str, str]) -> str:
    if isinstance(node, ast_nodes.ExpressionAttributeName):
        return names[node.get_attribute_name_placeholder()]
    return str(node.get_attribute_name())


@dataclass(frozen=True, slots=True)
class KeyCondition:
    """Which collection a Query reads, and which part of it."""

    partition: Any
    sort: SortRange | None


def key_condition(expression: Any, placeholders: Placeholders, key: TableKey) -> KeyCondition:
    """Parse a key condition expression.

    Raises:
        ApiError: ValidationException.
    """
    _check_text("KeyConditionExpression", expression)
    roles = ("HASH", "RANGE")
    schema = [
        {"AttributeName": name, "KeyType": role}
        for name, role in zip(key.names, roles, strict=False)
    ]
    with _as_validation("KeyConditionExpression", expression):
        partitions, sorts, used = parse_expression(
            expression, dict(placeholders.values), dict(placeholders.names), schema
        )
    placeholders.used.update(used)
    placeholders.used.update(re.findall(r":[A-Za-z0-9_]+", expression))
    operands = [partitions[0][1], *(sorts[0][2] if sorts else [])]
    kinds = [key.kinds[0], *([key.kinds[-1]] * (len(operands) - 1))]
    for operand, kind in zip(operands, kinds, strict=True):
        if not isinstance(operand, dict) or next(iter(operand)) != kind:
            raise invalid(
                "One or more parameter values were invalid: Condition parameter type does not "
                "match schema type"
            )
    sort = SortRange(sorts[0][1], tuple(map(comparable, sorts[0][2]))) if sorts else None
    return KeyCondition(comparable(operands[0]), sort)


@dataclass(frozen=True, slots=True)
class Projection:
    """The attributes that an answer shows."""

    _paths: tuple[tuple[str | int, ...], ...]

    def of(self, image: Image) -> Image:
        """Return what the projection leaves of an item."""
        shown: Image = {}
        for path in self._paths:
            if len(path) == 1 and path[0] in image:
                shown[str(path[0])] = image[str(path[0])]
            elif len(path) > 1 and path[0] in image:
                _project(image[str(path[0])], path[1:], shown, str(path[0]))
        return shown


def _project(value: Any, path: Sequence[str | int], shown: Any, name: Any) -> None:
    """Copy what lies at `path` below `value` to `shown[name]`, with the maps on the way."""
    if not path:
        shown[name] = value
        return
    ((kind, content),) = value.items()
    step = path[0]
    if kind == "M" and step in content:
        holder = shown.setdefault(name, {"M": {}})
        _project(content[step], path[1:], holder["M"], step)
    elif kind == "L" and isinstance(step, int) and step < len(content):
        found: dict[str, Any] = {}
        _project(content[step], path[1:], found, "it")
        if found:
            shown.setdefault(name, {"L": []})["L"].append(found["it"])


def projection(expression: str | None, placeholders: Placeholders) -> Projection | None:
    """Parse a projection expression; None if there is none.

    Raises:
        ApiError: ValidationException.
    """
    if expression is None:
        return None
    _check_text("ProjectionExpression", expression)
    paths = tuple(_path(text.strip(), placeholders) for text in expression.split(","))
    if len(set(paths)) != len(paths):
        raise invalid(
            "Invalid ProjectionExpression: Two document paths overlap with each other; must "
            f"remove or rewrite one of these paths; in: {expression}"
        )
    return Projection(paths)


def _path(text: str, placeholders: Placeholders) -> tuple[str | int, ...]:
    steps: list[str | int] = []
    end = 0
    for match in _PATH_STEP.finditer(text):
        if match.start() != end:
            break
        end = match.end()
        name, index = match.groups()
        if index is not None:
            steps.append(int(index))
        elif name is not None:
            steps.append(_resolved(name, placeholders))
    if end != len(text) or not steps or " " in text:
        raise invalid(f'Invalid ProjectionExpression: Syntax error; token: "{text}"')
    return tuple(steps)


def _resolved(name: str, placeholders: Placeholders) -> str:
    if not name.startswith("#"):
        return name
    if name not in placeholders.names:
        raise invalid(
            "Invalid ProjectionExpression: An expression attribute name used in the document path "
            f"is not defined; attribute name: {name}"
        )
    placeholders.used.add(name)
    return placeholders.names[name]


def refuse_legacy(body: Mapping[str, Any], fields: Iterable[str]) -> None:
    """Refuse the parameters that expressions replaced in 2014.

    Raises:
        ApiError: ValidationException.
    """
    for name in fields:
        if name in body:
            raise invalid(
                f"{name} is not supported by the local global table: use an expression instead"
            )

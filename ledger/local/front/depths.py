"""Limits of length and depth of expressions and documents, checked before any engine parses them.

Source: Amazon DynamoDB Developer Guide, "Constraints in Amazon DynamoDB": an expression has at
most 4 KB and 300 operators or functions, IN at most 100 operands, and attributes are nested up to
32 levels deep. How these are counted, the rule of parentheses and the messages are those of
DynamoDB Local, AWS's own engine: `=` of SET and the AND of BETWEEN are no operators, and a scalar
is a level of its own.

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ledger.local.engines.port import invalid

EXPRESSION_BYTES_MAX = 4096
OPERATORS_MAX = 300
OPERANDS_MAX = 100
PATH_LEVELS_MAX = 32
NESTING_MAX = 32
_CHECKED_MAX = 1024
_EXPRESSIONS = (
    *("ConditionExpression", "UpdateExpression", "FilterExpression"),
    *("KeyConditionExpression", "ProjectionExpression"),
)
_DOCUMENTS = ("Item", "Key", "ExclusiveStartKey", "ExpressionAttributeValues")
_TOKEN = re.compile(r"[#:]?\w+|<>|<=|>=|\S")
_NAME = re.compile(r"#?\w+")
_PATH = re.compile(r"#?\w+(?:\s*\.\s*#?\w+|\s*\[\s*\d+\s*\])+")
_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})
_WORDS = frozenset({"AND", "OR", "NOT", "BETWEEN", "IN"})
_CLAUSES = frozenset({"SET", "ADD", "REMOVE", "DELETE"})
_TOO_DEEP = (
    "Nesting Levels have exceeded supported limits: Attributes in the item have nested levels "
    "beyond supported limit"
)


def check_depths(operation: str, body: Mapping[str, Any]) -> None:
    """Refuse a request whose expressions or documents are longer or deeper than DynamoDB takes.

    Raises:
        ApiError: ValidationException.
    """
    for part in _parts(operation, body):
        for name in _EXPRESSIONS:
            text = part.get(name)
            if isinstance(text, str) and (fault := expression_fault(text, is_update="Up" in name)):
                raise invalid(f"Invalid {name}: {fault}")
        for name in _DOCUMENTS:
            for value in part.get(name, {}).values():
                _check_nesting(value, 1)


def _parts(operation: str, body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Return the parts with expressions and documents: the request, or those in it."""
    match operation:
        case "BatchGetItem":
            for request in body["RequestItems"].values():
                yield request
                yield from ({"Key": key} for key in request["Keys"])
        case "BatchWriteItem":
            for requests in body["RequestItems"].values():
                yield from (part for request in requests for part in request.values())
        case "TransactWriteItems" | "TransactGetItems":
            yield from (part for action in body["TransactItems"] for part in action.values())
        case _:
            yield body


def _check_nesting(value: Any, level: int) -> None:
    if level > NESTING_MAX:
        raise invalid(_TOO_DEEP)
    if not isinstance(value, dict):
        return
    for content in value.values():
        if isinstance(content, dict):
            for inner in content.values():
                _check_nesting(inner, level + 1)
        elif isinstance(content, list):
            for inner in content:
                if isinstance(inner, dict | list):
                    _check_nesting(inner, level + 1)


@lru_cache(maxsize=_CHECKED_MAX)
def expression_fault(text: str, *, is_update: bool) -> str | None:
    """Return what is too long, too deep or left open in an expression, in DynamoDB's words."""
    size = len(text.encode())
    if size > EXPRESSION_BYTES_MAX:
        return f"Expression size has exceeded the maximum allowed size; expression size: {size}"
    tokens = _TOKEN.findall(text)
    return (
        _parentheses_fault(tokens)
        or _paths_fault(text)
        or _operators_fault(tokens, is_update=is_update)
        or _operands_fault(tokens)
    )


def _parentheses_fault(tokens: Sequence[str]) -> str | None:
    """Return what is wrong with parentheses: left open, doubled, or too deep."""
    opened: list[int] = []
    closed: dict[int, int] = {}
    for index, symbol in enumerate(tokens):
        if symbol == "(":
            opened.append(index)
        elif symbol == ")" and opened:
            closed[opened.pop()] = index
        if len(opened) > OPERATORS_MAX + 1:  # each level but the last has its own operator
            return f'Syntax error; token: "(", near: "{tokens[index - 1]}("'
    if opened:
        return f'Syntax error; token: "<EOF>", near: "{tokens[-1]}"'
    for start, end in closed.items():
        inner_end = closed.get(start + 1)
        if inner_end == end - 1 and not _is_call(tokens, start):
            return "The expression has redundant parentheses;"
    return None


def _is_call(tokens: Sequence[str], opening: int) -> bool:
    """Return whether a parenthesis opens the arguments of a function or the operands of IN."""
    before = tokens[opening - 1].upper() if opening else ""
    if before in (_WORDS | _CLAUSES) - {"IN"}:
        return False
    return _NAME.fullmatch(before) is not None


def _paths_fault(text: str) -> str | None:
    for path in _PATH.findall(text):
        levels = 1 + path.count(".") + path.count("[")
        if levels > PATH_LEVELS_MAX:
            return f"The document path has too many nesting levels; nesting levels: {levels}"
    return None


def _operators_fault(tokens: Sequence[str], *, is_update: bool) -> str | None:
    counted = {"+", "-"} if is_update else _COMPARISONS
    ranges = operators = 0
    for index, symbol in enumerate(tokens):
        word = symbol.upper()
        if word == "BETWEEN":
            ranges += 1
        if word == "AND" and ranges:
            ranges -= 1
        elif symbol in counted or word in _WORDS or _is_function(tokens, index):
            operators += 1
        if operators > OPERATORS_MAX:
            return f"The expression contains too many operators; operator count: {operators}"
    return None


def _is_function(tokens: Sequence[str], index: int) -> bool:
    is_called = index + 1 < len(tokens) and tokens[index + 1] == "("
    return is_called and tokens[index].upper() not in _WORDS and _is_call(tokens, index + 1)


def _operands_fault(tokens: Sequence[str]) -> str | None:
    """Return what is wrong with the number of operands of IN."""
    counts: list[int | None] = []
    for index, symbol in enumerate(tokens):
        if symbol == "(":
            is_in = index > 0 and tokens[index - 1].upper() == "IN"
            counts.append(1 if is_in else None)
        elif symbol == ")" and counts:
            count = counts.pop()
            if count is not None and count > OPERANDS_MAX:
                return (
                    "The IN operator is provided with too many operands; number of operands: "
                    f"{count}"
                )
        elif symbol == "," and counts and counts[-1] is not None:
            counts[-1] += 1
    return None

"""The grammar of expressions: text in, trees out; `placeholders` fills the trees in.

Source: Amazon DynamoDB Developer Guide, "Condition and filter expressions, operators, and
functions" and "Update expressions"; where that says nothing, AWS's own DynamoDB Local, against
which tests/conformance holds it.

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

from ledger.local.engines.port import ApiError, invalid

Steps: TypeAlias = tuple[str | int, ...]
"""A document path: names of attributes and map members, indexes of lists."""


@dataclass(frozen=True, slots=True)
class Path:
    """A document path; before binding a name may be a placeholder, `#` and what follows."""

    steps: Steps


@dataclass(frozen=True, slots=True)
class Value:
    """An expression value: its placeholder, `:` and what follows, and once bound its content."""

    name: str
    content: dict[str, Any] | None = None

    @property
    def kind(self) -> str:
        """The type of the bound value, as in `S` or `NS`."""
        assert self.content is not None, "asked of bound values only"  # noqa: S101 (narrowing)
        return next(iter(self.content))


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function with its operands; also arithmetic, with `+` or `-` as its name."""

    function: str
    operands: tuple["Operand", ...]


Operand: TypeAlias = Path | Value | FunctionCall


@dataclass(frozen=True, slots=True)
class ComparisonTree:
    """A comparator (`=`, `<>`, `<`, ..., `BETWEEN`, `IN`) with its operands."""

    operator: str
    operands: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Logic:
    """`AND`, `OR` or `NOT` of conditions."""

    operator: str
    parts: tuple["Condition", ...]


Condition: TypeAlias = ComparisonTree | Logic | FunctionCall
Tree: TypeAlias = Operand | ComparisonTree | Logic


@dataclass(frozen=True, slots=True)
class Action:
    """One part of an update: `SET path = operand`, `REMOVE path`, `ADD` or `DELETE path value`."""

    section: str
    path: Path
    operand: Operand | None


def children(tree: Tree) -> tuple[Tree, ...]:
    """Return the direct parts of a tree."""
    match tree:
        case FunctionCall() | ComparisonTree():
            return tree.operands
        case Logic():
            return tree.parts
        case _:
            return ()


def paths(tree: Tree) -> Iterator[Path]:
    """Walk the paths of a tree."""
    if isinstance(tree, Path):
        yield tree
    for part in children(tree):
        yield from paths(part)


EXPRESSION_BYTES_MAX = 4096
IN_OPERANDS_MAX = 100
INDEX_MAX = 2**31 - 1
COMPARATORS = ("=", "<>", "<", "<=", ">", ">=")
SECTIONS = ("SET", "REMOVE", "ADD", "DELETE")
_KEYWORDS = frozenset({*SECTIONS, "AND", "OR", "NOT", "BETWEEN", "IN"})
_PARSED_MAX = 512
_TOKEN = re.compile(
    r"[ \t\r\n]*(?:(?P<name>[A-Za-z][A-Za-z0-9_]*)|(?P<placeholder>#[A-Za-z0-9_]+)"
    r"|(?P<value>:[A-Za-z0-9_]+)|(?P<index>0|[1-9][0-9]*)|(?P<sign><>|<=|>=|[-+=<>()\[\],.]))"
)
_BLANK = re.compile(r"[ \t\r\n]*")
_Parsed = TypeVar("_Parsed")


def check_text(what: str, expression: object) -> str:
    """Return an expression's text.

    Raises:
        ApiError: ValidationException: it is empty, or too long.
    """
    if not isinstance(expression, str) or not expression:
        raise invalid(f"Invalid {what}: The expression can not be empty;")
    size = len(expression.encode())
    if size > EXPRESSION_BYTES_MAX:
        raise invalid(
            f"Invalid {what}: Expression size has exceeded the maximum allowed size; expression "
            f"size: {size}"
        )
    return expression


@lru_cache(maxsize=_PARSED_MAX)
def condition(what: str, expression: str) -> Condition:
    """Read a condition, filter or key condition expression; `what` names it in messages.

    Raises:
        ApiError: ValidationException.
    """
    parser = _Parser(what, expression)
    return parser.whole(lambda: parser.condition(parser.either()))


@lru_cache(maxsize=_PARSED_MAX)
def update(expression: str) -> tuple[Action, ...]:
    """Read an update expression.

    Raises:
        ApiError: ValidationException.
    """
    parser = _Parser("UpdateExpression", expression)
    return parser.whole(parser.actions)


@lru_cache(maxsize=_PARSED_MAX)
def projection(expression: str) -> tuple[Path, ...]:
    """Read a projection expression.

    Raises:
        ApiError: ValidationException.
    """
    parser = _Parser("ProjectionExpression", expression)
    return parser.whole(lambda: parser.listed(parser.path))


class _Parser:
    """Reads one expression from its first token to its last.

    A parenthesis may hold a condition or an operand, and only what follows it says which: so both
    are read by the same methods, and `condition` or `operand` checks what came of it.
    """

    def __init__(self, what: str, expression: str) -> None:
        self._what = what
        self._tokens = self._split(expression)
        self._at = 0

    def _split(self, expression: str) -> list[tuple[str, str]]:
        tokens: list[tuple[str, str]] = []
        end = 0
        length = len(expression)
        while (start := _blank_end(expression, end)) < length:
            match = _TOKEN.match(expression, end)
            if match is None:
                raise self._syntax_error(expression[start])
            kind = str(match.lastgroup)
            text = match[kind]
            if kind == "name" and text.upper() in _KEYWORDS:
                kind, text = "keyword", text.upper()
            tokens.append((kind, text))
            end = match.end()
        tokens.append(("end", "<EOF>"))
        return tokens

    def _syntax_error(self, token: str) -> ApiError:
        return invalid(f'Invalid {self._what}: Syntax error; token: "{token}"')

    def _fault(self) -> ApiError:
        return self._syntax_error(self._tokens[self._at][1])

    def _is(self, *texts: str) -> bool:
        kind, text = self._tokens[self._at]
        return text in texts and kind in ("keyword", "sign")

    def _take(self, text: str) -> bool:
        """Step over this keyword or sign if it comes next."""
        taken = self._is(text)
        self._at += taken
        return taken

    def _need(self, text: str) -> None:
        if not self._take(text):
            raise self._fault()

    def _need_kind(self, kind: str) -> str:
        found, text = self._tokens[self._at]
        if found != kind:
            raise self._fault()
        self._at += 1
        return text

    def whole(self, read: Callable[[], _Parsed]) -> _Parsed:
        """Read what must be the whole expression.

        Raises:
            ApiError: ValidationException, also for parentheses in more levels than Python can call.
        """
        try:
            parsed = read()
        except RecursionError:
            raise invalid(f"Invalid {self._what}: The expression is nested too deeply") from None
        if self._tokens[self._at][0] != "end":
            raise self._fault()
        return parsed

    def listed(self, read: Callable[[], _Parsed]) -> tuple[_Parsed, ...]:
        """Read one or more, separated by commas."""
        parts = [read()]
        while self._take(","):
            parts.append(read())
        return tuple(parts)

    def condition(self, tree: Tree) -> Condition:
        """Return the tree, which must be a condition."""
        match tree:
            case Path() | Value():
                raise self._fault()
            case _:
                return tree

    def operand(self) -> Operand:
        """Read an operand, in parentheses or not."""
        tree = self._primary()
        if isinstance(tree, ComparisonTree | Logic):
            raise self._fault()
        return tree

    def either(self, operators: tuple[str, ...] = ("OR", "AND")) -> Tree:
        """Read conditions joined by OR, and the parts of each by AND, which binds closer."""
        if not operators:
            return self._negated()
        operator, inner = operators[0], operators[1:]
        first = self.either(inner)
        if not self._is(operator):
            return first
        parts = [self.condition(first)]
        while self._take(operator):
            parts.append(self.condition(self.either(inner)))
        return Logic(operator, tuple(parts))

    def _negated(self) -> Tree:
        negations = 0
        while self._take("NOT"):
            negations += 1
        tree = self._compared()
        if not negations:
            return tree
        condition = self.condition(tree)
        return Logic("NOT", (condition,)) if negations % 2 else condition

    def _compared(self) -> Tree:
        first = self._primary()
        if self._is(*COMPARATORS):
            operator = self._tokens[self._at][1]
            self._at += 1
            return self._comparison(operator, first, self.operand())
        if self._take("BETWEEN"):
            low = self.operand()
            self._need("AND")
            return self._comparison("BETWEEN", first, low, self.operand())
        if self._take("IN"):
            self._need("(")
            options = self.listed(self.operand)
            self._need(")")
            if len(options) > IN_OPERANDS_MAX:
                raise invalid(
                    f"Invalid {self._what}: The IN operator is provided with too many operands; "
                    f"number of operands: {len(options)}"
                )
            return self._comparison("IN", first, *options)
        return first

    def _comparison(self, operator: str, first: Tree, *others: Operand) -> ComparisonTree:
        if isinstance(first, ComparisonTree | Logic):
            raise self._fault()
        return ComparisonTree(operator, (first, *others))

    def _primary(self) -> Tree:
        if self._take("("):
            if self._is("(") and self._tokens[self._closes(self._at) + 1] == ("sign", ")"):
                raise invalid(f"Invalid {self._what}: The expression has redundant parentheses;")
            tree = self.either()
            self._need(")")
            return tree
        kind, text = self._tokens[self._at]
        if kind == "value":
            self._at += 1
            return Value(text)
        if kind == "name" and self._tokens[self._at + 1] == ("sign", "("):
            self._at += 2
            operands = self.listed(self.operand)
            self._need(")")
            return FunctionCall(text, operands)
        return self.path()

    def _closes(self, opening: int) -> int:
        """Return where the parenthesis is that closes the one at `opening`."""
        depth = 0
        for position in range(opening, len(self._tokens)):
            kind, text = self._tokens[position]
            depth += (text == "(") - (text == ")") if kind == "sign" else 0
            if depth == 0:
                return position
        raise self._syntax_error("<EOF>")

    def path(self) -> Path:
        """Read a document path."""
        steps: list[str | int] = [self._path_name()]
        while True:
            if self._take("."):
                steps.append(self._path_name())
            elif self._take("["):
                steps.append(self._index())
                self._need("]")
            else:
                return Path(tuple(steps))

    def _path_name(self) -> str:
        kind = self._tokens[self._at][0]
        return self._need_kind("placeholder" if kind == "placeholder" else "name")

    def _index(self) -> int:
        index = int(self._need_kind("index"))
        if index > INDEX_MAX:
            raise invalid(
                f"Invalid {self._what}: List index is not within the allowable range; index: "
                f"[{index}]"
            )
        return index

    def actions(self) -> tuple[Action, ...]:
        """Read the sections of an update expression."""
        actions: list[Action] = []
        seen: set[str] = set()
        while True:
            kind, section = self._tokens[self._at]
            if kind != "keyword" or section not in SECTIONS:
                raise self._fault()
            if section in seen:
                raise invalid(
                    f'Invalid {self._what}: The "{section}" section can only be used once in an '
                    "update expression;"
                )
            seen.add(section)
            self._at += 1
            actions += self.listed(lambda section=section: self._action(section))  # type: ignore[misc]
            if self._tokens[self._at][0] == "end":
                return tuple(actions)

    def _action(self, section: str) -> Action:
        path = self.path()
        match section:
            case "SET":
                self._need("=")
                return Action(section, path, self._assigned())
            case "REMOVE":
                return Action(section, path, None)
            case _:
                return Action(section, path, Value(self._need_kind("value")))

    def _assigned(self) -> Operand:
        """Read the right-hand side of SET: at most one sum or difference, in parentheses or not."""
        if self._is("(") and self._sum_in_parentheses():
            self._at += 1
            tree = self._sum()
            self._need(")")
            return tree
        return self._sum()

    def _sum_in_parentheses(self) -> bool:
        closes = self._closes(self._at)
        inside = self._tokens[self._at + 1 : closes]
        return any(kind == "sign" and text in ("+", "-") for kind, text in inside)

    def _sum(self) -> Operand:
        first = self.operand()
        for operator in ("+", "-"):
            if self._take(operator):
                return FunctionCall(operator, (first, self.operand()))
        return first


def _blank_end(expression: str, start: int) -> int:
    match = _BLANK.match(expression, start)
    return match.end() if match else start

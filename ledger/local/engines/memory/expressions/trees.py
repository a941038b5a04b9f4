"""What expressions consist of, as `syntax` reads them and `binding` fills them in.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

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
class Call:
    """A function with its operands; also arithmetic, with `+` or `-` as its name."""

    function: str
    operands: tuple["Operand", ...]


Operand: TypeAlias = Path | Value | Call


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparator (`=`, `<>`, `<`, ..., `BETWEEN`, `IN`) with its operands."""

    operator: str
    operands: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Logic:
    """`AND`, `OR` or `NOT` of conditions."""

    operator: str
    parts: tuple["Condition", ...]


Condition: TypeAlias = Comparison | Logic | Call
Tree: TypeAlias = Operand | Comparison | Logic


@dataclass(frozen=True, slots=True)
class Action:
    """One part of an update: `SET path = operand`, `REMOVE path`, `ADD` or `DELETE path value`."""

    section: str
    path: Path
    operand: Operand | None


def children(tree: Tree) -> tuple[Tree, ...]:
    """Return the direct parts of a tree."""
    match tree:
        case Call() | Comparison():
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

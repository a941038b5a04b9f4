"""Conditions of writes as values, and their evaluation on an item.

Pure: no clock, no randomness, no I/O.
"""

import operator
from dataclasses import dataclass
from typing import Literal

from ledger.core import amounts
from ledger.core.entry import AttributeValue, Item

_OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True, slots=True)
class Absent:
    """The item does not exist."""


@dataclass(frozen=True, slots=True)
class Equals:
    """The item exists and the attribute has this value."""

    attribute: str
    value: AttributeValue


@dataclass(frozen=True, slots=True)
class Has:
    """The item exists and has this attribute."""

    attribute: str


@dataclass(frozen=True, slots=True)
class Compares:
    """The item exists, and comparing its attribute, a number or string, with the value is true."""

    attribute: str
    operator: Literal["<", "<=", ">", ">="]
    value: AttributeValue


@dataclass(frozen=True, slots=True)
class Contains:
    """The item exists, and the attribute is a set or list that contains the value."""

    attribute: str
    value: AttributeValue


@dataclass(frozen=True, slots=True)
class Shorter:
    """The item exists, and the attribute, a set or list, has fewer than `size` elements."""

    attribute: str
    size: int


@dataclass(frozen=True, slots=True)
class Not:
    """The condition is false; for a missing item every condition but `Absent` is."""

    condition: "Condition"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every one of these conditions is true."""

    conditions: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of these conditions is true."""

    conditions: tuple["Condition", ...]


Condition = Absent | Equals | Has | Compares | Contains | Shorter | Not | AllOf | AnyOf


def holds(condition: Condition | None, item: Item | None) -> bool:  # noqa: C901, PLR0911 (one line per kind)
    """Return whether a condition is true of an item, or of its absence."""
    present = item or {}
    match condition:
        case None:
            return True
        case Absent():
            return item is None
        case Equals(attribute, value):
            return _same(present.get(attribute), value)
        case Has(attribute):
            return attribute in present
        case Compares(attribute, relation, value):
            return _compares(present.get(attribute), relation, value)
        case Contains(attribute, value):
            return _contains(present.get(attribute, {}), value)
        case Shorter(attribute, size):
            return attribute in present and _length(present[attribute]) < size
        case Not(inner):
            return not holds(inner, item)
        case AllOf(conditions):
            return all(holds(part, item) for part in conditions)
        case AnyOf(conditions):
            return any(holds(part, item) for part in conditions)


def _compares(found: AttributeValue | None, relation: str, value: AttributeValue) -> bool:
    """Compare two numbers by value, or two strings by bytes; for other types, return False."""
    ((kind, content),) = value.items()
    if found is None or kind not in found:
        return False
    one, other = (
        amounts.of_text(text) if kind == "N" else text.encode() for text in (found[kind], content)
    )
    return bool(_OPERATORS[relation](one, other))


def _contains(found: AttributeValue, value: AttributeValue) -> bool:
    if "L" in found:
        return any(_same(element, value) for element in found["L"])
    ((kind, content),) = value.items()
    elements = found.get(f"{kind}S", ())
    return any(_same({kind: element}, {kind: content}) for element in elements)


def _length(found: AttributeValue) -> int:
    """Return the number of elements of a set or list, or of bytes of a string."""
    ((kind, content),) = found.items()
    return len(content.encode() if kind == "S" else content)


def _same(one: AttributeValue | None, other: AttributeValue) -> bool:
    """Compare as DynamoDB does: numbers by value, not by notation."""
    if one is not None and "N" in one and "N" in other:
        return amounts.of_text(one["N"]) == amounts.of_text(other["N"])
    return one == other

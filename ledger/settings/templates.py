"""Dotted paths into a record, and templates that make counter ids of its fields.

`risk/{Hierarchy.RiskType}/{Hierarchy.Region}` uses two fields, `trades/{Timestamp:day}` the day
of a time in UTC; literal braces are doubled.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from types import MappingProxyType
from typing import Any, NamedTuple

PATH_CHARACTERS_MAX = 256

Path = tuple[str, ...]

TIME_FORMS: Mapping[str, int] = MappingProxyType({"hour": 13, "day": 10, "month": 7})
"""The parts of a time that a template can use: how many characters of it in ISO 8601."""


class Field(NamedTuple):
    """A field of a template: its path, and the part of its time; empty for a whole label."""

    path: Path
    form: str = ""


@dataclass(frozen=True, slots=True)
class Template:
    """A text with fields: `literals` has one more than there are `fields`, around them."""

    literals: tuple[str, ...]
    fields: tuple[Field, ...]

    def render(self, values: Mapping[Field, str]) -> str:
        """Return the text with these values in place of the fields."""
        parts = [self.literals[0]]
        for field, literal in zip(self.fields, self.literals[1:], strict=True):
            parts += (values[field], literal)
        return "".join(parts)


def path_of(text: str) -> Path:
    """Read a dotted path.

    Raises:
        ValueError: it is empty, too long, or a name in it is.
    """
    names = tuple(text.split("."))
    if not all(names) or len(text) > PATH_CHARACTERS_MAX:
        raise ValueError(
            f"field {text[:40]!r} must be names joined by dots, such as Hierarchy.Desk"
        )
    return names


def template_of(text: str) -> Template:
    """Read a template.

    Raises:
        ValueError: braces do not match, or they do not contain a dotted path with an optional form
            of time.
    """
    literals, fields = [""], list[Field]()
    for literal, name, form, conversion in _parsed(text):
        literals[-1] += literal
        if name is None:
            continue
        if conversion or (form and form not in TIME_FORMS):
            raise ValueError(
                f"template {text!r}: braces hold a dotted path, and after a colon"
                f" {', '.join(TIME_FORMS)} for that of a time"
            )
        fields.append(Field(path_of(name), form or ""))
        literals.append("")
    return Template(tuple(literals), tuple(fields))


def _parsed(text: str) -> list[tuple[str, str | None, str | None, str | None]]:
    try:
        return list(Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"template {text!r}: {error}") from None


def look_up(record: Mapping[str, Any], path: Path) -> Any:
    """Return the value at a path.

    Raises:
        KeyError: there is no value.
    """
    found: Any = record
    for name in path:
        if not isinstance(found, dict):
            raise KeyError(name)
        found = found[name]
    return found

"""Dotted paths into a record, and templates that make counter ids of its fields.

`risk/{Hierarchy.RiskType}/{Hierarchy.Region}` takes two fields; braces that are meant stand twice.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any

PATH_CHARACTERS_MAX = 256

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """A text with fields: `literals` has one more than there are `paths`, around them."""

    literals: tuple[str, ...]
    paths: tuple[Path, ...]

    def render(self, values: Mapping[Path, str]) -> str:
        """Return the text with these values in place of the fields."""
        parts = [self.literals[0]]
        for path, literal in zip(self.paths, self.literals[1:], strict=True):
            parts += (values[path], literal)
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
        ValueError: braces do not match, or what they hold is no dotted path.
    """
    literals, paths = [""], list[Path]()
    for literal, name, form, conversion in _parsed(text):
        literals[-1] += literal
        if name is None:
            continue
        if form or conversion:
            raise ValueError(f"template {text!r}: braces hold a dotted path and nothing else")
        paths.append(path_of(name))
        literals.append("")
    return Template(tuple(literals), tuple(paths))


def _parsed(text: str) -> list[tuple[str, str | None, str | None, str | None]]:
    try:
        return list(Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"template {text!r}: {error}") from None


def look_up(record: Mapping[str, Any], path: Path) -> Any:
    """Return what lies at a path.

    Raises:
        KeyError: there is nothing.
    """
    found: Any = record
    for name in path:
        if not isinstance(found, dict):
            raise KeyError(name)
        found = found[name]
    return found

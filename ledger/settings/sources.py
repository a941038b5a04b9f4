"""The sources of settings, and the place to blame when one is wrong.

`Settings` knows the rules; this module knows places: the lines of a YAML file, the names of
variables, the arguments of a call. It reads all three into one plain mapping, and turns the
problems that pydantic finds in it into a `SettingsError` that names the place of each.
"""

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from ledger.core.errors import SettingsError
from ledger.core.urls import without_passwords
from ledger.settings.rules import rule_of
from ledger.settings.variables import CONFIG_VARIABLE, read_variables, variable_of

DEFAULT_FILE = Path("regions.yaml")
FILE_BYTES_MAX = 1_000_000
"""Larger than any settings file, so a data file named by mistake is not parsed."""
NESTING_MAX = 8
"""Deeper than any setting."""
VALUES_MAX = 100_000
"""More than any settings file has."""
VALUE_SHOWN_CHARACTERS_MAX = 60

CONSTANT = "constant"
"""Marks, in `json_schema_extra`, a field that can be set only in code."""

_MAPPING_TAG = "tag:yaml.org,2002:map"
_NAME_TAGS = {"tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"}
# What PyYAML raises, besides its own errors, for a value that its tag does not fit (`!!int ""`), a
# date such as 2026-13-45, or bytes that are not UTF-8.
_YAML_FAULTS = (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError)

Location = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Broken:
    """A broken relation: the fields involved, the one to blame first, and the message."""

    fields: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class SettingsProblem:
    """One broken rule, the locations that can be blamed for it, and the text without a place."""

    locations: tuple[Location, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Sources:
    """The values of each source, and the lines of the file, to find a problem's place."""

    file: str | None = None
    lines: Mapping[Location, int] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    file_values: Mapping[str, Any] = field(default_factory=dict)

    def merged(self) -> dict[str, Any]:
        """Return the values of all sources: arguments before variables before the file."""
        return merge(merge(self.file_values, self.variables), self.arguments)

    def place(self, locations: tuple[Location, ...]) -> str:
        """Return the first place that set one of the locations: argument, variable or line."""
        for location in locations:
            if _reaches(self.arguments, location):
                return ""
            if _reaches(self.variables, location):
                return f"{variable_of(location)}: "
            if line := _line(self.lines, location):
                return f"{self.file}, line {line}: "
        return f"{self.file}: " if self.file else ""


def read_sources(
    settings_type: type[BaseModel], path: str | Path | None, arguments: Mapping[str, Any]
) -> Sources:
    """Read the file that `path`, LEDGER_CONFIG or ./regions.yaml names, and the variables.

    Raises:
        SettingsError: the file is missing, unreadable or not a YAML mapping, or has a key twice; or
            a variable names no setting, or is not JSON where it should be.
    """
    variables = read_variables(settings_type)
    named = path or os.environ.get(CONFIG_VARIABLE)
    if named == "":
        raise SettingsError(f"{CONFIG_VARIABLE} is empty: name a settings file, or unset it")
    chosen = Path(named) if named else DEFAULT_FILE
    if not named and not chosen.exists():
        if "regions" not in variables and "regions" not in arguments:
            raise SettingsError(
                f"no settings: there is no {DEFAULT_FILE} in the current directory; "
                f"name a file with --config or {CONFIG_VARIABLE}"
            )
        return Sources(variables=variables, arguments=arguments)
    values, lines = read_settings_file(chosen)
    return Sources(
        file=str(chosen),
        lines=lines,
        variables=variables,
        arguments=arguments,
        file_values=values,
    )


def read_settings_file(path: Path) -> tuple[dict[str, Any], dict[Location, int]]:
    """Return the mapping in a YAML file, and the line of each location in it.

    Raises:
        SettingsError: as for `read_sources`.
    """
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such settings file") from None
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:  # not a valid file name
        raise SettingsError(
            f"path must be the name of a file, got {str(path)!r}: {error}"
        ) from None
    if len(content) > FILE_BYTES_MAX:
        raise SettingsError(f"{path}: over {FILE_BYTES_MAX} bytes: too large for a settings file")
    return _parse(str(path), content)


def _parse(name: str, content: bytes) -> tuple[dict[str, Any], dict[Location, int]]:
    try:
        loader = yaml.SafeLoader(content)
        node = loader.get_single_node()
        if node is None:
            return {}, {}
        if not isinstance(node, yaml.MappingNode) or node.tag != _MAPPING_TAG:
            raise SettingsError(f"{name}, line 1: settings must be `name: value` pairs")
        _check_size(name, node)
        lines = dict(_walk(name, node, ()))
        return loader.construct_document(node), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}, line {mark.line + 1}" if mark else name
        raise SettingsError(f"{where}: not YAML: {error.problem or error.context}") from None
    except RecursionError:
        raise SettingsError(f"{name}: not settings: nested too deeply") from None
    except _YAML_FAULTS as error:
        raise SettingsError(f"{name}: not YAML: {' '.join(str(error).split())}") from None


def _check_size(name: str, root: yaml.Node) -> None:
    """Check how many values a file has with each alias expanded.

    A few lines of nested aliases can stand for millions.

    Raises:
        SettingsError: over `VALUES_MAX`, or an alias inside the value that it repeats.
    """
    sizes: dict[int, int | None] = {}  # None: count not finished

    def size(node: yaml.Node) -> int:
        key = id(node)
        if key not in sizes:
            sizes[key] = None
            sizes[key] = 1 + sum(map(size, _children(node)))
        found = sizes[key]
        line = f"{name}, line {node.start_mark.line + 1}"
        if found is None:
            raise SettingsError(f"{line}: an alias inside the value that it repeats")
        if found > VALUES_MAX:
            raise SettingsError(f"{line}: over {VALUES_MAX:,} values, counting those of aliases")
        return found

    size(root)


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair


def _walk(name: str, node: yaml.Node, location: Location) -> Iterator[tuple[Location, int]]:
    """Yield each location below a node with its line.

    Raises:
        SettingsError: a key appears twice (YAML's own loader would silently take the last), or
            is not text: unquoted, `on` is a boolean and `1` a number.
    """
    if len(location) >= NESTING_MAX:
        return
    if isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*location, index), value.start_mark.line + 1
            yield from _walk(name, value, (*location, index))
    elif isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            text, line = str(key.value), key.start_mark.line + 1
            if key.tag not in _NAME_TAGS:
                shown = repr(text) if isinstance(key, yaml.ScalarNode) else "a list or mapping"
                raise SettingsError(
                    f"{name}, line {line}: a name must be text, not {shown}: put it in quotes"
                )
            if text in seen:
                raise SettingsError(
                    f"{name}, line {line}: {text!r} appears twice, first in line {seen[text]}"
                )
            seen[text] = line
            yield (*location, text), line
            yield from _walk(name, value, (*location, text))


def merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one mapping over another; mappings in both are merged in turn."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = merge(below, value)
        else:
            merged[key] = value
    return merged


def raise_broken(broken: tuple[Broken, ...]) -> None:
    """Raise, inside a pydantic validator, for the relations that do not hold; if any.

    Raises:
        PydanticCustomError: with all of them, so that `problems_of` can list each.
    """
    if broken:
        message = "; ".join(relation.message for relation in broken)
        raise PydanticCustomError("relations", "{message}", {"message": message, "broken": broken})


def problems_of(
    error: ValidationError, settings_type: type[BaseModel]
) -> tuple[SettingsProblem, ...]:
    """Return every broken rule in a validation error, each as one line of text without a place."""
    return tuple(
        problem
        for details in error.errors(include_url=False)
        for problem in _problems(details, settings_type)
    )


def constants_in(sources: Sources, settings_type: type[BaseModel]) -> Iterator[SettingsProblem]:
    """Yield a problem for each constant to which a file or a variable gives another value."""
    for location, value in _constants(settings_type, (), sources):
        given = [_at(each, location) for each in (sources.file_values, sources.variables)]
        if any(other is not None and str(other) != str(value) for other in given):
            name = ".".join(location)
            yield SettingsProblem(
                (location,), f"{name} is a constant ({value}), not a setting: remove it"
            )


def _constants(
    group: type[BaseModel], above: tuple[str, ...], sources: Sources
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the place of each constant and its value; of groups by name, where one is given."""
    for name, known in group.model_fields.items():
        extra = known.json_schema_extra
        if isinstance(extra, Mapping) and extra.get(CONSTANT):
            yield (*above, name), known.default
        elif isinstance(known.annotation, type) and issubclass(known.annotation, BaseModel):
            yield from _constants(known.annotation, (*above, name), sources)
        elif (named := _group_by_name(known.annotation)) is not None:
            for key in _keys_at(sources, (*above, name)):
                yield from _constants(named, (*above, name, key), sources)


def _group_by_name(annotation: object) -> type[BaseModel] | None:
    """Return the group of which a field has several by name, if it is such a field."""
    if get_origin(annotation) is not dict:
        return None
    kind = get_args(annotation)[1]
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _keys_at(sources: Sources, location: Location) -> Iterator[str]:
    for values in (sources.file_values, sources.variables):
        found = _at(values, location)
        if isinstance(found, Mapping):
            yield from map(str, found)


def _at(values: Any, location: Location) -> Any:
    for part in location:
        if not isinstance(values, Mapping) or part not in values:
            return None
        values = values[part]
    return values


def settings_error(problems: tuple[SettingsProblem, ...], sources: Sources) -> SettingsError:
    """Return the error for one or more problems: the first as message, how many more, and all."""
    texts = tuple(f"{sources.place(problem.locations)}{problem.text}" for problem in problems)
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    return SettingsError(f"{texts[0]}{more}", problems=texts)


def _problems(details: ErrorDetails, settings_type: type[BaseModel]) -> Iterator[SettingsProblem]:
    location = details["loc"]
    name = ".".join(str(part) for part in location) or "settings"
    kind = details["type"]
    if kind == "relations":
        for broken in details["ctx"]["broken"]:
            yield SettingsProblem(
                tuple((*location, name) for name in broken.fields), broken.message
            )
    elif kind == "default_factory_not_called":
        return  # the value that it follows from is reported itself
    elif kind == "missing":
        yield SettingsProblem((location,), f"{name} is missing")
    elif kind == "extra_forbidden":
        yield SettingsProblem(
            (location,), f"{name} is not a setting{_nearest(location, settings_type)}"
        )
    else:
        shown = without_passwords(repr(details["input"]))
        if len(shown) > VALUE_SHOWN_CHARACTERS_MAX:
            shown = f"{shown[:VALUE_SHOWN_CHARACTERS_MAX]}..."
        yield SettingsProblem((location,), f"{name} is {shown}: {rule_of(details)}")


def _nearest(location: Location, settings_type: type[BaseModel]) -> str:
    known: type[BaseModel] = settings_type
    for part in location[:-1]:
        known_field = known.model_fields.get(str(part))
        group = known_field.annotation if known_field else None
        if not (isinstance(group, type) and issubclass(group, BaseModel)):
            return ""
        known = group
    names = sorted(known.model_fields)
    return did_you_mean(str(location[-1]), names) or f"; known here: {', '.join(names)}"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the one like it, if there is one."""
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _reaches(values: object, location: Location) -> bool:
    for part in location:
        if isinstance(values, Mapping):
            if part not in values:
                return False
            values = values[part]
        elif isinstance(values, (list, tuple)):
            if not isinstance(part, int) or part >= len(values):
                return False
            values = values[part]
        else:
            return True  # a plain value is the place of everything derived from it
    return True


def _line(lines: Mapping[Location, int], location: Location) -> int | None:
    for length in range(len(location), 0, -1):
        if line := lines.get(location[:length]):
            return line
    return None

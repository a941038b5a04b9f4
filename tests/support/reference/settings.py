"""The page of all settings: their texts are the comments of `regions.yaml`, else docstrings."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from support.reference.tables import row, table

from ledger.settings.fields import SettingsFields
from ledger.settings.groups import Group
from ledger.settings.model import CONTRACTED, Settings
from ledger.settings.sources import CONSTANT
from ledger.settings.variables import NESTING, OTHERS, PREFIX

FILE = Path(__file__).resolve().parents[3] / "regions.yaml"
HEAD = f"""\
# Settings

[`regions.yaml`](../../../regions.yaml) is a file of settings with every default. Each setting is an
environment variable, too: `{PREFIX}TABLE` sets `table`, and `{PREFIX}CACHE{NESTING}MAX_AGE` sets
`max_age` of `cache`. A list or a mapping is JSON. A variable counts more than
the file.

In code `Settings(...)` reads neither. It takes the same values by name, as in
`Settings(regions={{"eu-west-1": None}}, settle="20m", cache={{"max_age": "500ms"}})`. The
constructor checks the values that you give; a type checker takes any. Of a value that you read, a
type checker knows the type.

A duration is a number of seconds, or text such as 250ms, 20s, 15m, 5h or 1d, up to 36525d. A
default that *follows* from other settings is shown for a file that names one region alone.
"""
PARTS = {
    "This process": "",
    "The table's contract": (
        "A new table takes these values. From then on the table holds them for every process:\n"
        "`ledger table set NAME VALUE` changes them, and a file that differs is refused.\n\n"
    ),
}
VARIABLES = """
## Other variables

"""
_SAMPLE = Settings(regions={"us-east-1": {}})
_SCHEMA = Settings.model_json_schema()
_KEY = re.compile(r"(?P<indent> *)(?:# )?(?P<key>[a-z_]+):(?P<rest>.*)")
_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_TYPES = {
    "string": "text", "boolean": "true or false", "integer": "whole number", "number": "duration",
    "date-time": "time", "group": "group",
}  # fmt: skip
_BOUNDS = {
    "ge": "at least {}", "minimum": "at least {}", "gt": "above {}", "le": "at most {}",
    "maximum": "at most {}", "maxItems": "at most {}", "maxProperties": "at most {}",
}  # fmt: skip
"""Rules of a schema; pydantic names some by other words where a validator comes before them."""


@dataclass(frozen=True, slots=True)
class SettingsGroup:
    """The settings of one class, where a file has them; `instance` has the defaults that follow."""

    path: str
    kind: type[BaseModel]
    properties: Mapping[str, Any]
    instance: BaseModel | None

    def names(self) -> list[str]:
        """Return the settings that a file can have, but for groups of their own."""
        return [
            name
            for name, said in self.properties.items()
            if CONSTANT not in said and "$ref" not in said
        ]


def page() -> str:
    """Return the page: the settings of the process, of the contract, then each group."""
    whole, *groups = settings_groups()
    own = [name for name in whole.names() if name not in CONTRACTED]
    contracted = [name for name in whole.names() if name in CONTRACTED]
    parts = zip(PARTS.items(), (own, contracted), strict=True)
    sections = [f"\n## {title}\n\n{about}{_table(whole, names)}" for (title, about), names in parts]
    sections += [
        f"\n## `{one.path}`\n\n{_about(one.kind)}\n\n{_table(one, one.names())}" for one in groups
    ]
    variables = "".join(row(f"`{name}`", text) for name, text in OTHERS.items())
    return HEAD + "".join(sections) + VARIABLES + table("variable", "says") + variables


@cache
def settings_groups() -> tuple[SettingsGroup, ...]:
    """Return all settings: those of no group, then each group once."""
    whole = SettingsGroup("", SettingsFields, _SCHEMA["properties"], _SAMPLE)
    return (whole, *{group.kind: group for group in _below(whole)}.values())


def _below(above: SettingsGroup) -> Iterator[SettingsGroup]:
    kinds = {kind.__name__: kind for kind in Group.__subclasses__()}
    for name, said in above.properties.items():
        found = re.search(r"#/\$defs/(\w+)", str({**said, "default": None}))
        if found is None or name == "pipelines":
            continue
        path = f"{above.path}.{name}".lstrip(".") + (
            ".NAME" if "additionalProperties" in said else ""
        )
        instance = getattr(above.instance, name, None)
        group = SettingsGroup(
            path,
            kinds[found[1]],
            _SCHEMA["$defs"][found[1]]["properties"],
            instance if isinstance(instance, BaseModel) else None,
        )
        yield group
        yield from _below(group)


def _about(kind: type[BaseModel]) -> str:
    return (inspect.getdoc(kind) or "").partition("\n\n")[0]


def _table(group: SettingsGroup, names: Iterable[str]) -> str:
    said = table("setting", "type", "default", "bounds", "says")
    for name in names:
        schema = group.properties[name]
        default = _default(group, name)
        said += row(f"`{name}`", _type(schema), default, _bounds(schema), text_about(group, name))
    return said


def _type(schema: Mapping[str, Any]) -> str:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values:
        return ", ".join(f"`{value}`" for value in values)
    if "anyOf" in schema:
        kinds = [_type(one) for one in schema["anyOf"] if one.get("type") != "null"]
        return "amount" if kinds == ["duration", "text"] else " or ".join(kinds)
    kind = schema.get("format") or schema.get("type", "group")
    if kind == "array":
        return f"list of {_type(schema['items'])}s".replace("texts", "text")
    if kind == "object":
        return f"{_type(schema['additionalProperties'])} by name"
    return _TYPES[kind]


def _default(group: SettingsGroup, name: str) -> str:
    field = group.kind.model_fields[name]
    if field.is_required():
        return "required"
    stated = field.get_default(call_default_factory=False)
    value = stated if group.instance is None else getattr(group.instance, name)
    follows = ", follows" if value and value != stated else ""
    return f"{_shown(value)}{follows}" if value not in (None, "") else "none"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{_duration(value)}`"
    return "`[]`" if value == () else f"`{value}`"


def _duration(seconds: float) -> str:
    if not seconds or seconds < 1:
        return f"{seconds * 1000:g}ms" if seconds else "0s"
    return next(f"{seconds / of:g}{unit}" for unit, of in _UNITS.items() if seconds % of == 0)


def _bounds(schema: Mapping[str, Any]) -> str:
    rules = {name: rule for one in (schema, *schema.get("anyOf", ())) for name, rule in one.items()}
    shown = _duration if _type(schema) == "duration" else str
    return ", ".join(
        words.format(shown(rules[name])) for name, words in _BOUNDS.items() if name in rules
    )


def text_about(group: SettingsGroup, name: str) -> str:
    """Return what is said of a setting, as a sentence."""
    text = comments()[group.path].get(name) or docstrings(group.kind).get(name, "")
    # A value with its meaning, such as `off: ...`, begins as it is written.
    begun = text if re.match(r"\w+:", text) else text[:1].upper() + text[1:]
    return begun.rstrip(":.") + "." if begun else ""


@cache
def comments() -> Mapping[str, Mapping[str, str]]:
    """Return the comments of `regions.yaml` by group: behind a setting, else the block above."""
    found: dict[str, dict[str, str]] = {group.path: {} for group in settings_groups()}
    known = {(group.path, name) for group in settings_groups() for name in group.properties}
    top, block = "", list[str]()
    for line in FILE.read_text(encoding="utf-8").splitlines():
        key = _KEY.match(line)
        path = ("", top, f"{top}.NAME")[len(key["indent"]) // 2] if key else ""
        if key and (path, key["key"]) in known:
            top = top if path else key["key"]
            text = key["rest"].partition(" # ")[2].strip() or " ".join(block)
            if text:
                found[path].setdefault(key["key"], text)
            block = []
        else:
            block = [*block, *filter(None, [line.strip(" #")])] if line.strip() else []
    return found


def docstrings(kind: type[BaseModel]) -> Mapping[str, str]:
    """Return the docstrings that stand under the fields of a class."""
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(found, ast.ClassDef)
    return {
        field.target.id: " ".join(inspect.cleandoc(below.value.value).split())
        for field, below in pairwise(found.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }

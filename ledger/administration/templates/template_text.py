"""Templates as text: YAML with CloudFormation's short tags, and JSON for IAM.

The text is a pure function of the value: keys keep their order, nothing is aliased, so a copy in
the repository can be compared byte by byte.

Pure: no clock, no randomness, no I/O.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

LINE_LENGTH = 100
FORMAT_VERSION = "2010-09-09"


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """One of CloudFormation's functions in its short form, such as `!Ref Table`."""

    tag: str
    value: str | tuple[Any, ...]


def ref(name: str) -> Intrinsic:
    """Return the value of a parameter, or the main identifier of a resource."""
    return Intrinsic("!Ref", name)


def sub(text: str) -> Intrinsic:
    """Return `text` with its `${...}` filled in by CloudFormation."""
    return Intrinsic("!Sub", text)


def attribute(name: str) -> Intrinsic:
    """Return one attribute of a resource, as `Resource.Attribute`."""
    return Intrinsic("!GetAtt", name)


def function(tag: str, *values: object) -> Intrinsic:
    """Return one of the functions that take a list, such as `!If`."""
    return Intrinsic(tag, values)


class _Dumper(yaml.SafeDumper):
    """Lists are indented under their key, and equal values are written out, never aliased."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002  # PyYAML's own signature
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # PyYAML's own signature
        return True


def _represent(dumper: _Dumper, intrinsic: Intrinsic) -> yaml.Node:
    if isinstance(intrinsic.value, str):
        return dumper.represent_scalar(intrinsic.tag, intrinsic.value)
    return dumper.represent_sequence(intrinsic.tag, intrinsic.value, flow_style=True)


_Dumper.add_representer(Intrinsic, _represent)
_Dumper.add_representer(tuple, lambda dumper, value: dumper.represent_list(value))


def as_yaml(template: dict[str, Any], *, comment: Sequence[str]) -> str:
    """Return a template as YAML below a comment of some lines."""
    head = "".join(f"# {line}".rstrip() + "\n" for line in comment)
    body = yaml.dump(
        template, Dumper=_Dumper, sort_keys=False, width=LINE_LENGTH, allow_unicode=True
    )
    return head + body


def as_json(policy: dict[str, Any]) -> str:
    """Return a policy as indented JSON; it holds no `Intrinsic`."""
    return json.dumps(policy, indent=2) + "\n"

"""The pages of the reference, as reStructuredText, from what the code exports."""

import asyncio
from importlib import import_module
from inspect import isclass
from types import UnionType
from typing import Any, get_args

from pydantic import BaseModel
from support.reference.endpoints import document, service

from ledger import Ledger, LedgerError, Table

HTTP = "http"
MODULES = {"client": "ledger.http.client", "testing": "ledger.testing", "compactor": "compactor"}
"""Pages that have all names of a module; those of `ledger` have several pages."""


def content(page: str) -> str:
    """Return what a page of the reference has below its introduction."""
    if page == HTTP:
        return _requests(asyncio.run(_openapi()))
    module = MODULES.get(page, "ledger")
    names = import_module(module).__all__
    if page not in MODULES:
        names = [name for name in names if _page_of(getattr(import_module(module), name)) == page]
    return "\n".join(
        _directive(f"{module}.{name}", getattr(import_module(module), name)) for name in names
    )


def is_opened(value: object) -> bool:
    """Return whether a class is made by its `open`."""
    return isclass(value) and hasattr(value, "open")


def is_called(value: object) -> bool:
    """Return whether the arguments of a class are for its users."""
    return not (is_opened(value) or (isclass(value) and issubclass(value, BaseModel | Exception)))


def _page_of(value: object) -> str:
    if value in (Ledger, Table):
        return "ledger"
    if isclass(value) and issubclass(value, LedgerError):
        return "errors"
    return "settings" if isclass(value) and issubclass(value, BaseModel) else "values"


def _directive(name: str, value: object) -> str:
    if isinstance(value, UnionType):
        members = ", ".join(f"`{member.__name__}`" for member in get_args(value))
        return f".. py:data:: {name}\n\n   One of {members}.\n"
    if not isclass(value):
        return f".. autofunction:: {name}\n"
    lines = [f".. autoclass:: {name}"]
    if is_opened(value):
        lines += ["   :members:", "   :inherited-members: object"]
    elif issubclass(value, Exception):
        lines += ["   :show-inheritance:"]
    elif issubclass(value, BaseModel):
        lines += ["", *(f"   - ``{line}``" for line in _fields(value))]
    else:
        lines += ["   :members:"]
    return "\n".join([*lines, ""])


def _fields(model: type[BaseModel]) -> list[str]:
    """Return each field with its default, where that is a plain value."""
    plain = (str, int, float, bool, tuple, dict)
    return [
        f"{name} = {field.default!r}" if isinstance(field.default, plain) else name
        for name, field in model.model_fields.items()
    ]


async def _openapi() -> dict[str, Any]:
    async with service() as client:
        return await document(client)


def _requests(document: dict[str, Any]) -> str:
    parts = []
    for path, operations in document["paths"].items():
        for method, said in operations.items():
            title = f"{method.upper()} {path}"
            parts += [title, "-" * len(title), "", said.get("description") or said["summary"], ""]
            parts += [*_parameters(document, said), *_answers(said), ""]
    return "\n".join(parts)


def _parameters(document: dict[str, Any], said: dict[str, Any]) -> list[str]:
    lines = []
    for parameter in said.get("parameters", ()):
        about = " ".join(parameter.get("description", "").split())
        lines.append(f"- ``{parameter['name']}`` ({parameter['in']}): {about}".rstrip(": "))
    for name, field in _body(document, said).items():
        about = " ".join(field.get("description", "").split())
        lines.append(f"- ``{name}`` (body): {about}".rstrip(": "))
    return [*lines, ""]


def _body(document: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """Return the members of the body of a request, if it has one."""
    schema = said.get("requestBody", {}).get("content", {}).get("application/json", {})
    name = schema.get("schema", {}).get("$ref", "").rpartition("/")[2]
    members: dict[str, Any] = (
        document["components"]["schemas"][name].get("properties", {}) if name else {}
    )
    return members


def _answers(said: dict[str, Any]) -> list[str]:
    answers = [
        f"``{status}`` {' '.join(answer.get('description', '').split())}".strip()
        for status, answer in sorted(said["responses"].items())
    ]
    return [f"Answers: {'; '.join(answers)}."]

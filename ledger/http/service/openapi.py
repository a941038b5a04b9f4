"""What OpenAPI says of the endpoints: bodies, headers, answers and problems.

Endpoints read their bodies themselves, so what FastAPI cannot see is told to it here.
"""

import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from ledger.http.service.budget_request_models import (
    BudgetBody,
    CreditBody,
    ExtendBody,
    HoldBody,
    SettleBody,
    SpendBody,
    VoidBody,
)
from ledger.http.service.query_models import (
    COUNTER_SCHEMA,
    ENTRY_ID_SCHEMA,
    HOLD_ID_SCHEMA,
    KEY_SCHEMA,
    PREFER_SCHEMA,
    TIME_PATTERN,
)
from ledger.http.service.request_models import (
    DescriptionBody,
    EntriesBody,
    EntryBody,
    ReconcileBody,
    RetryBody,
    ReverseBody,
    TransferBody,
)
from ledger.http.wire.models import name_of_schema
from ledger.http.wire.problems import KINDS, MEDIA_TYPE
from ledger.http.wire.schemas import ANSWERS

REF = "#/components/schemas/{model}"
BODIES: tuple[type[BaseModel], ...] = (
    EntryBody, EntriesBody, RetryBody, ReverseBody, ReconcileBody, DescriptionBody,
    SpendBody, CreditBody, HoldBody, SettleBody, VoidBody, ExtendBody, BudgetBody, TransferBody,
)  # fmt: skip
_PREFER = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "description": "`wait=N`: end after N seconds, 1 to 60, with what is true by then (RFC 7240)."
    " Other preferences are ignored.",
    "schema": PREFER_SCHEMA,
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A UUIDv7 or a ULID, chosen once for the change and kept for every try; another"
    " key comes with Idempotency-Time. The same key with the same body changes nothing. ASCII;"
    " other keys go in the body of POST /v1/entries.",
    "schema": KEY_SCHEMA,
}
_TIME = {
    "name": "Idempotency-Time",
    "in": "header",
    "required": False,
    "description": "The time that was chosen with the key, with a zone, the same at every try;"
    " beside a UUIDv7 or a ULID the time in it.",
    # Generators of clients know no header that is a time, and would leave the operation out.
    "schema": {
        "type": "string",
        "pattern": TIME_PATTERN,
        "examples": ["2026-11-21T06:50:00Z"],
    },
}


_OF_FASTAPI = ("HTTPValidationError", "ValidationError")
"""Models of an answer that the service does not give."""
_PATH = {
    "counter": {
        "description": "The counter's id, percent-encoded, its slashes too.",
        "schema": COUNTER_SCHEMA,
    },
    "book": {
        "description": "The id of the counter that the book is, percent-encoded.",
        "schema": {**COUNTER_SCHEMA, "examples": ["book/shop"]},
    },
    "entry": {
        "description": "The id of an entry, percent-encoded.",
        "schema": ENTRY_ID_SCHEMA,
    },
    "hold": {
        "description": "The id of the entry of a hold, percent-encoded.",
        "schema": HOLD_ID_SCHEMA,
    },
}


def written(body: type[BaseModel], model: str, *, keyed: bool = False) -> dict[str, Any]:
    """Return what is said of an endpoint that writes."""
    said = returns(model, created=True)
    said["parameters"] = [*([_KEY, _TIME] if keyed else []), _PREFER]
    return asks(body, said)


def asks(body: type[BaseModel], said: dict[str, Any]) -> dict[str, Any]:
    """Return what is said of an endpoint, with the body that it takes."""
    content = {"application/json": {"schema": {"$ref": _ref(body.__name__)}}}
    return {**said, "requestBody": {"required": True, "content": content}}


def returns(model: str, *, created: bool = False, waits: bool = True) -> dict[str, Any]:
    """Return what is said of an endpoint's answers: its model, and problems of every status.

    One that `waits` for the table ends when its caller prefers.
    """
    content = {"application/json": {"schema": {"$ref": _ref(model)}}}
    answers = {"200": {"description": model, "content": content}, **problems()}
    if created:
        answers["201"] = {"description": f"{model}, new", "content": content}
    return {"responses": answers, "parameters": [_PREFER] if waits else []}


def probe(model: str) -> dict[str, Any]:
    """Return what is said of an endpoint that is asked without a token."""
    content = {"application/json": {"schema": {"$ref": _ref(model)}}}
    answers = {"200": {"description": model, "content": content}, **problems()}
    return {"responses": answers, "security": []}


def text(description: str, *, public: bool = False) -> dict[str, Any]:
    """Return what is said of an endpoint whose answer is text."""
    content = {"text/plain": {"schema": {"type": "string"}}}
    said: dict[str, Any] = {
        "responses": {"200": {"description": description, "content": content}, **problems()}
    }
    return {**said, "security": []} if public else said


def problems() -> dict[str, Any]:
    """Return the answers that are problems, by status."""
    answers: dict[str, Any] = {}
    problem = {MEDIA_TYPE: {"schema": {"$ref": _ref("Problem")}}}
    for status in sorted({int(kind.status) for kind in KINDS.values()}):
        names = ", ".join(sorted(kind.name for kind in KINDS.values() if kind.status == status))
        answers[str(status)] = {"description": names, "content": problem}
    return answers


def events(model: str) -> dict[str, Any]:
    """Return what is said of an endpoint whose answer is a stream of events."""
    said = returns(model, waits=False)
    content = {"text/event-stream": {"schema": {"type": "string"}}}
    said["responses"]["200"] = {"description": f"Events of {model}", "content": content}
    return said


class _Schemas(GenerateJsonSchema):
    def normalize_name(self, name: str) -> str:
        """Return the name that a model has in the document."""
        return name_of_schema(super().normalize_name(name))


def add_models(document: dict[str, Any], models: Sequence[type[BaseModel]] = ()) -> dict[str, Any]:
    """Add the schemas of bodies and answers to a document of FastAPI's, and how to authenticate."""
    every = (*BODIES, *ANSWERS, *models)
    _, found = models_json_schema(
        [(model, "validation") for model in every], ref_template=REF, schema_generator=_Schemas
    )
    components = document.setdefault("components", {})
    known = components.setdefault("schemas", {})
    known.update(found.get("$defs", {}))
    for name in _OF_FASTAPI:
        known.pop(name, None)
    for model in known.values():
        _drop_null_defaults(model)
    components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"bearer": []}]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _complete(path, operation)
    return document


def _drop_null_defaults(model: dict[str, Any]) -> None:
    """Leave out defaults of null, which say nothing: generators take what has one as required."""
    for member in model.get("properties", {}).values():
        if "default" in member and member["default"] is None:
            del member["default"]


def _complete(path: str, operation: dict[str, Any]) -> None:
    """Add the parameters of a path; FastAPI's answer for those that break a rule is ours: 400."""
    if "HTTPValidationError" in str(operation["responses"].get("422", "")):
        operation["responses"]["422"] = problems()["422"]
    known = operation.setdefault("parameters", [])
    names = {parameter["name"] for parameter in known}
    for name in re.findall(r"{([^}]+)}", path):
        if name in _PATH and name not in names:
            known.insert(0, {"name": name, "in": "path", "required": True, **_PATH[name]})


def _ref(model: str) -> str:
    return REF.format(model=model)

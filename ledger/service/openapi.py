"""What OpenAPI says of the endpoints: bodies, headers, answers and problems.

Endpoints read their bodies themselves, so what FastAPI cannot see is told to it here.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from ledger.service import schemas
from ledger.service.asking import (
    DescriptionBody,
    EntriesBody,
    EntryBody,
    ReconcileBody,
    RetryBody,
    ReverseBody,
)
from ledger.wire.problems import KINDS, MEDIA_TYPE

REF = "#/components/schemas/{model}"
BODIES: tuple[type[BaseModel], ...] = (
    EntryBody, EntriesBody, RetryBody, ReverseBody, ReconcileBody, DescriptionBody,
)  # fmt: skip
_PREFER = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "description": "`wait=N`: end after N seconds, 1 to 60, with what is true by then (RFC 7240).",
    "schema": {"type": "string", "pattern": "^wait=[1-5]?[0-9]$", "example": "wait=5"},
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A UUIDv7 or a ULID, chosen once for the change and kept for every try; another"
    " key comes with Idempotency-Time. The same key with the same body changes nothing.",
    "schema": {"type": "string", "maxLength": 1024},
}
_TIME = {
    "name": "Idempotency-Time",
    "in": "header",
    "required": False,
    "description": "The time that was chosen with the key, with a zone, the same at every try.",
    "schema": {"type": "string", "format": "date-time"},
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


def returns(model: str, *, created: bool = False) -> dict[str, Any]:
    """Return what is said of an endpoint's answers: its model, and problems of every status."""
    content = {"application/json": {"schema": {"$ref": _ref(model)}}}
    answers = {"200": {"description": model, "content": content}}
    if created:
        answers["201"] = {"description": f"{model}, new", "content": content}
    problem = {MEDIA_TYPE: {"schema": {"$ref": _ref("Problem")}}}
    for status in sorted({int(kind.status) for kind in KINDS.values()}):
        names = ", ".join(sorted(kind.name for kind in KINDS.values() if kind.status == status))
        answers[str(status)] = {"description": names, "content": problem}
    return {"responses": answers, "parameters": [_PREFER]}


def events(model: str) -> dict[str, Any]:
    """Return what is said of an endpoint whose answer is a stream of events."""
    said = returns(model)
    content = {"text/event-stream": {"schema": {"type": "string"}}}
    said["responses"]["200"] = {"description": f"Events of {model}", "content": content}
    return said


def add_models(document: dict[str, Any], models: Sequence[type[BaseModel]] = ()) -> dict[str, Any]:
    """Add the schemas of bodies and answers to a document of FastAPI's, and how to authenticate."""
    every = (*BODIES, *schemas.ANSWERS, *models)
    _, found = models_json_schema([(model, "validation") for model in every], ref_template=REF)
    components = document.setdefault("components", {})
    known = components.setdefault("schemas", {})
    known.update(found.get("$defs", {}))
    components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"bearer": []}]
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None) if _is_fastapis(operation) else None
    return document


def _is_fastapis(operation: dict[str, Any]) -> bool:
    """Return whether 422 is what FastAPI adds by itself; the service answers 400 instead."""
    return "HTTPValidationError" in str(operation["responses"].get("422", ""))


def _ref(model: str) -> str:
    return REF.format(model=model)

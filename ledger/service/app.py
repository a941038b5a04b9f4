"""The application: endpoints behind the gate, over the ledger of one region."""

from collections.abc import Callable
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp

from ledger.core.errors import LedgerError
from ledger.ledger import Ledger
from ledger.runtime.clock import Clock
from ledger.service.access.port import Access
from ledger.service.answers import Refused, on_ledger_error, on_refused, problem_answer
from ledger.service.api import describing, entries, live, probes, reading
from ledger.service.context import REQUEST, Context
from ledger.service.gate import Gate, Seen
from ledger.service.openapi import add_models
from ledger.service.options import BODY_BYTES_MAX
from ledger.wire.problems import DEFECT, INVALID, METHOD_NOT_ALLOWED, NOT_FOUND, Kind, Problem

_KINDS: dict[int, Kind] = {
    HTTPStatus.NOT_FOUND: NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED: METHOD_NOT_ALLOWED,
}


def create_app(
    ledger: Ledger,
    *,
    clock: Clock,
    access: Access,
    registry: CollectorRegistry,
    new_id: Callable[[], str],
    on_request: Callable[[Seen], None],
    body_max: int = BODY_BYTES_MAX,
) -> tuple[ASGIApp, Context]:
    """Return the application over a ledger that is open while it is used, and what it shares."""
    context = Context(ledger, clock)
    app = FastAPI(
        title="Ledger",
        version=version("multi-region-ledger"),
        summary="Counters and balances that stay exact when many regions write at once.",
        redoc_url=None,
        docs_url=None,
    )
    app.state.context = context
    for router in (entries.router, reading.router, describing.router, live.router, probes.router):
        app.include_router(router)
    app.include_router(probes.metrics_router(registry))
    app.add_exception_handler(LedgerError, on_ledger_error)
    app.add_exception_handler(Refused, on_refused)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(Exception, _on_defect)
    made: dict[str, Any] = {}

    def document() -> dict[str, Any]:
        if not made:
            made.update(add_models(FastAPI.openapi(app)))
        return made

    app.openapi = document  # type: ignore[method-assign]  # as FastAPI documents it
    gate = Gate(
        app,
        context=context,
        access=access,
        new_id=new_id,
        on_request=on_request,
        public=probes.is_public,
        body_max=body_max,
    )
    return gate, context


async def _on_http_error(request: Request, error: Exception) -> Response:
    """Answer what no route is for."""
    if not isinstance(error, HTTPException):
        raise error
    kind = _KINDS.get(error.status_code, INVALID)
    headers = dict(error.headers or {})
    if kind is METHOD_NOT_ALLOWED:
        headers = {"Allow": ", ".join(_methods(request))}
    return problem_answer(Problem(kind, str(error.detail)), headers)


async def _on_defect(request: Request, _error: Exception) -> Response:
    """Answer what is a defect; the gate logs it."""
    problem = Problem(DEFECT, f"request {request.scope[REQUEST]}", {"outcome": "unknown"})
    return problem_answer(problem)


def _methods(request: Request) -> list[str]:
    """Return the methods of a path, of all routes that it fits: Starlette names the first one's."""
    found: set[str] = set()
    for route in request.app.routes:
        match, _ = route.matches(request.scope)
        if match is not Match.NONE:
            found.update(getattr(route, "methods", None) or ())
    return sorted(found)


async def _on_invalid(_request: Request, error: Exception) -> Response:
    """Answer a query that breaks a rule: the first one, by its name."""
    if not isinstance(error, RequestValidationError):
        raise error
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"][1:]) or "query"
    got = "" if first["type"] == "missing" else f", got {first.get('input')!r:.100}"
    members = {"outcome": "not_applied", "retryable": False}
    return problem_answer(Problem(INVALID, f"{name}: {first['msg'].lower()}{got}", members))

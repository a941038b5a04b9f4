"""The application: endpoints behind the gate, over the ledger of one region.

The application as a process runs it: with request ids, metrics and the two logs.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.metadata import version
from inspect import signature
from random import Random
from typing import TypeGuard, get_type_hints

import orjson
from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from prometheus_client import CollectorRegistry
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Scope

from ledger.core.errors import LedgerError, NotSent
from ledger.http.service.access.access import Access
from ledger.http.service.answers import (
    NOT_APPLIED,
    RETRY_SECONDS,
    CallRefused,
    on_refused,
    problem_answer,
    retry_after,
)
from ledger.http.service.api import (
    books,
    budgets,
    descriptions,
    entries,
    feed,
    fleet,
    live,
    probes,
    reads,
)
from ledger.http.service.context import REQUEST, Context, problem_for
from ledger.http.service.fleet.observer import Fleet
from ledger.http.service.gate import Gate, GateStatus, RequestLog
from ledger.http.service.metrics import ServiceMetrics, log_request
from ledger.http.service.openapi import add_models
from ledger.http.service.options import ServiceOptions
from ledger.http.service.page.static_files import is_page
from ledger.http.service.page.static_files import router as page_router
from ledger.http.service.query_models import Asked, read_query
from ledger.http.wire.problems import DEFECT, INVALID, METHOD_NOT_ALLOWED, NOT_FOUND, Kind, Problem
from ledger.runtime.clock import Clock, system_random
from ledger.session.ledger import Ledger, with_own_keys

_KINDS: dict[int, Kind] = {
    HTTPStatus.NOT_FOUND: NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED: METHOD_NOT_ALLOWED,
}


Endpoint = Callable[..., Awaitable[Response]]
_DEFAULTS = ServiceOptions()
_VERSION = version("multi-region-ledger")
_ROUTERS = (
    entries.router,
    budgets.router,
    budgets.states,
    books.router,
    reads.router,
    descriptions.router,
    live.router,
    feed.router,
    probes.router,
    fleet.router,
    page_router,
)
_ENDPOINTS = [route for router in _ROUTERS for route in router.routes]
"""What FastAPI makes of the endpoints, once for all applications of a process: it keeps each
endpoint for ever, so none may hold an application."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceParts:
    """What the application takes from the process that runs it."""

    clock: Clock
    randomness: Random = field(default_factory=system_random)
    access: Access
    registry: CollectorRegistry
    requests: RequestLog


def create_app(
    ledger: Ledger,
    parts: ServiceParts,
    options: ServiceOptions = _DEFAULTS,
) -> tuple[ASGIApp, Context]:
    """Return the application over a ledger that is open while it is used, and what it shares."""
    with_own_keys(ledger)
    looks = Fleet(ledger, clock=parts.clock, randomness=parts.randomness)
    context = Context(ledger, parts.clock, looks, parts.access, parts.registry)
    app = FastAPI(
        title="Ledger",
        version=_VERSION,
        summary="Counters and balances that stay exact when many regions write at once.",
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.context = context
    app.state.document = probes.OpenApiDocument(lambda: orjson.dumps(add_models(app.openapi())))
    app.router.routes.extend((*_PLAIN_ROUTES, *_ENDPOINTS))
    app.add_exception_handler(LedgerError, _on_ledger_error)
    app.add_exception_handler(CallRefused, on_refused)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(ClientDisconnect, _on_left)
    app.add_exception_handler(Exception, _on_defect)
    gate = Gate(
        app,
        context=context,
        requests=parts.requests,
        public=lambda path: probes.is_public(path) or is_page(path),
        options=options,
    )
    return gate, context


class _PlainRoute(Route):
    """A route that a request's scope names, as FastAPI's do: metrics and log take its path."""

    def __init__(self, route: APIRoute) -> None:
        endpoint, methods = route.endpoint, route.methods or set()
        if route.path.startswith("/v1"):
            endpoint = _with_query(endpoint)
        super().__init__(route.path, endpoint, methods=list(methods))
        self._methods = methods

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether a request is this route's; FastAPI's routes tell the methods of a path."""
        if scope["method"] not in self._methods:
            return Match.NONE, {}
        match, found = super().matches(scope)
        return match, {**found, "route": self}


def _with_query(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint of a request alone, whose query is read; one without any refuses each."""
    kind = get_type_hints(endpoint).get("asked")

    async def reading(request: Request) -> Response:
        if kind is not None:
            return await endpoint(request, read_query(kind, request.query_params))
        if request.scope["query_string"]:
            read_query(Asked, request.query_params)
        return await endpoint(request)

    return reading


def _reads_itself(route: BaseRoute) -> TypeGuard[APIRoute]:
    """Return whether an endpoint takes a request, and perhaps its query, but nothing else."""
    if not isinstance(route, APIRoute):
        return False
    return {"request"} <= signature(route.endpoint).parameters.keys() <= {"request", "asked"}


# Endpoints are routed by Starlette, and queries read here: FastAPI takes three times as long. Its
# own routes of them are what the document is made of, and what answers a method that none has.
_PLAIN_ROUTES = [_PlainRoute(route) for route in _ENDPOINTS if _reads_itself(route)]


async def _on_ledger_error(request: Request, error: Exception) -> Response:
    """Answer an error of the ledger."""
    if not isinstance(error, LedgerError):  # as Starlette types handlers
        raise error
    problem = problem_for(request, error)
    is_busy = problem.kind.status == HTTPStatus.SERVICE_UNAVAILABLE or isinstance(error, NotSent)
    return problem_answer(problem, retry_after(RETRY_SECONDS) if is_busy else None)


async def _on_defect(request: Request, _error: Exception) -> Response:
    """Answer a defect; the server's log has the traceback, the answer nothing of it."""
    members = {"outcome": "unknown", "retryable": False}
    return problem_answer(Problem(DEFECT, f"request {request.scope[REQUEST]}", members))


async def _on_left(_request: Request, _error: Exception) -> Response:
    """Answer a client that left within its body, so that logs and metrics show no defect."""
    return problem_answer(Problem(INVALID, "the body did not come to its end", NOT_APPLIED))


async def _on_http_error(request: Request, error: Exception) -> Response:
    """Answer what no route is for."""
    if not isinstance(error, HTTPException):
        raise error
    kind = _KINDS.get(error.status_code, INVALID)
    headers, detail = dict(error.headers or {}), str(error.detail)
    if kind is METHOD_NOT_ALLOWED:
        headers = {"Allow": ", ".join(_methods(request))}
    if kind is NOT_FOUND:
        detail = f"there is no path {request.scope['path']!r:.100}"
    return problem_answer(Problem(kind, detail, NOT_APPLIED), headers)


def _methods(request: Request) -> list[str]:
    """Return the methods of a path, of all routes that it fits: Starlette names the first one's."""
    found: set[str] = set()
    for route in _ENDPOINTS:
        match, _ = route.matches(request.scope)
        if match is not Match.NONE:
            found.update(getattr(route, "methods", None) or ())
    if "GET" in found:
        found.add("HEAD")  # the gate's
    return sorted(found)


_REQUEST_ID_BYTES = 8


def instance_app(
    ledger: Ledger,
    *,
    registry: CollectorRegistry,
    access: Access,
    clock: Clock,
    randomness: Random,
    options: ServiceOptions,
) -> tuple[ASGIApp, Context]:
    """Return the application of one process, and what its requests share."""
    metrics = ServiceMetrics.of(registry)
    access.tell_unread(metrics.tokens_unread)

    def seen(request: GateStatus) -> None:
        metrics.request(request)
        log_request(request)

    parts = ServiceParts(
        clock=clock,
        randomness=randomness,
        access=access,
        registry=registry,
        requests=RequestLog(lambda: randomness.randbytes(_REQUEST_ID_BYTES).hex(), seen),
    )
    return create_app(ledger, parts, options)

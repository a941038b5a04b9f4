"""Answers of the service: JSON objects, and errors as problems."""

import math
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from ledger.core.errors import LedgerError, NotSent, OutcomeUnknown, ReadTooSlow
from ledger.runtime.deadline import TIMEOUT
from ledger.wire.problems import MEDIA_TYPE, Kind, Problem, problem_of

RETRY_SECONDS = 1
"""What Retry-After says where nothing better is known."""


_IN_HTTP: Mapping[str, str] = {
    "the same call": "the same request",
    "repeat the call": "repeat the request",
    "Ledger.retry": "POST /v1/retries",
    TIMEOUT: "the request's wait ended",
}
NOT_APPLIED: Mapping[str, Any] = {"outcome": "not_applied", "retryable": False}
"""Members of a problem that the service itself has with a request."""


class Refused(Exception):
    """A request that the service itself refuses, before it asks the ledger: nothing was written."""

    def __init__(
        self,
        kind: Kind,
        detail: str,
        *,
        headers: dict[str, str] | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(detail)
        self.problem = Problem(kind, detail, {**NOT_APPLIED, "retryable": retryable})
        self.headers = headers or {}


def answer(fields: Any, status: int = HTTPStatus.OK) -> Response:
    """Return a JSON answer."""
    return Response(orjson.dumps(fields), status, media_type="application/json")


def problem_answer(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    """Return a problem as an answer."""
    return Response(
        orjson.dumps(problem.fields()), problem.kind.status, headers, media_type=MEDIA_TYPE
    )


def retry_after(seconds: float) -> dict[str, str]:
    """Return the header that says when a request may be repeated."""
    return {"Retry-After": str(max(RETRY_SECONDS, math.ceil(seconds)))}


def problem_in_http(error: LedgerError) -> Problem:
    """Return an error of the ledger as a problem that speaks of requests, not of methods."""
    problem = problem_of(error)
    if not isinstance(error, OutcomeUnknown | NotSent | ReadTooSlow):
        return problem
    said = problem.detail
    for method, request in _IN_HTTP.items():
        said = said.replace(method, request)
    return replace(problem, detail=said)


async def on_ledger_error(_request: Request, error: Exception) -> Response:
    """Answer an error of the ledger."""
    if not isinstance(error, LedgerError):  # as Starlette types handlers
        raise error
    problem = problem_in_http(error)
    is_busy = problem.kind.status == HTTPStatus.SERVICE_UNAVAILABLE or isinstance(error, NotSent)
    return problem_answer(problem, retry_after(RETRY_SECONDS) if is_busy else None)


async def on_refused(_request: Request, error: Exception) -> Response:
    """Answer what the service refuses."""
    if not isinstance(error, Refused):
        raise error
    return problem_answer(error.problem, error.headers)

"""What an answer says of a request: it was done, it failed, or nothing is known of it.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Generic

from ledger.core.errors import (
    AccessDenied,
    InvalidInput,
    KeyConflict,
    LedgerError,
    RetryHorizonPassed,
    Throttled,
)
from ledger.core.http_times import retry_after_seconds
from ledger.http.client.requests import Answer, Request
from ledger.http.wire.problems import MEDIA_TYPE, TYPES, error_of
from ledger.http.wire.schemas import EntriesModel, ProblemModel

_REFUSED = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED}
)


@dataclass(frozen=True, slots=True)
class Answered(Generic[Answer]):
    """The service did it: its status, and its answer."""

    status: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class Failed:
    """The service did not do it, or does not know; it may be asked again after so many seconds."""

    error: LedgerError
    retry_after_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The request may have been carried out or not; `cause` is what came in place of an answer.

    `error` is how a read fails by it, if another server refused: one that is not `retryable` is
    refused again.
    """

    cause: str
    retry_after_seconds: float = 0.0
    error: LedgerError | None = None


Judged = Answered[Answer] | Failed | Unanswered


def judged(
    request: Request[Answer], status: int, headers: Mapping[str, str], body: bytes, *, now: datetime
) -> Judged[Answer]:
    """Return what an answer says; one that is not of the service itself is no answer to a write."""
    wait = retry_after_seconds(headers.get("retry-after"), now=now)
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media == MEDIA_TYPE and (problem := read_as(ProblemModel, body)) is not None:
        if problem.status == status and problem.type.startswith(TYPES):
            return Failed(error_of(problem), wait)
    elif HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        answer = read_as(request.answer, body) if media == "application/json" else None
        if answer is not None and _is_whole(request, answer):
            return Answered(status, answer)
    return _of_another(status, wait)


def read_as(form: type[Answer], body: bytes | str) -> Answer | None:
    """Return what has this form, None of anything else.

    Members that the form does not name are those of a later release.
    """
    try:
        return form.model_validate_json(body, strict=True, extra="ignore")
    except (ValueError, ArithmeticError):
        return None


def _is_whole(request: Request[Answer], answer: Answer) -> bool:
    """Return whether there is a result for each entry that was sent."""
    asked = (request.body or {}).get("entries", ())
    return not isinstance(answer, EntriesModel) or len(answer.results) == len(asked)


def _of_another(status: int, wait: float) -> Unanswered:
    """Judge an answer of what stands between: a proxy, a load balancer, another server."""
    said = f"status {status}, not from the ledger's service"
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status < HTTPStatus.MULTIPLE_CHOICES:
        return Unanswered(said, wait)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Unanswered(said, wait, Throttled(said))
    if status in _REFUSED:
        return Unanswered(said, error=AccessDenied(said))
    return Unanswered(said, error=LedgerError(f"{said}: is the URL right?"))


def is_definite(error: LedgerError) -> bool:
    """Return whether an error holds whatever became of earlier tries of the same request."""
    return isinstance(error, InvalidInput | KeyConflict)


def is_unknown(error: LedgerError) -> bool:
    """Return whether after this error the request may have been carried out."""
    return error.outcome == "unknown" and not isinstance(error, RetryHorizonPassed)

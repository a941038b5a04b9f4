"""What an answer says of a request: it was done, it failed, or nothing is known of it.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any

import orjson

from ledger.core.errors import (
    AccessDenied,
    InvalidInput,
    KeyConflict,
    LedgerError,
    RetryHorizonPassed,
    Throttled,
)
from ledger.core.http_times import retry_after_seconds
from ledger.wire.problems import MEDIA_TYPE, error_of

_REFUSED = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED}
)


@dataclass(frozen=True, slots=True)
class Answered:
    """The service did it: its status, and the members of its answer."""

    status: int
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failed:
    """The service did not do it, or does not know; it may be asked again after so many seconds."""

    error: LedgerError
    retry_after_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The request may have been carried out or not; `cause` is what came in place of an answer."""

    cause: str
    retry_after_seconds: float = 0.0


Judged = Answered | Failed | Unanswered


def judged(status: int, headers: Mapping[str, str], body: bytes, *, now: datetime) -> Judged:
    """Return what an answer says; one that is not of the service itself is no answer to a write."""
    wait = retry_after_seconds(headers.get("retry-after"), now=now)
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    fields = _object(body) if media in {"application/json", MEDIA_TYPE} else None
    if fields is not None and media == MEDIA_TYPE:
        return Failed(error_of(fields), wait)
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        if fields is None:
            return Unanswered(f"an answer of status {status} that is not the service's")
        return Answered(status, fields)
    return _of_another(status, wait)


def _of_another(status: int, wait: float) -> Judged:
    """Judge an answer of what stands between: a proxy, a load balancer, another server."""
    said = f"status {status}, not from the ledger's service"
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unanswered(said, wait)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Failed(Throttled(said), wait)
    if status in _REFUSED:
        return Failed(AccessDenied(said))
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return Failed(InvalidInput(f"the request is too large: {said}"))
    return Failed(LedgerError(f"{said}: is the URL right?"))


def is_definite(error: LedgerError) -> bool:
    """Return whether an error holds whatever became of earlier tries of the same request."""
    return isinstance(error, InvalidInput | KeyConflict)


def is_unknown(error: LedgerError) -> bool:
    """Return whether after this error the request may have been carried out."""
    return error.outcome == "unknown" and not isinstance(error, RetryHorizonPassed)


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None

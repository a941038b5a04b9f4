"""Answers of the service: JSON objects, and errors as problems.

A page of an answer ends after so many items, or bytes, so that none costs much. Its items are
encoded as they are read: other requests go on between the reads. Of several names each is read
apart: one that cannot be read takes nothing from the others.
"""

import logging
import math
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

import anyio.lowlevel
import orjson
from starlette.requests import Request
from starlette.responses import Response

from ledger.core import errors
from ledger.core.errors import AmountOverflow, DamagedItem, LedgerError, NetVanished
from ledger.http.wire.problems import MEDIA_TYPE, UNAUTHORIZED, Kind, Problem, problem_of
from ledger.http.wire.values import Fields
from ledger.reads.feed.page import BYTES_MAX
from ledger.reads.total import Total
from ledger.reads.total_cache import READS_AT_ONCE, name_counter
from ledger.runtime.call_deadlines import TIMEOUT
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import run_all
from ledger.session.ledger import Ledger

LOOKED_MAX = 10_000
"""Items that a page looks at, however few it shows."""
LOOKED_AT_ONCE = 50
"""Items that are looked at in one turn of the event loop."""
RETRY_SECONDS = 1
"""What Retry-After says where nothing better is known."""


_SPOKEN = (
    errors.InvalidInput,
    errors.KeyConflict,
    errors.ReadTooSlow,
    errors.DamagedItem,
    errors.BudgetExceeded,
    errors.BudgetMissing,
    errors.BudgetUndecided,
    errors.ContractChangeRefused,
    errors.ClockOff,
    errors.FeedBehind,
)
"""Errors whose text is the ledger's own, of what the request asked for. Any other may hold what AWS
said, with accounts, tables and endpoints: that is for the log, and the answer has fixed words."""
request_id: ContextVar[str] = ContextVar("the id of the request under way", default="-")
log = logging.getLogger("ledger.http.service")
NOT_APPLIED: Mapping[str, Any] = {"outcome": "not_applied", "retryable": False}
"""Members of a problem that the service itself has with a request."""


class CallRefused(Exception):
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


def unauthorized(detail: str) -> CallRefused:
    """Return the refusal of a request whose caller is not known, or not any more."""
    return CallRefused(UNAUTHORIZED, detail, headers={"WWW-Authenticate": 'Bearer realm="ledger"'})


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


def unavailable(kind: Kind, detail: str, headers: dict[str, str] | None = None) -> CallRefused:
    """Return the refusal of a request that may be repeated after a moment."""
    return CallRefused(kind, detail, headers=retry_after(0) | (headers or {}), retryable=True)


class Spoken(errors.OutcomeUnknown):
    """An outcome that is not known, in the service's own words; its cause is what is logged."""


def let_frames_go(error: BaseException) -> None:
    """Drop the frames of an error, and of those that it came of."""
    left: BaseException | None = error
    seen = set[int]()
    while left is not None and id(left) not in seen:
        seen.add(id(left))
        left.__traceback__ = None
        left = left.__cause__ or left.__context__


def problem_in_http(error: LedgerError) -> Problem:
    """Return an error of the ledger as a problem; what is not for callers is written to the log.

    The error lets its frames go, which may hold it: many such cycles would be freed in one piece.
    """
    let_frames_go(error)
    problem = problem_of(error)
    if "counters" in problem.members:  # of all requests that shared one with this
        problem = replace(problem, members={**problem.members, "counters": []})
    if isinstance(error, errors.ReadTooSlow):
        return replace(problem, detail=problem.detail.replace(TIMEOUT, "the request's wait ended"))
    if isinstance(error, _SPOKEN):
        return problem
    id_, said = request_id.get(), error.__cause__ if isinstance(error, Spoken) else error
    log.warning("request %s: %s: %s", id_, type(said).__name__, said, extra={"request": id_})
    return problem if isinstance(error, Spoken) else replace(problem, detail=_fixed(error, problem))


def _fixed(error: LedgerError, problem: Problem) -> str:
    """Return what an answer says of an error whose own text it does not show."""
    match error:
        case errors.OutcomeUnknown(retryable=True):
            return "the change may be made or not: the same request counts it once"
        case errors.OutcomeUnknown(entries=entries) if entries:
            return "the change may be made or not: POST /v1/retries counts its `entries` once"
        case errors.OutcomeUnknown():
            return "the change may be made or not: see, before it is made again"
        case errors.NotSent():
            return "nothing was sent in the time of the request: it wrote nothing"
    return f"{problem.kind.title}: the service's log has more, under the request's id"


async def on_refused(_request: Request, error: Exception) -> Response:
    """Answer what the service refuses."""
    if not isinstance(error, CallRefused):
        raise error
    return problem_answer(error.problem, error.headers)


Item = TypeVar("Item")
Read = TypeVar("Read")


async def read_each(
    names: Iterable[str],
    read: Callable[[str], Awaitable[Read]],
    *,
    of_one: tuple[type[LedgerError], ...],
) -> tuple[dict[str, Read], dict[str, LedgerError]]:
    """Return what was read by name, each once, in the order asked, and why others cannot be.

    Raises:
        LedgerError: as `read`, but for errors `of_one` name.
    """
    errors: dict[str, LedgerError] = {}

    async def one(name: str) -> tuple[Read, ...]:
        try:
            return (await read(name),)
        except of_one as error:
            errors[name] = error
            return ()

    asked = list(dict.fromkeys(names))
    found = await run_all([partial(one, name) for name in asked], at_once=READS_AT_ONCE)
    values = {name: value[0] for name, value in zip(asked, found, strict=True) if value}
    return values, {name: errors[name] for name in asked if name in errors}


def problems(errors: Mapping[str, LedgerError]) -> dict[str, Fields]:
    """Return errors by name as the problems beside an answer."""
    return {name: problem_in_http(error).fields() for name, error in errors.items()}


async def page_of(
    items: AsyncIterable[Item],
    limit: int,
    *,
    fields: Callable[[Item], Fields],
    by: str,
    is_shown: Callable[[Item], bool] = bool,
) -> tuple[list[orjson.Fragment], str | None]:
    """Return a page as JSON, and the field `by` of its last item, if others follow it.

    It has `limit` items at most, and ends with the one by which it has `BYTES_MAX` bytes, or after
    `LOOKED_MAX` items of which few are shown: then `by` is that of the last one looked at.
    """
    found, size, looked = list[orjson.Fragment](), 0, 0
    last: str | None = None
    async for item in items:
        if len(found) >= limit or size >= BYTES_MAX or looked >= LOOKED_MAX:
            return found, last
        looked, last = looked + 1, getattr(item, by)
        if is_shown(item):
            found.append(orjson.Fragment(text := orjson.dumps(fields(item))))
            size += len(text)
        if looked % LOOKED_AT_ONCE == 0:
            await anyio.lowlevel.checkpoint()  # the items may be there already
    return found, None


OF_ONE_COUNTER = (AmountOverflow, DamagedItem, NetVanished)
"""Errors that say nothing of other counters; any other is that of the whole request."""
_SECONDS_MIN = 0.001


async def readable_totals(
    ledger: Ledger,
    counters: Sequence[str],
    *,
    clock: Clock,
    max_age: float | None,
    wait: float | None = None,
) -> tuple[dict[str, Total], dict[str, LedgerError]]:
    """Return the totals that can be read, in the order asked, and why each of the others cannot.

    All are read within `wait` seconds.

    Raises:
        LedgerError: as `Ledger.totals`, but for errors of one counter.
    """
    began = clock.monotonic()
    try:
        return await ledger.totals(counters, max_age=max_age, timeout=wait), {}
    except OF_ONE_COUNTER:
        pass
    left = None if wait is None else max(_SECONDS_MIN, wait - (clock.monotonic() - began))

    async def one(counter: str) -> Total:
        return await ledger.total(counter, max_age=max_age, timeout=left)

    found, errors = await read_each(counters, one, of_one=OF_ONE_COUNTER)
    if len(found) + len(errors) == 1:
        return found, errors
    return found, {counter: name_counter(counter, error) for counter, error in errors.items()}

"""How long a request may take: what its caller prefers, else what the service promises.

Its time begins when it has come: its turn, and its slot, are waited for within it. One end covers
all that a request does, the renewal of the contract included: each part may take what the parts
before have left.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import TypeVar

import anyio
from fastapi import Request
from starlette.responses import Response

from ledger.http.service.access.tokens import Scope
from ledger.http.service.context import (
    ARRIVED,
    UNDER_WAY_IN_ALL,
    Kind,
    allow,
    context_of,
    granted,
    slots_of,
)
from ledger.http.service.request_models import WAIT_SECONDS_MAX, wait_of
from ledger.reads.reader import read_seconds
from ledger.runtime.call_deadlines import NEVER, deadline_of, left_until, not_read, not_sent
from ledger.runtime.tasks import Turns, until_in_turn
from ledger.session.ledger import live_settings

FLEET_SECONDS_MAX = 30.0
"""How long a request about the fleet may take: looks at each region, one after the other."""
_END = "ledger_end"
"""Where a request that changes something keeps, in its scope, when its time ends."""
Endpoint = Callable[[Request], Awaitable[Response]]
Result = TypeVar("Result")


def preferred(request: Request) -> float | None:
    """Return what is left of the seconds that `Prefer: wait` gives a request, if it does.

    Raises:
        InvalidInput: it is no whole number of 1 to 60.
    """
    wait = wait_of(request.headers.getlist("prefer"))
    return None if wait is None else _end(request, wait) - anyio.current_time()


def _end(request: Request, seconds: float) -> float:
    """Return when the time of a request ends that prefers none, by a time of the event loop.

    It begins once the request has come, not when its turn has: a caller waits from there on.
    """
    wait = wait_of(request.headers.getlist("prefer"))
    arrived: float = request.scope["state"][ARRIVED]
    return arrived + (seconds if wait is None else wait)


def for_total(request: Request) -> float:
    """Return how long a request for totals may still take.

    Raises:
        InvalidInput: as `preferred`.
        ReadTooSlow: nothing is left.
    """
    settings = live_settings(context_of(request).ledger).current
    return left_until(_end(request, read_seconds(settings)), not_read)


def for_pages(request: Request) -> float:
    """Return how long a request may still take that reads one page after the other.

    Raises:
        InvalidInput: as `preferred`.
        ReadTooSlow: nothing is left.
    """
    return left_until(_end(request, WAIT_SECONDS_MAX), not_read)


def for_change(request: Request) -> float:
    """Return how long a request that changes something may still take.

    Raises:
        InvalidInput: as `preferred`.
        NotSent: nothing is left.
    """
    return left_until(_end_of_change(request), not_sent)


def _end_of_change(request: Request) -> float:
    if (end := request.scope.get(_END)) is not None:
        return float(end)
    deadline = live_settings(context_of(request).ledger).current.write_deadline
    return _end(request, deadline or WAIT_SECONDS_MAX)


def for_fleet(request: Request) -> float:
    """Return how long a request about the fleet may still take.

    Raises:
        InvalidInput: as `preferred`.
        ReadTooSlow: nothing is left.
    """
    return left_until(_end(request, FLEET_SECONDS_MAX), not_read)


def one_of_few(kind: Kind, scope: Scope) -> Callable[[Endpoint], Endpoint]:
    """Return what lets an endpoint change something once fewer requests of its caller do.

    They wait within their time, which begins when their body has come; of a list, which may be long
    and is not taken before, when its head has. The endpoint raises besides:

    Raises:
        Refused: of no caller with that scope.
        NotSent: its time ended before.
        InvalidInput: as `preferred`.
    """

    def bound(endpoint: Endpoint) -> Endpoint:
        @wraps(endpoint)
        async def begun(request: Request) -> Response:
            context = allow(request, scope)
            if kind != "list":
                await request.body()
            end = _end_of_change(request)
            async with slots_of(request, kind).until(end):
                await request.body()
                request.scope[_END] = end
                if kind not in UNDER_WAY_IN_ALL:
                    return await endpoint(request)
                async with context.slots_for(kind).until(end):
                    return await endpoint(request)

        return begun

    return bound


@asynccontextmanager
async def page_slot(request: Request, end: float = NEVER) -> AsyncIterator[None]:
    """Wait until fewer pages are read, for the caller and in all.

    Raises:
        Refused: the caller may do nothing any more.
        ReadTooSlow: the end has come.
    """
    of_caller, of_all = slots_of(request, "page"), context_of(request).slots_for("page")
    async with of_caller.until(end, not_read), of_all.until(end, not_read):
        yield


async def read_page(
    request: Request, seconds: float, read: Callable[[], Awaitable[Result]]
) -> Result:
    """Return what is read within so many seconds once fewer pages are read for the caller.

    A page is whatever reads more than one total or budget: many at once would hold up all others.
    So would their ends: each lets megabytes go. The read has no end of its own, therefore. It is
    returned when it is its caller's turn to render one, which the caller does at once.

    Raises:
        Refused: the caller may do nothing any more.
        ReadTooSlow: it is not read in time.
        And as the read.
    """
    end = deadline_of(seconds)
    async with page_slot(request, end):
        found = await read_until(end, read(), context_of(request).pages)
    await page_turn(request)
    return found


async def page_turn(request: Request) -> None:
    """Wait until it is the turn of a request's caller to render a page.

    Raises:
        Refused: the caller may do nothing any more.
    """
    await context_of(request).pages.turn(granted(request).name)


async def read_until(end: float, read: Awaitable[Result], ends: Turns) -> Result:
    """Return what is read until a time of the event loop, whatever parts it has.

    Of very many reads that end together a few end in each round: `ends` says how many.

    Raises:
        ReadTooSlow: it is not.
        And as the read.
    """
    with until_in_turn(end, ends):
        return await read
    raise not_read()

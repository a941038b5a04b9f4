"""How long a request may take: what its caller prefers, else what the service promises.

One end covers all that a request does, the renewal of the contract included: each part may take
what the parts before have left.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import TypeVar

from fastapi import Request
from starlette.responses import Response

from ledger.http.service.access.tokens import Scope
from ledger.http.service.context import (
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
    """Return the seconds that `Prefer: wait` gives a request, if it does.

    Raises:
        InvalidInput: it is no whole number of 1 to 60.
    """
    return wait_of(request.headers.getlist("prefer"))


def for_total(request: Request) -> float:
    """Return how long a request for totals may take.

    Raises:
        InvalidInput: as `preferred`.
    """
    wait = preferred(request)
    return read_seconds(live_settings(context_of(request).ledger).current) if wait is None else wait


def for_pages(request: Request) -> float:
    """Return how long a request may take that reads one page after the other.

    Raises:
        InvalidInput: as `preferred`.
    """
    wait = preferred(request)
    return WAIT_SECONDS_MAX if wait is None else wait


def for_change(request: Request) -> float:
    """Return how long a request may take that changes something; in its slot, what is left of it.

    Raises:
        InvalidInput: as `preferred`.
        NotSent: nothing is left.
    """
    if (end := request.scope.get(_END)) is not None:
        return left_until(end, not_sent)
    wait = preferred(request)
    deadline = live_settings(context_of(request).ledger).current.write_deadline
    return (deadline or WAIT_SECONDS_MAX) if wait is None else wait


def for_fleet(request: Request) -> float:
    """Return how long a request about the fleet may take.

    Raises:
        InvalidInput: as `preferred`.
    """
    wait = preferred(request)
    return FLEET_SECONDS_MAX if wait is None else wait


def one_of_few(kind: Kind, scope: Scope) -> Callable[[Endpoint], Endpoint]:
    """Return what lets an endpoint change something once fewer requests of its caller do.

    They wait within their time, which begins when their body has come; a list, which may be long,
    is not taken before. The endpoint raises besides:

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
            end = deadline_of(for_change(request))
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

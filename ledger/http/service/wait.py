"""How long a request may take: what its caller prefers, else what the service promises.

One end covers all that a request does, the renewal of the contract included: each part may take
what the parts before have left.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from fastapi import Request

from ledger.http.service.context import context_of, granted, its_page
from ledger.http.service.request_models import WAIT_SECONDS_MAX, wait_of
from ledger.reads.reader import read_seconds
from ledger.runtime.call_deadlines import bounded, deadline_of, not_read, not_sent
from ledger.session.ledger import live_settings

FLEET_SECONDS_MAX = 30.0
"""How long a request about the fleet may take: looks at each region, one after the other."""
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
    """Return how long a request may take that changes something.

    Raises:
        InvalidInput: as `preferred`.
    """
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


@asynccontextmanager
async def list_slot(request: Request) -> AsyncIterator[float]:
    """Wait until fewer lists of changes are made for the caller; yield when the request ends.

    Raises:
        Refused: the caller may do nothing any more.
        NotSent: its time ended before.
        InvalidInput: as `preferred`.
    """
    end = deadline_of(for_change(request))
    slot = context_of(request).list_for(granted(request).name)
    await bounded(end, slot.acquire(), not_sent)
    try:
        yield end
    finally:
        slot.release()


async def read_page(
    request: Request, seconds: float, read: Callable[[], Awaitable[Result]]
) -> Result:
    """Return what is read within so many seconds once fewer pages are read for the caller.

    A page is whatever reads more than one total or budget: many at once would hold up all others.

    Raises:
        Refused: the caller may do nothing any more.
        ReadTooSlow: it is not read in time.
        And as the read.
    """

    async def read_in_turn() -> Result:
        async with its_page(request):
            return await read()

    return await read_within(seconds, read_in_turn())


async def read_within(seconds: float, read: Awaitable[Result]) -> Result:
    """Return what is read within so many seconds, whatever parts it has.

    Raises:
        ReadTooSlow: it is not.
        And as the read.
    """
    return await bounded(deadline_of(seconds), read, not_read)

"""Totals as server-sent events: one when it changes, and a comment while nothing does."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Annotated

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from ledger.core.errors import LedgerError
from ledger.core.keys import checked_counter
from ledger.http.service.answers import problem_in_http, readable_totals
from ledger.http.service.context import Context, allow, granted, is_still_allowed, may_look
from ledger.http.service.openapi import events
from ledger.http.service.query_models import LiveQuery
from ledger.http.wire.schemas import RegionTotalModel
from ledger.reads.reader import read_seconds
from ledger.session.ledger import live_settings

Turn = Callable[[], Awaitable[None]]
QUIET_SECONDS = 15.0
"""After so long without an event a comment is sent, so that proxies keep the connection."""

router = APIRouter(prefix="/v1", tags=["reading"])


@router.get("/live", openapi_extra=events("Total"))
async def live(request: Request, asked: Annotated[LiveQuery, Query()]) -> Response:
    """Follow totals: an event `total` for each at first, then for each that changed.

    An event `problem` says that a look failed, or with `counter` that this one cannot be read; the
    stream goes on. Each look counts against the caller's rate, and comes later while there is none
    for it. It ends when the instance shuts down, and when the token is not valid any more: who
    connects again is told which. As a function of Lambda it ends after the first look.
    """
    counters = [checked_counter(counter) for counter in dict.fromkeys(asked.id)]
    context = allow(request, "read", *counters)
    headers = {"X-Accel-Buffering": "no"}
    turn = partial(context.looks.turn, granted(request).name)
    events = _events(request, context, counters, asked.every, turn)
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


async def _events(
    request: Request, context: Context, counters: list[str], every: float, turn: Turn
) -> AsyncIterator[bytes]:
    """Yield events until the instance shuts down, or the caller may not see them any more.

    The caller's rate bounds how often it looks: a look that there is none for comes later. Looks of
    all streams take turns, and so do their events: one read may be what all of them wait for.
    """
    shown: dict[str, object] = {}
    yield f"retry: {int(every * 1000)}\n\n".encode()
    said_at, left = context.clock.monotonic(), 0.0
    while not context.is_leaving and is_still_allowed(request, "read", *counters):
        if left <= 0 and (left := may_look(request)) == 0:
            news = await _news(context, counters, every, shown, turn)
            if not is_still_allowed(request, "read", *counters):
                return
            for event in news:
                yield event
                said_at = context.clock.monotonic()
            if context.is_brief:
                return
            left = every
        if context.clock.monotonic() - said_at >= QUIET_SECONDS:
            yield b": nothing new\n\n"
            said_at = context.clock.monotonic()
        step = min(left, QUIET_SECONDS)
        await context.pause(step)
        left -= step


async def _news(
    context: Context, counters: list[str], every: float, shown: dict[str, object], turn: Turn
) -> list[bytes]:
    """Return the events of one look; `shown` is what was said before, and is kept up to date."""
    await turn()
    try:
        found, errors = await readable_totals(
            context.ledger,
            counters,
            clock=context.clock,
            max_age=every,
            wait=read_seconds(live_settings(context.ledger).current),
        )
    except LedgerError as error:
        shown.clear()
        return [_event("problem", problem_in_http(error).fields())]
    await turn()
    events = list[bytes]()
    for counter, total in found.items():
        if shown.get(counter) != (state := (total.value, total.changes)):
            shown[counter] = state
            events.append(_event("total", RegionTotalModel.fields_of(total) | {"age": 0.0}))
    for counter, why in errors.items():
        if shown.get(counter) != str(why):
            shown[counter] = str(why)
            fields = problem_in_http(why).fields()
            events.append(_event("problem", {**fields, "counter": counter}))
    return events


def _event(name: str, fields: object) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(fields) + b"\n\n"

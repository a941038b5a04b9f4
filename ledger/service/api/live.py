"""Totals as server-sent events: one when it changes, and a comment while nothing does."""

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Annotated

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from ledger.core.errors import LedgerError
from ledger.core.keys import checked_counter
from ledger.service.answers import problem_in_http
from ledger.service.context import Context, allow, is_still_allowed
from ledger.service.openapi import events
from ledger.service.queries import LiveQuery
from ledger.service.totals import readable_totals
from ledger.wire.values import total_fields

QUIET_SECONDS = 15.0
"""After so long without an event a comment is sent, so that proxies keep the connection."""

router = APIRouter(prefix="/v1", tags=["reading"])


@router.get("/live", openapi_extra=events("Total"))
async def live(request: Request, asked: Annotated[LiveQuery, Query()]) -> Response:
    """Follow totals: an event `total` for each at first, then for each that changed.

    An event `problem` says that a look failed, or with `counter` that this one cannot be read; the
    stream goes on. It ends when the instance shuts
    down, and when the token is not valid any more: who connects again is told which. As a function
    of Lambda it ends after the first look.
    """
    counters = [checked_counter(counter) for counter in dict.fromkeys(asked.id)]
    context = allow(request, "read", *counters)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(
        _events(
            context, counters, asked.every, partial(is_still_allowed, request, "read", *counters)
        ),
        media_type="text/event-stream",
        headers=headers,
    )


async def _events(
    context: Context, counters: list[str], every: float, is_allowed: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """Yield events until the instance shuts down, or the caller may not see them any more."""
    shown: dict[str, tuple[object, ...]] = {}
    yield f"retry: {int(every * 1000)}\n\n".encode()
    last = context.clock.monotonic()
    while not context.is_leaving and is_allowed():
        try:
            found, errors = await readable_totals(
                context.ledger, counters, clock=context.clock, max_age=every
            )
        except LedgerError as error:
            shown.clear()
            yield _event("problem", problem_in_http(error).fields())
            last = context.clock.monotonic()
        else:
            for counter, total in found.items():
                state = (total.value, total.changes)
                if shown.get(counter) != state:
                    shown[counter] = state
                    yield _event("total", total_fields(total) | {"age": 0.0})
                    last = context.clock.monotonic()
            for counter, why in errors.items():
                if shown.get(counter) != (str(why),):
                    shown[counter] = (str(why),)
                    fields = problem_in_http(why).fields()
                    yield _event("problem", {**fields, "counter": counter})
                    last = context.clock.monotonic()
        if context.clock.monotonic() - last >= QUIET_SECONDS:
            yield b": nothing new\n\n"
            last = context.clock.monotonic()
        if context.is_brief:
            return
        await context.pause(every)


def _event(name: str, fields: object) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(fields) + b"\n\n"

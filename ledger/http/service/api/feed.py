"""The feed: entries of many counters in the order in which they reach the region."""

from datetime import datetime
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from ledger.http.service.answers import answer
from ledger.http.service.body_values import moment
from ledger.http.service.context import allow, context_of, may_look
from ledger.http.service.openapi import returns
from ledger.http.service.query_models import FeedQuery
from ledger.http.service.wait import for_total, page_slot, preferred, read_until
from ledger.http.wire.schemas import FeedModel
from ledger.reads.feed.page import FeedPage
from ledger.reads.feed.reader import wait_for_page
from ledger.runtime.call_deadlines import deadline_of

SHARE_FOR_WAITING = 0.9
"""The part of a request's time for which an entry may be waited for."""
SHARE_FOR_LOOK = 0.05
"""The part that the last look may take after that; the rest is for the answer."""

router = APIRouter(prefix="/v1", tags=["reading"])


@router.get("/feed", openapi_extra=returns("Feed"))
async def feed(request: Request, asked: Annotated[FeedQuery, Query()]) -> Response:
    """Return entries that reached this region after a cursor, and the cursor of what follows.

    Keep `next` once the entries are dealt with. A page has `limit` of them at most, and fewer once
    they have a megabyte; but those that share an item are in one page. Each entry that reaches the
    region, late or merged since, is in one page of those that follow each other; one page may be
    asked for again. With
    `wait` the answer comes as soon as there is an entry, or after so many seconds without any (or
    those of `Prefer: wait`, if fewer); it looks each second, and each look counts against the
    caller's rate. A cursor that is older than 23 hours, or of another region, is a 410; one of a
    page of another `prefix`, or of other counters, is a 400.
    """
    named = asked.counter or [asked.prefix]
    context = allow(request, "read", *named)
    since = None if asked.since is None else moment("since", asked.since)
    wait = preferred(request)
    within = for_total(request) + (asked.wait if wait is None else 0.0)
    page = wait_for_page(
        partial(_page, request, asked, since),
        asked.after,
        seconds=min(asked.wait, SHARE_FOR_WAITING * within),
        look_seconds_max=SHARE_FOR_LOOK * within,
        pause=context.pause,
        time=context.time,
        is_over=lambda: context.is_leaving,
    )
    found = await read_until(deadline_of(within), page, context.ends)
    allow(request, "read", *named)
    return answer(FeedModel.fields_of(found))


async def _page(
    request: Request,
    asked: FeedQuery,
    since: datetime | None,
    after: str | None,
) -> FeedPage:
    """Return a page; nothing new, while the caller's rate has no further look."""
    if may_look(request) > 0 and after is not None:
        return FeedPage((), after, more=False)
    is_first = after == asked.after  # later looks of a wait go on from the first one's cursor
    async with page_slot(request):
        return await context_of(request).ledger.feed_page(
            asked.prefix,
            counters=asked.counter or None,
            after=after,
            since=since if is_first else None,
            limit=asked.limit,
        )

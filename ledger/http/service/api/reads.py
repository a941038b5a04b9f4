"""Endpoints that read: totals, histories, sums by period, lists of counters."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from ledger.core.errors import LedgerError
from ledger.core.values import Entry
from ledger.http.service.answers import answer, page_of, problems, readable_totals
from ledger.http.service.context import Context, allow, context_of, granted
from ledger.http.service.openapi import returns
from ledger.http.service.query_models import (
    CountersQuery,
    HistoryQuery,
    PeriodsQuery,
    TopQuery,
    TotalQuery,
    TotalsQuery,
)
from ledger.http.service.request_models import bound, counter_in, edge
from ledger.http.service.wait import for_pages, for_total, read_page
from ledger.http.wire.schemas import EntryModel, ListedModel, PeriodsModel, RegionTotalModel
from ledger.reads.history import Merged, merged_without_archive
from ledger.reads.total import Total
from ledger.session.ledger import live_settings, store_here

SHOWN_AT_ONCE = 50
"""Counters of an answer that are rendered in one turn of the event loop, in a millisecond."""

router = APIRouter(prefix="/v1", tags=["reading"])


@router.get("/counters/{counter}", openapi_extra=returns("Total"))
async def total(request: Request, asked: Annotated[TotalQuery, Query()]) -> Response:
    """Return a counter's total, from the cache if it is recent enough."""
    counter = counter_in(request.path_params["counter"])
    context = allow(request, "read", counter)
    found = await context.ledger.total(
        counter,
        max_age=asked.max_age,
        steady=asked.steady,
        at=bound("at", asked.at),
        effective=asked.effective,
        timeout=for_total(request),
    )
    return answer(_total(context, found))


@router.get("/totals", openapi_extra=returns("Totals"))
async def totals(request: Request, asked: Annotated[TotalsQuery, Query()]) -> Response:
    """Return the totals of many counters, in the order asked; `problems` of those without one.

    A counter that cannot be read, since its total does not fit or an item of it is damaged, is
    among the problems, by its id. With `steady` all are returned, or an error.
    """
    context = allow(request, "read", *asked.id)

    async def read() -> tuple[dict[str, Total], dict[str, LedgerError]]:
        if asked.steady:
            return await context.ledger.totals(asked.id, max_age=asked.max_age, steady=True), {}
        return await readable_totals(
            context.ledger, asked.id, clock=context.clock, max_age=asked.max_age
        )

    found, errors = await read_page(request, for_total(request), read)
    return answer(
        {
            "totals": [_total(context, one) for one in found.values()],
            "problems": problems(errors),
        }
    )


@router.get("/counters/{counter}/entries", openapi_extra=returns("History"))
async def history(request: Request, asked: Annotated[HistoryQuery, Query()]) -> Response:
    """Return a counter's entries in the order of their ids, those of the archive included.

    `merged` older entries are a sum alone, since the archive has none of them: they are not listed
    once they are deleted, shortly after. None of them was made after `until`.
    A page ends sooner than by its `limit` once its entries have a megabyte.
    """
    counter = counter_in(request.path_params["counter"])
    allow(request, "read", counter)
    return await history_answer(request, counter, asked)


async def history_answer(
    request: Request,
    counter: str,
    asked: HistoryQuery,
    is_shown: Callable[[Entry], bool] = bool,
) -> Response:
    """Return a page of a counter's entries: of those that are shown."""
    read = partial(_entries, context_of(request), counter, asked, is_shown)
    page, more, merged = await read_page(request, for_pages(request), read)
    return answer(
        {
            "entries": page,
            "next": more,
            "merged": merged.count,
            "until": None if merged.until is None else merged.until.isoformat(),
        }
    )


@router.get("/counters/{counter}/periods", openapi_extra=returns("Periods"))
async def periods(request: Request, asked: Annotated[PeriodsQuery, Query()]) -> Response:
    """Return what a counter came to by hour, day or month: 1,000 periods at most."""
    counter = counter_in(request.path_params["counter"])
    context = allow(request, "read", counter)
    read = partial(
        context.ledger.periods,
        counter,
        by=asked.by,
        since=bound("since", asked.since),
        until=bound("until", asked.until),
        effective=asked.effective,
    )
    found = await read_page(request, for_pages(request), read)
    return answer(PeriodsModel.fields_of(found))


@router.get("/counters", openapi_extra=returns("Counters"))
async def counters(request: Request, asked: Annotated[CountersQuery, Query()]) -> Response:
    """Return the counters that begin with a prefix, from the table's index, in order of ids.

    Their values are of merged changes only, unless they are `exact`. A page ends sooner than by its
    `limit` once it has a megabyte.
    """
    context = allow(request, "read", asked.prefix)
    listed = context.ledger.counters(
        asked.prefix,
        after=asked.after,
        limit=asked.limit + 1,
        exact=asked.exact,
        described=asked.described,
    )

    read = partial(page_of, listed, asked.limit, fields=ListedModel.fields_of, by="counter")
    page, more = await read_page(request, for_pages(request), read)
    return answer({"counters": page, "next": more})


@router.get("/top", openapi_extra=returns("Top"))
async def top(request: Request, asked: Annotated[TopQuery, Query()]) -> Response:
    """Return the counters of a prefix with the largest values, or the smallest, in order.

    They are ranked by merged changes only, from the table's index; with `exact` by the totals of
    all counters of the prefix, 1,000 at most.
    """
    context = allow(request, "read", asked.prefix)
    read = partial(
        context.ledger.top,
        asked.prefix,
        asked.n,
        smallest=asked.smallest,
        exact=asked.exact,
    )
    found = await read_page(request, for_pages(request), read)
    shown = list[orjson.Fragment]()
    for start in range(0, len(found), SHOWN_AT_ONCE):
        await context.looks.turn(granted(request).name)
        listed = map(ListedModel.fields_of, found[start : start + SHOWN_AT_ONCE])
        shown += map(orjson.Fragment, map(orjson.dumps, listed))
    return answer({"counters": shown})


def _total(context: Context, total: Total) -> dict[str, Any]:
    """Return a total with its age in seconds."""
    age = (context.clock.now() - total.as_of).total_seconds()
    return RegionTotalModel.fields_of(total) | {"age": max(0.0, age)}


async def _entries(
    context: Context, counter: str, asked: HistoryQuery, is_shown: Callable[[Entry], bool]
) -> tuple[list[orjson.Fragment], str | None, Merged]:
    """Return a page of entries, where the next one begins, and what is merged before them."""
    entries = context.ledger.history(
        counter, after=edge("after", asked.after), before=edge("before", asked.before)
    )
    page, more = await page_of(
        entries, asked.limit, fields=EntryModel.fields_of, by="id", is_shown=is_shown
    )
    shards = live_settings(context.ledger).current.shards_max(counter)
    merged = await merged_without_archive(store_here(context.ledger), counter, shards=shards)
    return page, more, merged

"""Endpoints about the service itself: who asks, the state of the fleet, totals of every region."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from ledger.administration.diagnosis.observations import FailedLook
from ledger.http.service.access.tokens import TokenGrant
from ledger.http.service.answers import answer
from ledger.http.service.context import Context, allow, context_of, granted
from ledger.http.service.fleet.fields import fleet_fields
from ledger.http.service.fleet.observer import FleetView
from ledger.http.service.metrics import answered_in
from ledger.http.service.openapi import returns
from ledger.http.service.query_models import IdsQuery
from ledger.http.service.wait import for_fleet, read_page
from ledger.http.wire.schemas import RegionTotalModel
from ledger.session.arguments import check_counters
from ledger.session.ledger import live_settings

router = APIRouter(prefix="/v1", tags=["operating"])


async def _shown(
    request: Request, context: Context, look: Callable[[], Awaitable[FleetView]]
) -> Response:
    """Return what a look shows, as a page: many may wait for one look."""
    found = await read_page(request, for_fleet(request), look)
    requests = answered_in(context.registry)
    return answer(fleet_fields(found, region=context.region) | {"requests": requests})


@router.get("/session", openapi_extra=returns("Session", waits=False))
async def session(request: Request) -> Response:
    """Return what the caller may do, and where: any valid token may ask."""
    return answer(_session(granted(request), context_of(request)))


@router.get("/fleet", openapi_extra=returns("Fleet"))
async def look(request: Request) -> Response:
    """Return the state of every region, not older than 10 seconds.

    A look goes on when a request for it ends before: the next one has its result.
    """
    context = allow(request, "admin")
    return await _shown(request, context, context.fleet.look)


@router.post("/fleet/probe", openapi_extra=returns("Fleet"))
async def probe(request: Request) -> Response:
    """Measure the lag of each pair of regions by an item in each, which is deleted again."""
    context = allow(request, "admin")
    return await _shown(request, context, context.fleet.probe)


@router.get("/fleet/totals", openapi_extra=returns("RegionTotals"))
async def totals(request: Request, asked: Annotated[IdsQuery, Query()]) -> Response:
    """Return totals as every region shows them now, or why one shows none.

    Beside `admin` a token needs `read`.
    """
    context = allow(request, "admin")
    counters = check_counters(asked.id)
    allow(request, "read", *counters)
    read = partial(context.fleet.totals, counters)
    found = await read_page(request, for_fleet(request), read)
    regions = {
        region: {"failed": read.text}
        if isinstance(read, FailedLook)
        else {"totals": [RegionTotalModel.fields_of(total) for total in read.values()]}
        for region, read in found.items()
    }
    return answer({"regions": regions})


def _session(grant: TokenGrant, context: Context) -> dict[str, Any]:
    settings = live_settings(context.ledger).current
    return {
        "caller": grant.name,
        "scopes": sorted(grant.scopes),
        "prefixes": list(grant.prefixes),
        "region": context.region,
        "home": settings.home,
        "regions": list(settings.home_first),
        "index": list(settings.terms.index),
        "periods": list(settings.terms.periods),
        "budgets": list(settings.terms.budgets),
        "credits": [name for name, rule in settings.terms.budgets.items() if rule.credits],
        "books": list(settings.terms.books),
    }

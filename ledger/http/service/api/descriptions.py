"""Endpoints of what counters are described by."""

from typing import Any

from fastapi import APIRouter, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from ledger.core.descriptions import Value
from ledger.http.service.answers import answer
from ledger.http.service.api.bodies import read_json_body
from ledger.http.service.context import allow, is_still_allowed
from ledger.http.service.openapi import asks, returns
from ledger.http.service.request_models import DescriptionBody, counter_in
from ledger.http.service.wait import for_change, for_total, one_of_few
from ledger.http.wire.values import typed

_DESCRIPTION = TypeAdapter(DescriptionBody)

router = APIRouter(prefix="/v1", tags=["describing"])


@router.get("/counters/{counter}/description", openapi_extra=returns("Description"))
async def description(request: Request) -> Response:
    """Return the attributes that a counter was described by, as this region has them."""
    counter = counter_in(request.path_params["counter"])
    context = allow(request, "read", counter)
    seconds = for_total(request)
    return _answer(counter, await context.ledger.description(counter, timeout=seconds))


@router.patch(
    "/counters/{counter}/description",
    openapi_extra=asks(DescriptionBody, returns("Description")),
)
@one_of_few("change", "write")
async def describe(request: Request) -> Response:
    """Set attributes of a counter, remove those given as null; return all that it has then.

    A token without the scope `read` gets those of the request alone. Repeated it sets the same. Of
    two regions that describe a counter at once, the later one counts, with all of its attributes.
    """
    counter = counter_in(request.path_params["counter"])
    body = await read_json_body(request, _DESCRIPTION, "write")
    context = allow(request, "write", counter)
    seconds = for_change(request)
    found = await context.ledger.describe(counter, body.asked, timeout=seconds)
    if not is_still_allowed(request, "read", counter):
        found = {name: value for name, value in found.items() if name in body.attributes}
    return _answer(counter, found)


def _answer(counter: str, attributes: dict[str, Value]) -> Response:
    fields: dict[str, Any] = {"counter": counter, "attributes": typed(attributes)}
    return answer(fields)

"""Endpoints of books: transfers, and balances of accounts."""

from dataclasses import replace
from functools import partial
from typing import Annotated

import orjson
from fastapi import APIRouter, Query, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from ledger.core import amounts, keys
from ledger.core.values import Entry
from ledger.http.service.answers import answer
from ledger.http.service.api.bodies import read_json_body
from ledger.http.service.api.entries import status_of
from ledger.http.service.api.reads import history_answer
from ledger.http.service.body_values import legs_of
from ledger.http.service.context import allow, granted
from ledger.http.service.openapi import returns, written
from ledger.http.service.query_models import BalancesQuery, TransfersQuery
from ledger.http.service.request_models import TransferBody, bound, counter_in, key_of
from ledger.http.service.wait import for_change, for_total, one_of_few, read_page
from ledger.http.wire.schemas import BalancesModel, EntryModel
from ledger.reads.balances import Balances
from ledger.session.book import Book, check_book

ACCOUNTS_AT_ONCE = 500
"""Accounts of an answer that are rendered in one turn of the event loop, in a millisecond."""
_TRANSFER = TypeAdapter(TransferBody)

router = APIRouter(prefix="/v1", tags=["books"])


@router.post("/books/{book}/transfers", openapi_extra=written(TransferBody, "Entry", keyed=True))
@one_of_few("change", "write")
async def transfer(request: Request) -> Response:
    """Move amounts between accounts of a book; durable in this region when the answer comes.

    201 with the transfer, 200 with it if an earlier request of this key had written it. It is whole
    in every region that shows it. An account is opened by the first transfer that names it.
    """
    headers = request.headers
    name = counter_in(request.path_params["book"])
    body = await read_json_body(request, _TRANSFER, "write")
    context = allow(request, "write", name)
    key, at = key_of(headers.get("idempotency-key"), headers.get("idempotency-time"))
    made = await Book(name, context.ledger).transfer(
        legs_of(body.legs),
        key=key,
        at=at,
        note=body.note,
        metadata=body.metadata,
        effective=body.effective,
        timeout=for_change(request),
    )
    return answer(EntryModel.fields_of(made), status_of(made))


@router.get("/books/{book}/balances", openapi_extra=returns("Balances"))
async def balances(request: Request, asked: Annotated[BalancesQuery, Query()]) -> Response:
    """Return the balances of a book's accounts, from the cache if it is recent enough.

    Each transfer is counted whole. A read costs the whole book, whatever is asked for.
    """
    name = counter_in(request.path_params["book"])
    context = allow(request, "read", name)
    _check_names(*asked.account, asked.prefix)
    read = partial(
        Book(name, context.ledger).balances,
        asked.account or None,
        prefix=asked.prefix,
        at=bound("at", asked.at),
        max_age=asked.max_age,
        steady=asked.steady,
    )
    found = await read_page(request, for_total(request), read)
    assets = await _assets(request, found)
    return answer(BalancesModel.fields_of(replace(found, assets={})) | {"assets": assets})


@router.get("/books/{book}/transfers", openapi_extra=returns("History"))
async def transfers(request: Request, asked: Annotated[TransfersQuery, Query()]) -> Response:
    """Return a book's transfers in the order of their ids, or those that name an account.

    As the entries of a counter. A page ends, too, after 10,000 transfers that were looked at: it
    may be empty, and have a `next`.
    """
    name = counter_in(request.path_params["book"])
    context = allow(request, "read", name)
    _check_names(*asked.account)
    check_book(context.ledger, name)
    accounts = frozenset(asked.account)

    def names_one(entry: Entry) -> bool:
        return not accounts or any(leg.account in accounts for leg in entry.legs)

    return await history_answer(request, name, asked, names_one)


def _check_names(*names: str) -> None:
    """Refuse what no account is named, nor begins with.

    Raises:
        InvalidCounter: the message names it.
    """
    for name in filter(None, names):
        keys.checked_counter(name, "an account")


async def _assets(request: Request, found: Balances) -> orjson.Fragment:
    """Return balances as JSON, by asset and account: others go on meanwhile."""
    context = allow(request, "read", found.book)
    shown = []
    for asset, of_asset in found.assets.items():
        listed, parts = list(of_asset.items()), []
        for start in range(0, len(listed), ACCOUNTS_AT_ONCE):
            await context.looks.turn(granted(request).name)
            some = listed[start : start + ACCOUNTS_AT_ONCE]
            texts = {account: amounts.to_text(balance) for account, balance in some}
            parts.append(orjson.dumps(texts)[1:-1])
        shown.append(orjson.dumps(asset) + b":{" + b",".join(parts) + b"}")
    return orjson.Fragment(b"{" + b",".join(shown) + b"}")

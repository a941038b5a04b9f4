"""Endpoints of budgets: spends, holds, limits."""

from decimal import Decimal
from functools import partial
from http import HTTPStatus
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from ledger.budgets.budget import Budget, Budgets, Hold
from ledger.budgets.rights import GrantName
from ledger.budgets.spend_request import Granted, Refused, checked_hold
from ledger.core import amounts
from ledger.core.errors import (
    AmountOverflow,
    BudgetMissing,
    DamagedItem,
    InvalidCounter,
    OutcomeUnknown,
)
from ledger.core.values import Entry
from ledger.http.service.answers import Spoken, answer, problems, read_each
from ledger.http.service.api.bodies import read_json_body
from ledger.http.service.budget_request_models import (
    BudgetBody,
    BudgetQuery,
    BudgetsQuery,
    CreditBody,
    ExtendBody,
    HoldBody,
    SettleBody,
    SpendBody,
    VoidBody,
)
from ledger.http.service.context import (
    Context,
    allow,
    context_of,
    granted,
    is_still_allowed,
    shown_to,
)
from ledger.http.service.openapi import asks, returns, written
from ledger.http.service.request_models import checked_region, counter_in, entry_in
from ledger.http.service.wait import for_change, for_total, one_of_few, preferred, read_page
from ledger.http.wire.schemas import BudgetModel
from ledger.http.wire.values import Fields, exceeded
from ledger.runtime.call_deadlines import reading
from ledger.session.ledger import budget_parts, live_settings

_SPEND = TypeAdapter(SpendBody)
_CREDIT = TypeAdapter(CreditBody)
_HOLD = TypeAdapter(HoldBody)
_SETTLE = TypeAdapter(SettleBody)
_VOID = TypeAdapter(VoidBody)
_EXTEND = TypeAdapter(ExtendBody)
_BUDGET = TypeAdapter(BudgetBody)
_OF_ONE_BUDGET = (AmountOverflow, BudgetMissing, DamagedItem, InvalidCounter)
"""Errors that say nothing of other budgets; any other is that of the whole request."""
_NOTHING = Decimal(0)
AnySpend = TypeVar("AnySpend", bound=SpendBody)

router = APIRouter(prefix="/v1", tags=["budgets"])
states = APIRouter(prefix="/v1", tags=["budgets"])


@router.post("/budgets/{counter}/spends", openapi_extra=written(SpendBody, "Entry", keyed=True))
@one_of_few("spend", "write")
async def spend(request: Request) -> Response:
    """Spend from a budget, if it has as much; the entry is durable in this region then.

    201 with the entry, 200 with it if an earlier request of this key had spent it; the 409
    `budget-exceeded` names the budget that has too little, and what is left of it. With `also` it
    is spent from each of these, too, or from none.
    """
    budgets, body, wait, seconds = await _asked(request, _SPEND)
    headers = request.headers
    key, at = body.named(headers.get("idempotency-key"), headers.get("idempotency-time"))
    try:
        outcome = await budgets.spend(
            body.amount, note=body.note, key=key, at=at, wait=body.waits(wait), timeout=seconds
        )
    except OutcomeUnknown as error:
        raise _unknown(error, budgets, key) from error
    return await _spent(request, budgets, outcome, body)


@router.post(
    "/budgets/{counter}/credits", openapi_extra=written(CreditBody, "Credited", keyed=True)
)
@one_of_few("spend", "write")
async def credit(request: Request) -> Response:
    """Give a budget an amount, in any region; the entry is durable in this region then.

    201 with the entry, 200 with it if an earlier request of this key had credited it. It counts at
    once, and is `spendable` once every region shows it. A pattern of the contract's `budgets` with
    `credits:on` must have the counter.
    """
    counter = counter_in(request.path_params["counter"])
    body = await read_json_body(request, _CREDIT, "write")
    context = allow(request, "write", counter)
    headers, wait = request.headers, preferred(request)
    key, at = body.named(headers.get("idempotency-key"), headers.get("idempotency-time"))
    budget = Budget(counter, partial(budget_parts, context.ledger))
    seconds = for_change(request) + ((body.wait or 0.0) if wait is None else 0.0)
    try:
        done = await budget.credit(
            body.amount, note=body.note, key=key, at=at, wait=body.waits(wait), timeout=seconds
        )
    except OutcomeUnknown as error:
        raise _unknown(error, budget, key, "credit of", "credits") from error
    status = HTTPStatus.OK if done.entry.repeated else HTTPStatus.CREATED
    fields = shown_to(request, done.entry, note=body.note)
    return answer({**fields, "spendable": done.is_spendable}, status)


@router.post("/budgets/{counter}/holds", openapi_extra=written(HoldBody, "Entry", keyed=True))
@one_of_few("spend", "write")
async def hold(request: Request) -> Response:
    """Keep an amount aside, which counts at once, until it is settled or voided, or expires.

    Its entry is what settles, voids and extends it. Else as a spend.
    """
    budgets, body, wait, seconds = await _asked(request, _HOLD)
    headers = request.headers
    key, at = body.named(headers.get("idempotency-key"), headers.get("idempotency-time"))
    try:
        outcome = await budgets.hold(
            body.amount,
            expires=body.expires,
            note=body.note,
            key=key,
            at=at,
            wait=body.waits(wait),
            timeout=seconds,
        )
    except OutcomeUnknown as error:
        raise _unknown(error, budgets, key) from error
    return await _spent(request, budgets, outcome, body)


@router.post("/holds/{hold}/settle", openapi_extra=written(SettleBody, "Entry"))
@one_of_few("change", "write")
async def settle(request: Request) -> Response:
    """Settle a hold for what it came to, once: 201, and 200 when it is repeated.

    What it came to less is free again; for more there must be as much, or it is a 409.
    """
    body = await read_json_body(request, _SETTLE, "write")
    held = await _held(request, body)
    outcome = await held.settle(body.actual, over=body.over, timeout=for_change(request))
    return _made(request, outcome)


@router.post("/holds/{hold}/void", openapi_extra=written(VoidBody, "Entry"))
@one_of_few("change", "write")
async def void(request: Request) -> Response:
    """Give back all that a hold keeps aside, once: 201, and 200 when it is repeated."""
    body = await read_json_body(request, _VOID, "write")
    outcome = await (await _held(request, body)).void(timeout=for_change(request))
    return _made(request, outcome)


@router.post("/holds/{hold}/extend", openapi_extra=asks(ExtendBody, returns("Entry")))
@one_of_few("change", "write")
async def extend(request: Request) -> Response:
    """Let a hold expire later.

    Of this and what resolves a hold the entry's note is for tokens of the scope `read`.
    """
    body = await read_json_body(request, _EXTEND, "write")
    extended = await (await _held(request, body)).extend(body.expires, timeout=for_change(request))
    return answer(shown_to(request, extended.entry))


@router.put("/budgets/{counter}", openapi_extra=written(BudgetBody, "BudgetLimit"))
@one_of_few("change", "admin")
async def create(request: Request) -> Response:
    """Give a counter its limit, through the home region.

    201; 200 if it has this limit already, 409 if it has another. With an `id` it counts as the
    raise of that id: 200 if that was made before, 409 if the budget has a limit without it. A
    pattern of the contract's `budgets` must have the counter.
    """
    counter = counter_in(request.path_params["counter"])
    body = await read_json_body(request, _BUDGET, "admin")
    context = allow(request, "admin", counter)
    budget = Budget(counter, partial(budget_parts, context.ledger))
    is_new = await budget.create(
        body.limit, id=body.id, weights=body.weights, timeout=for_change(request)
    )
    fields = {"budget": counter, "limit": amounts.to_text(body.limit)}
    return answer(fields, HTTPStatus.CREATED if is_new else HTTPStatus.OK)


@states.get("/budgets/{counter}", openapi_extra=returns("Budget"))
async def state(request: Request, asked: Annotated[BudgetQuery, Query()]) -> Response:
    """Return limit, rights, open grants and transfers of a budget, or a window, as shown here."""
    counter = counter_in(request.path_params["counter"])
    context = allow(request, "read", counter)
    seconds = for_total(request)
    return answer(await _shown(context, counter, asked=asked, seconds=seconds))


@states.get("/budgets", openapi_extra=returns("Budgets"))
async def states_of_many(request: Request, asked: Annotated[BudgetsQuery, Query()]) -> Response:
    """Return many budgets, or their windows, as shown here; `problems` of those that are none.

    A counter without a limit is among the problems, by its id, as is one that cannot be read.
    """
    context = allow(request, "read", *asked.id)
    read = partial(_shown, context, asked=asked)
    reads = partial(read_each, asked.id, read, of_one=_OF_ONE_BUDGET)
    found, errors = await read_page(request, for_total(request), reads)
    return answer({"budgets": list(found.values()), "problems": problems(errors)})


async def _shown(
    context: Context, counter: str, *, asked: BudgetQuery, seconds: float | None = None
) -> Fields:
    budget = Budget(counter, partial(budget_parts, context.ledger))
    return BudgetModel.fields_of(await budget.state(at=asked.time, timeout=seconds))


async def _asked(
    request: Request, kind: TypeAdapter[AnySpend]
) -> tuple[Budgets, AnySpend, float | None, float]:
    """Return the budgets to spend from, what is asked, how long is preferred, and may be taken."""
    counter = counter_in(request.path_params["counter"])
    body = await read_json_body(request, kind, "write")
    names = [counter, *body.also]
    context = allow(request, "write", *names)
    goes_on = partial(is_still_allowed, request, "write", *names)
    budgets = Budgets(names, partial(budget_parts, context.ledger), goes_on=goes_on)
    wait = preferred(request)
    seconds = for_change(request) + ((body.wait or 0.0) if wait is None else 0.0)
    return budgets, body, wait, seconds


async def _held(request: Request, body: VoidBody) -> Hold:
    """Return the hold whose entry the path names, of whose budgets the token must have each."""
    context: Context = allow(request, "write", body.counter)
    region = checked_region(body.region, live_settings(context.ledger).current.home_first)
    id_ = entry_in(request.path_params["hold"])
    entry = checked_hold(Entry(body.counter, id_, _NOTHING, region))
    with reading(for_change(request)):
        known = await budget_parts(context.ledger).holds.known(entry)
    names = known.spending.grants if known.spending else ()
    allow(request, "write", *filter(None, (GrantName.parse(name).budget for name in names)))
    return Hold(known, partial(budget_parts, context.ledger))


async def _spent(
    request: Request, budgets: Budgets, outcome: Granted | Hold | Refused, body: SpendBody
) -> Response:
    """Return the answer of a spend, which ends to wait for rights once its token does."""
    if not outcome:
        await context_of(request).looks.turn(granted(request).name)
        allow(request, "write", *budgets.names)
    return _made(request, outcome, note=body.note)


def _made(request: Request, outcome: Granted | Hold | Refused, note: str | None = None) -> Response:
    """Return the answer of a spend: its entry, or, as an error, that it is refused."""
    if isinstance(outcome, Refused):
        raise exceeded(outcome)
    entry = outcome.entry
    status = HTTPStatus.OK if entry.repeated else HTTPStatus.CREATED
    return answer(shown_to(request, entry, note=note), status)


def _unknown(
    error: OutcomeUnknown,
    budgets: Budgets,
    key: str | None,
    what: str = "spend from",
    does: str = "spends",
) -> OutcomeUnknown:
    """Return the error of a spend, or credit: it is repeated by its key alone."""
    another = what.partition(" ")[0]
    advice = f"it had no Idempotency-Key, so it cannot be repeated: a repeat is another {another}"
    if key is not None:
        advice = f"the same request, with its key, {does} nothing more"
    return Spoken(
        f"no answer for a {what} {budgets.names[0]!r}, which may be made or not: {advice}",
        entries=error.entries,
        retryable=key is not None,
    )

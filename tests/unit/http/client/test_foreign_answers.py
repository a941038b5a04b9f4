"""An answer that is not of the service's form: unknown for a write, an error for a read."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import Any

import anyio.to_thread
import httpx
import orjson
import pytest
from support.ledgers import seeded
from support.serving import SERVICE
from support.tiers import few_fast

from ledger import Transfer
from ledger.core.errors import AccessDenied, LedgerError, OutcomeUnknown, Unreachable
from ledger.core.values import Entry
from ledger.http.client import Ledger, sync
from ledger.http.client.books import Book
from ledger.http.client.budgets import Budget, Budgets, Hold
from ledger.http.wire.schemas import EntryModel
from ledger.testing import ManualClock

ENTRY = Entry("stock", "2026-11-21T06:50:00.000000Z#afb763d1b176a30d", Decimal(5), "us-east-1")
LEGS = (("cash", "EUR", -5), ("customer/alice", "EUR", 5))
FIELDS = EntryModel.fields_of(ENTRY)
JSON = "application/json"
PROBLEM = "application/problem+json"
TLS = SSLContext(PROTOCOL_TLS_CLIENT)
"""None is used: it spares reading all authorities for each client."""
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def json(fields: object, status: int = 200, media: str = JSON) -> httpx.Response:
    """Return an answer of a gateway that speaks JSON."""
    return httpx.Response(status, content=orjson.dumps(fields), headers={"Content-Type": media})


def page(status: int) -> httpx.Response:
    """Return a page for people."""
    return httpx.Response(status, text="<html>", headers={"Content-Type": "text/html"})


FOREIGN: Mapping[str, Callable[[], httpx.Response]] = {
    "an empty object": partial(json, {}),
    "a list": partial(json, []),
    "a text": partial(json, "ok"),
    "null": partial(json, None),
    "a health check": partial(json, {"status": "ok"}),
    "no JSON": partial(httpx.Response, 200, content=b"{", headers={"Content-Type": JSON}),
    "no type": partial(httpx.Response, 200, content=b"{}"),
    "an empty list of results": partial(json, {"results": []}),
    "a result of nothing": partial(json, {"results": [{"status": 201}]}),
    "results that are texts": partial(json, {"results": ["ok"]}),
    "an entry with numbers": partial(json, FIELDS | {"change": 5}),
    "an entry of another change": partial(json, FIELDS | {"change": "five"}),
    "an entry of another date": partial(json, FIELDS | {"effective": "soon"}),
    "totals of nulls": partial(json, {"totals": [None], "problems": {}}),
    "lists of texts": partial(json, {"entries": ["a"], "counters": ["b"], "next": 3}),
    "attributes of a list": partial(json, {"counter": "stock", "attributes": []}),
    "no content": partial(httpx.Response, 204),
    "a page": partial(page, 200),
    "a redirect": partial(page, 302),
    "a refusal": partial(page, 400),
    "a refusal in JSON": partial(json, {"message": "Forbidden"}, 403),
    "a login": partial(page, 401),
    "no such page": partial(page, 404),
    "too large": partial(page, 413),
    "too many": partial(page, 429),
    "away": partial(page, 503),
    "another's problem": partial(
        json, {"type": "about:blank", "title": "No", "status": 400}, 400, PROBLEM
    ),
    "a problem of another status": partial(
        json,
        {
            "type": "/problems/invalid-request",
            "title": "No",
            "detail": "no",
            "status": 400,
            "outcome": "not_applied",
            "retryable": False,
        },
        403,
        PROBLEM,
    ),
    "a problem that is a list": partial(json, [], 409, PROBLEM),
    "a conflict of nothing": partial(
        json,
        {
            "type": "/problems/key-conflict",
            "title": "No",
            "detail": "no",
            "status": 409,
            "outcome": "not_applied",
            "retryable": False,
        },
        409,
        PROBLEM,
    ),
}

Call = Callable[[Any], Any]


def hold(ledger: Any) -> Any:
    """Return the hold that is settled."""
    return ledger.budget("key/42").held(ENTRY)


WRITES: Mapping[str, Call] = {
    "record": lambda ledger: ledger.record("stock", 5),
    "record_many": lambda ledger: ledger.record_many([("stock", 5), ("stock", 6)]),
    "record_together": lambda ledger: ledger.record_together([("stock", 5), ("stock", 6)]),
    "retry": lambda ledger: ledger.retry([ENTRY]),
    "reconcile": lambda ledger: ledger.reconcile("stock", counted=5),
    "reverse": lambda ledger: ledger.reverse(ENTRY),
    "describe": lambda ledger: ledger.describe("stock", {"a": 1}),
    "Book.transfer": lambda ledger: ledger.book("book/1").transfer(LEGS),
    "Book.transfer_many": lambda ledger: ledger.book("book/1").transfer_many([Transfer(LEGS)]),
    "Budget.create": lambda ledger: ledger.budget("key/42").create(5),
    "Budget.credit": lambda ledger: ledger.budget("key/42").credit(5),
    "Budgets.spend": lambda ledger: ledger.budget("key/42").spend(5),
    "Budgets.hold": lambda ledger: ledger.budget("key/42").hold(5, expires=60),
    "Hold.settle": lambda ledger: hold(ledger).settle(5),
    "Hold.void": lambda ledger: hold(ledger).void(),
    "Hold.extend": lambda ledger: hold(ledger).extend(60),
}
READS: Mapping[str, Call] = {
    "total": lambda ledger: ledger.total("stock"),
    "totals": lambda ledger: ledger.totals(["stock"]),
    "periods": lambda ledger: ledger.periods("stock", by="day"),
    "periods_many": lambda ledger: ledger.periods_many(["stock"], by="day"),
    "history": lambda ledger: ledger.history("stock"),
    "counters": lambda ledger: ledger.counters("stock"),
    "top": lambda ledger: ledger.top("stock"),
    "description": lambda ledger: ledger.description("stock"),
    "feed": lambda ledger: ledger.feed("stock"),
    "feed_page": lambda ledger: ledger.feed_page("stock"),
    "live_totals": lambda ledger: ledger.live_totals(["stock"]),
    "Book.balances": lambda ledger: ledger.book("book/1").balances(),
    "Book.history": lambda ledger: ledger.book("book/1").history("cash"),
    "Budget.state": lambda ledger: ledger.budget("key/42").state(),
    "Budget.explain": lambda ledger: ledger.budget("key/42").explain(),
}
OF_MANY: Mapping[str, Call] = {
    "Budgets.settle_many": lambda ledger: ledger.budget("a").settle_many([(hold(ledger), 5)]),
    "Budgets.void_many": lambda ledger: ledger.budget("a").void_many([hold(ledger)]),
}
CLASSES: Mapping[str, type] = {
    "": Ledger,
    "Book.": Book,
    "Budgets.": Budgets,
    "Budget.": Budget,
    "Hold.": Hold,
}
SILENT = {"open", "close", "book", "budget", "budgets", "Budgets.held"}
"""Methods that ask nothing of the service."""


@asynccontextmanager
async def behind(foreign: str) -> AsyncIterator[Ledger]:
    """Open a client before something that always answers so."""
    transport = httpx.MockTransport(lambda _: FOREIGN[foreign]())
    clock = ManualClock(NOON, instant=True)
    ledger = Ledger(SERVICE, transport=transport, tls=TLS, clock=clock, randomness=seeded(1))
    async with ledger:
        yield ledger


async def told(call: Call, ledger: Ledger) -> Any:
    """Return what a call comes to."""
    made = call(ledger)
    if isinstance(made, Awaitable):
        return await made
    return [one async for one in made]


async def told_of_each(call: Call) -> Mapping[str, object]:
    """Return what a call returns or raises by what answers it."""
    found: dict[str, object] = {}
    for foreign in FOREIGN:
        async with behind(foreign) as ledger:
            try:
                found[foreign] = await told(call, ledger)
            except LedgerError as error:
                found[foreign] = error
    return found


@pytest.mark.parametrize("method", few_fast(WRITES, fast=2))
async def test_a_write_is_unknown(method: str) -> None:
    """The request may have been carried out behind what answers."""
    found = await told_of_each(WRITES[method])
    assert {by: said for by, said in found.items() if not isinstance(said, OutcomeUnknown)} == {}


@pytest.mark.parametrize("method", few_fast(READS, fast=2))
async def test_a_read_is_a_clear_error(method: str) -> None:
    """It names what came; nothing is written by a read."""
    found = await told_of_each(READS[method])
    assert {by: said for by, said in found.items() if not is_clear(said)} == {}


def is_clear(said: object) -> bool:
    """Return whether it is an error that says something, and that nothing was written."""
    return isinstance(said, LedgerError) and said.outcome == "not_applied" and bool(str(said))


@pytest.mark.parametrize("method", OF_MANY)
async def test_each_of_many_holds_is_unknown(method: str) -> None:
    """Each has an outcome of its own."""
    found = await told_of_each(OF_MANY[method])
    assert {by: said for by, said in found.items() if not is_one_unknown(said)} == {}


def is_one_unknown(said: object) -> bool:
    """Return whether the one hold of a call of many has an unknown outcome."""
    return isinstance(said, list | tuple) and list(map(type, said)) == [OutcomeUnknown]


@pytest.mark.parametrize("method", [*WRITES, *READS])
async def test_the_plain_client_says_the_same(method: str) -> None:
    """Of a gateway's empty object."""

    def call() -> None:
        opened = Ledger(
            SERVICE,
            transport=httpx.MockTransport(lambda _: json({})),
            tls=TLS,
            clock=ManualClock(NOON, instant=True),
        )
        with sync.Ledger(opened) as ledger:
            made = {**WRITES, **READS}[method](ledger)
            list(made)

    with pytest.raises(OutcomeUnknown if method in WRITES else Unreachable):
        await anyio.to_thread.run_sync(call)


async def test_a_refusal_by_another_server_keeps_its_kind_for_a_read() -> None:
    """And is not asked for again."""
    async with behind("a login") as ledger:
        with pytest.raises(AccessDenied, match="401, not from the ledger's service"):
            await ledger.total("stock")


def test_every_method_is_asked() -> None:
    """A new method needs its row here."""
    every = {
        f"{prefix}{name}"
        for prefix, kind in CLASSES.items()
        for name, _ in inspect.getmembers(kind, inspect.isroutine)
        if not name.startswith("_") and not (prefix == "Budget." and hasattr(Budgets, name))
    }
    assert every == {*WRITES, *READS, *OF_MANY, *SILENT}

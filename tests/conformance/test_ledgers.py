"""The library, the plain one, and the clients of the service are one ledger."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio.to_thread
import httpx
import pytest
from conformance.ledger_suite import LedgerSuite, Made
from support.serving import SERVICE, served
from support.sockets import listening

from ledger.http.client import Ledger
from ledger.http.client import sync as client_sync
from ledger.testing import MemoryGlobalTable

BODY_MAX = 1_000_000
_END = object()


class InThreads:
    """A plain ledger, each call in a thread of its own, as an async one."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._plain, name)
        return partial(
            self._each if name in {"history", "counters", "feed"} else self._call, method
        )

    async def _call(self, method: Any, *args: Any, **named: Any) -> Any:
        return await anyio.to_thread.run_sync(partial(method, *args, **named))

    async def _each(self, method: Any, *args: Any, **named: Any) -> AsyncIterator[Any]:
        items = iter(method(*args, **named))
        while (item := await anyio.to_thread.run_sync(next, items, _END)) is not _END:
            yield item


@asynccontextmanager
async def library(**settings: Any) -> AsyncIterator[Made]:
    """Open `ledger.Ledger`."""
    table = MemoryGlobalTable(**settings)
    async with table.ledger() as ledger:
        yield Made(ledger, table)


@asynccontextmanager
async def plain_library(**settings: Any) -> AsyncIterator[Made]:
    """Open `ledger.sync.Ledger`: the table lives in the loop of another thread."""
    table = MemoryGlobalTable(**settings)
    with table.sync_ledger() as ledger:
        yield Made(InThreads(ledger), table)


@asynccontextmanager
async def straight(**settings: Any) -> AsyncIterator[Made]:
    """Open a client whose requests go straight to the service's application."""
    table = MemoryGlobalTable(**settings)
    async with served(table, body_max=BODY_MAX) as service:
        transport = httpx.ASGITransport(app=service.app)
        async with Ledger(SERVICE, transport=transport, clock=table.clock) as ledger:
            yield Made(ledger, table)


@asynccontextmanager
async def behind_a_socket(**settings: Any) -> AsyncIterator[tuple[MemoryGlobalTable, Ledger]]:
    """Run the service on a port, and yield a client of it that is not open."""
    table = MemoryGlobalTable(**settings)
    async with served(table, body_max=BODY_MAX) as service, listening(service.app) as url:
        yield table, Ledger(url, clock=table.clock)


@asynccontextmanager
async def over_a_socket(**settings: Any) -> AsyncIterator[Made]:
    """Open a client of a service on a port."""
    async with behind_a_socket(**settings) as (table, client), client as ledger:
        yield Made(ledger, table)


@asynccontextmanager
async def plain_over_a_socket(**settings: Any) -> AsyncIterator[Made]:
    """Open a client without async."""
    async with behind_a_socket(**settings) as (table, client):
        plain = client_sync.Ledger(client)
        await anyio.to_thread.run_sync(plain.__enter__)
        try:
            yield Made(InThreads(plain), table)
        finally:
            await anyio.to_thread.run_sync(plain.close)


class TestLibrary(LedgerSuite):
    """`ledger.Ledger`."""

    way = staticmethod(library)


class TestPlainLibrary(LedgerSuite):
    """`ledger.sync.Ledger`."""

    way = staticmethod(plain_library)


class TestService(LedgerSuite):
    """`ledger.http.client.Ledger`, straight to the service's application."""

    way = staticmethod(straight)


@pytest.mark.slow
class TestClient(LedgerSuite):
    """`ledger.http.client.Ledger`, over a socket to uvicorn."""

    way = staticmethod(over_a_socket)


@pytest.mark.slow
class TestPlainClient(LedgerSuite):
    """`ledger.http.client.sync.Ledger`, over a socket to uvicorn."""

    way = staticmethod(plain_over_a_socket)

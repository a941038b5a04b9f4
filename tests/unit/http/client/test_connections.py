"""Connections that the client keeps for its next requests."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import httpx
import pytest

from ledger.core.values import Entry
from ledger.http.client import Ledger
from ledger.http.client.ledger import IDLE_SECONDS_MAX
from ledger.http.wire.schemas import EntryModel
from ledger.testing import ManualClock


@asynccontextmanager
async def listening(answers: Callable[[int, int], bool]) -> AsyncIterator[tuple[str, list[str]]]:
    """Run a service that answers a connection's request if it may, or closes the connection.

    Yield its URL, and the key of each request that came.
    """
    connections, keys = 0, list[str]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        number, requests = connections, 0
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:  # the client closed it
                break
            requests += 1
            lines = head.decode().lower().splitlines()
            length = next(line for line in lines if line.startswith("content-length"))
            (asked,) = json.loads(await reader.readexactly(int(length.split()[1])))["entries"]
            keys.append(asked["key"])
            if not answers(number, requests):
                break
            entry = EntryModel.fields_of(
                Entry(asked["counter"], asked["key"], Decimal(asked["change"]))
            )
            body = json.dumps({"results": [{"status": 201, "entry": entry}]})
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                + f"content-length: {len(body)}\r\n\r\n{body}".encode()
            )
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", keys


async def test_a_kept_connection_that_is_closed_before_an_answer_loses_nothing() -> None:
    """The change is sent again, under its key, on another connection."""
    async with listening(lambda number, request: (number, request) != (1, 2)) as (url, keys):
        async with Ledger(url, clock=ManualClock(instant=True)) as ledger:
            await ledger.record("stock", 1)
            await ledger.record("stock", 2)
        assert len(keys) == 3
        assert keys[1] == keys[2] != keys[0]


async def test_idle_connections_are_closed_by_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the service would."""
    given: list[httpx.Limits] = []

    class Client(httpx.AsyncClient):
        def __init__(self, *, limits: httpx.Limits, **others: Any) -> None:
            given.append(limits)
            super().__init__(limits=limits, **others)

    monkeypatch.setattr(httpx, "AsyncClient", Client)
    async with Ledger("http://ledger.test"):
        assert [limits.keepalive_expiry for limits in given] == [IDLE_SECONDS_MAX]

"""The service over a ledger in memory, asked without a socket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from ledger.http.service.access.access import Access, OpenAccess
from ledger.http.service.app import ServiceParts, create_app
from ledger.http.service.context import Context
from ledger.http.service.gate import GateStatus, RequestLog
from ledger.http.service.options import ServiceOptions
from ledger.session.ledger import Ledger
from ledger.testing import MemoryGlobalTable

HOME, AWAY = "us-east-1", "eu-west-1"
SERVICE = "http://ledger.test"


@dataclass(slots=True)
class Served:
    """A service that is running, and a client of it."""

    table: MemoryGlobalTable
    ledger: Ledger
    http: httpx.AsyncClient
    context: Context
    app: ASGIApp
    seen: list[GateStatus] = field(default_factory=list)

    async def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        """Send a JSON body; `_` in a header's name is `-`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.http.post(path, json=body, headers=named)

    async def record(self, counter: str, change: str, **headers: str) -> httpx.Response:
        """Add to a counter whose id needs no encoding."""
        return await self.post(f"/v1/counters/{counter}/entries", {"change": change}, **headers)

    async def value(self, counter: str) -> str:
        """Return a counter's total of now."""
        answer = await self.http.get(f"/v1/counters/{counter}", params={"max_age": 0})
        found: str = answer.json()["value"]
        return found


@asynccontextmanager
async def served(
    table: MemoryGlobalTable | None = None,
    *,
    region: str = HOME,
    access: Access | None = None,
    ledger: Ledger | None = None,
    body_max: int = 100_000,
    loopback_only: bool = False,
    peer: str = "127.0.0.1",
) -> AsyncIterator[Served]:
    """Run the service of one region, asked from `peer`; without `access` all may do everything."""
    table = table or MemoryGlobalTable([HOME, AWAY])
    ledger = ledger or table.ledger(region)
    numbers, seen = count(1), list[GateStatus]()
    parts = ServiceParts(
        clock=table.clock,
        access=access or OpenAccess(),
        registry=CollectorRegistry(),
        requests=RequestLog(lambda: f"request-{next(numbers)}", seen.append),
    )
    options = ServiceOptions(body_max=body_max, loopback_only=loopback_only)
    app, context = create_app(ledger, parts, options)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False, client=(peer, 123))
    async with (
        ledger,
        context.fleet,
        httpx.AsyncClient(transport=transport, base_url=SERVICE) as http,
    ):
        yield Served(table, ledger, http, context, app, seen)

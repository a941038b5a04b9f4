"""The page of all endpoints, from the OpenAPI document and from the service's refusals."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from prometheus_client import CollectorRegistry
from support.reference.tables import row, table

from ledger.http.service.access.access import OpenAccess
from ledger.http.service.access.tokens import TokenGrant
from ledger.http.service.app import ServiceParts, create_app
from ledger.http.service.gate import RequestLog
from ledger.testing import MemoryGlobalTable

HEAD = """\
# Endpoints

Each endpoint takes the headers and values that its row names. `GET /openapi.json` says what they
mean, and has every answer. `GET /` is a page for people. [Serve over
HTTP](../howto/serve-over-http.md) says how you run the service, and [give
access](../howto/give-access.md) how a token gets a scope.

"""
VALUE = "day"
"""A counter's id, and a kind of period, as a query asks for one of them."""
_SCOPE = re.compile(r"has not the scope '(\w+)'")


class NoScope(OpenAccess):
    """Knows every caller, and allows none of them anything."""

    def grant(self, authorization: str | None) -> TokenGrant:
        """Return a grant without a scope."""
        del authorization
        return TokenGrant("anyone", frozenset())


def page() -> str:
    """Return the page: every endpoint, in the order of the document."""
    return asyncio.run(_page())


@asynccontextmanager
async def service() -> AsyncIterator[httpx.AsyncClient]:
    """Run a service whose callers have no scope, and give a client of it."""
    memory = MemoryGlobalTable()
    parts = ServiceParts(
        clock=memory.clock,
        access=NoScope(),
        registry=CollectorRegistry(),
        requests=RequestLog(lambda: "reference", lambda _: None),
    )
    async with memory.ledger() as ledger:
        transport = httpx.ASGITransport(create_app(ledger, parts)[0])
        async with httpx.AsyncClient(transport=transport, base_url="http://reference") as client:
            yield client


async def document(client: httpx.AsyncClient) -> dict[str, Any]:
    """Return the document that the service gives for itself."""
    found: dict[str, Any] = (await client.get("/openapi.json")).json()
    return found


async def _page() -> str:
    async with service() as client:
        found = await document(client)
        rows = [
            row(
                *(method.upper(), f"`{path}`", ", ".join(_values(found, said))),
                *(await _scope(client, method, path, said), _about(said)),
            )
            for path, operations in found["paths"].items()
            for method, said in operations.items()
        ]
    return f"{HEAD}{table('method', 'path', 'takes', 'scope', 'does')}{''.join(rows)}"


def _values(document: dict[str, Any], said: dict[str, Any]) -> Iterator[str]:
    """Yield the names of the headers and of the values in query and body."""
    for parameter in said.get("parameters", ()):
        if parameter["in"] != "path":
            yield f"`{parameter['name']}`"
    body = said.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = body.get("schema", {}).get("$ref", "").rpartition("/")[2]
    if schema:
        yield from (f"`{name}`" for name in document["components"]["schemas"][schema]["properties"])


async def _scope(client: httpx.AsyncClient, method: str, path: str, said: dict[str, Any]) -> str:
    """Return the scope that the service asks for, before it looks at a body."""
    if said.get("security") == []:
        return "no token"
    needed = {one["name"] for one in said["parameters"] if one.get("required")}
    query = {name: VALUE for name in needed if f"{{{name}}}" not in path}
    answer = await client.request(
        method, path.format_map(dict.fromkeys(needed, VALUE)), params=query
    )
    found = _SCOPE.search(answer.text)
    return f"`{found[1]}`" if found else "any token"


def _about(said: dict[str, Any]) -> str:
    text: str = said["description"]
    return text.partition("\n\n")[0]

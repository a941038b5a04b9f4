"""The route to a region's endpoint, which can depend on the account of the credentials.

DynamoDB has an endpoint for each account (`https://ACCOUNT.ddb.REGION.amazonaws.com`), which
answers for that account without the hops of the regional one. botocore decides which one a request
goes to: its rules consider `account_id_endpoint_mode`, the credentials, FIPS, dual stack and custom
endpoints. This module asks for the URL of a presigned request, botocore's public way to get it, and
the region that it signs for, which is not always the client's (`local`).

Source: AWS SDKs and Tools Reference Guide, "Account-based endpoints", "Dual-stack and FIPS
endpoints", "Service-specific endpoints".
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio

from ledger.store.transports.lean_pool import Http
from ledger.store.transports.lean_signing import Signer

ACCOUNTS_MAX = 16
"""Accounts whose route is cached; a client's credentials nearly always belong to one."""


@dataclass(frozen=True, slots=True)
class RoutePlace:
    """Where requests go, and the region in their signatures."""

    url: str
    region: str


@dataclass(frozen=True, slots=True)
class Route:
    """One endpoint: the connections to it, and the signatures that it accepts."""

    http: Http
    signer: Signer


class Routes:
    """The routes of one client, by the account of the credentials; made by `open_routes`."""

    def __init__(
        self,
        find: Callable[[], Awaitable[RoutePlace]],
        make: Callable[[RoutePlace], Awaitable[Route]],
    ) -> None:
        self._find = find
        self._make = make
        self._by_account: dict[str | None, Route] = {}
        self._by_place: dict[RoutePlace, Route] = {}
        self._lock = anyio.Lock()

    def known(self, account: str | None) -> Route | None:
        """Return the route for credentials of this account; None if it was not resolved yet."""
        return self._by_account.get(account)

    async def of(self, account: str | None) -> Route:
        """Return the route for credentials of this account; None if they name no account.

        Raises:
            EndpointResolutionError: an account is required, and they do not name one.
        """
        async with self._lock:
            if account not in self._by_account:
                if len(self._by_account) >= ACCOUNTS_MAX:
                    self._by_account.clear()
                self._by_account[account] = await self.open(await self._find())
            return self._by_account[account]

    async def open(self, place: RoutePlace) -> Route:
        """Return the route to an endpoint, created if missing.

        Raises:
            SettingsError: the bundle of certificates cannot be read.
        """
        if place not in self._by_place:
            self._by_place[place] = await self._make(place)
        return self._by_place[place]

    async def close(self) -> None:
        """Close the connections of every route."""
        for route in self._by_place.values():
            await route.http.close()


@asynccontextmanager
async def open_routes(
    client: Any, open_http: Callable[[str], AbstractAsyncContextManager[Http]]
) -> AsyncIterator[Routes]:
    """Open the routes of an aiobotocore client: the regional one now, others when first needed.

    Raises:
        SettingsError: the bundle of certificates cannot be read.
    """
    async with AsyncExitStack() as opened:

        async def make(place: RoutePlace) -> Route:
            http = await opened.enter_async_context(open_http(place.url))
            return Route(http, Signer(url=place.url, region=place.region))

        async def find() -> RoutePlace:
            return await place_of(client)

        routes = Routes(find, make)
        await routes.open(RoutePlace(client.meta.endpoint_url, client.meta.region_name))
        yield routes


async def place_of(client: Any) -> RoutePlace:
    """Return where a client would send a request now, and for which region it would sign it.

    Raises:
        EndpointResolutionError: an account is required, and the credentials do not name one.
    """
    regional = str(client.meta.endpoint_url)
    there = urlsplit(await client.generate_presigned_url("describe_limits"))
    _, _, region, *_ = parse_qs(there.query)["X-Amz-Credential"][0].rsplit("/", 4)
    if (there.scheme, there.netloc) == urlsplit(regional)[:2]:
        return RoutePlace(regional, region)
    return RoutePlace(f"{there.scheme}://{there.netloc}", region)

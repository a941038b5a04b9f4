"""Which endpoint the lean transport sends to: botocore's choice, by the account of credentials."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest
from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession
from anyio.lowlevel import checkpoint
from botocore.exceptions import EndpointResolutionError

from ledger.store.transports.lean_pool import Http
from ledger.store.transports.lean_routes import (
    ACCOUNTS_MAX,
    Route,
    RoutePlace,
    Routes,
    open_routes,
    place_of,
)

ACCOUNT = "111122223333"
REGIONAL = "https://dynamodb.eu-west-1.amazonaws.com"
OWN = f"https://{ACCOUNT}.ddb.eu-west-1.amazonaws.com"


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], None]:
    """Return what sets the account of the credentials, which lie in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.delenv("AWS_ACCOUNT_ID_ENDPOINT_MODE", raising=False)

    def set_account(account: str | None) -> None:
        if account is None:
            monkeypatch.delenv("AWS_ACCOUNT_ID", raising=False)
        else:
            monkeypatch.setenv("AWS_ACCOUNT_ID", account)

    return set_account


@asynccontextmanager
async def client(mode: str | None = None, **options: Any) -> AsyncIterator[Any]:
    """Open a client of one region; without a mode, as the environment says."""
    config = AioConfig(**({} if mode is None else {"account_id_endpoint_mode": mode}))
    async with AioSession().create_client(
        "dynamodb", region_name="eu-west-1", config=config, **options
    ) as opened:
        yield opened


@pytest.mark.parametrize(
    ("mode", "account", "endpoint"),
    [
        (None, ACCOUNT, OWN),
        (None, None, REGIONAL),
        ("preferred", ACCOUNT, OWN),
        ("preferred", None, REGIONAL),
        ("disabled", ACCOUNT, REGIONAL),
        ("required", ACCOUNT, OWN),
    ],
)
async def test_the_endpoint_is_the_one_that_botocore_takes(
    credentials: Callable[[str | None], None],
    mode: str | None,
    account: str | None,
    endpoint: str,
) -> None:
    """By default the account's own endpoint is preferred, where the credentials name an account."""
    credentials(account)
    async with client(mode) as opened:
        assert await place_of(opened) == RoutePlace(endpoint, "eu-west-1")


async def test_the_mode_of_the_environment_counts(
    credentials: Callable[[str | None], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for every SDK: `AWS_ACCOUNT_ID_ENDPOINT_MODE`."""
    credentials(ACCOUNT)
    monkeypatch.setenv("AWS_ACCOUNT_ID_ENDPOINT_MODE", "disabled")
    async with client() as opened:
        assert (await place_of(opened)).url == REGIONAL


async def test_an_account_that_is_required_and_missing_is_an_error(
    credentials: Callable[[str | None], None],
) -> None:
    """Nothing is sent to the regional endpoint instead."""
    credentials(None)
    async with client("required") as opened, open_routes(opened, _no_http) as routes:
        with pytest.raises(EndpointResolutionError, match="AccountIdEndpointMode is required"):
            await routes.of(None)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "https://proxy.example/dynamodb"])
async def test_an_endpoint_of_the_settings_stays(
    credentials: Callable[[str | None], None], url: str
) -> None:
    """Whatever the account: what the settings name is where requests go, path included."""
    credentials(ACCOUNT)
    async with client(endpoint_url=url) as opened:
        assert (await place_of(opened)).url == url


async def test_routes_follow_the_account_and_sign_for_their_host(
    credentials: Callable[[str | None], None],
) -> None:
    """Credentials of another account go to that one's endpoint; each is opened once."""
    credentials(ACCOUNT)
    urls: list[str] = []
    async with client() as opened, open_routes(opened, lambda url: _counted(urls, url)) as routes:
        first, again = await routes.of(ACCOUNT), await routes.of(ACCOUNT)
        assert first is again
        assert first.signer.host == f"{ACCOUNT}.ddb.eu-west-1.amazonaws.com"
    assert urls == [REGIONAL, OWN]


async def test_calls_at_the_same_time_share_what_is_found() -> None:
    """A hundred first requests resolve the endpoint once."""
    found: list[str] = []

    async def find() -> RoutePlace:
        await checkpoint()
        found.append(OWN)
        return RoutePlace(OWN, "eu-west-1")

    async def make(_place: RoutePlace) -> Route:
        return cast("Route", object())

    routes = Routes(find, make)
    async with anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(routes.of, ACCOUNT)
    assert found == [OWN]


async def test_what_is_remembered_is_bounded() -> None:
    """However many accounts pass, their number is kept low, and each still has its route."""
    regional = RoutePlace(REGIONAL, "eu-west-1")

    async def find() -> RoutePlace:
        return regional

    async def make(_place: RoutePlace) -> Route:
        return cast("Route", object())

    routes = Routes(find, make)
    for number in range(3 * ACCOUNTS_MAX):
        assert await routes.of(str(number)) is await routes.open(regional)
        assert len(routes._by_account) <= ACCOUNTS_MAX


@asynccontextmanager
async def _counted(urls: list[str], url: str) -> AsyncIterator[Http]:
    urls.append(url)
    yield cast("Http", None)


@asynccontextmanager
async def _no_http(_url: str) -> AsyncIterator[Http]:
    yield cast("Http", None)

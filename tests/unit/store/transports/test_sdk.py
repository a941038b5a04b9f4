"""Errors that no server can cause: a client that raises what the SDK would."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp
import anyio
import pytest
from aiohttp.client_reqrep import ConnectionKey
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    ProxyConnectionError,
    ReadTimeoutError,
    SSLError,
)
from support.ledgers import HOME, make_settings, seeded
from support.wire import ITEM, TRIES_MAX

from ledger.core.errors import AccessDenied, RequestRefused, SettingsError, Unreachable
from ledger.store.connections import open_store
from ledger.store.dynamodb.client import TableClient
from ledger.store.dynamodb.clock_watch import ClockWatch
from ledger.store.dynamodb.store import DynamoStore
from ledger.store.reads import Get
from ledger.store.retrier import Retrier
from ledger.store.retry import Backoff, RetryBudget
from ledger.store.transports.sdk import SdkTransport
from ledger.store.writes import Applied, Put, Unknown
from ledger.testing.clock import ManualClock

HOST = ConnectionKey("nowhere", 443, False, True, None, None, None)  # noqa: FBT003
REFUSED_BY_HOST = aiohttp.ClientConnectorError(HOST, OSError(111, "refused"))
NO_SUCH_HOST = aiohttp.ClientConnectorDNSError(HOST, OSError(-2, "no such name"))
URL = "https://dynamodb"


PUT_DONE = {"ConsumedCapacity": {"TableName": "ledger", "CapacityUnits": 1.0}}


class FakeClient:
    """A low-level client whose every operation raises, or gives, what it was told, in order."""

    def __init__(self, *answers: Mapping[str, Any] | Exception) -> None:
        self.answers = list(answers)
        self.calls = 0
        self.closed = False

    def __getattr__(self, operation: str) -> Callable[..., Awaitable[Mapping[str, Any]]]:
        """Return any operation."""

        async def call(**request: Any) -> Mapping[str, Any]:
            assert "TableName" in request or "RequestItems" in request or "TransactItems" in request
            self.calls += 1
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    async def close(self) -> None:
        """Note that it was closed."""
        self.closed = True


def store_of(client: FakeClient, *, request_seconds_max: float = 60.0) -> DynamoStore:
    """Return a store over a fake client."""
    return DynamoStore(
        TableClient(
            transport=SdkTransport(client),
            region=HOME,
            table="ledger",
            retrier=Retrier(
                clock=ManualClock(instant=True),
                randomness=seeded(),
                budget=RetryBudget(),
                backoff=Backoff(),
            ),
            watch=ClockWatch(ManualClock()),
            request_seconds_max=request_seconds_max,
        )
    )


@pytest.mark.parametrize(
    "error",
    [
        ConnectTimeoutError(endpoint_url=URL),
        ProxyConnectionError(proxy_url=URL),
        EndpointConnectionError(endpoint_url=URL, error=REFUSED_BY_HOST),
        EndpointConnectionError(endpoint_url=URL, error=NO_SUCH_HOST),
    ],
    ids=["time-out", "proxy", "refused", "name"],
)
async def test_what_was_never_sent_is_sent_again(error: BotoCoreError) -> None:
    """Without a connection nothing was sent, so a write is tried again and then raised."""
    client = FakeClient(error, error, PUT_DONE)

    assert await store_of(client).write(Put(ITEM)) == Applied()
    assert client.calls == 3
    with pytest.raises(Unreachable):
        await store_of(FakeClient(*[error] * TRIES_MAX)).write(Put(ITEM))


@pytest.mark.parametrize(
    "error",
    [
        ReadTimeoutError(endpoint_url=URL),
        ConnectionClosedError(endpoint_url=URL),
        EndpointConnectionError(endpoint_url=URL, error=aiohttp.ClientOSError(104, "reset")),
        EndpointConnectionError(endpoint_url=URL),
        HTTPClientError(error=ValueError("who knows")),
        SSLError(endpoint_url=URL, error=OSError("bad record")),
    ],
    ids=["time-out", "closed", "reset", "no cause", "other", "tls"],
)
async def test_what_may_have_been_sent_is_unknown(error: BotoCoreError) -> None:
    """Wherever it cannot be excluded that a write arrived it is unknown, and not repeated."""
    client = FakeClient(error)

    assert isinstance(await store_of(client).write(Put(ITEM)), Unknown)
    assert client.calls == 1


async def test_without_credentials_nothing_is_sent() -> None:
    """Missing credentials are an error that says what to do, for reads and writes, at once."""
    client = FakeClient(NoCredentialsError(), NoCredentialsError())
    store = store_of(client)

    with pytest.raises(AccessDenied, match="AWS_PROFILE"):
        await store.write(Put(ITEM))
    with pytest.raises(AccessDenied, match="AWS_PROFILE"):
        await store.get(Get(("c", "s")))
    assert client.calls == 2


async def test_error_without_a_code_or_status_is_refused() -> None:
    """A shapeless error of the SDK is still one of ours."""
    client = FakeClient(ClientError({}, "PutItem"))

    with pytest.raises(RequestRefused):
        await store_of(client).write(Put(ITEM))


async def test_closing_closes_the_client() -> None:
    """The connections are given back."""
    client = FakeClient()
    await store_of(client).close()

    assert client.closed


async def test_opening_wrongly_is_an_error_of_ours() -> None:
    """A region or a profile that does not exist is named when the store is opened."""
    with pytest.raises(SettingsError, match="us-west-9"):
        await open_store(make_settings(), "us-west-9").__aenter__()
    settings = make_settings(regions={HOME: {"profile": "no-such-profile"}})
    with pytest.raises(AccessDenied, match="no-such-profile"):
        await open_store(settings, HOME).__aenter__()


async def test_an_answer_that_never_ends_is_unknown() -> None:
    """An answer that drips keeps every time-out of the SDK happy; the attempt ends all the same."""

    class Dripping(FakeClient):
        async def put_item(self, **_request: Any) -> Mapping[str, Any]:
            self.calls += 1
            await anyio.sleep_forever()
            raise AssertionError("no one wakes it")

    client = Dripping()
    store = store_of(client, request_seconds_max=0.01)

    assert isinstance(await store.write(Put(ITEM)), Unknown)
    assert client.calls == 1

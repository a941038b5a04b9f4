"""The transport over aiobotocore: every operation, the default.

The SDK's own retries are off: it repeats a write whose answer was lost (an `ADD 1` stores 2), so
`ledger.store.dynamodb.client` decides about repeats, by what is known about the failed request.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from decimal import localcontext
from typing import Any

from aiobotocore.config import AioConfig
from aiohttp import ClientConnectorError, ClientSSLError
from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError, SSLError

from ledger.core.amounts import GIVEN
from ledger.runtime.aws_answers import NoAnswer
from ledger.store.dynamodb import answers, signature_age
from ledger.store.dynamodb.requests import Request
from ledger.store.dynamodb.transport import PLAIN, NeverSent, Response, no_credentials


def sdk_config(*, request_timeout: float, connections_max: int) -> AioConfig:
    """Return the configuration of a client that sends once, and never repeats."""
    return AioConfig(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=request_timeout,
        read_timeout=request_timeout,
        max_pool_connections=connections_max,
        parameter_validation=False,
    )


def watch(client: Any) -> None:
    """Make a client check what it sends, as every transport must."""
    client.meta.events.register("before-send.dynamodb", signature_age.refuse_late)
    client.meta.events.register("before-send.dynamodb", _note_sending)


_is_sending: ContextVar[bool] = ContextVar("_is_sending", default=False)
"""Whether this call's request is signed: until then the SDK only gets credentials and endpoint."""


def _note_sending(**_event: object) -> None:
    _is_sending.set(True)


class SdkTransport:
    """A `Transport` over an aiobotocore client, which it closes."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def send(self, operation: str, request: Request) -> Response:
        """Send any operation of the low-level client."""
        _is_sending.set(False)
        method: Callable[..., Awaitable[Response]] = getattr(self._client, operation)
        try:
            with localcontext(GIVEN):  # the SDK calculates with a date when it renews credentials
                response = await method(**request)
        except EndpointConnectionError as error:
            # aiobotocore also raises it for a connection lost half-way; only aiohttp's own
            # error underneath distinguishes the two.
            if isinstance(error.kwargs.get("error"), ClientConnectorError):
                raise NeverSent(**error.kwargs) from error
            raise
        except SSLError as error:
            # aiohttp raises TLS errors only when making a connection, never when using one.
            if isinstance(error.kwargs.get("error"), ClientSSLError):
                raise NeverSent(**error.kwargs) from error
            raise
        except (BotoCoreError, ClientError, TimeoutError):  # some are an OSError, too
            raise
        except PLAIN as error:
            if _is_sending.get():
                raise NoAnswer(reason=f"what came ({type(error).__name__}: {error})") from error
            raise no_credentials(error) from error
        answers.check(operation, request, response)
        return response

    async def close(self) -> None:
        """Close the client."""
        await self._client.close()

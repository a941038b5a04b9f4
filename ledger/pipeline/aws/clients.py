"""Clients of AWS's services besides DynamoDB, opened in one way."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from ledger.core.errors import LedgerError
from ledger.runtime.aws_session import open_session
from ledger.runtime.foreign import FOREIGN


@asynccontextmanager
async def open_client(
    service: str,
    *,
    region: str | None,
    request_timeout: float,
    tries_max: int,
    profile: str | None = None,
    waits_seconds: float = 0.0,
) -> AsyncIterator[Any]:
    """Open a client; credentials and endpoint are found as the SDK finds them.

    The SDK sends a request `tries_max` times. `request_timeout` is in seconds; an answer may take
    `waits_seconds` more.

    Raises:
        LedgerError: the SDK's configuration cannot be read, or names something that does not exist.
    """
    from aiobotocore.config import AioConfig  # noqa: PLC0415 (a second to import)

    config = AioConfig(
        retries={"total_max_attempts": tries_max, "mode": "standard"},
        connect_timeout=request_timeout,
        read_timeout=request_timeout + waits_seconds,
    )
    async with AsyncExitStack() as stack:
        try:
            session = open_session(profile)
            client = await stack.enter_async_context(
                session.create_client(service, region_name=region, config=config)
            )
        except FOREIGN as error:
            raise LedgerError(f"no client of {service} in {region}: {error}") from error
        yield client

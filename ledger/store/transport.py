"""What carries a request of the store to DynamoDB, and the errors that say how far it came.

A transport sends once and never repeats: what may be repeated is judged in `ledger.store.judging`.
It raises botocore's own exceptions, whatever lies underneath:

- `ClientError`: DynamoDB answered with an error, its code and status as botocore parses them;
- `NeverSent`, `ConnectTimeoutError`, `ProxyConnectionError`: no connection, so nothing arrived;
- any other `HTTPClientError`, connection error or time-out: it may have arrived, or may yet;
- other `BotoCoreError`s: the request was not made (credentials, parameters).
"""

import zlib
from collections.abc import Mapping
from typing import Any, Protocol

from botocore.exceptions import EndpointConnectionError, HTTPClientError

from ledger.store.requests import Request

CHECKSUM_HEADER = "x-amz-crc32"

Response = Mapping[str, Any]


class NeverSent(EndpointConnectionError):
    """No connection was made, so that the request cannot have arrived."""

    fmt = 'no connection to "{endpoint_url}": {error}'


class DamagedAnswer(HTTPClientError):
    """The answer is not what DynamoDB sent: by its checksum, or because it is no JSON."""

    fmt = "the answer is damaged: {error}"


class Transport(Protocol):
    """Sends requests to one region's endpoint."""

    async def send(self, operation: str, request: Request) -> Response:
        """Send one request, once; the answer has botocore's form, `ResponseMetadata` included.

        Raises:
            ClientError, BotoCoreError: see the module.
        """

    async def close(self) -> None:
        """Close every connection; the transport is not used afterwards."""


def check_sum(expected: str | None, body: bytes) -> None:
    """Compare an answer with the checksum that DynamoDB sends with it, if there is one.

    Raises:
        DamagedAnswer: they differ.
    """
    if expected is not None and expected != str(zlib.crc32(body)):
        raise DamagedAnswer(error=f"{len(body)} bytes whose {CHECKSUM_HEADER} is not {expected}")

"""The carrier of the store's requests to DynamoDB, and the errors that say how far one came.

A transport sends once and never repeats: whether to repeat is decided in
`ledger.store.dynamodb.judging`. It raises botocore's own exceptions, whatever it is built on:

- `ClientError`: DynamoDB answered with an error, its code and status as botocore parses them;
- `NeverSent`, `ConnectTimeoutError`, `ProxyConnectionError`: no connection, so nothing arrived;
- any other `HTTPClientError`, connection error or time-out: it may have arrived, or may still
arrive;
- other `BotoCoreError`s: the request was not made (credentials, parameters).
"""

import zlib
from collections.abc import Mapping
from typing import Any, Protocol

from botocore.exceptions import EndpointConnectionError, HTTPClientError

from ledger.store.dynamodb.requests import Request

_CHECKSUM_HEADER = "x-amz-crc32"
OK_STATUS = 200
_ERROR_STATUS_MIN = 400

Response = Mapping[str, Any]


class NeverSent(EndpointConnectionError):
    """No connection was made, so that the request cannot have arrived."""

    fmt = 'Could not connect to the endpoint URL: "{endpoint_url}" ({error})'


class NoAnswer(HTTPClientError):
    """The response does not come from DynamoDB, so it says nothing about the request."""

    fmt = "{reason} is not an answer of DynamoDB"


class Transport(Protocol):
    """Sends requests to one region's endpoint."""

    async def send(self, operation: str, request: Request) -> Response:
        """Send one request, once; the answer has botocore's form, `ResponseMetadata` included.

        Raises:
            ClientError, BotoCoreError: see the module.
        """

    async def close(self) -> None:
        """Close every connection; the transport is not used afterwards."""


def check_answer(status: int, headers: Mapping[str, str], body: bytes) -> None:
    """Make sure that an answer is DynamoDB's, and complete; its errors are answers too.

    A page with status 200 would be read as an empty answer: a write through a proxy, or to another
    server at a wrong endpoint, would be reported as applied.

    Raises:
        NoAnswer: it is a page or a redirect of another server, or was damaged on its way.
    """
    expected = headers.get(_CHECKSUM_HEADER)
    if expected is not None and expected != str(zlib.crc32(body)):
        raise NoAnswer(reason=f"a body whose {_CHECKSUM_HEADER} is not {expected}")
    if status >= _ERROR_STATUS_MIN:
        return
    kind = headers.get("content-type") or "no content type"
    if status != OK_STATUS or "json" not in kind:
        raise NoAnswer(reason=f"a {kind} page with status {status}")
    if not (body.startswith(b"{") and body.endswith(b"}")):
        raise NoAnswer(reason=f"a body that is not a JSON object ({len(body)} bytes)")

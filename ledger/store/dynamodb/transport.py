"""The carrier of the store's requests to DynamoDB, and the errors that say how far one came.

A transport sends once and never repeats: whether to repeat is decided in
`ledger.store.dynamodb.failures`. It raises botocore's own exceptions, whatever it is built on:

- `ClientError`: DynamoDB answered with an error, its code and status as botocore parses them;
- `NeverSent`, `ConnectTimeoutError`, `ProxyConnectionError`: no connection, so nothing arrived;
- `NoAnswer` (`ledger.runtime.aws_answers`), any other `HTTPClientError`, connection error or
time-out: it may have arrived, or may still arrive;
- other `BotoCoreError`s: the request was not made (credentials, parameters).
"""

from collections.abc import Mapping
from typing import Any, Protocol

from botocore.exceptions import CredentialRetrievalError, EndpointConnectionError

from ledger.store.dynamodb.requests import Request

Response = Mapping[str, Any]


class NeverSent(EndpointConnectionError):
    """No connection was made, so that the request cannot have arrived."""

    fmt = 'Could not connect to the endpoint URL: "{endpoint_url}" ({error})'


class Transport(Protocol):
    """Sends requests to one region's endpoint."""

    async def send(self, operation: str, request: Request) -> Response:
        """Send one request, once; the answer has botocore's form, `ResponseMetadata` included.

        Raises:
            ClientError, BotoCoreError: see the module.
        """

    async def close(self) -> None:
        """Close every connection; the transport is not used afterwards."""


PLAIN = (OSError, AttributeError, LookupError, TypeError, ValueError)
"""What the SDK raises beside its own errors, such as of a `credential_process` without JSON."""


def no_credentials(error: Exception) -> CredentialRetrievalError:
    """Return the error of credentials that could not be renewed: nothing was sent."""
    return CredentialRetrievalError(
        provider="renewed", error_msg=f"{type(error).__name__}: {error}"
    )

"""Signatures of requests (AWS Signature Version 4), with the key of the day kept.

Source: AWS Identity and Access Management User Guide, "Create a signed AWS API request". botocore's
`SigV4Auth` is the reference: it gives the first lines of what is signed, and a property test
compares the headers byte by byte. It derives the key again for each request and walks all headers,
which takes several times as long as everything else that the lean transport does.
"""

import hmac
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials

SERVICE = "dynamodb"
CONTENT_TYPE = "application/x-amz-json-1.0"
TARGET_PREFIX = "DynamoDB_20120810."
STAMPS_KEPT = 16
_ALGORITHM = "AWS4-HMAC-SHA256"


class Signer:
    """Signs POSTs of DynamoDB's JSON to one endpoint."""

    def __init__(self, *, url: str, region: str) -> None:
        self._region = region
        self._start, self.host = _reference(url, region)
        self._key = b""
        self._key_of: tuple[str, str] = ("", "")

    def headers(
        self, operation: str, body: bytes, *, credentials: ReadOnlyCredentials, at: datetime
    ) -> dict[str, str]:
        """Return the headers of a request signed at this time (aware).

        `operation` is DynamoDB's own name, such as `BatchWriteItem`.
        """
        stamp = _stamp(at.replace(microsecond=0))
        target, token = TARGET_PREFIX + operation, credentials.token
        secret = f"x-amz-security-token:{token}\n" if token else ""
        names = "content-type;host;x-amz-date;" + (
            "x-amz-security-token;x-amz-target" if token else "x-amz-target"
        )
        canonical = (
            f"{self._start}content-type:{CONTENT_TYPE}\nhost:{self.host}\nx-amz-date:{stamp}\n"
            f"{secret}x-amz-target:{target}\n\n{names}\n{sha256(body).hexdigest()}"
        )
        scope = f"{stamp[:8]}/{self._region}/{SERVICE}/aws4_request"
        text = f"{_ALGORITHM}\n{stamp}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
        key = self._signing_key(str(credentials.secret_key), stamp[:8])
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        headers = {
            "Host": self.host,
            "Content-Type": CONTENT_TYPE,
            "X-Amz-Target": target,
            "X-Amz-Date": stamp,
            "Authorization": (
                f"{_ALGORITHM} Credential={credentials.access_key}/{scope},"
                f" SignedHeaders={names}, Signature={signature}"
            ),
        }
        if token:
            headers["X-Amz-Security-Token"] = token
        return headers

    def _signing_key(self, secret: str, day: str) -> bytes:
        """Return the key of this day, which is derived again when day or secret change."""
        if self._key_of != (secret, day):
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, SERVICE, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key, self._key_of = key, (secret, day)
        return self._key


@lru_cache(STAMPS_KEPT)  # all requests of a second have the same
def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def _reference(url: str, region: str) -> tuple[str, str]:
    """Ask botocore for what depends on the endpoint alone: method, path and query, and the host."""
    request = AWSRequest("POST", url, data=b"")
    signer = SigV4Auth(ReadOnlyCredentials("", "", None), SERVICE, region)
    method, path, query, *_ = signer.canonical_request(request).split("\n")
    return f"{method}\n{path}\n{query}\n", signer.headers_to_sign(request)["host"]

"""Signatures of requests (AWS Signature Version 4), with everything cached that a second shares.

Source: AWS Identity and Access Management User Guide, "Create a signed AWS API request". botocore's
`SigV4Auth` is the reference: it provides the first lines of what is signed, and a property test
compares the headers byte by byte. It derives the key again for each request and walks all headers,
which takes several times as long as everything else that the lean transport does.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, repr=False)
class Seal:
    """The part that all signatures of one operation share, in one second with the same credentials.

    `headers` are all headers except `Authorization`, which is `authorization` and a signature.
    """

    headers: Mapping[str, str]
    authorization: str
    credentials: ReadOnlyCredentials
    second: datetime
    until: datetime
    """The end of that second."""
    canonical: bytes
    begun: hmac.HMAC
    """Hash state of the first lines that are signed."""

    def fits(self, credentials: ReadOnlyCredentials, at: datetime) -> bool:
        """Return whether a request signed at this time with these credentials can use it."""
        return self.second <= at < self.until and self.credentials == credentials

    def signature(self, body: bytes) -> str:
        """Return the signature of a request with this body."""
        canonical = self.canonical + sha256(body).hexdigest().encode()
        signing = self.begun.copy()
        signing.update(sha256(canonical).hexdigest().encode())
        return signing.hexdigest()


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
        """Return the headers of a request signed at this time (aware)."""
        seal = self.seal(operation, credentials=credentials, at=at)
        return {**seal.headers, "Authorization": seal.authorization + seal.signature(body)}

    def seal(self, operation: str, *, credentials: ReadOnlyCredentials, at: datetime) -> Seal:
        """Return the common part of the signatures of this second (aware).

        `operation` is DynamoDB's own name, such as `BatchWriteItem`.
        """
        second = at.replace(microsecond=0)
        stamp = _stamp(second)
        target, token = TARGET_PREFIX + operation, credentials.token
        secret = f"x-amz-security-token:{token}\n" if token else ""
        names = "content-type;host;x-amz-date;" + (
            "x-amz-security-token;x-amz-target" if token else "x-amz-target"
        )
        canonical = (
            f"{self._start}content-type:{CONTENT_TYPE}\nhost:{self.host}\nx-amz-date:{stamp}\n"
            f"{secret}x-amz-target:{target}\n\n{names}\n"
        )
        scope = f"{stamp[:8]}/{self._region}/{SERVICE}/aws4_request"
        headers = {
            "Host": self.host,
            "Content-Type": CONTENT_TYPE,
            "X-Amz-Target": target,
            "X-Amz-Date": stamp,
        }
        if token:
            headers["X-Amz-Security-Token"] = token
        return Seal(
            headers=headers,
            authorization=(
                f"{_ALGORITHM} Credential={credentials.access_key}/{scope},"
                f" SignedHeaders={names}, Signature="
            ),
            credentials=credentials,
            second=second,
            until=second + _SECOND,
            canonical=canonical.encode(),
            begun=hmac.new(
                self._signing_key(str(credentials.secret_key), stamp[:8]),
                f"{_ALGORITHM}\n{stamp}\n{scope}\n".encode(),
                "sha256",
            ),
        )

    def _signing_key(self, secret: str, day: str) -> bytes:
        """Return the key of this day, derived again when the day or the secret changes."""
        if self._key_of != (secret, day):
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, SERVICE, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key, self._key_of = key, (secret, day)
        return self._key


@lru_cache(STAMPS_KEPT)  # all requests of a second share one
def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def _reference(url: str, region: str) -> tuple[str, str]:
    """Ask botocore for the parts that depend only on the endpoint: method, path, query, host."""
    request = AWSRequest("POST", url, data=b"")
    signer = SigV4Auth(ReadOnlyCredentials("", "", None), SERVICE, region)
    method, path, query, *_ = signer.canonical_request(request).split("\n")
    return f"{method}\n{path}\n{query}\n", signer.headers_to_sign(request)["host"]

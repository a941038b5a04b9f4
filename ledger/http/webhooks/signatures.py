"""Signatures by the Standard Webhooks specification, version 1.

Headers `webhook-id`, `webhook-timestamp` (seconds since 1970) and `webhook-signature`: for each
secret `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`, apart by spaces, so a secret is
rotated by sending both for a while. A receiver refuses a timestamp that is minutes old.

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md

Pure: no clock, no randomness, no I/O.
"""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Sequence
from hashlib import sha256

PREFIX = "whsec_"
SECRET_BYTES_MIN, SECRET_BYTES_MAX = 24, 64


def secrets_of(text: str) -> tuple[bytes, ...]:
    """Return the keys in a text: `whsec_` and base64 each, apart by white space, newest first.

    Raises:
        ValueError: there is none, or one is of another form or length.
    """
    found = tuple(_key(word) for word in text.split())
    if not found:
        raise ValueError("it is empty")
    return found


def _key(text: str) -> bytes:
    try:
        key = (
            b64decode(text.removeprefix(PREFIX), validate=True) if text.startswith(PREFIX) else b""
        )
    except ValueError:
        key = b""
    if not SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX:
        raise ValueError(
            f"a secret is {PREFIX} and the base64 of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes"
        )
    return key


def headers_of(keys: Sequence[bytes], id_: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of an event that is sent at a time, in seconds since 1970."""
    signed = f"{id_}.{timestamp}.".encode() + body
    marks = [b64encode(hmac.new(key, signed, sha256).digest()).decode() for key in keys]
    return {
        "webhook-id": id_,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{mark}" for mark in marks),
    }

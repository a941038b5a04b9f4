"""Client request tokens, by which DynamoDB recognizes repeats of a transaction for ten minutes.

A marker as a value: the change that a token stood for when it was first used.

Keys that carry the time at which they were made: UUIDv7, ULID, and the ledger's own ids.

Such a key is chosen once and kept by the caller, together with its time: a repeat cannot have
another time by mistake, as it can if `at` is read from a clock at each try.

Source: RFC 9562, section 5.7, and github.com/ulid/spec: each begins with 48 bits of milliseconds
since 1970.

Pure: no clock, no randomness, no I/O.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from ledger.core import ids

REQUEST_TOKEN_CHARACTERS = 36
"""The maximum length of DynamoDB's ClientRequestToken."""


def request_token(*parts: str) -> str:
    """Return the ClientRequestToken for these texts in this order."""
    digest = hashlib.sha256()
    for part in parts:
        text = part.encode()
        digest.update(len(text).to_bytes(4, "big") + text)
    return digest.hexdigest()[:REQUEST_TOKEN_CHARACTERS]


Detail = str | int | Decimal | bool
Details = Mapping[str, Detail]
"""Data that a caller stores with a change, by its own attribute names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The change made under a token, when and in which region, and the caller's details.

    Numbers among the details are Decimals.
    """

    token: str
    change: Decimal
    at: datetime
    region: str
    details: Details = field(default_factory=dict)


_UUID7 = re.compile(
    r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
    flags=re.IGNORECASE | re.ASCII,
)
_UUID7_BARE = re.compile(
    r"([0-9a-f]{8})([0-9a-f]{4})(7[0-9a-f]{3})([89ab][0-9a-f]{3})([0-9a-f]{12})",
    flags=re.IGNORECASE | re.ASCII,
)
_ULID = re.compile(
    r"([0-7][0-9a-hjkmnp-tv-z]{9})[0-9a-hjkmnp-tv-z]{16}", flags=re.IGNORECASE | re.ASCII
)
_BASE32 = {digit: value for value, digit in enumerate("0123456789abcdefghjkmnpqrstvwxyz")}
_MILLISECONDS_MAX = ids.MICROSECONDS_MAX // 1000


def one_spelling(key: str) -> str:
    """Return a UUIDv7 in lower case, a ULID in upper case, and any other key as it is.

    Their specifications ignore case, so other software may change it.
    """
    if _UUID7.fullmatch(key):
        return key.lower()
    return key.upper() if _ULID.fullmatch(key) else key


def time_of_key(key: str) -> datetime | None:
    """Return the time that a key carries, aware, in UTC; None for any other key."""
    milliseconds = _milliseconds(key)
    if milliseconds is not None:
        return ids.EPOCH + timedelta(milliseconds=milliseconds)
    entry_id = ids.parse(key)
    return None if entry_id is None else entry_id.at


def no_hyphens(key: str) -> str:
    """Return the hint in a message for a UUIDv7 without hyphens; empty for any other key.

    It is not accepted as one: any hash of 32 digits may look like it, and already has a meaning.
    """
    found = _UUID7_BARE.fullmatch(key)
    return "" if found is None else f" (a UUIDv7 has hyphens: {'-'.join(found.groups())})"


def _milliseconds(key: str) -> int | None:
    if found := _UUID7.fullmatch(key):
        milliseconds = int(found[1] + found[2], 16)
    elif found := _ULID.fullmatch(key):
        milliseconds = 0
        for digit in found[1].lower():
            milliseconds = milliseconds * len(_BASE32) + _BASE32[digit]
    else:
        return None
    return milliseconds if milliseconds <= _MILLISECONDS_MAX else None

"""Tokens: names of changes, given by callers so that a repeat can be recognized. Pure."""

import hashlib
from datetime import datetime
from random import Random

from ledger.core import ids
from ledger.planning import checked_key

NONCE_BITS = 128
TAG_BITS = 64
REQUEST_TOKEN_CHARACTERS = 36
"""As many as DynamoDB's ClientRequestToken may have."""


def new_token(now: datetime, randomness: Random) -> str:
    """Return a token that no other change has, and that tells when it was made.

    Every method takes it; the item collection takes no other, since its entries need a time.
    """
    return ids.sort_key(now, randomness.getrandbits(ids.SUFFIX_BITS))


def checked_token(token: str | None) -> str | None:
    """Return a caller's token if it is one.

    Raises:
        InvalidEntry: not a str of 1 to 1,024 bytes of UTF-8.
    """
    return None if token is None else checked_key(token, what="token")


def nonce(randomness: Random) -> str:
    """Return a text that nobody else has."""
    return f"{randomness.getrandbits(NONCE_BITS):0{NONCE_BITS // 4}x}"


def tag_nonce(randomness: Random) -> str:
    """Return a shorter one, for the few writers that are compared with each other."""
    return f"{randomness.getrandbits(TAG_BITS):0{TAG_BITS // 4}x}"


def request_token(*parts: str) -> str:
    """Return what stands for these texts, in this order, as a ClientRequestToken."""
    digest = hashlib.sha256()
    for part in parts:
        text = part.encode()
        digest.update(len(text).to_bytes(4, "big") + text)
    return digest.hexdigest()[:REQUEST_TOKEN_CHARACTERS]


def draw(token: str, below: int) -> int:
    """Return a number from 0 to `below` - 1 that only the token decides."""
    return int(request_token(token), 16) % below

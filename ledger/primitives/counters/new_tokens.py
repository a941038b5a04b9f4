"""Tokens: names of changes, chosen by callers so that a repeat can be recognized."""

from datetime import datetime
from random import Random

from ledger.core import ids
from ledger.core.errors import InvalidInput
from ledger.core.tokens import request_token

NONCE_BITS = 128
TAG_BITS = 64


def new_token(now: datetime, randomness: Random) -> str:
    """Return a unique token that contains the time it was made.

    Every method accepts it; the item collection accepts no text without a time, since its entries
    need one.

    Raises:
        InvalidInput: `now` is not an aware time.
    """
    if not isinstance(now, datetime) or now.tzinfo is None:
        raise InvalidInput(f"now must be an aware datetime, got {now!r:.80}")
    return ids.sort_key(now, randomness.getrandbits(ids.SUFFIX_BITS))


def nonce(randomness: Random) -> str:
    """Return a unique text."""
    return f"{randomness.getrandbits(NONCE_BITS):0{NONCE_BITS // 4}x}"


def tag_nonce(randomness: Random) -> str:
    """Return a shorter unique text, for the few writers whose tags are compared."""
    return f"{randomness.getrandbits(TAG_BITS):0{TAG_BITS // 4}x}"


def draw_token(token: str, below: int) -> int:
    """Return a number from 0 to `below` - 1 that depends only on the token."""
    return int(request_token(token), 16) % below

"""The rules of tokens, by which callers name what they do, and of how long they are remembered.

Pure: no clock, no randomness, no I/O.
"""

from ledger.core.errors import InvalidInput
from ledger.writes.entry_plan import checked_key

KEPT_SECONDS_MAX = 100 * 365 * 24 * 3600.0


def checked_token(token: str | None) -> str | None:
    """Return a caller's token, checked; None for None.

    Raises:
        InvalidEntry: not a str of 1 to 1,024 bytes of UTF-8.
    """
    return None if token is None else checked_key(token, what="token")


def checked_kept(kept_seconds: float | None) -> float | None:
    """Return for how long markers live, in seconds, None for good.

    Raises:
        InvalidInput: not over 0 and up to a century.
    """
    if kept_seconds is None:
        return None
    is_number = isinstance(kept_seconds, int | float) and not isinstance(kept_seconds, bool)
    if not is_number or not 0 < kept_seconds <= KEPT_SECONDS_MAX:
        raise InvalidInput(
            f"kept_seconds must be over 0 and at most {KEPT_SECONDS_MAX:,.0f}, got {kept_seconds!r}"
        )
    return float(kept_seconds)

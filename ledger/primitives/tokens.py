"""The rule of the tokens by which callers name what they do, so that a repeat is recognized.

Pure: no clock, no randomness, no I/O.
"""

from ledger.writing.plan import checked_key


def checked_token(token: str | None) -> str | None:
    """Return a caller's token, checked; None for none.

    Raises:
        InvalidEntry: not a str of 1 to 1,024 bytes of UTF-8.
    """
    return None if token is None else checked_key(token, what="token")

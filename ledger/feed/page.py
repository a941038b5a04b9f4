"""A page of the feed.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass

from ledger.core.errors import InvalidInput
from ledger.core.values import Entry

LIMIT_MAX = 1_000
"""Entries of a page."""


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Entries in the order in which they reached the region, and the cursor of what follows.

    `more` says that there may be more now: ask again at once.
    """

    entries: tuple[Entry, ...]
    cursor: str
    more: bool


def checked_limit(limit: object) -> int:
    """Return how many entries a page may have.

    Raises:
        InvalidInput: not 1 to 1,000.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LIMIT_MAX:
        raise InvalidInput(f"limit must be 1 to {LIMIT_MAX:,} entries, got {limit!r}")
    return limit

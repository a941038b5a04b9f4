"""A page of the feed.

Pure: no clock, no randomness, no I/O.
"""

import json
from dataclasses import dataclass, field

from ledger.core.errors import InvalidInput
from ledger.core.parts import expanded
from ledger.core.values import Entry

LIMIT_MAX = 1_000
"""Entries that a page may be asked for; those of its last item are all in it."""
BYTES_MAX = 1_000_000
"""A page ends with the entry by which it has so many bytes as JSON, so that none costs much."""
_OTHER_BYTES = 300
"""What members of an entry come to as JSON whose length its writer does not choose."""

_LEG_BYTES = 80
"""What else a leg comes to, with its amount."""


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Entries in the order in which they reached the region, and the cursor of what follows.

    Entries that share an item (`ID.000`, `ID.001`, ...) are in one page, which may have more than
    were asked for by up to 999. `more` says that there may be more now: ask again at once.
    """

    entries: tuple[Entry, ...]
    cursor: str
    more: bool


@dataclass(slots=True)
class FillingPage:
    """A page while it is filled, until it has a number of entries, or of bytes."""

    limit: int
    entries: list[Entry] = field(default_factory=list)
    _bytes: int = 0

    @property
    def is_full(self) -> bool:
        """Whether the page takes no more."""
        return len(self.entries) >= self.limit or self._bytes >= BYTES_MAX

    def take(self, entry: Entry) -> None:
        """Take one item more: all changes in it, so that each cursor stands between items."""
        grants = () if entry.spending is None else entry.spending.grants
        texts = entry.counter, entry.note, grants, dict(entry.metadata or {})
        bytes_each = _OTHER_BYTES + len(json.dumps(texts))
        changes = expanded(entry)
        legs = (leg for change in changes for leg in change.legs)
        self._bytes += sum(_LEG_BYTES + len(leg.account) + len(leg.asset) for leg in legs)
        self._bytes += bytes_each * len(changes)
        self.entries += changes


def checked_limit(limit: object) -> int:
    """Return how many entries a page may have.

    Raises:
        InvalidInput: not 1 to 1,000.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LIMIT_MAX:
        raise InvalidInput(f"limit must be 1 to {LIMIT_MAX:,} entries, got {limit!r}")
    return limit

"""Which entries a feed has: those of the counters that begin with a prefix, or of some by name.

Pure: no clock, no randomness, no I/O.
"""

import hashlib
import re
from dataclasses import dataclass

from ledger.core.values import Entry

_DIGITS = 16
"""Of the digest of names: two lists are told apart, nobody gains by making two alike."""
_DIGEST = re.compile(f"[0-9a-f]{{{_DIGITS}}}|", re.ASCII)


@dataclass(frozen=True, slots=True)
class FeedSelection:
    """The filter of a feed; without names all counters that begin with the prefix."""

    prefix: str = ""
    counters: frozenset[str] | None = None

    def takes(self, entry: Entry) -> bool:
        """Return whether an entry is one of the feed's."""
        is_chosen = self.counters is None or entry.counter in self.counters
        return is_chosen and entry.counter.startswith(self.prefix)

    @property
    def filter(self) -> "Filter":
        """What a cursor keeps of it."""
        if self.counters is None:
            return Filter(self.prefix)
        names = "\0".join(sorted(self.counters)).encode()  # no counter id has this character
        return Filter(self.prefix, hashlib.sha256(names).hexdigest()[:_DIGITS])


@dataclass(frozen=True, slots=True)
class Filter:
    """Which entries a cursor was made for: the prefix, and a digest of the names if there were."""

    prefix: str = ""
    names: str = ""

    def __str__(self) -> str:
        """Return it as a part of a message."""
        named = f" and the names with the digest {self.names:.16}" if self.names else ""
        return f"the prefix {self.prefix!r:.80}{named}"


def is_digest(names: object) -> bool:
    """Return whether a value is what a filter keeps of names, or of none."""
    return isinstance(names, str) and _DIGEST.fullmatch(names) is not None

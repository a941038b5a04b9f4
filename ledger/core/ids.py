"""Entry ids: the time of a change in microseconds, then 64 bits that distinguish changes.

As a sort key an id reads `2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887`; packed, in the `merged`
list of a net change, it takes 16 bytes. The order of ids, of sort keys and of packed ids is the
same: by time, then by suffix. A change gets its id once, before the first attempt to write it.

Pure: no clock, no randomness, no I/O.
"""

import hashlib
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

SUFFIX_BITS = 64
SUFFIX_DIGITS = SUFFIX_BITS // 4
SECONDS_KEPT = 64
"""Number of seconds whose text is cached."""
PACKED_BYTES = 16
_HALF = PACKED_BYTES // 2
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
# Hours end at 23: newer Pythons read 24:00 as the next day, whose id would be another sort key.
_FORM = re.compile(
    r"\d{4}-\d{2}-\d{2}T(?:[01]\d|2[0-3]):\d{2}:\d{2}\.\d{6}Z#[0-9a-f]{16}", flags=re.ASCII
)
# The last moment that the four-digit year of a sort key can hold.
MICROSECONDS_MAX = (datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC) - EPOCH) // MICROSECOND


@dataclass(frozen=True, slots=True, order=True)
class EntryId:
    """The id of one change: microseconds since 1970 (UTC) and a 64-bit suffix."""

    microseconds: int
    suffix: int

    @property
    def at(self) -> datetime:
        """The time of the change, aware, in UTC."""
        return EPOCH + timedelta(microseconds=self.microseconds)

    def __str__(self) -> str:
        """Return the sort key."""
        return sort_key(self.at, self.suffix)

    def pack(self) -> bytes:
        """Return the 16 bytes of this id in `merged`."""
        return self.microseconds.to_bytes(_HALF, "big") + self.suffix.to_bytes(_HALF, "big")


def sort_key(at: datetime, suffix: int) -> str:
    """Return the sort key of an aware time in UTC and a suffix."""
    second = _second(at.year, at.month, at.day, at.hour, at.minute, at.second)
    return f"{second}.{at.microsecond:06d}Z#{suffix:016x}"


def sort_keys(at: datetime, bits: int, count: int) -> list[str]:
    """Return `count` ascending sort keys of one time; the suffix of each is 64 of these bits."""
    start = sort_key(at, 0)[:-SUFFIX_DIGITS]
    digits = f"{bits:0{SUFFIX_DIGITS * count}x}"
    return sorted(
        start + digits[place : place + SUFFIX_DIGITS]
        for place in range(0, SUFFIX_DIGITS * count, SUFFIX_DIGITS)
    )


def suffix_in(sort_key: str) -> int:
    """Return the suffix in a sort key of our form."""
    return int(sort_key[-SUFFIX_DIGITS:], 16)


# Thousands of ids are made within one second; `isoformat` would take half of the time.
@lru_cache(SECONDS_KEPT)
def _second(year: int, month: int, day: int, hour: int, minute: int, second: int) -> str:
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}"


def suffix_of(counter: str, key: str) -> int:
    """Return the suffix for a caller's key, always the same: 64 bits of SHA-256(counter, key).

    A counter id holds no control characters, so the NUL between them makes the pair unambiguous.
    """
    digest = hashlib.sha256(counter.encode() + b"\0" + key.encode()).digest()
    return int.from_bytes(digest[:_HALF], "big")


def parse(sort_key: str) -> EntryId | None:
    """Return the id in a sort key; None if it is not in our form, so of a foreign writer."""
    if not _FORM.fullmatch(sort_key):
        return None
    try:
        at = datetime.fromisoformat(sort_key[:27])
    except ValueError:
        return None
    if at < EPOCH:
        return None
    return EntryId((at - EPOCH) // MICROSECOND, suffix_in(sort_key))


def pack_all(ids: Iterable[EntryId]) -> bytes:
    """Return the `merged` bytes for a set of ids: 16 bytes each, in order, each once."""
    return b"".join(entry.pack() for entry in sorted(set(ids)))


def unpack_all(packed: bytes) -> tuple[EntryId, ...]:
    """Return the ids in `merged` bytes.

    Raises:
        ValueError: not a whole number of ids, not in strictly ascending order, or a time that no
            sort key can hold; damaged bytes are never read as other ids.
    """
    if len(packed) % PACKED_BYTES:
        raise ValueError(f"length must be a multiple of {PACKED_BYTES} bytes, got {len(packed)}")
    found = tuple(
        EntryId(
            int.from_bytes(packed[start : start + _HALF], "big"),
            int.from_bytes(packed[start + _HALF : start + PACKED_BYTES], "big"),
        )
        for start in range(0, len(packed), PACKED_BYTES)
    )
    if any(earlier >= later for earlier, later in itertools.pairwise(found)):
        raise ValueError("ids must be in strictly ascending order")
    if found and found[-1].microseconds > MICROSECONDS_MAX:
        raise ValueError("ids must not be later than the year 9999")
    return found

"""Entry ids: the time of a change in microseconds, then 64 bits that distinguish changes.

As a sort key an id reads `2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887`; packed, in the `merged`
list of a net change, it takes 16 bytes. The order of ids, of sort keys and of packed ids is the
same: by time, then by suffix. A change gets its id once, before the first attempt to write it.

Changes that share an item (`ledger.core.parts`) have that item's id, a point, and their place in
the item, in three digits: so they sort after the item's id and before the next one.

Pure: no clock, no randomness, no I/O.
"""

import hashlib
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from operator import lt
from typing import overload

SUFFIX_BITS = 64
SUFFIX_DIGITS = SUFFIX_BITS // 4
SECONDS_KEPT = 4096
"""Number of seconds whose text is cached: thousands of ids of one collection share a few."""
PACKED_BYTES = 16
SMALL_BYTES_MAX = 8 * 1024
SMALL_KEPT = 256
"""Cached nets of up to `SMALL_BYTES_MAX`, for repeated reads; with their sort keys 15 MB."""
CACHED_BYTES_MAX = 64 * 1024
CACHED_KEPT = 32
"""Cached longer nets, up to `CACHED_BYTES_MAX`; they take as much."""
_HALF = PACKED_BYTES // 2
_PAIR = struct.Struct(">QQ")
_SECOND_MICROSECONDS = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
# Hours end at 23: newer Pythons read 24:00 as the next day, whose id would be another sort key.
_FORM = r"\d{4}-\d{2}-\d{2}T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}Z#[0-9a-f]{16}"
_ONE = re.compile(_FORM, flags=re.ASCII)
_MANY = re.compile(rf"(?:{_FORM},)*+", flags=re.ASCII)
_CHARACTERS = 44
_PLACE = re.compile(r"\.(\d{3})", flags=re.ASCII)
_DAY, _SECOND, _FRACTION, _SUFFIX = slice(10), slice(19), slice(20, 26), slice(28, None)
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
    """Return `count` ascending sort keys of one time; `bits` has 64 bits for each suffix."""
    start = sort_key(at, 0)[:-SUFFIX_DIGITS]
    digits = f"{bits:0{SUFFIX_DIGITS * count}x}"
    made = [
        start + digits[place : place + SUFFIX_DIGITS]
        for place in range(0, SUFFIX_DIGITS * count, SUFFIX_DIGITS)
    ]
    made.sort()
    return made


def suffix_in(sort_key: str) -> int:
    """Return the suffix in a sort key in our form."""
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
    """Return the id in a sort key; None if it is not in our form, so made by a foreign writer."""
    if not _ONE.fullmatch(sort_key) or not _is_day(sort_key[_DAY]):
        return None
    return EntryId(_microseconds(sort_key), suffix_in(sort_key))


def split(text: str) -> tuple[str, int | None]:
    """Return the id of the item and the place in it that the id of a change names.

    The place is None where the change has an item of its own, or the id is not in our form.
    """
    place = _PLACE.fullmatch(text, _CHARACTERS)
    if place is None or parse(text[:_CHARACTERS]) is None:
        return text, None
    return text[:_CHARACTERS], int(place[1])


def part_id(sort_key: str, place: int) -> str:
    """Return the id of a change at a place in an item."""
    return f"{sort_key}.{place:03d}"


def parse_named(text: str) -> EntryId | None:
    """Return the id of the item in the id of a change; None if that is not in our form."""
    return parse(split(text)[0])


def moment_of(sort_key: str) -> datetime:
    """Return the time of a sort key in our form.

    Raises:
        ValueError: it is not in our form.
    """
    found = parse(sort_key)
    if found is None:
        raise ValueError(f"{sort_key!r} is not a sort key of an entry")
    return found.at


def time_text(sort_key: str) -> str:
    """Return the time in a sort key in our form, as ISO 8601 in UTC."""
    return sort_key.partition("#")[0]


def ours(sort_keys: Collection[str]) -> list[str]:
    """Return the sort keys in our form, those for which `parse` returns an id, in their order."""
    # Nearly always all of them are, and one pattern over all is several times faster. The length
    # check counts ids: otherwise a foreign key of two ids with a comma would pass as two.
    text = ",".join(sort_keys) + ","
    is_long = len(text) == len(sort_keys) * (_CHARACTERS + 1)
    if is_long and _MANY.fullmatch(text) and all(map(_is_day, {key[_DAY] for key in sort_keys})):
        return list(sort_keys)
    return [key for key in sort_keys if parse(key) is not None]


def earliest(at: datetime) -> str:
    """Return the least sort key of this time: exactly the earlier ids are below it."""
    return str(EntryId(max(0, (at - EPOCH) // MICROSECOND), 0))


class EntryIds(Sequence[EntryId]):
    """Ids in ascending order, each once, as the bytes that a net change keeps of them.

    Equal to any sequence of the same ids. Only the ids that are accessed are made into objects.
    """

    __slots__ = ("_sort_keys", "packed")

    def __init__(self, packed: bytes = b"") -> None:
        """Take bytes that `pack_all` or `unpack_all` returned."""
        self.packed = packed
        self._sort_keys: tuple[str, ...] | None = None

    @staticmethod
    def of(ids: Iterable[EntryId]) -> "EntryIds":
        """Return these ids, sorted, each once."""
        return ids if isinstance(ids, EntryIds) else EntryIds(pack_all(ids))

    @staticmethod
    def of_sort_keys(sort_keys: Iterable[str]) -> "EntryIds":
        """Return the ids of sort keys in our form, sorted, each once."""
        found = EntryIds()
        found._sort_keys = tuple(sorted(set(sort_keys)))
        found.packed = _packed(found._sort_keys)
        return found

    @property
    def sort_keys(self) -> tuple[str, ...]:
        """The ids as sort keys."""
        if self._sort_keys is None:
            self._sort_keys = tuple(_sort_keys_of(self.packed))
        return self._sort_keys

    def __len__(self) -> int:
        """Return how many ids there are."""
        return len(self.packed) // PACKED_BYTES

    def __iter__(self) -> Iterator[EntryId]:
        """Yield the ids, in order."""
        return (EntryId(*pair) for pair in _PAIR.iter_unpack(self.packed))

    @overload
    def __getitem__(self, place: int) -> EntryId: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[EntryId, ...]: ...

    def __getitem__(self, place: int | slice) -> EntryId | tuple[EntryId, ...]:
        """Return the id at an index, or those of a slice."""
        if isinstance(place, slice):
            return tuple(self)[place]
        start = range(len(self))[place] * PACKED_BYTES
        return EntryId(*_PAIR.unpack_from(self.packed, start))

    def __eq__(self, other: object) -> bool:
        """Return whether the other has the same ids in the same order."""
        if isinstance(other, EntryIds):
            return self.packed == other.packed
        return tuple(self) == tuple(other) if isinstance(other, list | tuple) else NotImplemented

    def __hash__(self) -> int:
        """Return the hash of the ids."""
        return hash(self.packed)

    def __repr__(self) -> str:
        """Return the ids as sort keys."""
        return f"EntryIds({', '.join(self.sort_keys)})"


def pack_all(ids: Iterable[EntryId]) -> bytes:
    """Return the `merged` bytes for a set of ids: 16 bytes each, in order, each once."""
    return b"".join(sorted({entry.pack() for entry in ids}))


def unpack_all(packed: bytes) -> EntryIds:
    """Return the ids in `merged` bytes.

    Raises:
        ValueError: not a whole number of ids, not in strictly ascending order, or a time that a
            sort key cannot hold; damaged bytes are never read as other ids.
    """
    if len(packed) <= SMALL_BYTES_MAX:
        return _unpacked_small(packed)
    return (_unpacked_once if len(packed) <= CACHED_BYTES_MAX else _unpacked)(packed)


def _unpacked(packed: bytes) -> EntryIds:
    if len(packed) % PACKED_BYTES:
        raise ValueError(f"length must be a multiple of {PACKED_BYTES} bytes, got {len(packed)}")
    found = [packed[start : start + PACKED_BYTES] for start in range(0, len(packed), PACKED_BYTES)]
    if not all(map(lt, found, found[1:])):
        raise ValueError("ids must be in strictly ascending order")
    if found and int.from_bytes(found[-1][:_HALF], "big") > MICROSECONDS_MAX:
        raise ValueError("ids must not be later than the year 9999")
    return EntryIds(packed)


_unpacked_small = lru_cache(SMALL_KEPT)(_unpacked)
"""Several regions show the same net, and a compactor reads ahead in many collections."""
_unpacked_once = lru_cache(CACHED_KEPT)(_unpacked)


def _packed(sort_keys: Sequence[str]) -> bytes:
    seconds = {key[_SECOND] for key in sort_keys}  # a few, shared by thousands
    begins = {second: _seconds_in(second) * _SECOND_MICROSECONDS for second in seconds}
    return bytes.fromhex(
        "".join(
            [
                f"{begins[key[_SECOND]] + int(key[_FRACTION]):016x}{key[_SUFFIX]}"
                for key in sort_keys
            ]
        )
    )


def _sort_keys_of(packed: bytes) -> list[str]:
    digits = packed.hex()
    times = struct.unpack(f">{'Q8x' * (len(packed) // PACKED_BYTES)}", packed)
    suffixes = range(SUFFIX_DIGITS, len(digits), 2 * SUFFIX_DIGITS)
    seconds = {time // _SECOND_MICROSECONDS for time in times}
    texts = {second: _second_of(second) for second in seconds}
    return [
        f"{texts[time // _SECOND_MICROSECONDS]}.{time % _SECOND_MICROSECONDS:06d}Z"
        f"#{digits[start : start + SUFFIX_DIGITS]}"
        for time, start in zip(times, suffixes, strict=True)
    ]


def _microseconds(sort_key: str) -> int:
    return _seconds_in(sort_key[_SECOND]) * _SECOND_MICROSECONDS + int(sort_key[_FRACTION])


@lru_cache(SECONDS_KEPT)
def _seconds_in(text: str) -> int:
    return int((datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH).total_seconds())


@lru_cache(SECONDS_KEPT)
def _second_of(seconds: int) -> str:
    return (EPOCH + timedelta(seconds=seconds)).isoformat()[_SECOND]


@lru_cache
def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text) >= EPOCH.date()
    except ValueError:
        return False

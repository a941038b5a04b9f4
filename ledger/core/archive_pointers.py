"""What a net change records about the archive of its entries: the head of a chain of segments.

A *segment* holds the entries of one fold, whole; the net names the newest, each the one before::

    net: chain 7, pointers to 7, 4 ──> segment 7 ──> 6 ──> 5 ──> 4 ──> 3 ──> 2 ──> 1
                                                  └──────────────> 4 (a pointer further back)

`chain` is a hash over the digests of all of them, so the net authenticates each. Besides the
previous segment, each keeps pointers to the newest segments whose numbers are multiples of 4, of
16, and so on, so a date far back is reached without reading what lies between. A pointer summarizes
what it skips: `least`, the earliest time of an entry that it skips, and `until`, the latest time of
any entry up to its target.

What was merged before the archive began is in the base: its sum, count, and `since`, the newest id.
`settled` is a time: every entry ever acknowledged with an id up to it, in any region, is in the
archive or in the base.

Pure: no clock, no randomness, no I/O.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from ledger.core import amounts, ids
from ledger.core.ids import MICROSECONDS_MAX, PACKED_BYTES, EntryId

BASE = 4
"""Factor by which each level of pointers skips more segments than the level before."""
CHAIN_BYTES = 32
STAMP_BYTES = 8
"""Bytes of a segment's chain that a pointer to it keeps."""
NOTHING_BETWEEN = MICROSECONDS_MAX + 1
"""The `least` of a pointer that skips nothing."""
_POINTER = struct.Struct(">I16sIIQQ8s")
_HEAD = struct.Struct(">BI32sQ16sQB")
_FORM = 1
_NUMBER_MAX = 2**32 - 1


@dataclass(frozen=True, slots=True)
class PointerPlace:
    """Where a segment is stored: its object, and its range of bytes there."""

    object: EntryId
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Pointer:
    """Number and location of an earlier segment; times in microseconds since 1970.

    `least` is the earliest time in the segments after it, up to but excluding the segment that has
    the pointer; `until` the latest in all segments up to it, and in the base. `stamp` is the
    beginning of its chain.
    """

    number: int
    place: PointerPlace
    least: int
    until: int
    stamp: bytes


@dataclass(frozen=True, slots=True)
class ArchiveState:
    """The head of a chain of `number` segments, which begins after a base.

    `pointers` are in descending order of their numbers; the first one's is `number`. `settled` is
    0 while nothing is known.
    """

    number: int
    chain: bytes
    pointers: tuple[Pointer, ...]
    since: str = ""
    base_count: int = 0
    base_change: Decimal = Decimal(0)
    settled: int = 0


BEGUN = ArchiveState(0, bytes(CHAIN_BYTES), ())
"""A chain without segments and without a base."""


def followed(
    before: ArchiveState, place: PointerPlace, chain: bytes, *, first: int, last: int, settled: int
) -> ArchiveState:
    """Return the head after one more segment, whose entries are from `first` to `last`.

    Raises:
        ValueError: there are more than four billion segments.
    """
    number = before.number + 1
    if number > _NUMBER_MAX:
        raise ValueError(f"a chain has at most {_NUMBER_MAX:,} segments")
    until = max(last, before.pointers[0].until if before.pointers else 0)
    own = Pointer(number, place, NOTHING_BETWEEN, until, chain[:STAMP_BYTES])
    earlier = [replace(pointer, least=min(pointer.least, first)) for pointer in before.pointers]
    return replace(
        before,
        number=number,
        chain=chain,
        pointers=_levels((own, *earlier)),
        settled=max(before.settled, settled),
    )


def _levels(pointers: Sequence[Pointer]) -> tuple[Pointer, ...]:
    """Return, of descending pointers, the first, and the first multiple of each power of `BASE`."""
    kept: list[Pointer] = []
    step = 1
    for pointer in pointers:
        if pointer.number % step == 0:
            kept.append(pointer)
            while pointer.number % step == 0:
                step *= BASE
    return tuple(kept)


def pack_pointers(pointers: Sequence[Pointer]) -> bytes:
    """Return pointers as bytes, 52 each."""
    return b"".join(
        _POINTER.pack(
            pointer.number,
            pointer.place.object.pack(),
            pointer.place.offset,
            pointer.place.length,
            pointer.least,
            pointer.until,
            pointer.stamp,
        )
        for pointer in pointers
    )


def unpack_pointers(packed: bytes) -> tuple[Pointer, ...]:
    """Return the pointers in bytes of `pack_pointers`.

    Raises:
        ValueError: they are truncated, or not in descending order.
    """
    if len(packed) % _POINTER.size:
        raise ValueError(f"pointers have {_POINTER.size} bytes each, got {len(packed)}")
    found = tuple(
        Pointer(number, PointerPlace(_object(name), offset, length), least, until, stamp)
        for number, name, offset, length, least, until, stamp in _POINTER.iter_unpack(packed)
    )
    numbers = [pointer.number for pointer in found]
    if sorted(set(numbers), reverse=True) != numbers:
        raise ValueError(f"pointers must be in descending order, got {numbers}")
    return found


def to_bytes(archived: ArchiveState) -> bytes:
    """Return the bytes in which a net keeps it."""
    change = amounts.to_text(archived.base_change).encode()
    since = EntryId(0, 0) if not archived.since else _id_of(archived.since)
    head = _HEAD.pack(
        _FORM,
        archived.number,
        archived.chain,
        archived.settled,
        since.pack(),
        archived.base_count,
        len(change),
    )
    return head + change + pack_pointers(archived.pointers)


def of_bytes(packed: bytes) -> ArchiveState:
    """Return the head in bytes of `to_bytes`.

    Raises:
        ValueError: they are truncated, or of another form.
    """
    if len(packed) < _HEAD.size:
        raise ValueError(f"archive must have at least {_HEAD.size} bytes, got {len(packed)}")
    form, number, chain, settled, since, count, size = _HEAD.unpack_from(packed)
    if form != _FORM:
        raise ValueError(f"archive is of form {form}, this release knows only {_FORM}")
    start = _HEAD.size + size
    try:
        change = amounts.parse(packed[_HEAD.size : start].decode("ascii"))
    except ValueError:
        raise ValueError("the sum of the base is not a number") from None
    pointers = unpack_pointers(packed[start:])
    if (pointers[0].number if pointers else 0) != number:
        raise ValueError(f"the first pointer must be to segment {number}")
    begun = _object(since)
    text = "" if begun == EntryId(0, 0) else str(begun)
    return ArchiveState(number, chain, pointers, text, count, change, settled)


def _object(packed: bytes) -> EntryId:
    half = PACKED_BYTES // 2
    return EntryId(int.from_bytes(packed[:half], "big"), int.from_bytes(packed[half:], "big"))


def _id_of(sort_key: str) -> EntryId:
    found = ids.parse(sort_key)
    if found is None:
        raise ValueError(f"{sort_key!r} is not the id of an entry")
    return found

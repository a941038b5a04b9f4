"""The form of an archive object: segments compressed one by one, an index, and a trailer.

::

    gzip member: segment | gzip member: segment | ... | gzip member: index | trailer of 70 bytes

The whole is a gzip file of JSON Lines, which any tool reads; each member can be read separately.
The trailer is an empty member whose extra field says where the index is. Every byte is checked:
headers and trailer have only one form, the index has the SHA-256 of each member as stored, and the
trailer that of the index.

A segment may be written again shorter, without what had to be erased: it keeps its place, and its
member is padded to its former length by a comment of spaces in its header.

Pure: no clock, no randomness, no I/O.
"""

import hashlib
import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import orjson

from ledger.core import ids
from ledger.core.decompression import inflated
from ledger.core.errors import ArchiveDamaged
from ledger.core.ids import EntryId

SUFFIX = ".jsonl.gz"
SIGNED_WITHIN = timedelta(hours=1)
"""How long after an object was begun a fold that names it may be signed."""
LINES_BYTES_MAX = 64 * 1024 * 1024
"""The most that a member unpacks to. A fold takes its entries from 8 pages of 1 MB, in which JSON
makes six bytes of some; a longer segment is not archived."""
LEVEL = 6
SLACK = 32
INDEX_FORMAT = 1
_MAGIC = b"\x1f\x8b\x08"
_PLAIN_FLAGS, _EXTRA_FLAG, _COMMENT_FLAG = 0, 4, 16
_FIXED = bytes(4) + b"\x00\xff"  # no time, no hint on the compression, no system
_HEADER = _MAGIC + bytes([_PLAIN_FLAGS]) + _FIXED
_EXTRA = struct.Struct("<H2sH")
_INDEX_AT = struct.Struct(">QI32s")
_EMPTY = b"\x03\x00" + bytes(8)
_TAIL = struct.Struct("<II")
TRAILER_BYTES = len(_HEADER) + _EXTRA.size + _INDEX_AT.size + len(_EMPTY)
_NAME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{6}Z)-([0-9a-f]{16})" + re.escape(SUFFIX))


@dataclass(frozen=True, slots=True)
class Indexed:
    """One segment of an object, by its index."""

    partition: str
    number: int
    previous: str
    chain: str
    offset: int
    length: int
    sha256: str


def name_of(made: EntryId) -> str:
    """Return the name of an object: when it was begun, and 64 random bits."""
    time, _, suffix = str(made).partition("#")
    return f"{time.replace(':', '-')}-{suffix}{SUFFIX}"


def id_of(name: str) -> EntryId | None:
    """Return the time and the random bits in a name; None if it is not the name of an object."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    day, clock = found[1][:11], found[1][11:].replace("-", ":")
    return ids.parse(f"{day}{clock}#{found[2]}")


def member(lines: bytes, *, level: int = LEVEL) -> bytes:
    """Return bytes as one gzip member, the same for the same bytes."""
    return _HEADER + _compressed(lines, level)


def _compressed(lines: bytes, level: int) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(lines) + packer.flush()
    return body + _TAIL.pack(zlib.crc32(lines), len(lines) & 0xFFFFFFFF)


def with_slack(lines: bytes) -> bytes:
    """Return bytes as a gzip member with some room, for when a part of them is erased."""
    return _with_room(_compressed(lines, LEVEL), SLACK - 1)


def padded(lines: bytes, length: int) -> bytes:
    """Return bytes as a gzip member of a given length.

    Raises:
        ValueError: they do not fit.
    """
    plain = member(lines)
    if len(plain) == length:
        return plain
    body = min((_compressed(lines, level) for level in (LEVEL, 9)), key=len)
    room = length - len(_HEADER) - len(body) - 1
    if room < 0:
        raise ValueError(f"{len(body) + len(_HEADER)} bytes do not fit in {length}")
    return _with_room(body, room)


def _with_room(body: bytes, room: int) -> bytes:
    return _MAGIC + bytes([_COMMENT_FLAG]) + _FIXED + b" " * room + b"\x00" + body


def lines_of(packed: bytes, what: str) -> bytes:
    """Return the content of bytes that must be exactly one complete gzip member.

    Raises:
        ArchiveDamaged: it is not; `what` names it.
    """
    start = len(_HEADER)
    if packed[:start] == _MAGIC + bytes([_COMMENT_FLAG]) + _FIXED:
        end = packed.find(b"\x00", start)
        if end < 0 or packed[start:end].strip(b" "):
            raise ArchiveDamaged(f"{what} is damaged: its header is not one of ours")
        start = end + 1
    elif packed[:start] != _HEADER:
        raise ArchiveDamaged(f"{what} is damaged: its header is not one of ours")
    try:
        lines, tail = inflated(packed[start:], bytes_max=LINES_BYTES_MAX, window=-zlib.MAX_WBITS)
    except ValueError as error:
        raise ArchiveDamaged(f"{what} is damaged: {error}") from None
    if tail != _TAIL.pack(zlib.crc32(lines), len(lines) & 0xFFFFFFFF):
        raise ArchiveDamaged(f"{what} is damaged: it is truncated, or its checksum does not match")
    return lines


def index_member(segments: Sequence[Indexed]) -> bytes:
    """Return the index of an object's segments, as a member."""
    rows = [[*(getattr(segment, name) for name in Indexed.__slots__)] for segment in segments]
    return member(orjson.dumps({"index": INDEX_FORMAT, "segments": rows}) + b"\n")


def trailer(offset: int, index: bytes) -> bytes:
    """Return the end of an object whose index is at an offset."""
    at = _INDEX_AT.pack(offset, len(index), hashlib.sha256(index).digest())
    head = _MAGIC + bytes([_EXTRA_FLAG]) + _FIXED
    return head + _EXTRA.pack(len(at) + 4, b"LG", len(at)) + at + _EMPTY


def index_at(tail: bytes, what: str) -> tuple[int, int, bytes]:
    """Return offset, length and SHA-256 of the index, from the last bytes of an object.

    Raises:
        ArchiveDamaged: they are not the trailer of an object.
    """
    start = len(_HEADER) + _EXTRA.size
    if len(tail) >= TRAILER_BYTES:
        end = tail[-TRAILER_BYTES:]
        offset, length, digest = _INDEX_AT.unpack_from(end, start)
        fields = _EXTRA.pack(_INDEX_AT.size + 4, b"LG", _INDEX_AT.size)
        head = _MAGIC + bytes([_EXTRA_FLAG]) + _FIXED + fields
        if end[:start] == head[:start] and end.endswith(_EMPTY):
            return offset, length, digest
    raise ArchiveDamaged(f"{what} is damaged: it does not end as an archive object does")


def index_of(packed: bytes, digest: bytes, what: str) -> list[Indexed]:
    """Return the segments that an index names.

    Raises:
        ArchiveDamaged: it is not the index of the trailer.
    """
    if hashlib.sha256(packed).digest() != digest:
        raise ArchiveDamaged(f"{what} is damaged: its index does not match its trailer")
    try:
        found = orjson.loads(lines_of(packed, what))
        return [Indexed(*row) for row in found["segments"]]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ArchiveDamaged(f"{what} is damaged: its index cannot be read: {error!r}") from None


def whole_index(data: bytes, what: str) -> list[Indexed]:
    """Return the segments of a whole object, each byte of it checked.

    Raises:
        ArchiveDamaged: a byte is not as it was written.
    """
    offset, length, digest = index_at(data, what)
    found = index_of(data[offset : offset + length], digest, what)
    place = 0
    for indexed in found:
        packed = data[indexed.offset : indexed.offset + indexed.length]
        if indexed.offset != place or hashlib.sha256(packed).hexdigest() != indexed.sha256:
            raise ArchiveDamaged(
                f"{what} is damaged: segment {indexed.number} of {indexed.partition!r} at byte"
                f" {indexed.offset:,} is not as it was written"
            )
        place += indexed.length
    if place != offset or offset + length + TRAILER_BYTES != len(data):
        raise ArchiveDamaged(f"{what} is damaged: {len(data):,} bytes is not its length")
    return found


def sha256_of(packed: bytes) -> str:
    """Return the SHA-256 of a member, as an index has it."""
    return hashlib.sha256(packed).hexdigest()

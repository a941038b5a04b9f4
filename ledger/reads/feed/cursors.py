"""Cursors of the feed: how far each shard of a table's stream was read, as one text.

Shards follow each other, and a key's later records are in the children of the shard that has its
earlier ones::

    listed        A (closed) ──> B (closed) ──> D        cursor {A: 17}      B and D wait for A
                             └─> C                       cursor {B: start, C: start}, once A is read

A cursor names the shards that are being read. One that was read to its end stays named until a
child of it is, so that children which are listed later are found. A listed shard that is not named
is behind the cursor if a named one descends from it; ahead of it if its parent is still being read;
else it is new, and read from its first record. So each record is passed once, and none is skipped,
however shards split: a shard that is named and no longer listed has passed out of the stream with
what was not read of it, which is `FeedBehind`. So is any cursor as old as the stream's records: of
those that passed out of a shard that is still listed, or of a child that came and went, nothing
shows. A shard that is read from its first record is behind once that one has passed out.

What a cursor was made for, its *filter*, is a part of it: under another one, what only that one
wants would have been passed by unseen.

The shards with which a feed begins are read from what is left of them, since the first records of
some are gone. While nothing was had of such a lineage nothing of it is promised, so a child of a
shard that ended without a record is read likewise::

    A (closed, all passed out) ──> B (its first records passed out)    cursor {A: left}  {B: left}

Pure: no clock, no randomness, no I/O.
"""

import json
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ledger.core.decompression import inflated
from ledger.core.errors import FeedBehind, InvalidInput
from ledger.reads.feed.port import Shard, ShardListing
from ledger.reads.feed.selection import Filter, is_digest

START, END, LEFT, EMPTY = -1, -2, -3, -4
"""Positions in a shard of which nothing was read, from its first record or from what is left of it;
and all was, some records or (of what was left) none. Any other is a record's number."""
READ = frozenset({END, EMPTY})
"""Those of shards that were read to their end."""
_LOWEST = EMPTY
KEPT_SECONDS = 24 * 3600
"""How long a table's stream keeps a record."""
MARGIN_SECONDS = 3600
"""Of that, for clocks and for listings that are late."""
TEXT_MAX = 60_000
"""Characters of a cursor: some 1,000 shards."""
BYTES_MAX = 200_000
PIECES_MAX = 5_000
"""Of the JSON that it unpacks to: a kilobyte can stand for so many lists that they take 100 ms."""
STREAM_MAX = 200
"""Characters of a stream's name."""
NUMBER_MAX = 10**40 - 1
"""Of a record: DynamoDB's have up to 40 digits."""
_FORM = "f1"


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a stream was read; times in seconds since 1970.

    `looked` is when its shards were last listed, or when it began. What arrived before `since` is
    left out.
    """

    stream: str
    looked: int = 0
    since: int = 0
    positions: Mapping[str, int] = field(default_factory=dict)
    filter: Filter = field(default_factory=Filter)

    def moved(self, shard: str, position: int) -> "Cursor":
        """Return the cursor with another position in a shard, which is read last from now on."""
        others = {name: place for name, place in self.positions.items() if name != shard}
        return replace(self, positions={**others, shard: position})

    def open_shards(self) -> list[str]:
        """Return the shards to be read, those that were read last at the end."""
        return [name for name, place in self.positions.items() if place not in READ]


def is_known(cursor: Cursor, listing: ShardListing) -> bool:
    """Return whether a listing has all shards of a cursor; one that is newer may."""
    listed = {shard.id for shard in listing.shards}
    return cursor.stream == listing.stream and cursor.positions.keys() <= listed


def begun(
    listing: ShardListing, *, now: int, since: int = 0, filter_: Filter | None = None
) -> Cursor:
    """Return the cursor of a feed that begins now, with the oldest records that are left."""
    begins = Cursor(listing.stream, now, since, filter=filter_ or Filter())
    return _with_new(begins, listing, now=now, place=LEFT)


def check_filter(cursor: Cursor, asked: Filter) -> None:
    """Refuse a cursor of a feed of other entries: those between would be skipped.

    Raises:
        InvalidInput: it is one.
    """
    if cursor.filter != asked:
        raise InvalidInput(
            f"after is a cursor of the feed of {cursor.filter}, and this is the feed of {asked}:"
            " entries would be skipped; ask as for that cursor, or begin without it, by the time up"
            " to which you have everything (`since`)"
        )


def joined(cursor: Cursor, listing: ShardListing, *, now: int) -> Cursor:
    """Return the cursor with the shards that are to be read by now.

    The listing is not older than the cursor.

    Raises:
        FeedBehind: the cursor is older than 23 hours; or of a shard that is no longer listed
            something was not read; or it is a cursor of another stream.
    """
    if cursor.stream != listing.stream:
        raise FeedBehind(
            f"the cursor is of the stream {cursor.stream:.80}, this is {listing.stream}: begin"
            " without it, by the time up to which you have everything (`since`)"
        )
    listed = {shard.id for shard in listing.shards}
    is_old = now - cursor.looked >= KEPT_SECONDS - MARGIN_SECONDS
    if is_old or not {*cursor.open_shards()} <= listed:
        raise behind()
    return _with_new(cursor, listing, now=now, place=START)


def _with_new(cursor: Cursor, listing: ShardListing, *, now: int, place: int) -> Cursor:
    """Return the cursor with the shards that are new, read from this place on."""
    listed = {shard.id: shard for shard in listing.shards}
    positions = {name: place for name, place in cursor.positions.items() if name in listed}
    passed = set[str]()
    for name in positions:
        passed.update(_ancestors(listed, name))
    for shard in listing.shards:
        if shard.id not in positions and shard.id not in passed:
            parent = shard.parent
            at = positions.get(parent or "")
            if parent not in listed or parent in passed or at in READ:
                positions[shard.id] = LEFT if at == EMPTY else place
    parents = {listed[name].parent for name in positions}
    kept = {
        name: place for name, place in positions.items() if place not in READ or name not in parents
    }
    return replace(cursor, looked=now, positions=kept)


def behind() -> FeedBehind:
    """Return the error of a cursor that is too old."""
    return FeedBehind(
        "what arrived after the cursor may have passed out of the table's stream, so a cursor holds"
        " for 23 hours: read the histories of the counters from then on, and begin without it"
    )


def unknown_record(shard: str) -> InvalidInput:
    """Return the error of a cursor with a position that its shard does not have."""
    return InvalidInput(
        f"after must be the cursor of a page of the feed: shard {shard!r:.80} has no such record"
    )


def _ancestors(listed: Mapping[str, Shard], name: str) -> Iterator[str]:
    parent = listed[name].parent
    while parent is not None and parent in listed:
        yield parent
        parent = listed[parent].parent


def to_text(cursor: Cursor) -> str:
    """Return a cursor as callers keep it: opaque, of URL-safe characters."""
    asked = [cursor.filter.prefix, cursor.filter.names]
    values = [cursor.stream, cursor.looked, cursor.since, dict(cursor.positions), *asked]
    packed = zlib.compress(json.dumps(values, separators=(",", ":")).encode(), 9)
    return _FORM + urlsafe_b64encode(packed).rstrip(b"=").decode()


def of_text(text: str) -> Cursor:
    """Return the cursor that `to_text` made this text of.

    Raises:
        InvalidInput: it is none.
    """
    try:
        return _unpacked(text)
    except (ValueError, TypeError, KeyError, RecursionError):
        shown = text if isinstance(text, str) else repr(text)
        raise InvalidInput(
            f"after must be the cursor of a page of the feed, got {shown!r:.60}"
        ) from None


def _unpacked(text: str) -> Cursor:
    if not text.startswith(_FORM) or len(text) > TEXT_MAX:
        raise ValueError("not of this form")
    bare = text[len(_FORM) :]
    padded = bare + "=" * (-len(bare) % 4)
    unpacked, _ = inflated(urlsafe_b64decode(padded.encode("ascii")), bytes_max=BYTES_MAX)
    if sum(map(unpacked.count, (b",", b"[", b"{"))) > PIECES_MAX:
        raise ValueError("more shards than a stream has")
    stream, looked, since, positions, prefix, names = json.loads(unpacked)
    if not isinstance(positions, dict) or not all(
        type(number) is int and _LOWEST <= number <= NUMBER_MAX
        for number in (looked, since, *positions.values())
    ):
        raise TypeError("not numbers")
    if not isinstance(stream, str) or len(stream) > STREAM_MAX:
        raise TypeError("no name of a stream")
    if not (stream.isascii() and stream.isprintable()):
        raise ValueError("no name of a stream")
    if not isinstance(prefix, str) or not is_digest(names):
        raise TypeError("no filter")
    "".join((prefix, names, *positions)).encode()  # JSON may spell half a pair of surrogates
    return Cursor(stream, looked, since, positions, Filter(prefix, names))

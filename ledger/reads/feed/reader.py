"""Reading the feed: rounds over the shards of the stream, from a cursor to the next one.

A round reads a page of each open shard, some at a time, and takes entries until the page is full; a
shard that was not taken from goes first in the next round, so a busy one holds up no other. What
was read and not taken is read again, from memory (`stream_access`).

Records of a table's stream: the entry that one brings, if it does.

Each change of an item makes a record. Those of nets, sums, records and leases bring nothing, nor
does a delete: an entry is deleted once it is merged, which changes no total. An entry that is put
again as it was brings nothing new, nor does one that another region put under the same key within
the replication lag, which replaces the region alone. One under the same id with another change
replaces the earlier.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from math import inf

import anyio

from ledger.core import keys
from ledger.core.entry import Item, entry_of
from ledger.core.errors import DamagedItem, InvalidInput
from ledger.core.parts import checked_item
from ledger.core.values import Entry, same_change
from ledger.reads.feed import cursors
from ledger.reads.feed.cursors import EMPTY, END, LEFT, READ, START, Cursor, is_known
from ledger.reads.feed.page import FeedPage, FillingPage
from ledger.reads.feed.port import FIRST, OLDEST, ShardRead, Stream
from ledger.reads.feed.selection import FeedSelection
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import run_all

ROUNDS_MAX = 20
"""Rounds of one page; a page that ends by it has `more`, entries or not."""
READS_AT_ONCE = 8
POLL_SECONDS = 1.0
"""Between two looks at the end of the stream."""
QUIET_SECONDS = 60.0
"""After so long without an entry a page without any brings the cursor up to date."""

_FROM = {START: FIRST, LEFT: OLDEST}


class Feed:
    """The feed of one region."""

    def __init__(self, stream: Stream, *, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock

    async def page(
        self, wanted: FeedSelection, *, after: str | None, since: datetime | None, limit: int
    ) -> FeedPage:
        """Return the wanted entries that arrived after a cursor, or since a time.

        It ends with the item by which it has `limit` entries, or `BYTES_MAX` bytes.

        Raises:
            InvalidInput: a bound breaks a rule; or cursor and time are given; or it is a cursor of
                a feed of other entries.
            FeedBehind: what follows the cursor has, or may have, passed out of the stream.
            StoreError: the stream cannot be read.
        """
        cursor = await self._begun(wanted, after, since)
        filling = FillingPage(limit)
        for _round in range(ROUNDS_MAX):
            before = cursor
            cursor = await self._round(cursor, wanted, filling)
            is_at_end = cursor.positions == before.positions
            if filling.is_full or is_at_end:
                break
        more = filling.is_full or not is_at_end
        return FeedPage(tuple(filling.entries), cursors.to_text(cursor), more=more)

    async def _begun(
        self, wanted: FeedSelection, after: str | None, since: datetime | None
    ) -> Cursor:
        if after is not None and since is not None:
            raise InvalidInput("the feed goes on after a cursor, or begins at a time: give one")
        given = None if after is None else cursors.of_text(after)
        if given is not None:
            cursors.check_filter(given, wanted.filter)
        start = 0 if since is None else max(0, int(_aware(since).timestamp()))
        listing = await self._stream.listing()
        if given is not None and not is_known(given, listing):  # another process listed later
            listing = await self._stream.listing(is_fresh=True)
        now = self._now()
        if given is None:
            return cursors.begun(listing, now=now, since=start, filter_=wanted.filter)
        return cursors.joined(given, listing, now=now)

    async def _round(self, cursor: Cursor, wanted: FeedSelection, filling: FillingPage) -> Cursor:
        """Take a page of each open shard, until there are enough; return the cursor after them."""
        shards = cursor.open_shards()
        jobs = [partial(self._read, shard, cursor.positions[shard]) for shard in shards]
        reads = await run_all(jobs, at_once=READS_AT_ONCE) if jobs else []
        has_ended = False
        for shard, read in zip(shards, reads, strict=True):
            position = _taken(read, cursor, shard, wanted, filling)
            if position != cursor.positions[shard]:
                cursor = cursor.moved(shard, position)
                has_ended = has_ended or position in READ
            if filling.is_full:
                break
        if has_ended:
            listing = await self._stream.listing(is_fresh=True)
            cursor = cursors.joined(cursor, listing, now=self._now())
        return cursor

    async def _read(self, shard: str, position: int) -> ShardRead:
        return await self._stream.read(shard, _FROM.get(position, position))

    def _now(self) -> int:
        return int(self._clock.now().timestamp())


def _taken(
    read: ShardRead, cursor: Cursor, shard: str, wanted: FeedSelection, filling: FillingPage
) -> int:
    """Take what is wanted of some records; return the position up to which they were looked at."""
    position = cursor.positions[shard]
    for arrival in read.arrivals:
        if filling.is_full:
            return position
        position = arrival.number
        if arrival.at.timestamp() >= cursor.since and wanted.takes(arrival.entry):
            filling.take(arrival.entry)
    if read.is_closed:
        return EMPTY if position == LEFT and read.upto is None else END
    return position if read.upto is None else read.upto


async def wait_for_page(
    page: Callable[[str | None], Awaitable[FeedPage]],
    after: str | None,
    *,
    seconds: float,
    pause: Callable[[float], Awaitable[None]],
    time: Callable[[], float],
    look_seconds_max: float = inf,
    is_over: Callable[[], bool] = lambda: False,
) -> FeedPage:
    """Return the first page that has entries, or `more`; after so many seconds one without.

    The seconds are those that pass by `time`, with all looks. A look that begins at the end of them
    may take `look_seconds_max`; if it takes longer, the page before it is returned.

    Raises:
        LedgerError: as `Feed.page`.
    """
    end = time() + seconds
    found = await page(after)
    while not (found.entries or found.more or time() >= end or is_over()):
        await pause(min(POLL_SECONDS, end - time()))
        with anyio.move_on_after(max(0.0, end - time()) + look_seconds_max):
            found = await page(found.cursor)
    return found


def _aware(since: datetime) -> datetime:
    if not isinstance(since, datetime) or since.tzinfo is None:
        raise InvalidInput(f"since must be an aware datetime, got {since!r}")
    try:
        return since.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(
            f"since must be of the years 1 to 9999 in UTC, got {since.isoformat()}"
        ) from None


log = logging.getLogger("ledger.feed")


def readable_entry_in(old: Item | None, new: Item | None) -> Entry | None:
    """Return the entry that a record brings; one that cannot be read is left out, and logged."""
    try:
        entry = entry_in(old, new)
        return None if entry is None else checked_item(entry)  # so that a page can expand it
    except DamagedItem as error:
        log.warning("left out of the feed: %s", error)
        return None


def entry_in(old: Item | None, new: Item | None) -> Entry | None:
    """Return the entry that a record brings, by the images of the item before and after.

    Raises:
        DamagedItem: an attribute of it is of another kind than an entry's.
    """
    if new is None or not _is_entry(new):
        return None
    entry = entry_of(new)
    return None if old is not None and _is(old, entry) else entry


def _is(item: Item, entry: Entry) -> bool:
    try:
        return _is_entry(item) and same_change(entry_of(item), entry)
    except DamagedItem:  # what was put in its place is new
        return False


def _is_entry(item: Item) -> bool:
    is_counter = keys.counter_of(item["pk"].get("S", keys.RESERVED)) is not None
    return is_counter and "change" in item and not item["sk"]["S"].startswith(keys.RESERVED)

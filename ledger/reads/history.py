"""A counter's entries in the order of their ids, page by page, over all shards.

With an archive, also those that were merged and deleted. A page of the table is read first, then
the net: an entry that the page no longer shows was deleted after this region's net named it, or the
archive had it before. So each entry is in the page, or in the chain of the net read after it, or in
both; then it is yielded once.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import anyio.lowlevel

from ledger.core import ids, keys
from ledger.core.entry import entry_id, entry_of
from ledger.core.errors import InvalidEntry
from ledger.core.ids import MICROSECONDS_MAX
from ledger.core.parts import expanded
from ledger.core.transfers import is_text
from ledger.core.values import Entry, NetChange
from ledger.reads.archive.access import archived_of
from ledger.reads.archive.reader import ArchiveReader
from ledger.reads.archive.segments import Line
from ledger.reads.collection import read_known_net, read_net
from ledger.runtime.tasks import run_all
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.store.reads import Get, Query

Bound = datetime | str | None
SHARDS_AT_ONCE = 16
ITEMS_AT_ONCE = 1_000
SHARD_ITEMS_MIN = 100
"""Items that are read together, of all shards; and of each shard, however many there are."""
LEGS_IN_TURN = 5_000
"""Legs of transfers of a page that are read in one turn of the event loop."""
_MICROSECOND = timedelta(microseconds=1)
_END = keys.RESERVED
"""Sorts after every id of ours."""
_RULE = "bound must be a time with a zone or the id of an entry"


@dataclass(frozen=True, slots=True)
class HistoryRange:
    """The entries of a counter's shards between two bounds, both excluded; None for no bound."""

    counter: str
    shards: int = 1
    after: Bound = None
    before: Bound = None


async def history(
    store: Store,
    asked: HistoryRange,
    *,
    consistent: bool,
    page_size: int | None = None,
    archive: ArchiveReader | None = None,
    settings: LiveSettings | None = None,
) -> AsyncIterator[Entry]:
    """Yield the entries of a range; see `Ledger.history`.

    With an archive a net of a generation that the contract in `settings` does not have is refused.
    """
    counter, shards = asked.counter, asked.shards
    first, last = _first(asked.after), _last(asked.before)
    for bound in (asked.after, asked.before):
        if isinstance(bound, str) and ids.parse_named(bound) is None:
            await _check_known(store, counter, shards, bound)
    if first is not None and last is not None and first.encode() > last.encode():
        return  # an empty range; DynamoDB would refuse the request
    size = page_size or max(SHARD_ITEMS_MIN, ITEMS_AT_ONCE // shards)
    places = [
        ShardHistory(store, partition, first, last, consistent, size, settings)
        for partition in (keys.partition_key(counter, shard) for shard in range(shards))
    ]
    streams = [place.entries(archive) for place in places]
    after, before = _id_in(asked.after), _id_in(asked.before)
    async for item in _merged(streams):
        if is_text(item.parts):  # a millisecond's work
            await anyio.lowlevel.checkpoint()
        for entry in expanded(item):
            if (after is None or entry.id > after) and (before is None or entry.id < before):
                yield entry


@dataclass(frozen=True, slots=True)
class Merged:
    """Entries that are merged, and that no archive keeps: how many, and when the newest was made.

    Those that are not deleted yet are still listed. `until` is None if there are none, or an id is
    in another form than ours.
    """

    count: int = 0
    until: datetime | None = None


async def merged_without_archive(store: Store, counter: str, *, shards: int) -> Merged:
    """Return what a history cannot list of a counter, over all its shards.

    Raises:
        DamagedItem: a net change cannot be read.
        StoreError: DynamoDB could not do it.
    """
    jobs = [
        partial(_merged_in, store, keys.partition_key(counter, shard)) for shard in range(shards)
    ]
    found = await run_all(jobs, at_once=SHARDS_AT_ONCE)
    times = [merged.until for merged in found if merged.until is not None]
    return Merged(sum(merged.count for merged in found), max(times, default=None))


async def _merged_in(store: Store, partition: str) -> Merged:
    net = await read_net(store, partition, consistent=False)
    if net is None:
        return Merged()
    count, newest = net.count, net.until
    if net.archive is not None:
        head = archived_of(net, partition)
        count, newest = head.base_count, head.since
    parsed = ids.parse(newest) if count else None
    return Merged(count, None if parsed is None else parsed.at)


@dataclass(slots=True)
class ShardHistory:
    """The items of one collection, between two sort keys, both included; None for no bound."""

    store: Store
    partition: str
    first: str | None
    last: str | None
    consistent: bool
    page_size: int | None = None
    settings: LiveSettings | None = None

    def entries(self, archive: ArchiveReader | None) -> AsyncIterator[Entry]:
        """Return its entries in the order of their ids, changes that share an item as one."""
        return self._shown() if archive is None else self._whole(archive)

    async def _net(self) -> NetChange | None:
        if self.settings is None:
            return await read_net(self.store, self.partition)
        return await read_known_net(self.store, self.partition, self.settings)

    async def _shown(self) -> AsyncIterator[Entry]:
        async for entries, _ in self._pages():
            for entry in entries:
                yield entry

    async def _pages(self) -> AsyncIterator[tuple[list[Entry], str | None]]:
        """Yield the entries of each page, and the sort key up to which that is all of them."""
        query = Query(
            self.partition,
            consistent=self.consistent,
            first=self.first,
            last=self.last,
            limit=self.page_size,
        )
        while True:
            page = await self.store.query(query)
            entries, legs = list[Entry](), 0
            for item in page.items:
                if "change" in item and not item["sk"]["S"].startswith(keys.NET_PREFIX):
                    entries.append(entry := entry_of(item))
                    legs += len(entry.legs)
                if legs >= LEGS_IN_TURN:
                    legs = 0
                    await anyio.lowlevel.checkpoint()
            yield entries, None if page.after is None else page.after[1]
            if page.after is None:
                return
            query = query.next(page)

    async def _whole(self, archive: ArchiveReader) -> AsyncIterator[Entry]:
        """Yield the entries of the table and of the archive."""
        counter, shard = keys.counter_of(self.partition) or (self.partition, 0)
        begin, since = self.first or "", _time(self.first, 0)
        async for entries, upto in self._pages():
            # Whatever the settings say: an older net would lack entries that the page no longer
            # shows.
            head = archived_of(await self._net(), self.partition)
            end = upto or self.last or _END
            until = _time(end, MICROSECONDS_MAX)
            lines = archive.in_order(
                self.partition, head, first=begin, last=end, since=since, until=until
            )
            async for entry in _merged_once(entries, lines, counter, shard):
                yield entry
            begin, since = end + "\0", _time(end, since)  # the position after it


async def _merged_once(
    entries: Sequence[Entry], lines: AsyncIterator[Line], counter: str, shard: int
) -> AsyncIterator[Entry]:
    """Yield both in order; an entry in both once, as the table shows it."""
    shown = {entry.id for entry in entries}
    place = 0
    async for line in lines:
        while place < len(entries) and entries[place].id < line.id:
            yield entries[place]
            place += 1
        if line.id not in shown:
            yield line.entry(counter, shard)
    for entry in entries[place:]:
        yield entry


def _time(sort_key: str | None, other: int) -> int:
    """Return the time in a sort key in our form; otherwise the fallback."""
    parsed = None if sort_key is None else ids.parse(sort_key)
    return other if parsed is None else parsed.microseconds


async def _merged(streams: Sequence[AsyncIterator[Entry]]) -> AsyncIterator[Entry]:
    """Yield the entries of ordered streams in order, buffering one of each."""
    heads = {place: await anext(stream, None) for place, stream in enumerate(streams)}
    while True:
        waiting = {place: head for place, head in heads.items() if head is not None}
        if not waiting:
            return
        place = min(waiting, key=lambda place: (waiting[place].id, place))
        yield waiting[place]
        heads[place] = await anext(streams[place], None)


async def _check_known(store: Store, counter: str, shards: int, bound: str) -> None:
    """Refuse a bound in another form than ours, unless it is the id of a foreign entry.

    Such text, for example a truncated time, would be compared character by character.
    """
    for shard in range(shards):
        if await store.get(Get((keys.partition_key(counter, shard), bound))) is not None:
            return
    raise InvalidEntry(f"{_RULE}, and no entry of counter {counter!r} has the id {bound!r}")


def _id_in(bound: Bound) -> str | None:
    return bound if isinstance(bound, str) else None


def _first(after: Bound) -> str | None:
    if not isinstance(after, datetime):
        return _checked_id(after)
    return str(entry_id(_moved(after, _MICROSECOND), 0))


def _last(before: Bound) -> str | None:
    if not isinstance(before, datetime):
        return _checked_id(before)
    return str(entry_id(_moved(before, -_MICROSECOND), 2**ids.SUFFIX_BITS - 1))


def _moved(bound: datetime, by: timedelta) -> datetime:
    try:
        return bound + by
    except OverflowError:
        raise InvalidEntry(
            f"time must be within the years 1970 to 9999, got {bound.isoformat()}"
        ) from None


def _checked_id(bound: object) -> str | None:
    try:
        return None if bound is None else ids.split(keys.checked_id(bound))[0]
    except InvalidEntry:
        raise InvalidEntry(f"{_RULE} of up to 1,024 bytes, got {bound!r:.100}") from None

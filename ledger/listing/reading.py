"""Reading the index: the counters of a prefix in the order of their ids, from all its partitions.

Each partition is in that order, and has all shards of a counter, so they are merged as they are
read, page by page, with one counter of each in memory. Reads are eventually consistent: the index
lags behind in any case.
"""

from collections.abc import AsyncIterator
from functools import partial

from ledger.core.entry import Item
from ledger.core.index import INDEX_PARTITIONS, Listed, bounds, counter_in, listed_of
from ledger.runtime.tasks import run_all
from ledger.store.port import Store
from ledger.store.reads import Query

SPARE_ITEMS = 16
"""Read of each partition beyond its share of a limit, because shares vary a little."""


async def indexed(
    store: Store, prefix: str, *, after: str | None = None, limit: int | None = None
) -> AsyncIterator[Listed]:
    """Yield the counters that begin with a prefix, after the counter `after`, in bytes order.

    `limit` is how many are wanted, so that not much more is read.

    Raises:
        DamagedItem: an item was edited by hand; the compactor's next search repairs it.
        StoreError: DynamoDB could not do it.
    """
    first, last = bounds(prefix, after)
    page_items = None if limit is None else limit // len(INDEX_PARTITIONS) + SPARE_ITEMS
    streams = [
        _partition(
            store,
            Query(name, consistent=False, first=first, last=last, limit=page_items),
            prefix=prefix,
            after=after,
        )
        for name in INDEX_PARTITIONS
    ]
    firsts = await run_all([partial(_next, stream) for stream in streams], at_once=len(streams))
    heads = dict(enumerate(firsts))
    while waiting := {place: one for place, one in heads.items() if one is not None}:
        place = min(waiting, key=lambda place: waiting[place].counter.encode())
        yield waiting[place]
        heads[place] = await _next(streams[place])


async def _next(stream: AsyncIterator[Listed]) -> Listed | None:
    return await anext(stream, None)


async def _partition(
    store: Store, query: Query, *, prefix: str, after: str | None
) -> AsyncIterator[Listed]:
    """Yield the counters of one partition, each with all its shards."""
    shards: list[Item] = []
    while True:
        page = await store.query(query)
        for item in page.items:
            counter = counter_in(item["sk"]["S"])
            if not counter.startswith(prefix) or not _is_behind(counter, after):
                continue
            if shards and counter_in(shards[0]["sk"]["S"]) != counter:
                yield listed_of(shards)
                shards = []
            shards.append(item)
        if page.after is None:
            break
        query = query.next(page)
    if shards:
        yield listed_of(shards)


def _is_behind(counter: str, after: str | None) -> bool:
    return after is None or counter.encode() > after.encode()

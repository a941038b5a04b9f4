"""The states of a watch's counters, as one region shows them."""

from collections.abc import AsyncIterator

from ledger.core.watches import WatchState, state_of, watch_partition
from ledger.store.port import Store
from ledger.store.reads import Query


async def states_of(store: Store, name: str) -> AsyncIterator[tuple[str, WatchState]]:
    """Yield the counters of a watch that ever crossed its bound, in order, page by page.

    Raises:
        DamagedItem: a state cannot be read.
        StoreError: DynamoDB could not do it.
    """
    query = Query(watch_partition(name))
    while True:
        page = await store.query(query)
        for item in page.items:
            yield item["sk"]["S"], state_of(item)
        if page.after is None:
            return
        query = query.next(page)

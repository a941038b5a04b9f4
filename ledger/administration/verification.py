"""Verification: what all regions show of collections, compared page by page.

::

    each collection    nets of all regions | items, merged by sort key | suspects again | nets again
    the whole table    a scan of home, then of the others for what home does not show

Writers and the compactor keep running. If a net changes while its collection is read, the
comparison starts again, and suspicious items are read a second time. At most a page of each region,
and a bounded number of suspects, are in memory.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from ledger.administration.collection_findings import (
    CollectionFinding,
    RegionComparison,
    have_changed,
)
from ledger.core import keys
from ledger.core.entry import Item, entry_id
from ledger.core.errors import DamagedItem
from ledger.core.values import NetChange
from ledger.reads.collection import read_net
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import run_all
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.store.reads import Get, Query, Scan

COLLECTIONS_AT_ONCE = 8
TRIES_MAX = 5
"""Comparisons of one collection whose nets change meanwhile."""
SUSPECTS_MAX = 100
"""Items of one collection that are named; the rest are only counted."""


@dataclass(slots=True)
class VerifyProgress:
    """How far a verification is, and what it has found."""

    collections: int = 0
    items: int = 0
    findings: int = 0
    damage: int = 0


OnFinding = Callable[[CollectionFinding], None]


@dataclass(slots=True)
class Verification:
    """One verification of a table whose stores of all regions are given, home first."""

    stores: Mapping[str, Store]
    settings: Settings
    clock: Clock
    on_finding: OnFinding
    progress: VerifyProgress = field(default_factory=VerifyProgress)

    async def counters(self, counters: Iterable[str]) -> None:
        """Compare these counters.

        Raises:
            StoreError: a region cannot be read.
        """
        await self._collections(
            keys.partition_key(counter, shard)
            for counter in counters
            for shard in range(self.settings.shards_max(counter))
        )

    async def whole(self) -> None:
        """Compare every collection that any region shows.

        Raises:
            StoreError: a region cannot be read.
        """
        home = self.stores[self.settings.home]
        for store in [home, *(other for other in self.stores.values() if other is not home)]:
            last = ""
            scan = Scan(attributes=("pk", "sk"))
            while True:
                page = await store.scan(scan)
                found = dict.fromkeys(item["pk"]["S"] for item in page.items)
                found.pop(last, None)
                last = next(reversed(found), last)
                mine = [name for name in found if keys.counter_of(name) is not None]
                if store is not home:
                    shown = [partial(_is_shown, home, name) for name in mine]
                    is_known = await run_all(shown, at_once=COLLECTIONS_AT_ONCE) if mine else []
                    mine = [name for name, known in zip(mine, is_known, strict=True) if not known]
                await self._collections(mine)
                if page.after is None:
                    break
                scan = scan.next(page)

    async def _collections(self, partitions: Iterable[str]) -> None:
        jobs = [partial(self._collection, partition) for partition in partitions]
        if jobs:
            await run_all(jobs, at_once=COLLECTIONS_AT_ONCE)

    async def _collection(self, partition: str) -> None:
        for _ in range(TRIES_MAX):
            found, is_still = await self._compared(partition)
            if is_still:
                break
        else:
            text = f"it changed during each of {TRIES_MAX} comparisons: verify it again"
            found = [CollectionFinding("busy", partition, tuple(self.stores), text)]
        self.progress.collections += 1
        for finding in found:
            self.progress.findings += 1
            self.progress.damage += finding.is_damage
            self.on_finding(finding)

    async def _compared(self, partition: str) -> tuple[list[CollectionFinding], bool]:
        """Compare a collection once; return what is wrong, and whether it stayed unchanged."""
        settled = self.clock.now() - timedelta(seconds=self.settings.settle)
        nets, is_whole = await self._nets(partition)
        comparison = RegionComparison(partition, nets, str(entry_id(settled, 0)), is_whole)
        suspects, more = list[str](), 0
        async for sort_key, shown in _merged(self.stores, partition):
            if comparison.take(sort_key, shown):
                suspects, more = _with(suspects, sort_key, more)
        self.progress.items += comparison.items
        found: list[CollectionFinding] = []
        is_still = True
        for sort_key in suspects:
            again = RegionComparison(partition, nets, comparison.settled, is_whole)
            wrong = again.take(sort_key, await self._shown(partition, sort_key))
            is_still = is_still and bool(wrong)
            found += wrong
        if more:
            text = f"{more:,} more items look wrong"
            found.append(CollectionFinding("damaged", partition, tuple(self.stores), text))
        found += comparison.end(self.settings.regions, self.settings.terms.generation)
        after, _ = await self._nets(partition)
        return found, is_still and not have_changed(nets, after)

    async def _nets(self, partition: str) -> tuple[dict[str, NetChange | None], bool]:
        """Return each region's net, and whether all of them could be read."""
        reads = [partial(_net, store, partition) for store in self.stores.values()]
        read = dict(zip(self.stores, await run_all(reads, at_once=len(reads)), strict=True))
        nets = {
            region: None if isinstance(net, DamagedItem) else net for region, net in read.items()
        }
        return nets, not any(isinstance(net, DamagedItem) for net in read.values())

    async def _shown(self, partition: str, sort_key: str) -> dict[str, Item | None]:
        get = Get((partition, sort_key))
        reads = [partial(store.get, get) for store in self.stores.values()]
        return dict(zip(self.stores, await run_all(reads, at_once=len(reads)), strict=True))


def _with(suspects: list[str], sort_key: str, more: int) -> tuple[list[str], int]:
    if len(suspects) < SUSPECTS_MAX:
        return [*suspects, sort_key], more
    return suspects, more + 1


async def _is_shown(store: Store, partition: str) -> bool:
    page = await store.query(Query(partition, limit=1, attributes=("sk",)))
    return bool(page.items)


async def _net(store: Store, partition: str) -> NetChange | DamagedItem | None:
    """Return a region's net, or why it cannot be read."""
    try:
        return await read_net(store, partition)
    except DamagedItem as error:
        return error


async def _merged(
    stores: Mapping[str, Store], partition: str
) -> AsyncIterator[tuple[str, dict[str, Item | None]]]:
    """Yield each sort key that any region shows, in order, with what each shows under it."""
    rows = {region: _rows(store, partition) for region, store in stores.items()}
    heads = {region: await anext(row, None) for region, row in rows.items()}
    while True:
        shown = [item["sk"]["S"] for item in heads.values() if item is not None]
        if not shown:
            return
        least = min(shown, key=str.encode)
        here = {
            region: item if item is not None and item["sk"]["S"] == least else None
            for region, item in heads.items()
        }
        yield least, here
        for region, item in here.items():
            if item is not None:
                heads[region] = await anext(rows[region], None)


async def _rows(store: Store, partition: str) -> AsyncIterator[Item]:
    query = Query(partition)
    while True:
        page = await store.query(query)
        for item in page.items:
            yield item
        if page.after is None:
            return
        query = query.next(page)

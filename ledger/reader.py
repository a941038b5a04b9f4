"""Reading: one ascending paginated Query per shard, folded into a total.

A read is wrong if an entry that it saw early is merged, deleted everywhere and dropped from the
net's `merged` before the net, which sorts last, is read::

    reader      page 1: entry e ..................... last page: net without e in `merged`
    compactor        net with e | hold | delete e | hold | net without e

Two holds lie between the two nets, so a read that takes less than one (`read_max` < `hold`) cannot
see both; a read that took longer starts again.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import partial

from ledger.clock import Clock
from ledger.core import amounts, keys
from ledger.core.entry import Key
from ledger.core.errors import ReadTooSlow
from ledger.core.fold import Collection
from ledger.metrics import Metrics
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.tasks import run_all

RESTARTS_MAX = 10
SHARDS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of a counter's changes, as one region showed it at one moment.

    It counts exactly the changes that had reached `region`, each once. `as_of` is when the read
    began. It rests on `entries` entries not merged yet, and on the net changes named in
    `versions` (one per shard that has one), which stand for `merged` entries. `cached` tells
    whether it was read by an earlier call.
    """

    counter: str
    value: Decimal
    as_of: datetime
    region: str
    entries: int
    merged: int = 0
    versions: tuple[str, ...] = ()
    cached: bool = False


class Reader:
    """Reads totals in one region."""

    def __init__(self, store: Store, *, settings: Settings, clock: Clock, metrics: Metrics) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._metrics = metrics

    async def total(self, counter: str) -> Total:
        """Read a counter's total now, from every shard.

        Raises:
            ReadTooSlow: no read of a shard finished within `read_max`.
            DamagedItem: an item cannot be counted.
            AmountOverflow: the sum does not fit in 38 digits.
        """
        as_of, started = self._clock.now(), self._clock.monotonic()
        reads = await self._shards(counter)
        self._metrics.read(
            self._store.region,
            pages=sum(read.pages for read in reads),
            restarts=sum(read.restarts for read in reads),
            seconds=self._clock.monotonic() - started,
        )
        nets = [read.collection.net for read in reads if read.collection.net is not None]
        left = [read.collection.unmerged() for read in reads]
        return Total(
            counter=counter,
            value=amounts.total([*(net.change for net in nets), *(one.change for one in left)]),
            as_of=as_of,
            region=self._store.region,
            entries=sum(one.entries for one in left),
            merged=sum(net.count for net in nets),
            versions=tuple(net.version for net in nets),
        )

    async def _shards(self, counter: str) -> list["CollectionRead"]:
        shards = self._settings.shards_max(counter)
        partitions = [keys.partition_key(counter, shard) for shard in range(shards)]
        return await run_all(
            [partial(self._read, partition) for partition in partitions], at_once=SHARDS_AT_ONCE
        )

    async def _read(self, partition: str) -> "CollectionRead":
        return await read_collection(
            self._store,
            partition,
            clock=self._clock,
            read_max=self._settings.read_max,
            consistent=self._settings.consistent_reads,
        )


@dataclass(frozen=True, slots=True)
class CollectionRead:
    """A whole collection read within `read_max`, and what it took."""

    collection: Collection
    pages: int
    restarts: int = 0


async def read_collection(
    store: Store, partition: str, *, clock: Clock, read_max: float, consistent: bool
) -> CollectionRead:
    """Read a whole collection, starting again when the pages took over `read_max` seconds.

    Raises:
        ReadTooSlow: every start took too long.
        DamagedItem: an item cannot be counted.
    """
    for restarts in range(RESTARTS_MAX + 1):
        read = await _read_once(store, partition, clock, read_max, consistent=consistent)
        if read is not None:
            return replace(read, restarts=restarts)
    raise ReadTooSlow(
        f"collection {partition!r} in {store.region}: {RESTARTS_MAX + 1} reads in a row took over"
        f" read_max, {read_max:g} s; merge it, or raise read_max and hold together"
    )


async def _read_once(
    store: Store, partition: str, clock: Clock, read_max: float, *, consistent: bool
) -> CollectionRead | None:
    """Read every page, None if that took too long."""
    started = clock.monotonic()
    collection, pages = Collection(), 0
    after: Key | None = None
    while True:
        page = await store.query(partition, consistent=consistent, after=after)
        pages += 1
        if clock.monotonic() - started > read_max:
            return None
        collection.add(page.items)
        after = page.after
        if after is None:
            return CollectionRead(collection, pages)

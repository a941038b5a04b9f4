"""Reading totals: the sum over every shard of a counter, each a collection of its own."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

from ledger.core import amounts, keys
from ledger.core.entry import entry_id
from ledger.core.errors import AmountOverflow
from ledger.runtime.clock import Clock
from ledger.runtime.metrics import Metrics
from ledger.runtime.tasks import run_all
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.totals.collection import Base, CollectionRead, read_collection

SHARDS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of a counter's changes, as one region showed it at one moment.

    It counts exactly the changes that had reached `region`, each once. `as_of` is when the read
    began. It comprises `entries` entries that are not merged yet, and the net changes named in
    `versions` (one per shard that has one), which stand for `merged` entries. `cached` is whether
    an earlier call read it.
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
        self._bases = Bases(settings.cache.counters_max)

    async def total(self, counter: str) -> Total:
        """Return a counter's total, read now from every shard.

        Raises:
            ReadTooSlow: no read of a shard finished within `read_deadline`.
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
        changes = [*(net.change for net in nets), *(collection.change for collection in left)]
        return Total(
            counter=counter,
            value=_value(counter, changes),
            as_of=as_of,
            region=self._store.region,
            entries=sum(collection.entries for collection in left),
            merged=sum(net.count for net in nets),
            versions=tuple(net.version for net in nets),
        )

    async def _shards(self, counter: str) -> list[CollectionRead]:
        shards = self._settings.shards_max(counter)
        partitions = [keys.partition_key(counter, shard) for shard in range(shards)]
        return await run_all(
            [partial(self._shard, partition) for partition in partitions], at_once=SHARDS_AT_ONCE
        )

    async def _shard(self, partition: str) -> CollectionRead:
        settings = self._settings
        read = partial(
            read_collection,
            self._store,
            partition,
            clock=self._clock,
            read_deadline=settings.read_deadline,
            consistent=settings.consistent_reads,
            keys_max=settings.read_keys_max,
        )
        if not settings.cache.incremental:
            return await read()
        found = await read(base=self._bases.get(partition), border=self._border())
        self._bases.keep(partition, found.base)
        return found

    def _border(self) -> str:
        """Return the sort key below which no new entry can appear in this region."""
        settled = self._clock.now() - timedelta(seconds=self._settings.settle)
        return str(entry_id(settled, 0))


def _value(counter: str, changes: Iterable[Decimal]) -> Decimal:
    try:
        return amounts.total(changes)
    except AmountOverflow as error:
        raise AmountOverflow(f"total of {counter!r}: {error}") from None


class Bases:
    """Where later reads can continue, by partition; the least recently used are evicted first."""

    def __init__(self, partitions_max: int) -> None:
        self._partitions_max = partitions_max
        self._bases: OrderedDict[str, Base] = OrderedDict()

    def get(self, partition: str) -> Base | None:
        """Return the base of a collection, None if there is none."""
        return self._bases.get(partition)

    def keep(self, partition: str, base: Base | None) -> None:
        """Replace the base of a collection by that of the latest read."""
        if base is None:
            self._bases.pop(partition, None)
            return
        self._bases[partition] = base
        self._bases.move_to_end(partition)
        while len(self._bases) > self._partitions_max:
            self._bases.popitem(last=False)

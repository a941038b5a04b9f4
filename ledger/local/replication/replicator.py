"""The replicator: stamps what is committed, and carries it over the links to the other regions."""

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Sequence

from ledger.local.engines.port import Change, Engine, Image, TableKey
from ledger.local.replication.links import Link
from ledger.local.replication.stamps import Shipment, Versions, newest_per_item

TOMBSTONES_MAX = 100_000
"""Above this many, tombstones are dropped the next time that nothing is on its way."""

Members = Callable[[str, str], Iterable[str]]
"""Returns the regions that hold replicas of a region's table, by region and name."""


class Replicator:
    """Asynchronous replication between the regions of one local global table.

    A caller that commits or applies in a region holds that region's lock, so the order of stamps
    is the order of commits.
    """

    def __init__(
        self,
        regions: Sequence[str],
        engine: Engine,
        *,
        members: Members,
        key_of: Callable[[str, str], TableKey],
        lag: float,
        jitter: float,
        seed: int,
    ) -> None:
        self.locks = {region: asyncio.Lock() for region in regions}
        self.lag = lag
        self.jitter = jitter
        self.applied = 0
        self.dropped = 0
        self._engine = engine
        self._members = members
        self._key_of = key_of
        self._random = random.Random(seed)  # noqa: S311 (delays, not secrets)
        self._versions = Versions()
        self._links = {
            (source, target): Link(source, target, deliver=self._arrive, delay=self._delay)
            for source in regions
            for target in regions
            if source != target
        }
        # One clock for all regions that never goes back, near to the time of day.
        self._clock_base = time.time_ns() - time.monotonic_ns()

    def _delay(self) -> float:
        return self.lag + self._random.uniform(0, self.jitter)

    async def run(self) -> None:
        """Carry changes over every link until cancelled."""
        async with asyncio.TaskGroup() as group:
            for link in self._links.values():
                group.create_task(link.run())

    def committed(self, region: str, changes: Iterable[Change]) -> None:
        """Stamp what was committed in `region` and send it to the other replicas, each item alone.

        The caller has held the region's lock since before the commit.
        """
        now = self._clock_base + time.monotonic_ns()
        for change in changes:
            token = self._key_of(region, change.table).token(change.key)
            shipment = self._versions.commit(region, change, token, now_nanoseconds=now)
            for target in self._members(region, change.table):
                if target != region:
                    self._links[region, target].push(shipment)

    async def _arrive(self, source: str, region: str, shipments: Sequence[Shipment]) -> None:
        async with self.locks[region]:
            here = [
                item for item in shipments if source in self._members(region, item.change.table)
            ]
            newer = [item for item in here if self._versions.accept(region, item)]
            await self._engine.apply(region, [item.change for item in newest_per_item(newer)])
        self.applied += len(newer)
        self.dropped += len(shipments) - len(newer)
        if self._versions.tombstones > TOMBSTONES_MAX and self._nothing_under_way():
            self._versions.forget_tombstones()

    def _nothing_under_way(self) -> bool:
        # The link that asks is delivering its last items, which are applied already.
        return not any(link.waiting for link in self._links.values())

    async def fill(self, region: str, table: str, sources: Iterable[str]) -> None:
        """Send a new replica everything that the others hold or know to be deleted.

        Every source is asked, not only one: what one region has written may still be on its way
        to the others, and would otherwise never reach the new replica.
        """
        for source in sources:
            async with self.locks[source]:
                key = self._key_of(source, table)
                for change in await self._engine.dump(source, table):
                    token = key.token(change.key)
                    stamp = self._versions.stamp(source, table, token)
                    self._links[source, region].push(Shipment(change, token, stamp))
                for token, stamp in self._versions.deleted(source, table):
                    gone = Change(table, key.rebuild(token), None)
                    self._links[source, region].push(Shipment(gone, token, stamp))

    async def place(self, table: str, image: Image, regions: Sequence[str]) -> None:
        """Put an item into these replicas at once, as if it had been written and had arrived."""
        first = regions[0]
        key = self._key_of(first, table)
        change = Change(table, key.of(image), image)
        now = self._clock_base + time.monotonic_ns()
        async with self.locks[first]:
            shipment = self._versions.commit(first, change, key.token(image), now_nanoseconds=now)
            await self._engine.apply(first, [change])
        for region in regions[1:]:
            async with self.locks[region]:
                if self._versions.accept(region, shipment):
                    await self._engine.apply(region, [change])

    def forget(self, region: str, table: str) -> None:
        """Forget a replica that is gone."""
        self._versions.forget(region, table)

    def link(self, source: str, target: str) -> Link:
        """Return the link of an ordered pair of regions."""
        return self._links[source, target]

    @property
    def links(self) -> Sequence[Link]:
        """All links."""
        return list(self._links.values())

    async def wait_replicated(self) -> None:
        """Wait until nothing is on its way on any link; paused links hold what they have."""
        while not all(link.idle for link in self.links):
            for link in self.links:
                await link.until_idle()

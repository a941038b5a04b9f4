"""The replicator: stamps committed writes, and carries them over the links to other regions."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol, Self

from ledger.local.engines.port import ApiError, Engine, Image, ItemChange, KeyToken, TableKey
from ledger.local.replication.journal import Journal
from ledger.local.replication.links import Link, LinkHold
from ledger.local.replication.stamps import Shipment, Versions

_LOG = logging.getLogger(__name__)

TOMBSTONES_MAX = 100_000
"""Above this many, tombstones are dropped the next time that nothing is on its way."""


class Tables(Protocol):
    """Which tables there are, by region and name."""

    def replicas(self, region: str, name: str) -> Iterable[str]:
        """Return the regions that hold replicas of a region's table, itself among them."""

    def key(self, region: str, name: str) -> TableKey:
        """Return the key schema of a table."""

    def group(self, region: str, name: str) -> int | None:
        """Return the number of the global table that a table belongs to; None if it is gone."""


class ChangeRecorder(Protocol):
    """Is notified of everything that a region applies, in its order."""

    def changed(self, region: str, change: ItemChange, *, is_new: bool) -> None:
        """Take in a change of an item, which was there before or not."""

    def forgot(self, region: str, table: str) -> None:
        """Forget a table that is gone, or is filled again."""


class NoRecorder:
    """Keeps nothing."""

    def changed(self, region: str, change: ItemChange, *, is_new: bool) -> None:
        """Keep nothing."""

    def forgot(self, region: str, table: str) -> None:
        """Keep nothing."""


@dataclass(frozen=True, slots=True)
class Refilled:
    """The items that a region got back, and all that it knows of: deleted, or on their way, too."""

    present: frozenset[KeyToken]
    known: frozenset[KeyToken]


@dataclass(slots=True)
class LinkDelays:
    """How long a change is on its way: `lag` and up to `jitter` seconds more, drawn for each."""

    lag: float
    jitter: float
    randomness: Random

    @classmethod
    def seeded(cls, lag: float, jitter: float, seed: int) -> Self:
        """Return delays that are drawn from a seed."""
        return cls(lag, jitter, Random(seed))  # noqa: S311 (delays, not secrets)

    def draw(self) -> float:
        """Return the seconds of the next change."""
        return self.lag + self.randomness.uniform(0, self.jitter)


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
        tables: Tables,
        delays: LinkDelays,
        tombstones_max: int = TOMBSTONES_MAX,
        journal: Journal | None = None,
        recorder: ChangeRecorder | None = None,
    ) -> None:
        self._recorder: ChangeRecorder = recorder or NoRecorder()
        self.journal = journal or Journal()
        self.locks = {region: asyncio.Lock() for region in regions}
        self.delays = delays
        self.applied = 0
        self.dropped = 0
        self._engine = engine
        self._tables = tables
        self._tombstones_max = tombstones_max
        self._versions = Versions()
        self._links = {
            (source, target): Link(
                source, target, deliver=self._arrive, delay=self.delays.draw, rested=self._prune
            )
            for source in regions
            for target in regions
            if source != target
        }
        # One clock for all regions that never goes back, near to the time of day.
        self._clock_base = time.time_ns() - time.monotonic_ns()

    async def run(self) -> None:
        """Carry changes over every link until cancelled."""
        async with asyncio.TaskGroup() as group:
            for link in self._links.values():
                group.create_task(link.run())

    def committed(
        self,
        region: str,
        changes: Iterable[ItemChange],
        *,
        keep_too: Callable[[], None] = lambda: None,
    ) -> None:
        """Stamp what was committed in `region` and send it to the other replicas, item by item.

        The caller has held the region's lock since before the commit; what it wants to keep on
        disk with the changes, or not at all, it keeps in `keep_too`.

        Raises:
            ApiError: it could not be kept on disk; it is there and replicates all the same.
        """
        shipments = [self._stamped(region, change) for change in changes]
        try:
            with self.journal.together():
                keep_too()
                self.journal.keep(region, shipments)
        finally:
            for shipment in shipments:
                self._send(region, shipment)
        self._prune()

    def _send(self, source: str, shipment: Shipment) -> None:
        for target in self._tables.replicas(source, shipment.change.table):
            if target != source:
                self._links[source, target].push(shipment)

    def _stamped(self, region: str, change: ItemChange) -> Shipment:
        token = self._tables.key(region, change.table).token(change.key)
        is_new = not self._versions.has(region, change.table, token)
        self._recorder.changed(region, change, is_new=is_new)
        return self._versions.commit(
            region,
            change,
            token,
            group=self._group(region, change.table),
            now_nanoseconds=self._clock_base + time.monotonic_ns(),
        )

    def _group(self, region: str, table: str) -> int:
        group = self._tables.group(region, table)
        assert group is not None, "the caller holds the lock of a region with this table"  # noqa: S101 (narrowing)
        return group

    async def _arrive(self, source: str, region: str, shipments: Sequence[Shipment]) -> None:
        async with self.locks[region]:
            here = [item for item in shipments if self._is_between(source, region, item)]
            written = await self._write(region, here)
        self.applied += written
        self.dropped += len(shipments) - written

    def _is_between(self, source: str, region: str, shipment: Shipment) -> bool:
        """Return whether both regions still have the table that a change was made in."""
        groups = (self._tables.group(name, shipment.change.table) for name in (source, region))
        return all(group == shipment.group for group in groups)

    async def _write(self, region: str, shipments: Iterable[Shipment]) -> int:
        """Write what is newer than what `region` has, and return how many items that were.

        A stamp is held only once the engine has the item, so that after an error all of it may
        be written again. The caller holds the region's lock.
        """
        newest = self._versions.newest(region, shipments)
        await self._engine.apply(region, [item.change for item in newest])
        self.journal.keep(region, newest)
        for item in newest:
            is_new = not self._versions.has(region, item.change.table, item.token)
            self._recorder.changed(region, item.change, is_new=is_new)
            self._versions.hold(region, item)
        return len(newest)

    def _prune(self) -> None:
        """Forget tombstones if they are many and nothing can arrive that they have to refuse."""
        is_at_rest = all(link.idle for link in self._links.values())
        if self._versions.tombstones > self._tombstones_max and is_at_rest:
            try:
                self.journal.forget_tombstones()
            except (
                ApiError
            ) as error:  # no reason to refuse a write, or to stop: the next try is near
                _LOG.warning("tombstones are kept: %s", error)
            else:
                self._versions.forget_tombstones()

    async def fill(self, region: str, table: str, sources: Iterable[str]) -> None:
        """Send a new replica everything that the others hold or know to be deleted.

        Every source is asked, not only one: what one region has written may still be on its way
        to the others, and would otherwise never reach the new replica.
        """
        for source in sources:
            for shipment in await self._content(source, table):
                self._links[source, region].push(shipment)

    async def _content(self, region: str, table: str) -> list[Shipment]:
        """Return everything that a region holds of a table or knows to be deleted."""
        async with self.locks[region]:
            key = self._tables.key(region, table)
            group = self._group(region, table)
            content = []
            for change in await self._engine.dump(region, table):
                token = key.token(change.key)
                stamp = self._versions.stamp(region, table, token)
                content.append(Shipment(change, token, stamp, group))
            for token, stamp in self._versions.deleted(region, table):
                gone = ItemChange(table, key.rebuild(token), None)
                content.append(Shipment(gone, token, stamp, group))
            return content

    async def refill(self, region: str, table: str, sources: Iterable[str]) -> Refilled:
        """Make a table again whose items are gone in one region, and fill it from `sources`.

        What can reach it comes at once, and so does what it has sent itself and is still on its
        way; what cannot reach it now comes over its link once that is released.
        """
        async with self.locks[region]:
            self._versions.forget(region, table)
            await self._engine.create(region, table, self._tables.key(region, table))
            await self._write(region, self._kept(region, table))
            await self._write(region, self._sent(region, table))
            self._recorder.forgot(region, table)
        coming = set[KeyToken]()
        for source in sources:
            link = self._links[source, region]
            content = await self._content(source, table)
            if link.holds & {LinkHold.PAUSED, LinkHold.OUTAGE}:
                coming |= {item.token for item in content}
                for item in content:
                    link.push(item)
            else:
                async with self.locks[region]:
                    await self._write(region, content)
        known = self._versions.known(region, table) | coming
        return Refilled(self.present(region, table), known)

    def _kept(self, region: str, table: str) -> list[Shipment]:
        """Return the stored items of a region's table."""
        key, group = self._tables.key(region, table), self._group(region, table)
        found = []
        for kept in self.journal.items(region, table):
            own = self._engine.held(kept.key)
            image = None if kept.image is None else self._engine.held(kept.image)
            change = ItemChange(table, own, image)
            found.append(Shipment(change, key.token(own), kept.stamp, group))
        return found

    async def restore(self, region: str, table: str) -> None:
        """Fill an empty table of a region with its stored items."""
        kept = self._kept(region, table)
        await self._engine.apply(region, [it.change for it in kept if it.change.image is not None])
        for item in kept:
            self._versions.hold(region, item)

    def resend(self, table: str, regions: Sequence[str]) -> None:
        """Send the replicas of one table what others have of it and they have not, or older.

        Where an item was written last sends it, or else any region that has that version.
        """
        newest: dict[KeyToken, tuple[str, Shipment]] = {}
        for region in regions:
            for item in self._kept(region, table):
                known = newest.get(item.token)
                rank = (item.stamp, item.stamp.region == region)
                if known is None or rank > (known[1].stamp, known[1].stamp.region == known[0]):
                    newest[item.token] = (region, item)
        for source, item in newest.values():
            for target in regions:
                if self._versions.stamp(target, table, item.token) < item.stamp:
                    self._links[source, target].push(item)

    def _sent(self, region: str, table: str) -> list[Shipment]:
        """Return what a region has sent of its present table and is still in flight."""
        group = self._group(region, table)
        return [
            shipment
            for link in self._links.values()
            if link.source == region
            for shipment in link.shipments
            if shipment.change.table == table and shipment.group == group
        ]

    def present(self, region: str, table: str) -> frozenset[KeyToken]:
        """Return the items of a table that were written since the start and not deleted."""
        return self._versions.present(region, table)

    async def place(self, table: str, image: Image, regions: Sequence[str]) -> None:
        """Put an item into these replicas at once, as if it had been written and had arrived."""
        first = regions[0]
        change = ItemChange(table, self._tables.key(first, table).of(image), image)
        async with self.locks[first]:
            await self._engine.apply(first, [change])
            shipment = self._stamped(first, change)
            self.journal.keep(first, [shipment])
        for region in regions[1:]:
            async with self.locks[region]:
                await self._write(region, [shipment])

    def clear(self) -> None:
        """Drop everything that is on its way."""
        for link in self._links.values():
            link.clear()

    def forget(self, region: str, table: str) -> None:
        """Forget a replica that is gone."""
        self._versions.forget(region, table)
        self._recorder.forgot(region, table)

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

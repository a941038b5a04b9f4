"""Regions of a global table in memory: per item, asynchronous, any order, last writer wins.

A write through a region's store is applied there and queued towards every other region under a
stamp; it arrives only when the test says, in any order. Transactions replicate item by item. A
deleted item leaves its stamp behind (a tombstone), so that an older write arriving late stays out.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ledger.core.entry import Item, Key
from ledger.core.fold import Collection, collect
from ledger.store.memory import MemoryStore
from ledger.store.port import Action, Applied, Check, Outcome, Page

HOME, WEST, SOUTH = "us-east-1", "eu-west-1", "ap-southeast-2"

# Of so many draws the newest change is taken: now and then an old one is late by a long time.
DRAWS = 3
Link = tuple[str, str]
Watcher = Callable[[str, Key, Item | None], None]


@dataclass(frozen=True, slots=True)
class Change:
    """A write on its way: the whole new item, or None for a delete."""

    key: Key
    item: Item | None
    stamp: int


async def nothing() -> None:
    """Do nothing between two requests."""


class Regions:
    """The tables of some regions and everything under way between them.

    `watchers` are told of every item that reaches a region, written there or replicated, even if
    a newer one is there already. `between` runs before every read of a page, so that a test can
    let anything happen in the midst of an observation.
    """

    def __init__(
        self,
        names: Sequence[str] = (HOME, WEST, SOUTH),
        *,
        randomness: random.Random | None = None,
        page_items_max: int = 1000,
    ) -> None:
        self.random = randomness or random.Random(0)  # noqa: S311 (repeatable)
        self.stores = {
            name: ReplicatingStore(name, self, page_items_max=page_items_max) for name in names
        }
        self.links: dict[Link, list[Change]] = {
            (source, target): [] for source in names for target in names if source != target
        }
        self.paused: set[Link] = set()
        self.watchers: list[Watcher] = []
        self.between: Callable[[], Awaitable[None]] = nothing
        self._clock = 0
        self._stamps: dict[tuple[str, Key], int] = {}

    def written(self, region: str, key: Key, item: Item | None) -> None:
        """Queue a local write towards every other region."""
        self._clock += 1
        self._stamps[region, key] = self._clock
        for (source, _), queue in self.links.items():
            if source == region:
                queue.append(Change(key, item, self._clock))
        self._tell(region, key, item)

    def pause(self, source: str, target: str) -> None:
        """Hold back what goes from one region to another."""
        self.paused.add((source, target))

    def isolate(self, region: str) -> None:
        """Hold back what goes to and from a region."""
        self.paused |= {link for link in self.links if region in link}

    def heal(self) -> None:
        """Let every link deliver again."""
        self.paused.clear()

    def deliver_only(self, wanted: Callable[[Link, Key], bool]) -> None:
        """Deliver what a test picks by link and key, paused or not, in the order of writing."""
        for link, queue in self.links.items():
            for change in [one for one in queue if wanted(link, one.key)]:
                queue.remove(change)
                self._arrive(link[1], change)

    def deliver(self, most: int | None = None) -> int:
        """Deliver up to `most` changes (None: all) over open links in random order; tells how many.

        Some of them: which link and which of its changes comes next is drawn each time.
        """
        delivered = 0
        while most is None or delivered < most:
            open_links = [link for link, queue in self.links.items() if queue and self._open(link)]
            if not open_links:
                break
            link = self.random.choice(open_links)
            queue = self.links[link]
            place = max(self.random.randrange(len(queue)) for _ in range(DRAWS))
            self._arrive(link[1], queue.pop(place))
            delivered += 1
        return delivered

    @property
    def under_way(self) -> int:
        """How many changes have not arrived yet."""
        return sum(len(queue) for queue in self.links.values())

    def collection(self, region: str, partition: str) -> Collection:
        """Return a collection as one region shows it at this moment."""
        return collect(self.stores[region].table.partitions.get(partition, {}).values())

    def _open(self, link: Link) -> bool:
        return link not in self.paused

    def _arrive(self, region: str, change: Change) -> None:
        if change.stamp > self._stamps.get((region, change.key), 0):
            self._stamps[region, change.key] = change.stamp
            self.stores[region].table.set(change.key, change.item)
        self._tell(region, change.key, change.item)

    def _tell(self, region: str, key: Key, item: Item | None) -> None:
        for watcher in self.watchers:
            watcher(region, key, item)


class ReplicatingStore(MemoryStore):
    """One region's table, whose applied writes are queued towards the others."""

    def __init__(self, region: str, regions: Regions, *, page_items_max: int) -> None:
        super().__init__(region, page_items_max=page_items_max)
        self._regions = regions

    async def query(
        self,
        partition: str,
        *,
        consistent: bool = True,
        after: Key | None = None,
        first: str | None = None,
        last: str | None = None,
        attributes: Sequence[str] = (),
        limit: int | None = None,
        descending: bool = False,
    ) -> Page:
        """Read one page, after whatever happens in between."""
        await self._regions.between()
        return await super().query(
            partition,
            consistent=consistent,
            after=after,
            first=first,
            last=last,
            attributes=attributes,
            limit=limit,
            descending=descending,
        )

    def _apply(self, actions: Sequence[Action]) -> Outcome:
        outcome = super()._apply(actions)
        if isinstance(outcome, Applied):
            for action in actions:
                if not isinstance(action, Check):
                    key = action.key
                    self._regions.written(self.region, key, self.table.get(key))
        return outcome

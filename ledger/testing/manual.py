"""Replicas without delays or faults of their own: the caller delivers what has been written.

For tests that choose the order of events themselves. Links can be paused; what is delivered, and in
which order, is up to the caller or drawn at random.
"""

from collections.abc import Awaitable, Callable, Sequence
from random import Random

from ledger.core.entry import Item, Key
from ledger.feed.memory import MemoryStream
from ledger.runtime.clock import Clock
from ledger.store.reads import Page, Query
from ledger.testing.replicas import Link, Replica, Replicas, Stamp, Transit

DRAWS = 3
"""One in this many draws delivers the newest item, so that now and then an old one is very late."""


async def nothing() -> None:
    """Do nothing before a page is read."""


class ManualWorld(Replicas):
    """Replicas of some regions, and queues of the items in flight between them.

    `before_page` is awaited before every page of a Query, so that a test can let anything happen in
    the middle of a read. Without a `clock` no time passes. What a region applies is in its stream,
    if it has one in `streams`.
    """

    def __init__(
        self,
        regions: Sequence[str],
        *,
        randomness: Random,
        page_items_max: int = 1000,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(regions, page_items_max=page_items_max, clock=clock)
        self.random = randomness
        self.links: dict[Link, list[Transit]] = {
            (source, target): [] for source in regions for target in regions if source != target
        }
        self.paused: set[Link] = set()
        self.before_page: Callable[[], Awaitable[None]] = nothing
        self.streams: dict[str, MemoryStream] = {}
        self._clock = clock
        self._writes = 0

    def _replica(self, region: str, *, page_items_max: int, clock: Clock | None) -> Replica:
        return ManualReplica(region, self, page_items_max=page_items_max, clock=clock)

    def time(self) -> float:
        """Return the monotonic seconds of the clock."""
        return 0.0 if self._clock is None else self._clock.monotonic()

    def pause(self, source: str, target: str) -> None:
        """Hold back everything that one region sends to another."""
        self.paused.add((source, target))

    def isolate(self, region: str) -> None:
        """Hold back everything sent to and from a region."""
        self.paused |= {link for link in self.links if region in link}

    def heal(self) -> None:
        """Resume every link."""
        self.paused.clear()

    def deliver(self, most: int | None = None) -> int:
        """Deliver up to `most` items (None: all) over open links, in random order; return how many.

        Each time the link is drawn, and which of its items comes next.
        """
        delivered = 0
        while most is None or delivered < most:
            links = [link for link, sent in self.links.items() if sent and link not in self.paused]
            if not links:
                break
            queue = self.links[self.random.choice(links)]
            place = max(self.random.randrange(len(queue)) for _ in range(DRAWS))
            self._arrive(queue.pop(place))
            delivered += 1
        return delivered

    def deliver_only(self, is_wanted: Callable[[Link, Key], bool]) -> None:
        """Deliver the items chosen by link and key, paused or not, in the order of writing."""
        for link, queue in self.links.items():
            for transit in [waiting for waiting in queue if is_wanted(link, waiting.key)]:
                queue.remove(transit)
                self._arrive(transit)

    def _applied(self, region: str, key: Key, before: Item | None, item: Item | None) -> None:
        stream = self.streams.get(region)
        if stream is not None:
            stream.changed(key, before, item)

    def _stamp(self, region: str, last: Stamp) -> Stamp:
        del last
        self._writes += 1
        return float(self._writes), region

    def _send(self, transit: Transit) -> None:
        self.links[transit.link].append(transit)


class ManualReplica(Replica):
    """One region's table, with a hook before each page of a Query."""

    _world: ManualWorld

    async def query(self, query: Query) -> Page:
        """Read one page, after whatever happens before it."""
        await self._world.before_page()
        return await super().query(query)

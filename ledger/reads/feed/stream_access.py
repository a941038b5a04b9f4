"""A stream that the readers of one process share: what one has read, the others take from memory.

DynamoDB asks that no more than two read a shard at a time, so a process with many followers reads
as one. Records do not change, so a page that had some is kept while there is room. A page that had
none holds for `POLL_SECONDS`. The oldest records are read anew: they pass out of the stream, and a
feed that began with a page that was kept would find the records after it gone.

The feed of an open ledger: its stream, opened when it is first read.
"""

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import anyio

from ledger.core.errors import LedgerError
from ledger.reads.feed.port import OLDEST, Arrival, ShardListing, ShardRead, Stream
from ledger.reads.feed.reader import POLL_SECONDS, Feed
from ledger.runtime.clock import Clock
from ledger.settings.live import LiveSettings

LISTING_SECONDS = 10.0
"""How long a listing of the shards holds."""
KEPT_MAX = 20_000
"""Items kept; some 20 MB."""
PAGES_MAX = 1_000


@dataclass(frozen=True, slots=True)
class _Page:
    """What was read of a shard after a number, and when."""

    after: int
    read: ShardRead
    at: float

    def holds(self, after: int, now: float) -> bool:
        if self.read.upto is None and not self.read.is_closed:
            return after == self.after and now < self.at + POLL_SECONDS
        if after == OLDEST:
            return False
        return self.after <= after and (after < (self.read.upto or 0) or after == self.after)

    def rest(self, after: int) -> ShardRead:
        arrivals: Sequence[Arrival] = self.read.arrivals
        if after != self.after:
            arrivals = [arrival for arrival in arrivals if arrival.number > after]
        return ShardRead(arrivals, self.read.upto, self.read.is_closed)


class SharedStream:
    """A stream behind a memory of what was read of it."""

    def __init__(self, behind: Stream, clock: Clock) -> None:
        self._behind = behind
        self._clock = clock
        self._listing: tuple[float, ShardListing] | None = None
        self._pages: OrderedDict[tuple[str, int], _Page] = OrderedDict()
        self._kept = 0
        self._locks: dict[str, anyio.Lock] = {}

    async def listing(self, *, is_fresh: bool = False) -> ShardListing:
        """Return the shards, as they were some seconds ago unless it is to be fresh."""
        now = self._clock.monotonic()
        if is_fresh or self._listing is None or now - self._listing[0] >= LISTING_SECONDS:
            found = await self._behind.listing(is_fresh=is_fresh)
            listed = {shard.id for shard in found.shards}
            self._locks = {name: lock for name, lock in self._locks.items() if name in listed}
            self._listing = (now, found)
        return self._listing[1]

    async def read(self, shard: str, after: int) -> ShardRead:
        """Return records of a shard, from memory if they were read before."""
        async with self._locks.setdefault(shard, anyio.Lock()):
            page = self._known(shard, after)
            if page is None:
                read = await self._behind.read(shard, after)
                page = _Page(after, read, self._clock.monotonic())
                self._keep(shard, page)
            return page.rest(after)

    def _known(self, shard: str, after: int) -> _Page | None:
        now = self._clock.monotonic()
        exact = self._pages.get((shard, after))
        if exact is not None and exact.holds(after, now):
            return exact
        others = (page for (name, _), page in self._pages.items() if name == shard)
        return next((page for page in others if page.holds(after, now)), None)

    def _keep(self, shard: str, page: _Page) -> None:
        before = self._pages.pop((shard, page.after), None)
        self._kept += len(page.read.arrivals) - (len(before.read.arrivals) if before else 0)
        self._pages[shard, page.after] = page
        while len(self._pages) > PAGES_MAX or (self._kept > KEPT_MAX and len(self._pages) > 1):
            _, dropped = self._pages.popitem(last=False)
            self._kept -= len(dropped.read.arrivals)


class FeedAccess:
    """Opens the stream of a region once, if it may; `given` stands in place of DynamoDB's."""

    def __init__(
        self,
        live: LiveSettings,
        *,
        region: str,
        clock: Clock,
        given: Stream | None,
        may_open: bool,
    ) -> None:
        self._live = live
        self._region = region
        self._clock = clock
        self._given = given
        self._may_open = may_open
        self._stack = AsyncExitStack()
        self._lock = anyio.Lock()
        self._feed: Feed | None = None

    async def feed(self) -> Feed:
        """Return the feed of the region.

        Raises:
            LedgerError: the ledger was given a store, and no stream of it.
            StoreError: no client can be made for it.
        """
        async with self._lock:
            if self._feed is None:
                stream = self._given or SharedStream(await self._opened(), self._clock)
                self._feed = Feed(stream, clock=self._clock)
            return self._feed

    async def _opened(self) -> Stream:
        if not self._may_open:
            raise LedgerError("this ledger was given a store without a stream: it has no feed")
        # Imported only here: few processes read the feed.
        from ledger.reads.feed.dynamodb import open_stream  # noqa: PLC0415

        opening = open_stream(self._live.current, self._region)
        return await self._stack.enter_async_context(opening)

    async def close(self) -> None:
        """Close what is open."""
        self._feed = None
        await self._stack.aclose()

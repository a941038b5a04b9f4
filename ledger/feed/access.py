"""The feed of an open ledger: its stream, opened when it is first read."""

from contextlib import AsyncExitStack

import anyio

from ledger.core.errors import LedgerError
from ledger.feed.port import Stream
from ledger.feed.reading import Feed
from ledger.feed.shared import SharedStream
from ledger.runtime.clock import Clock
from ledger.settings.live import LiveSettings


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
        from ledger.feed.dynamodb import open_stream  # noqa: PLC0415

        opening = open_stream(self._live.current, self._region)
        return await self._stack.enter_async_context(opening)

    async def close(self) -> None:
        """Close what is open."""
        self._feed = None
        await self._stack.aclose()

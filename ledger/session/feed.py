"""`SessionFeed`: the half of a `Ledger` that follows entries of many counters as they arrive."""

from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from functools import partial

from ledger.core import keys
from ledger.core.errors import InvalidInput
from ledger.reads.feed.page import FeedPage, checked_limit
from ledger.reads.feed.reader import QUIET_SECONDS, wait_for_page
from ledger.reads.feed.selection import FeedSelection
from ledger.session.arguments import check_counters
from ledger.session.call_guard import CallGuard


class SessionFeed(CallGuard):
    """The calls that read the feed of the region."""

    async def feed_page(
        self,
        prefix: str = "",
        *,
        counters: Iterable[str] | None = None,
        after: str | None = None,
        since: datetime | None = None,
        limit: int = 100,
        timeout: float | None = None,
    ) -> FeedPage:
        """Return entries that reached this region after a cursor, in order, without waiting.

        Restricted to the counters that begin with `prefix`, or to `counters`; up to `limit`
        entries, 1 to 1,000, and fewer once they have a megabyte as JSON. Entries that share an item
        (`ID.000`, `ID.001`, ...) come in one page: it may exceed both by the rest of its last item,
        999 entries at most. `after` is the `cursor` of the previous page, which was asked for with
        the same `prefix` and `counters`; one of other entries is refused. Without it the feed
        begins with what arrived `since` an aware time, or with the oldest entry in the stream, at
        most a day old.

        Each entry that reaches the region, even late, from another region, or merged and deleted
        since, is in exactly one page of a chain of pages linked by their cursors; asking again
        after the same cursor returns the same entries. Entries of one shard of a counter come in
        order of arrival, not of their ids; between shards there is no order. An entry whose key was
        used for two changes in two regions comes again, under its id, with the change that is kept.
        What pipelines add to totals is not an entry.

        Raises:
            InvalidInput, InvalidCounter: an argument breaks a rule, or `after` is of other entries.
            FeedBehind: what follows the cursor may have left the stream (after 23 hours), or the
                cursor is another region's: entries are never skipped silently.
            ReadTooSlow: `timeout`, in seconds, ended.
            StoreError: the table's stream cannot be read.
        """
        wanted = wanted_of(prefix, counters)
        call = self._page(wanted, after, since, checked_limit(limit))
        if timeout is not None:
            return await self._in_time(timeout, call)
        return await call

    async def feed(
        self,
        prefix: str = "",
        *,
        counters: Iterable[str] | None = None,
        after: str | None = None,
        since: datetime | None = None,
        limit: int = 100,
        timeout: float | None = None,
    ) -> AsyncIterator[FeedPage]:
        """Yield the pages of the feed as entries arrive, until the loop is left; polls each second.

        Store `page.cursor` once its entries are processed, and resume `after` it. A consumer that
        commits its effect and the cursor together processes each entry exactly once, any other at
        least once. A page without entries comes at least once a minute, because a cursor is valid
        for 23 hours. `timeout` bounds each poll, in seconds.

        Raises:
            As `feed_page`.
        """
        asked = None if counters is None else check_counters(counters)
        while True:
            first = since if after is None else None
            page = partial(self._next, prefix, asked, first, limit, timeout)
            clock = self._services.clock
            found = await wait_for_page(
                page, after, seconds=QUIET_SECONDS, pause=clock.sleep, time=clock.monotonic
            )
            yield found
            after = found.cursor

    async def _next(
        self,
        prefix: str,
        counters: list[str] | None,
        since: datetime | None,
        limit: int,
        timeout: float | None,
        after: str | None,
    ) -> FeedPage:
        begins = since if after is None else None
        return await self.feed_page(
            prefix, counters=counters, after=after, since=begins, limit=limit, timeout=timeout
        )

    async def _page(
        self, wanted: FeedSelection, after: str | None, since: datetime | None, limit: int
    ) -> FeedPage:
        parts = self._open_parts
        await self._renew_to_read()
        feed = await self._counted(parts.feed.feed())
        return await self._counted(feed.page(wanted, after=after, since=since, limit=limit))


def followed(counters: Iterable[str] | None) -> frozenset[str] | None:
    """Return the counters that a feed is restricted to; None for all.

    Raises:
        InvalidInput, InvalidCounter: not a list of counters, or an empty one.
    """
    if counters is None:
        return None
    if not (chosen := check_counters(counters)):
        raise InvalidInput("counters must not be empty: leave it out to follow all counters")
    return frozenset(chosen)


def wanted_of(prefix: str, counters: Iterable[str] | None) -> FeedSelection:
    """Return the filter of the entries that were asked for.

    Raises:
        InvalidInput, InvalidCounter: not a list of counters, or not the beginning of any counter
            id.
    """
    if prefix:
        keys.checked_counter(prefix, "prefix")
    return FeedSelection(prefix, followed(counters))

"""`Feeding`: the part of a `Ledger` that follows the entries of many counters as they arrive."""

from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from functools import partial

from ledger.core import keys
from ledger.core.errors import InvalidInput
from ledger.core.values import Entry
from ledger.feed.page import FeedPage, checked_limit
from ledger.feed.reading import QUIET_SECONDS, Wanted, awaited
from ledger.opened import OpenedLedger
from ledger.parts import counters_of


class Feeding(OpenedLedger):
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

        Of the counters that begin with `prefix`, or of these `counters`; up to `limit`, 1,000 at
        most. `after` is the `cursor` of the page before; without it the feed begins with what
        arrived `since` an aware time, or with the oldest that the stream has, a day ago at most.

        Each entry that reaches the region, also late, from another one, or merged and deleted
        since, is in exactly one page of those that follow each other by their cursors: asking again
        after a cursor returns the same entries again. Entries of one shard of a counter come in the
        order of their arrival, which is not that of their ids; there is no order between others. An
        entry whose key was used for two changes in two regions comes again under its id with the
        one that is kept. What pipelines add to totals is no entry.

        Raises:
            InvalidInput, InvalidCounter: an argument breaks a rule.
            FeedBehind: what follows the cursor may have passed out of the stream, which is so after
                23 hours, or the cursor is of another region: nothing is skipped in silence.
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
        """Yield the pages of the feed as entries arrive, until left; looks each second.

        Keep `page.cursor` once its entries are dealt with, and go on `after` it: whoever acts on an
        entry and keeps the cursor together misses none and acts once, others at least once. A page
        without entries comes at least each minute: a cursor holds for 23 hours.
        `timeout` bounds each look, in seconds.

        Raises:
            As `feed_page`.
        """
        asked = None if counters is None else counters_of(counters)
        while True:
            first = since if after is None else None
            page = partial(self._next, prefix, asked, first, limit, timeout)
            found = await awaited(page, after, seconds=QUIET_SECONDS, pause=self._clock.sleep)
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
        self, wanted: Wanted, after: str | None, since: datetime | None, limit: int
    ) -> FeedPage:
        parts = self._open_parts
        await self._counted(self._renew())
        feed = await self._counted(parts.feed.feed())
        return await self._counted(feed.page(wanted, after=after, since=since, limit=limit))


def followed(counters: Iterable[str] | None) -> frozenset[str] | None:
    """Return the counters that a feed is to be of; None for all.

    Raises:
        InvalidInput, InvalidCounter: it is no list of counters, or an empty one.
    """
    if counters is None:
        return None
    if not (chosen := counters_of(counters)):
        raise InvalidInput("counters must name those to follow, got none: leave it out for all")
    return frozenset(chosen)


def wanted_of(prefix: str, counters: Iterable[str] | None) -> Wanted:
    """Return what tells whether an entry is of a counter that was asked for.

    Raises:
        InvalidInput, InvalidCounter: it is no list of counters, or no counter can begin so.
    """
    if prefix:
        keys.checked_counter(prefix, "prefix")
    chosen = followed(counters)

    def is_wanted(entry: Entry) -> bool:
        is_chosen = chosen is None or entry.counter in chosen
        return is_chosen and entry.counter.startswith(prefix)

    return is_wanted

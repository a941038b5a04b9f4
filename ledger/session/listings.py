"""`SessionListings`: the part of a `Ledger` that lists counters without reading them; descriptions.

Reading the index: the counters of a prefix in the order of their ids, from all its partitions.

Each partition is in that order, and has all shards of a counter, so they are merged as they are
read, page by page, with one counter of each in memory. Reads are eventually consistent: the index
lags behind in any case.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

import anyio.lowlevel

from ledger.core import keys
from ledger.core.amounts import check_bool
from ledger.core.descriptions import Value
from ledger.core.entry import Item
from ledger.core.errors import InvalidInput, LedgerError
from ledger.core.index import (
    INDEX_PARTITIONS,
    TOP_MAX,
    Listed,
    TopList,
    bounds,
    checked_after,
    checked_prefix,
    counter_in,
    listed_of,
)
from ledger.runtime.call_deadlines import bounded, deadline_of, not_read
from ledger.runtime.tasks import run_all
from ledger.session.call_guard import CallGuard
from ledger.session.descriptions import Descriptions
from ledger.store.port import Store
from ledger.store.reads import Query

PAGE_ITEMS_MAX = 1_000
"""Of one partition, read at a time: a megabyte would be thousands, which take long to parse, and as
long to let go where many reads end together."""
SPARE_ITEMS = 16
"""Read of each partition beyond its share of a limit, because shares vary a little."""


async def read_index(
    store: Store, prefix: str, *, after: str | None = None, limit: int | None = None
) -> AsyncIterator[Listed]:
    """Yield the counters that begin with a prefix, after the counter `after`, in bytes order.

    `limit` is how many are wanted, so that not much more is read.

    Raises:
        DamagedItem: an item was edited by hand; the compactor's next search repairs it.
        StoreError: DynamoDB could not do it.
    """
    first, last = bounds(prefix, after)
    wanted = PAGE_ITEMS_MAX if limit is None else limit // len(INDEX_PARTITIONS) + SPARE_ITEMS
    streams = [
        _partition(
            store,
            Query(
                name, consistent=False, first=first, last=last, limit=min(wanted, PAGE_ITEMS_MAX)
            ),
            prefix=prefix,
            after=after,
        )
        for name in INDEX_PARTITIONS
    ]
    firsts = await run_all([partial(_next, stream) for stream in streams], at_once=len(streams))
    heads = dict(enumerate(firsts))
    while waiting := {place: one for place, one in heads.items() if one is not None}:
        place = min(waiting, key=lambda place: waiting[place].counter.encode())
        yield waiting[place]
        heads[place] = await _next(streams[place])


async def _next(stream: AsyncIterator[Listed]) -> Listed | None:
    return await anext(stream, None)


async def _partition(
    store: Store, query: Query, *, prefix: str, after: str | None
) -> AsyncIterator[Listed]:
    """Yield the counters of one partition, each with all its shards."""
    shards: list[Item] = []
    while True:
        page = await store.query(query)
        for item in page.items:
            counter = counter_in(item["sk"]["S"])
            if not counter.startswith(prefix) or not _is_behind(counter, after):
                continue
            if shards and counter_in(shards[0]["sk"]["S"]) != counter:
                yield listed_of(shards)
                shards = []
            shards.append(item)
        if page.after is None:
            break
        query = query.next(page)
    if shards:
        yield listed_of(shards)


def _is_behind(counter: str, after: str | None) -> bool:
    return after is None or counter.encode() > after.encode()


Result = TypeVar("Result")
PAGE_COUNTERS = 100
"""Counters whose totals, or descriptions, are read together."""


class SessionListings(CallGuard):
    """The half of a `Ledger` that lists and describes counters."""

    async def counters(
        self,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int | None = None,
        exact: bool = False,
        described: bool = False,
        timeout: float | None = None,
    ) -> AsyncIterator[Listed]:
        """Yield the counters that begin with a prefix, with their values, in order of ids.

        The order is that of their bytes. The list begins after the counter `after`, such as the
        last one of the previous page, and yields at most `limit` counters. It is read from the
        table's index, which the compactor maintains for the counters that the contract's `index`
        names: this costs half a read unit for each 4 KB, some 40 counters, and no counter is read.
        So it lags behind:

        - A `value` is that of merged entries, as of `as_of`: it contains no entry younger than
          `settle` (22 minutes by default), and none that waits for `fold_min` others, or for
          `fold_age`. What pipelines add is not in it. It always is a value that the counter's net
          had.
        - A counter appears with its first merge, or the first search of the table that begins after
          it was written: within `compactor.scan_every` (an hour) and the time of a search, at 0.
        - The index is that of this region: replication adds its delay.

        With `exact` each total is read as `totals` reads it, page by page, at the same cost; totals
        of `unmerged` counters always are. `described` adds descriptions, at half a read unit each,
        or one if reads are strongly consistent. `timeout` bounds each wait for the next one, in
        seconds.

        Raises:
            StateConflict: the contract's index does not cover the prefix.
            InvalidInput: `limit` is not 1 or more.
            InvalidCounter: `prefix` or `after` cannot be one of a counter, or `after` is no counter
                of the prefix.
            DamagedItem: an item was edited by hand; the compactor's next search repairs the index.
            ReadTooSlow: `timeout` ended.
            StoreError: DynamoDB could not do it.
            With `exact`, and for `unmerged` counters: as `totals`.
        """
        if timeout is not None:
            asked = self.counters(
                prefix, after=after, limit=limit, exact=exact, described=described
            )
            async for listed in self._each_in_time(timeout, asked):
                yield listed
            return
        check_bool("exact", exact)
        check_bool("described", described)
        if limit is not None:
            check_count("limit", limit)
        left = limit
        async for page in self._pages(prefix, after=after, limit=limit, exact=exact):
            some = page if left is None else page[:left]
            left = None if left is None else left - len(some)
            for listed in await self._counted(self._with_descriptions(some)) if described else some:
                yield listed
            if left == 0:
                return

    async def top(
        self,
        prefix: str,
        n: int = 10,
        *,
        smallest: bool = False,
        exact: bool = False,
        timeout: float | None = None,
    ) -> list[Listed]:
        """Return the `n` counters of a prefix with the largest values, or smallest, in order.

        Of equal values the counter whose id comes first ranks higher. They are ranked by the index,
        all of which with the prefix is read: by merged changes only, as `counters` says, so one
        with many changes that are not merged yet may be missing. With `exact` the totals of all
        counters that the index lists with the prefix are read, and these are ranked.

        Raises:
            InvalidInput: `n` is not 1 to 1,000; or with `exact` the index lists over 1,000 counters
                with the prefix.
            ReadTooSlow: `timeout` seconds ended.
            And as `counters`.
        """
        if timeout is not None:
            return await self._in_time(timeout, self.top(prefix, n, smallest=smallest, exact=exact))
        check_count("n", n, TOP_MAX)
        check_bool("smallest", smallest)
        check_bool("exact", exact)
        best = TopList(n, smallest=smallest)
        pages = self._pages(prefix)
        async for page in self._all_read(pages, prefix) if exact else pages:
            for listed in page:
                best.add(listed)
        return best.found()

    async def describe(
        self,
        counter: str,
        attributes: Mapping[str, Value | None],
        *,
        timeout: float | None = None,
    ) -> dict[str, Value]:
        """Set attributes of a counter, remove those given as None; return all that remain.

        At most 16 attributes with names of up to 64 bytes, 2 KB in all; values are str, bool, int
        or Decimal. The counter need not have changes, and no total depends on it. Durable in this
        region when it returns; replicated to the others. A repeat sets the same.

        Calls in one region each take effect: attributes that they do not name stay. Of calls in two
        regions that have not seen each other's, the one written last wins, with **all** of its
        attributes: anything the other one set, under any name, is lost. If that matters, let only
        one region describe.

        Raises:
            InvalidInput: a name or value breaks a rule, or there would be too many; nothing was
                written.
            InvalidAmount, AmountOverflow, InvalidCounter: the same.
            OutcomeUnknown: no answer, in time or within `timeout` seconds; repeat the call.
            NotSent: `timeout` ended before anything was sent.
            StoreError: DynamoDB could not do it, or concurrent writers were faster every time.
        """
        checked, end = keys.checked_counter(counter), deadline_of(timeout)
        end = await self._renew_by(end)
        return await self._counted(self._describer.describe(checked, attributes, end=end))

    async def description(self, counter: str, *, timeout: float | None = None) -> dict[str, Value]:
        """Return the attributes in a counter's description, as this region has them.

        Whole numbers are int, others Decimal. Without a description it is empty.

        Raises:
            InvalidCounter: not a counter id.
            DamagedItem: the item was edited by hand.
            ReadTooSlow: `timeout` seconds ended.
            StoreError: DynamoDB could not do it.
        """
        if timeout is not None:
            return await self._in_time(timeout, self.description(counter))
        checked = keys.checked_counter(counter)
        end = await self._renew_to_read()
        read = self._describer.description(checked)
        return await self._counted(bounded(end, read, not_read))

    async def _pages(
        self,
        prefix: str,
        *,
        after: str | None = None,
        limit: int | None = None,
        exact: bool = False,
    ) -> AsyncIterator[list[Listed]]:
        """Yield the counters of a prefix, some at a time, with the totals that must be read."""
        await self._renew_to_read()
        parts = self._open_parts
        checked = checked_prefix(prefix, parts.settings.current.terms.index)
        behind = None if after is None else checked_after(after, checked)
        most = PAGE_COUNTERS if limit is None else min(limit, PAGE_COUNTERS)
        page: list[Listed] = []
        try:
            async for listed in read_index(parts.store, checked, after=behind, limit=limit):
                page.append(listed)
                if len(page) == most:
                    await anyio.lowlevel.checkpoint()  # a page of the index has many times as many
                    yield await self._read(page, exact=exact)
                    page = []
            yield await self._read(page, exact=exact)
        except LedgerError as error:
            self.metrics.error(self.region, error)
            raise

    async def _all_read(
        self, pages: AsyncIterator[list[Listed]], prefix: str
    ) -> AsyncIterator[list[Listed]]:
        """Yield the counters of some pages with their totals, once it is known that they are few.

        Raises:
            InvalidInput: there are over `TOP_MAX`.
        """
        kept: list[list[Listed]] = []
        async for page in pages:
            kept.append(page)
            if sum(map(len, kept)) > TOP_MAX:
                raise InvalidInput(
                    f"over {TOP_MAX:,} counters begin with {prefix!r:.80}, and an exact top reads"
                    " the total of each: take a longer prefix, or rank by merged changes only"
                    " (without exact)"
                )
        for page in kept:
            yield await self._counted(self._read(page, exact=True))

    async def _read(self, page: list[Listed], *, exact: bool) -> list[Listed]:
        """Read the totals of these counters: of all, or of those that are never merged."""
        parts = self._open_parts
        terms = parts.settings.current.terms
        wanted = [listed.counter for listed in page if exact or terms.is_unmerged(listed.counter)]
        totals = await parts.cache.totals(wanted, 0) if wanted else {}
        return [
            replace(
                listed, value=total.value, count=total.changes, as_of=total.as_of, is_exact=True
            )
            if (total := totals.get(listed.counter)) is not None
            else listed
            for listed in page
        ]

    async def _with_descriptions(self, page: list[Listed]) -> list[Listed]:
        found = await self._describer.descriptions([listed.counter for listed in page])
        return [replace(listed, description=found[listed.counter]) for listed in page]

    @property
    def _describer(self) -> Descriptions:
        parts = self._open_parts
        return Descriptions(parts.store, parts.settings, services=self._services)


def check_count(what: str, count: object, most: int | None = None) -> None:
    """Refuse a number that is not whole, below 1, or above `most`.

    Raises:
        InvalidInput: it is.
    """
    is_count = isinstance(count, int) and not isinstance(count, bool)
    if not is_count or not 1 <= int(str(count)) <= (most or int(str(count))):
        upto = f"1 to {most:,}" if most else "1 or more"
        raise InvalidInput(f"{what} must be {upto}, got {count!r}")

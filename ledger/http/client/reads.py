"""The half of the client that reads: totals, histories, sums by period, lists, descriptions."""

from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import date, datetime
from functools import partial
from typing import TypeVar

from ledger.core import descriptions, keys
from ledger.core.descriptions import Value
from ledger.core.errors import InvalidInput, OutcomeUnknown
from ledger.core.index import TOP_MAX, Listed
from ledger.core.values import Entry
from ledger.http.client import event_stream, requests
from ledger.http.client.exchange import Exchange
from ledger.http.client.requests import PAGE_MAX, Answer, Request, counter_path, query
from ledger.http.wire.problems import error_of
from ledger.http.wire.schemas import (
    CountersModel,
    DescriptionModel,
    FeedModel,
    HistoryModel,
    PeriodsModel,
    TopModel,
    TotalModel,
    TotalsModel,
    description_of,
)
from ledger.http.wire.values import typed
from ledger.reads.feed.page import FeedPage, checked_limit
from ledger.reads.history import Bound
from ledger.reads.period_totals import By, PeriodTotals
from ledger.reads.total import Total
from ledger.runtime.call_deadlines import check_timeout
from ledger.runtime.supervisor import Supervised
from ledger.runtime.tasks import run_all
from ledger.session.arguments import check_age, check_counters
from ledger.session.feed import followed
from ledger.session.listings import check_count

REQUESTS_AT_ONCE = 8
"""Requests of one call that are under way together."""
FEED_WAIT_SECONDS_MAX = 20.0
"""How long a request for the feed waits in the service."""
LIVE_MAX = 50
"""Counters of one stream of totals, as the service allows."""
Page = TypeVar("Page", HistoryModel, CountersModel)


class Reads:
    """What reads, and descriptions; each method as that of `ledger.Ledger` of the same name."""

    _opening: Supervised[Exchange]
    _timeout: float

    async def total(
        self,
        counter: str,
        *,
        max_age: float | None = None,
        steady: bool = False,
        at: datetime | date | None = None,
        effective: bool = False,
        timeout: float | None = None,
    ) -> Total:
        """Return the total of a counter, from the service's cache if it is recent enough.

        With `max_age=0` it includes every change acknowledged in the service's region before.

        Raises:
            As `ledger.Ledger.total`; `Unreachable` if the service is.
        """
        path = counter_path(counter)
        check_age(max_age, steady=steady, at=at, effective=effective)
        params = query(max_age=max_age, steady=steady or None, at=at, effective=effective or None)
        found = await self._read(TotalModel, path, params, self._end(timeout))
        return found.to_value()

    async def totals(
        self,
        counters: Iterable[str],
        *,
        max_age: float | None = None,
        steady: bool = False,
        timeout: float | None = None,
    ) -> dict[str, Total]:
        """Return the totals of many counters by name, in the order asked, each name once.

        One request reads up to 100 of them, and with `steady` no more can be asked for.

        Raises:
            As `ledger.Ledger.totals`.
        """
        checked = requests.first_of(check_counters(counters))
        check_age(max_age, steady=steady)
        portions = list(requests.counter_portions(checked))
        if steady and len(portions) > 1:
            raise InvalidInput(
                f"up to {requests.COUNTERS_MAX} steady totals are read together, got {len(checked)}"
            )
        how = query(max_age=max_age, steady=steady or None)
        end = self._end(timeout)
        jobs = [
            partial(
                self._read,
                TotalsModel,
                "/v1/totals",
                [*(("id", name) for name in some), *how],
                end,
            )
            for some in portions
        ]
        pages = await run_all(jobs, at_once=REQUESTS_AT_ONCE) if jobs else []
        for page in pages:
            for problem in page.problems.values():
                raise error_of(problem)
        found = [total.to_value() for page in pages for total in page.totals]
        return {total.counter: total for total in found}

    async def periods(
        self,
        counter: str,
        *,
        by: By,
        since: datetime | date | None = None,
        until: datetime | date | None = None,
        effective: bool = False,
        timeout: float | None = None,
    ) -> PeriodTotals:
        """Return what a counter came to by hour, by day or by month.

        Raises:
            As `ledger.Ledger.periods`.
        """
        return await self._periods(counter, by, since, until, effective, self._end(timeout))

    async def periods_many(
        self,
        counters: Iterable[str],
        *,
        by: By,
        since: datetime | date | None = None,
        until: datetime | date | None = None,
        effective: bool = False,
        timeout: float | None = None,
    ) -> dict[str, PeriodTotals]:
        """Return what `periods` would of many counters, by name, in the order asked.

        Each takes a request; the first that fails cancels the rest.

        Raises:
            As `periods`.
        """
        checked, end = requests.first_of(check_counters(counters)), self._end(timeout)
        jobs = [
            partial(self._periods, counter, by, since, until, effective, end) for counter in checked
        ]
        found = await run_all(jobs, at_once=REQUESTS_AT_ONCE) if jobs else []
        return dict(zip(checked, found, strict=True))

    async def history(
        self,
        counter: str,
        *,
        after: Bound = None,
        before: Bound = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Entry]:
        """Yield a counter's entries in the order of their ids, from all shards and the archive.

        Pages of 1,000 are read as they are needed; `timeout` bounds each wait for one.

        Raises:
            As `ledger.Ledger.history`.
        """
        path, first, last = counter_path(counter, "entries"), *map(requests.edge, (after, before))
        params = query(before=last, limit=PAGE_MAX)
        async for entry in self._entries(path, params, first, timeout):
            yield entry

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
        """Return entries that reached the service's region after a cursor, without waiting.

        A page may have up to 999 more than `limit`: those that share the item of its last one.

        Raises:
            InvalidInput: over 100 `counters`.
            And as `ledger.Ledger.feed_page`.
        """
        params = _feed_query(prefix, counters, since, limit)
        return await self._feed_page(params, after, 0, timeout)

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
        """Yield the pages of the feed of the service's region as entries arrive, until left.

        Each request waits in the service for an entry, up to a third of its time; a page without
        entries brings the cursor up to date. `timeout` bounds each request with its repeats.

        Raises:
            As `feed_page`.
        """
        params = _feed_query(prefix, counters, None if after is not None else since, limit)
        seconds = self._timeout if timeout is None else check_timeout(timeout)
        wait = min(FEED_WAIT_SECONDS_MAX, seconds / 3)
        while True:
            page = await self._feed_page(params, after, wait, timeout)
            yield page
            after = page.cursor
            params = [param for param in params if param[0] != "since"]

    async def _feed_page(
        self,
        params: list[tuple[str, str]],
        after: str | None,
        wait: float,
        timeout: float | None,
    ) -> FeedPage:
        asked = [*params, *query(after=after, wait=wait or None)]
        page = await self._read(FeedModel, "/v1/feed", asked, self._end(timeout))
        return page.to_value()

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
        """Yield the counters that begin with a prefix, and their merged changes, in order of ids.

        Pages of 1,000 are read as they are needed; `timeout` bounds each wait for one.

        Raises:
            As `ledger.Ledger.counters`.
        """
        if limit is not None:
            check_count("limit", limit)
        first = None if after is None else keys.checked_counter(after, "after")
        most = PAGE_MAX if limit is None else min(limit, PAGE_MAX)
        params = query(
            prefix=prefix or None, limit=most, exact=exact or None, described=described or None
        )
        left = limit
        async for page in self._pages(CountersModel, "/v1/counters", params, first, timeout):
            for listed in page.counters:
                yield listed.to_value()
                left = None if left is None else left - 1
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

        By merged changes only; with `exact` by the totals of all, 1,000 at most.

        Raises:
            As `ledger.Ledger.top`.
        """
        check_count("n", n, TOP_MAX)
        params = query(prefix=prefix, n=n, smallest=smallest or None, exact=exact or None)
        page = await self._read(TopModel, "/v1/top", params, self._end(timeout))
        return [listed.to_value() for listed in page.counters]

    async def describe(
        self,
        counter: str,
        attributes: Mapping[str, Value | None],
        *,
        timeout: float | None = None,
    ) -> dict[str, Value]:
        """Set attributes of a counter, remove those given as None; return all that it has then.

        Raises:
            As `ledger.Ledger.describe`.
        """
        path = counter_path(counter, "description")
        descriptions.checked(attributes)
        request = Request("PATCH", path, DescriptionModel, body={"attributes": typed(attributes)})

        def unknown(cause: str) -> OutcomeUnknown:
            return OutcomeUnknown(
                f"no answer for the description of {counter!r} ({cause}): repeat the call",
                entries=[],
                retryable=True,
            )

        exchange, end = self._opening.here(), self._end(timeout)
        _, found = await exchange.write(request, end=end, unknown=unknown)
        return description_of(found.attributes)

    async def description(self, counter: str, *, timeout: float | None = None) -> dict[str, Value]:
        """Return the attributes that a counter was described by, as the service's region has them.

        Raises:
            As `ledger.Ledger.description`.
        """
        path = counter_path(counter, "description")
        found = await self._read(DescriptionModel, path, (), self._end(timeout))
        return description_of(found.attributes)

    async def live_totals(
        self, counters: Iterable[str], *, every: float = 1.0, timeout: float | None = None
    ) -> AsyncIterator[Total]:
        """Yield the total of each counter, and again each time that it changed, until left.

        The service looks `every` so many seconds, 0.1 to 60. A connection that breaks is made
        again; of changes in between the last total is yielded. `timeout` is how long the service
        may be away, in seconds.

        Raises:
            InvalidInput: over 50 counters, or `every` breaks the rule.
            Unreachable: the service was away for too long.
            And as `totals`, where asking again does not help.
        """
        checked = requests.first_of(check_counters(counters))
        if not 1 <= len(checked) <= LIVE_MAX:
            raise InvalidInput(f"1 to {LIVE_MAX} counters are followed, got {len(checked)}")
        params = [*(("id", counter) for counter in checked), ("every", str(every))]
        request = Request("GET", "/v1/live", TotalModel, params)
        seconds = self._timeout if timeout is None else check_timeout(timeout)
        async for total in event_stream.followed(self._opening.here(), request, seconds=seconds):
            yield total

    async def _periods(
        self,
        counter: str,
        by: By,
        since: datetime | date | None,
        until: datetime | date | None,
        effective: bool,  # noqa: FBT001 (passed on)
        end: float,
    ) -> PeriodTotals:
        params = query(by=by, since=since, until=until, effective=effective or None)
        path = counter_path(counter, "periods")
        return (await self._read(PeriodsModel, path, params, end)).to_value()

    async def _entries(
        self,
        path: str,
        params: list[tuple[str, str]],
        after: str | None,
        timeout: float | None,
    ) -> AsyncIterator[Entry]:
        """Yield the entries of the pages of a history."""
        async for page in self._pages(HistoryModel, path, params, after, timeout):
            for entry in page.entries:
                yield entry.to_value()

    async def _pages(
        self,
        answer: type[Page],
        path: str,
        params: list[tuple[str, str]],
        after: str | None,
        timeout: float | None,
    ) -> AsyncIterator[Page]:
        while True:
            page = await self._read(
                answer, path, [*params, *query(after=after)], self._end(timeout)
            )
            yield page
            after = page.next
            if after is None:
                return

    async def _read(
        self,
        answer: type[Answer],
        path: str,
        params: Iterable[tuple[str, str]],
        end: float,
    ) -> Answer:
        request = Request("GET", path, answer, list(params))
        return await self._opening.here().read(request, end=end)

    def _end(self, timeout: float | None) -> float:
        """Return when a call ends that begins now.

        Raises:
            InvalidInput: `timeout` is not a number above 0.
            LedgerError: the ledger is not open.
        """
        seconds = self._timeout if timeout is None else check_timeout(timeout)
        return self._opening.here().clock.monotonic() + seconds


def _feed_query(
    prefix: str, counters: Iterable[str] | None, since: datetime | None, limit: int
) -> list[tuple[str, str]]:
    """Return the parameters of the pages of a feed."""
    if prefix:
        keys.checked_counter(prefix, "prefix")
    chosen = sorted(followed(counters) or ())
    if len(chosen) > requests.COUNTERS_MAX:
        raise InvalidInput(
            f"up to {requests.COUNTERS_MAX} counters are followed by name, got {len(chosen)}:"
            " follow their prefix"
        )
    named = [("counter", counter) for counter in chosen]
    return [*named, *query(prefix=prefix or None, since=since, limit=checked_limit(limit))]

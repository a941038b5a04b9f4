"""`SessionReads`: the half of a `Ledger` that reads totals, sums by period and histories."""

from collections.abc import AsyncIterator, Iterable
from datetime import date, datetime
from math import ceil

from ledger.core import keys
from ledger.core.amounts import check_bool
from ledger.core.values import Entry
from ledger.reads.history import Bound, HistoryRange, history
from ledger.reads.period_totals import By, PeriodQuery, PeriodTotals
from ledger.reads.total import Total
from ledger.reads.total_cache import READS_AT_ONCE
from ledger.runtime.call_deadlines import bounded, check_timeout, not_read
from ledger.session.arguments import check_age, check_counters
from ledger.session.call_guard import CallGuard


class SessionReads(CallGuard):
    """The calls that read counters one by one, or many by name."""

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
        """Return the total of a counter, from the cache if it is recent enough.

        `max_age` is in seconds, by default `cache.max_age` of the settings; 0 reads the table, and
        then includes every change acknowledged in this region before the call.

        A total of several shards, or pages, is not a snapshot: of the changes that arrive while it
        is read, between `as_of` and `ended`, it counts only some. A balance that was never negative
        may be read as negative. With `steady` the table is read until two reads in a row agree: the
        total was then true at every moment from `as_of` to `ended`. This costs at least two
        strongly consistent reads, and fails where a counter is written all the time.

        With `at` it is the total of what was made before this moment (by the time in an entry's
        id), or with `effective` of what is effective before this date; a date begins in the zone of
        the counter's periods, by default in UTC. Late and back-dated entries count where they
        belong. Merged entries are read from the table's archive.

        Raises:
            InvalidCounter: not a counter id.
            InvalidInput: `steady` with a `max_age`: a steady total is never cached. Or `at` is not
                a moment, or so far back that, without an archive, what was merged since is not
                known.
            ArchiveError: the archive cannot be read.
            ReadTooSlow: the collection cannot be read within `read_deadline`, or at all within 15 s
                (or `read_deadline`, if that is longer), the contract included; or within the call's
                `timeout` in seconds; or no two reads agreed within it.
            DamagedItem: an item cannot be counted; the message has its key.
            NetVanished: a merged sum that was read here before is no longer in the table.
            AmountOverflow: the sum does not fit in 38 digits.
            StoreError: DynamoDB could not do it.
        """
        if timeout is not None:
            check_timeout(timeout)
        checked = keys.checked_counter(counter)
        check_age(max_age, steady=steady, at=at, effective=effective)
        if at is None and not steady and (found := self._recent(checked, max_age)) is not None:
            return found
        read = self._read_total(checked, max_age, steady=steady, at=at, effective=effective)
        return await self._in_time(timeout, read)

    def _recent(self, counter: str, max_age: float | None) -> Total | None:
        """Return the cached total if it is recent enough, and the contract need not be read first.

        One look at the clock serves both.
        """
        cache, view = self._open_parts.cache, self._view
        elapsed = cache.elapsed
        seconds = elapsed.seconds()
        if view is not None and view.is_due_at(elapsed.monotonic, elapsed.at):
            return None
        return cache.recent(counter, max_age, seconds)

    async def _read_total(
        self, counter: str, max_age: float | None, *, steady: bool, at: object, effective: bool
    ) -> Total:
        """Return a counter's total that has to be read, by this call or one that it waits for."""
        parts = self._open_parts
        end = await self._renew_to_read()
        if at is not None:
            archive = await self._counted(parts.archive.reader())
            return await self._counted(
                parts.reader.total_before(counter, at, effective=effective, archive=archive)
            )
        if steady:
            return (await self._steady([counter], end))[counter]
        total = await self._counted(bounded(end, parts.cache.total(counter, max_age), not_read))
        parts.hints.read(total)
        return total

    async def totals(
        self,
        counters: Iterable[str],
        *,
        max_age: float | None = None,
        steady: bool = False,
        timeout: float | None = None,
    ) -> dict[str, Total]:
        """Return the totals of many counters by name, in the order asked, each name once.

        Each is what `total` would return. A bounded number are read at a time, so together they do
        not show one moment; with `steady` they do, because each look reads all of them. Either all
        are returned or an error is raised: the first read that fails cancels the rest, and the
        message names its counter.

        Raises:
            InvalidInput: `counters` is not a list of counters; nothing was read.
            And as `total`.
        """
        if timeout is not None:
            asked = self.totals(counters, max_age=max_age, steady=steady)
            return await self._in_time(timeout, asked)
        checked = check_counters(counters)
        check_age(max_age, steady=steady)
        parts = self._open_parts
        end = await self._renew_to_read(in_turn=max(1, ceil(len(checked) / READS_AT_ONCE)))
        if steady:
            return await self._steady(list(dict.fromkeys(checked)), end)
        found = await self._counted(bounded(end, parts.cache.totals(checked, max_age), not_read))
        for total in found.values():
            parts.hints.read(total)
        return found

    async def _steady(self, counters: list[str], end: float) -> dict[str, Total]:
        parts = self._open_parts
        looks = parts.reader.steady_totals(counters)
        found = await self._counted(bounded(end, looks, not_read))
        for total in found.values():
            parts.hints.read(total)
            parts.watcher.saw(total)
        return found

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
        """Return the sums of a counter by hour, by day or by month, read from the table.

        Kept for the counters that match a pattern of `periods` in the table's contract, from the
        first merge under it on; entries that are not merged yet count in their period as well.
        `since` is by default as far back as sums of this kind are kept, 1,000 periods at most;
        without `until` the period of now is the last: what is effective later is in `total` alone.
        A date begins in the zone of the pattern, and so do days and months. By default a
        change counts when it was made (the time in its id); with `effective`, on its effective
        date, or, without one, on the date on which it was made.

        Raises:
            InvalidCounter: not a counter id.
            InvalidInput: no such sums are kept for this counter, or not so far back; a bound is
                neither a date nor an aware time; `since` is after `until`; or more than 1,000
                periods are asked for.
            ReadTooSlow: a shard has over a million entries that are not merged; or as `total`.
            DamagedItem, NetVanished, AmountOverflow, StoreError: as `total`.
        """
        found = await self.periods_many(
            [counter], by=by, since=since, until=until, effective=effective, timeout=timeout
        )
        return found[counter]

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
        """Return what `periods` returns for many counters, by name, in the order asked.

        A bounded number are read at a time; the first that fails cancels the rest.
        """
        if timeout is not None:
            asked = self.periods_many(
                counters, by=by, since=since, until=until, effective=effective
            )
            return await self._in_time(timeout, asked)
        checked, parts = check_counters(counters), self._open_parts
        check_bool("effective", effective)
        await self._renew_to_read()
        ask = PeriodQuery(
            by, since=since, until=until, effective=effective, now=self._services.clock.now()
        )
        return await self._counted(parts.reader.periods(checked, ask))

    async def history(
        self,
        counter: str,
        *,
        after: Bound = None,
        before: Bound = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Entry]:
        """Yield a counter's entries in the order of their ids, from all shards.

        Entries that share an item come one by one, as `ID.000`, `ID.001` and so on. `after` and
        `before` are aware times or ids of entries; both bounds are exclusive. The `ID` of such an
        item alone lies before its entries. An id that is not in the ledger's form must be that of
        an entry of this counter. If the table has an archive, entries merged since it began come
        from there, in order; entries merged before, or without an archive, are not yielded. Pages
        are read as they are needed, so the entries do not show one moment. `timeout` bounds each
        wait for the next entry, in seconds.

        Raises:
            InvalidCounter, InvalidEntry: a bound or the counter breaks a rule.
            DamagedItem: an entry cannot be read.
            ArchiveError: the archive cannot be read, or is damaged.
            ReadTooSlow: `timeout` ended.
            StoreError: DynamoDB could not do it.
        """
        if timeout is not None:
            asked = self.history(counter, after=after, before=before)
            async for entry in self._each_in_time(timeout, asked):
                yield entry
            return
        checked = keys.checked_counter(counter)
        parts = self._open_parts
        await self._renew_to_read()
        entries = history(
            parts.store,
            HistoryRange(checked, parts.settings.current.shards_max(checked), after, before),
            consistent=self.settings.consistent_reads,
            archive=await self._counted(parts.archive.reader()),
            settings=parts.settings,
        )
        async for entry in entries:
            yield entry

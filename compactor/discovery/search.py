"""The collections that a pass visits: those named by ripe hints, and those found by a search.

Reading the hints costs about one page per pass. The search reads the whole table, so a new round
begins only every `scan_every`; it finds what no hint names: foreign entries, a few entries that
have grown old, imported entries, lost hints; and what the index lacks (`compactor.indexer`). It
leaves a hint for each collection that it finds, then
advances its cursor, so that the merge, which takes several passes, needs no further search. Where
there will be something to do once the entries that it meets have settled, it leaves a hint that
ripens then: what is young at one search does not wait for the next.

Only the head searches, and visits what it finds in the slices that it leads; for the others it
leaves hints. A hint of a counter belongs to the leader of its first shard's slice, which leaves a
hint for each further shard that another member leads.

In a table that lost a region some due collections may not be visible at home: the lost region's
last writes may have reached only one other region. There the search reads every region.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import anyio

from compactor.context import MergeContext
from compactor.discovery.hints import HintBook, delete_hints, read_hints
from compactor.discovery.scan import (
    Finder,
    FoundCollections,
    ScanCursor,
    load_cursor,
    next_search,
    save_cursor,
)
from compactor.indexer import Indexer
from compactor.pass_terms import PassTerms
from compactor.report import CompactorReport
from compactor.slice_share import SliceShare
from compactor.slices import hint_partitions
from ledger.core import ids, keys
from ledger.core.errors import RegionUnreadable, RequestRefused, StoreError
from ledger.core.hints import (
    HINT_PARTITIONS,
    Hint,
    hint_for,
    last_sort_key,
    ripe_hint,
)
from ledger.runtime.output import utc_text
from ledger.store.port import Store
from ledger.writes.hint_writer import leave_hints

log = logging.getLogger(__name__)


class Search:
    """The search of one pass, from the home region; `book` holds the hints that it has read.

    It goes by the terms as they are now. With `is_due` it does not wait for `scan_every`.
    """

    def __init__(
        self,
        context: MergeContext,
        terms: PassTerms,
        *,
        stop: anyio.Event,
        sharing: SliceShare | None,
        indexer: Indexer,
        is_due: bool,
    ) -> None:
        self._is_due = is_due
        self._indexer = indexer
        self.book = HintBook(terms.settings.shards_max)
        self._store = terms.home
        self._others = terms.others if terms.has_lost else ()
        self._compactor = terms.settings.compactor
        self._rules = terms.rules
        self._now = context.services.clock.now()
        self._metrics = context.metrics
        self._stop = stop
        self._sharing = sharing

    async def run(self, report: CompactorReport) -> list[str]:
        """Return the collections to visit, oldest hints first, and fill in the report.

        Raises:
            StoreError: the home region cannot be searched.
            RegionUnreadable: another region that must be searched cannot be.
        """
        await self._read_hints(report)
        due = self.book.partitions()
        searches = self._sharing is None or self._sharing.is_head
        if searches:
            due += await self._search(self._store, self._compactor.name, due, report)
        for store in self._others if searches else ():
            name = f"{self._compactor.name}@{store.region}"
            try:
                due += await self._search(store, name, due, report)
            except StoreError as error:
                raise RegionUnreadable(store.region, error) from error
        report.due = len(due)
        return due

    async def _search(
        self, store: Store, name: str, known: Sequence[str], report: CompactorReport
    ) -> list[str]:
        """Search a region if that is due, with a cursor of this name; return what is new."""
        before = await load_cursor(self._store, name)
        every = self._compactor.scan_every
        due_at = next_search(before, every, now=self._now)
        if due_at is not None and not self._is_due:
            if store is self._store:
                report.next_search = utc_text(due_at)
            return []
        found = await self._scan(store, before, report)
        own = [partition for partition in found.due if self._leads(partition)]
        is_left = await self._leave_for_others(set(found.due).difference(own))
        if is_left and (every == 0 or await self._leave_all(own, found.ripening)):
            await self._save(name, before, found.cursor)
        already = set(known)
        return [partition for partition in own if partition not in already]

    def _leads(self, partition: str) -> bool:
        return self._sharing is None or self._sharing.leads(partition)

    async def drop_served(self) -> None:
        """Delete the hints that are no longer needed; one that stays costs one more visit."""
        served = self.book.take_served()
        if not served:
            return
        try:
            await delete_hints(self._store, served)
        except StoreError as error:
            self._failed("deleted", error)
        else:
            self._metrics.hinted("deleted", len(served))

    async def _read_hints(self, report: CompactorReport) -> None:
        last = last_sort_key(self._now, settle=self._rules.settle)
        sharing = self._sharing
        places = hint_partitions(sharing.led, sharing.slices) if sharing else HINT_PARTITIONS
        try:
            hints, pages = await read_hints(self._store, last=last, places=places)
            left = await self._take(hints)
        except StoreError as error:
            self._failed("read", error)
            return
        report.hints, report.hint_pages = len(self.book), pages
        self._metrics.hinted("read", len(hints))
        self._metrics.hinted("left", left)

    async def _take(self, hints: Sequence[Hint]) -> int:
        """Add our own hints to the book; return how many were left for others.

        If some cannot be left, the counter's hint is kept, because nothing else finishes it here.
        """
        ours = [hint for hint in hints if self._leads(hint.counter)]
        others = {
            partition: replace(hint, counter=partition)
            for hint in ours
            for partition in self.book.named_by(hint)
            if not self._leads(partition)
        }
        is_left = await leave_hints(self._store, list(others.values()))
        for hint in ours:
            named = self.book.named_by(hint)
            own = [partition for partition in named if self._leads(partition)]
            self.book.add(hint, own if is_left else named)
        return len(others)

    async def _scan(
        self, store: Store, before: ScanCursor | None, report: CompactorReport
    ) -> FoundCollections:
        finder = Finder(
            store,
            rules=self._rules,
            now=self._now,
            segments=self._compactor.scan_segments,
            pages_max=self._compactor.scan_pages_max,
            stop=self._stop,
            indexer=self._indexer if store is self._store else None,
        )
        try:
            found = await finder.find(before)
        except RequestRefused:
            # A damaged cursor can hold a key that DynamoDB refuses: begin a new round.
            if before is None:
                raise
            found = await finder.find(None)
        if store is self._store:
            report.searched, report.backlog = True, found.backlog_entries
            report.oldest = ids.time_text(found.oldest) if found.oldest else ""
            report.nets_signed = dict(found.signed)
            self._metrics.signed(found.signed)
            report.accounts_bytes = found.accounts_bytes
            self._metrics.accounts_bytes.set(found.accounts_bytes)
        report.pages += found.pages
        report.is_whole = report.is_whole and found.cursor.is_finished
        self._metrics.scanned(found.pages)
        return found

    async def _save(self, name: str, before: ScanCursor | None, cursor: ScanCursor) -> None:
        was_open = before is not None and not before.is_finished
        if self._compactor.scan_every > 0 or was_open or not cursor.is_finished:
            await save_cursor(self._store, name, cursor)

    async def _leave_all(self, own: Sequence[str], ripening: Mapping[str, datetime]) -> bool:
        """Leave the hints of what is due, and of what ripens; return whether all are left."""
        return await self._leave_hints(own) and await self._leave(self._later(ripening))

    def _later(self, ripening: Mapping[str, datetime]) -> list[Hint]:
        """Return hints as writers leave them, whoever leads there, of the youngest entries."""
        hints = (
            hint_for(place[0], youngest, settle=self._rules.settle)
            for partition, youngest in ripening.items()
            if (place := keys.counter_of(partition)) is not None
        )
        return list(dict.fromkeys(hints))

    async def _leave_hints(self, partitions: Sequence[str]) -> bool:
        """Leave hints for own collections without one; return whether the cursor may advance."""
        found: dict[str, list[str]] = {}
        for partition in partitions:
            place = keys.counter_of(partition)
            if place is not None and place[0] not in self.book and partition not in self.book:
                name = place[0] if self._leads(place[0]) else partition
                found.setdefault(name, []).append(partition)
        hints = self._hints_of(found)
        is_done = await self._leave(hints)
        for hint in hints:
            self.book.add(hint, found[hint.counter])
        return is_done

    async def _leave_for_others(self, partitions: Iterable[str]) -> bool:
        """Leave hints for collections that others lead; return whether the cursor may advance."""
        return await self._leave(self._hints_of(sorted(partitions)))

    def _hints_of(self, names: Iterable[str]) -> list[Hint]:
        return [ripe_hint(name, self._now, settle=self._rules.settle) for name in names]

    async def _leave(self, hints: Sequence[Hint]) -> bool:
        try:
            is_done = await leave_hints(self._store, hints)
        except StoreError as error:
            self._failed("left", error)
            return False
        self._metrics.hinted("left", len(hints))
        return is_done

    def _failed(self, what: str, error: StoreError) -> None:
        log.warning("hints cannot be %s: %s", what, error)
        self._metrics.error(error)

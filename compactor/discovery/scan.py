"""Finding the collections to merge: a parallel segmented Scan of the home region.

A run reads a bounded number of pages; where it stops is stored in the table (`~scan`), and the next
run continues from there. A collection is in one segment, its items adjacent, so it is complete when
the next one begins; a collection cut by the end of a run counts as due, since the rest of it is
unknown.

A run reads all that totals depend on: a collection with an item that cannot be counted is due,
however small, and so is one whose total does not fit in 38 digits: a visit reports that.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any

import anyio

from compactor.discovery.summary import Summary
from compactor.indexer import Indexer
from compactor.merge_plan import MergeRules, older_than
from ledger.budgets.rights import expires_first, is_in_flight
from ledger.budgets.rights_items import check_control
from ledger.budgets.spend_record import is_open, spend_of
from ledger.core import keys
from ledger.core.entry import HOLD, AttributeValue, Item, Key
from ledger.core.errors import DamagedItem
from ledger.core.index import INDEX_PARTITIONS, IndexState
from ledger.core.item_checks import check_said, damaged_entries
from ledger.runtime.tasks import run_all
from ledger.store.port import Store
from ledger.store.reads import Get, Scan
from ledger.store.writes import Put

_FAR_SECONDS = 1e9
"""The furthest time at which a search is reported as due: a longer `scan_every` has no date."""


@dataclass(frozen=True, slots=True)
class ScanCursor:
    """The position in each segment of a round: the last key read, or None when finished.

    A segment without a position has not begun. `began` is the start of the round, if known.
    """

    segments: int
    places: Mapping[int, Key | None]
    began: datetime | None = None

    @property
    def is_finished(self) -> bool:
        """Whether every segment has been read to its end."""
        return len(self.places) == self.segments and not any(self.places.values())


@dataclass(slots=True)
class FoundCollections:
    """The result of a run: due partitions in order, backlog, pages read, and where it stopped.

    `oldest` is the sort key of the oldest entry of the backlog, None if that is empty. `signed` is
    how many nets were signed by each key, unsigned ones under the empty name, where nets are.
    `ripening` are collections that are not due, and will be once their youngest entry has settled,
    which was made at that time. `accounts_bytes` is the size of the accounts of the largest book.
    """

    due: list[str] = field(default_factory=list)
    ripening: dict[str, datetime] = field(default_factory=dict)
    backlog_entries: int = 0
    oldest: str | None = None
    collections: int = 0
    pages: int = 0
    signed: Counter[str] = field(default_factory=Counter)
    accounts_bytes: int = 0
    cursor: ScanCursor = field(default_factory=lambda: ScanCursor(1, {}))


class Finder:
    """One run of the search in one region; `indexer` compares the pages with the index."""

    def __init__(
        self,
        store: Store,
        *,
        rules: MergeRules,
        now: datetime,
        segments: int,
        pages_max: int,
        stop: anyio.Event,
        indexer: Indexer | None = None,
    ) -> None:
        self._store = store
        self._rules = rules
        self._indexer = indexer if rules.index else None
        self._attributes = rules.attributes
        self._shown: dict[str, IndexState] = {}
        self._index_met: list[Key] = []
        self._now = now
        self._settled = older_than(rules.settle, now=now)
        self._segments = segments
        self._pages_left = pages_max
        self._stop = stop
        self._found = FoundCollections()
        self._due: dict[str, None] = {}
        """Each once: a collection may be due for its entries, and for its budget."""

    async def find(self, cursor: ScanCursor | None) -> FoundCollections:
        """Continue from a cursor, or begin a new round, up to the bound of pages.

        Raises:
            StoreError: the region cannot be scanned.
        """
        if cursor is None or cursor.segments != self._segments or cursor.is_finished:
            cursor = ScanCursor(self._segments, {}, self._now)
        places = dict(cursor.places)
        jobs = [
            partial(self._segment, segment, places)
            for segment in range(self._segments)
            if places.get(segment, ("", "")) is not None
        ]
        await run_all(jobs, at_once=self._segments)
        self._found.cursor = ScanCursor(self._segments, places, cursor.began)
        self._found.due = list(self._due)
        return self._found

    async def _segment(self, segment: int, places: dict[int, Key | None]) -> None:
        current: Summary | None = None
        scan = Scan(
            segment=segment,
            segments=self._segments,
            after=places.get(segment),
            attributes=self._attributes,
        )
        while self._pages_left > 0 and not self._stop.is_set():
            self._pages_left -= 1
            self._found.pages += 1
            page = await self._store.scan(scan)
            current = self._take(page.items, current)
            places[segment] = page.after
            await self._compare_index()
            if page.after is None:
                break
            scan = scan.next(page)
        if current is not None:
            self._complete(current, is_cut=places.get(segment) is not None)
            await self._compare_index()

    async def _compare_index(self) -> None:
        if self._indexer is None:
            return
        shown, self._shown = self._shown, {}
        met, self._index_met = self._index_met, []
        await self._indexer.saw(shown)
        await self._indexer.met(met)

    def _take(self, items: Sequence[Item], current: Summary | None) -> Summary | None:
        end, damaged = 0, {item["pk"]["S"] for item in damaged_entries(items)}
        for partition, group in groupby([item["pk"]["S"] for item in items]):
            start, end = end, end + len(list(group))
            if current is None or current.partition != partition:
                if current is not None:
                    self._complete(current, is_cut=False)
                current = Summary(partition, self._settled)
            part = items[start:end]
            if partition in INDEX_PARTITIONS:
                self._index_met.extend((partition, item["sk"]["S"]) for item in part)
                continue
            if partition.startswith(keys.BUDGET_PREFIX):
                current.control += part
                self._meet_budget(partition.removeprefix(keys.BUDGET_PREFIX), current.control)
                continue
            current.is_damaged |= partition in damaged or self._is_unreadable(partition, part)
            current.add_all(part)
            if self._rules.has_budget(partition) and any(map(self._is_to_be_resolved, part)):
                self._due[partition] = None
        return current

    def _is_unreadable(self, partition: str, items: Sequence[Item]) -> bool:
        """Return whether a visit could not read what a merge keeps of these entries."""
        needs = {
            "with_items": self._rules.needs_items(partition),
            "with_dates": self._rules.needs_dates(partition),
        }
        try:
            check_said(items, partition, **needs)
        except DamagedItem:
            return True
        return False

    def _is_to_be_resolved(self, item: Item) -> bool:
        """Return whether an entry is a hold that has expired, or let through and not charged.

        What cannot be read is for the visit to find, and to report.
        """
        try:
            spend_of(item)
        except DamagedItem:
            return True
        return is_open(item) and (HOLD not in item or int(item[HOLD]["N"]) < self._now.timestamp())

    def _meet_budget(self, counter: str, items: Sequence[Item]) -> None:
        """Take the counter for due where a grant of its budget is over, or rights are in flight.

        Or a step of its limit is announced.

        What cannot be read is for the visit to find, and to report.
        """
        over = self._now.timestamp() - self._rules.grant_late
        firsts = [first for item in items if (first := expires_first(item)) is not None]
        is_announced = any("announced" in item for item in items)
        in_flight = is_in_flight(items, is_over=self._rules.is_over)
        is_over = any(first < over for first in firsts)
        is_due = is_announced or in_flight or is_over or any(map(_is_damaged, items))
        if is_due and self._rules.has_budget(counter):
            self._due[counter] = None

    def _complete(self, summary: Summary, *, is_cut: bool) -> None:
        if keys.counter_of(summary.partition) is None:
            return
        if self._indexer and summary.counts and self._rules.indexes(summary.partition):
            self._shown[summary.partition] = summary.shown
        self._found.collections += 1
        self._found.accounts_bytes = max(self._found.accounts_bytes, summary.accounts_bytes)
        if self._rules.is_signed:
            self._found.signed.update(summary.signers)
        backlog = summary.backlog(self._rules)
        self._found.backlog_entries += backlog.entries
        if backlog.oldest is not None:
            self._found.oldest = min(backlog.oldest, self._found.oldest or backlog.oldest)
        if is_cut or summary.is_due(backlog, self._rules, now=self._now):
            self._due[summary.partition] = None
            return
        youngest = summary.ripens(backlog, self._rules, now=self._now)
        if youngest is not None:
            self._found.ripening[summary.partition] = youngest


def _is_damaged(item: Item) -> bool:
    try:
        check_control(item)
    except DamagedItem:
        return True
    return False


def next_search(cursor: ScanCursor | None, every: float, *, now: datetime) -> datetime | None:
    """Return when the next round begins, `every` seconds after the last began; None: search now.

    A round that is not finished is continued at once.
    """
    if cursor is None or not cursor.is_finished or cursor.began is None:
        return None
    # A round that began in the future was begun by a clock that has been corrected since.
    is_waiting = 0 <= (now - cursor.began).total_seconds() < every
    return cursor.began + timedelta(seconds=min(every, _FAR_SECONDS)) if is_waiting else None


async def load_cursor(store: Store, name: str) -> ScanCursor | None:
    """Read where the last run stopped; None to begin a new round.

    A malformed cursor begins a new round: a cursor only saves reading.
    """
    item = await store.get(Get((keys.SCAN_PARTITION, name)))
    if item is None:
        return None
    try:
        cursor = _cursor_of(item)
    except (AttributeError, KeyError, ValueError, IndexError, TypeError):
        return None
    # With a position outside the segments the round would never be finished.
    known = range(cursor.segments)
    is_sound = all(segment in known and _is_place(key) for segment, key in cursor.places.items())
    return cursor if is_sound and known else None


def _cursor_of(item: Item) -> ScanCursor:
    places = {
        int(segment): None if "NULL" in place else (place["L"][0]["S"], place["L"][1]["S"])
        for segment, place in item["places"]["M"].items()
    }
    began = datetime.fromisoformat(item["began"]["S"]) if "began" in item else None
    if began is not None and began.tzinfo is None:
        raise ValueError(f"{began} has no zone")
    return ScanCursor(int(item["segments"]["N"]), places, began)


def _is_place(key: Key | None) -> bool:
    return key is None or all(isinstance(part, str) and part for part in key)


async def save_cursor(store: Store, name: str, cursor: ScanCursor) -> None:
    """Store where this run stopped; losing it only costs a repeated search."""
    places = {str(segment): _place(key) for segment, key in cursor.places.items()}
    item: dict[str, AttributeValue] = {
        "pk": {"S": keys.SCAN_PARTITION},
        "sk": {"S": name},
        "segments": {"N": str(cursor.segments)},
        "places": {"M": places},
    }
    if cursor.began is not None:
        item["began"] = {"S": cursor.began.isoformat()}
    await store.write(Put(item))


def _place(key: Key | None) -> dict[str, Any]:
    return {"NULL": True} if key is None else {"L": [{"S": key[0]}, {"S": key[1]}]}

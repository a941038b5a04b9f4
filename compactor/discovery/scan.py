"""Finding the collections to merge: a parallel segmented Scan of keys in the home region.

A run reads a bounded number of pages; where it stops is stored in the table (`~scan`), and the next
run continues from there. A collection is in one segment, its items adjacent, so it is complete when
the next one begins; a collection cut by the end of a run counts as due, since the rest of it is
unknown.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import anyio

from compactor.indexing import Indexer
from compactor.plan import NAMED_MAX, Rules, is_worthwhile, older_than
from ledger.core import ids, keys
from ledger.core.entry import (
    FAULT,
    GRANT,
    HOLD,
    RESOLVED,
    AttributeValue,
    Item,
    Key,
    number_of,
)
from ledger.core.errors import DamagedItem
from ledger.core.ids import EntryIds
from ledger.core.index import INDEX_PARTITIONS, ONLY_LISTED, IndexState
from ledger.core.signatures import SIGNATURE, SIGNED, signer_of
from ledger.core.sums import SUM_PREFIX, SumPlace, place_of
from ledger.limits.rights import expires_first, is_in_flight
from ledger.limits.spends import is_open
from ledger.runtime.tasks import run_all
from ledger.store.port import Store
from ledger.store.reads import Get, Scan
from ledger.store.writes import Put

_ATTRIBUTES = ("pk", "sk", "merged", "version")
_OF_BUDGETS = ("grants", "sent", "taken", "cut", "announced", GRANT, HOLD, RESOLVED)
"""Read beside them where there are budgets: what is to be closed, taken up, resolved, confirmed."""
_OF_INDEX = ("change", "count")
"""Read as well if there is an index: the net's attributes, and which items count at all."""
_OF_SIGNED = (*SIGNED, SIGNATURE)
"""Read as well if nets are signed, all that their signatures cover: the store checks them."""


class Backlog(NamedTuple):
    """The number of entries to be merged, and the sort key of the oldest."""

    entries: int
    oldest: str | None


NO_BACKLOG = Backlog(0, None)
_FAR_SECONDS = 1e9
"""The furthest time at which a search is reported as due: a longer `scan_every` has no date."""
KEYS_MAX = 2 * NAMED_MAX
"""Further entries of a longer collection are only counted; those that a net names come first."""
NO_IDS = EntryIds()
"""Of a collection that has no net, or whose net names none."""


@dataclass(slots=True)
class Summary:
    """The keys of one collection in the home region, summarized; `settled` bounds those counted.

    At most `KEYS_MAX` sort keys are kept, about 5 MB, however long the collection is. `counts` is
    whether anything in it counts, and `shown` the state of its net: if there is an index. `signers`
    are the keys of the nets that the store trusts. `control` has the control items of a budget.
    """

    partition: str
    settled: str
    entries: list[str] = field(default_factory=list)
    more: int = 0
    merged: EntryIds = NO_IDS
    nets: int = 0
    sums: dict[SumPlace, int] = field(default_factory=dict)
    copies: dict[SumPlace, int] = field(default_factory=dict)
    is_damaged: bool = False
    counts: bool = False
    shown: IndexState = ONLY_LISTED
    signers: list[str] = field(default_factory=list)
    control: list[Item] = field(default_factory=list)

    def add_entries(self, sort_keys: Sequence[str]) -> None:
        """Add the keys of entries, and of foreign items."""
        room = KEYS_MAX - len(self.entries)
        if len(sort_keys) <= room:
            self.entries += sort_keys
            return
        self.entries += sort_keys[:room]
        self.more += sum(key < self.settled for key in sort_keys[room:])

    def add_all(self, items: Sequence[Item], *, with_changes: bool = True) -> None:
        """Add the keys of items, nearly all of which are entries with few differences.

        `with_changes` says whether the items were read with their changes, if they have any.
        """
        sort_keys = [item["sk"]["S"] for item in items]
        entries = items
        if max(sort_keys, default="") >= keys.RESERVED:
            sort_keys = [key for key in sort_keys if key < keys.RESERVED]
            entries = [item for item in items if item["sk"]["S"] < keys.RESERVED]
            for item in items:
                if item["sk"]["S"] >= keys.RESERVED:
                    self.add(item)
        self.add_entries(sort_keys)
        if with_changes:
            self.counts = self.counts or any("change" in item for item in entries)

    def add(self, item: Item) -> None:
        """Add the keys of one item."""
        sort_key = item["sk"]["S"]
        # A net of nothing records what has settled of a counter that was only asked about.
        is_empty = sort_key.startswith(keys.NET_PREFIX) and item.get("count") == {"N": "0"}
        self.counts = self.counts or ("change" in item and not is_empty)
        if not sort_key.startswith(keys.RESERVED):
            self.add_entries([sort_key])
        elif sort_key.startswith(keys.NET_PREFIX):
            self.nets += 1
            try:
                self.merged = ids.unpack_all(item["merged"]["B"])
            except (KeyError, ValueError):
                self.is_damaged = True
            if FAULT in item:
                self.is_damaged = True
                return
            self.signers.append(signer_of(item))
            self._show(sort_key, item)
        elif sort_key.startswith(SUM_PREFIX):
            self.counts = True
            self._add_sum(sort_key, item.get("version", {}).get("N", ""))

    def _show(self, sort_key: str, item: Item) -> None:
        """Take the state of a net, if that was read; the last is of the highest generation.

        Unreadable ones are left for the visit to find and report.
        """
        if "change" not in item:
            return
        with suppress(DamagedItem):
            generation = keys.generation_of(sort_key) or 0
            count = int(number_of(item, "count"))
            self.shown = IndexState(generation, count, number_of(item, "change"))

    def _add_sum(self, sort_key: str, version: str) -> None:
        found = place_of(sort_key)
        if found is None or not version.isdecimal():
            self.is_damaged = True
            return
        place, is_copy = found
        (self.copies if is_copy else self.sums)[place] = int(version)

    def backlog(self, rules: Rules) -> Backlog:
        """Return the settled entries that are to be merged and that no net counts."""
        if not self.entries or not rules.merges(self.partition):
            return NO_BACKLOG
        settled = self.settled
        found = [key for key in self.entries if key < settled]
        if self.merged:
            named = frozenset(self.merged.sort_keys)
            found = [key for key in found if key not in named]
        ours = ids.ours(sorted(found))  # already sorted, within a page
        return Backlog(len(ours) + self.more, ours[0] if ours else None)

    def is_due(self, backlog: Backlog, rules: Rules, *, now: datetime) -> bool:
        """Return whether a visit would find something to do: fold, delete, or drop ids.

        Of several nets all but the last are outdated: one that a lost region wrote may arrive once
        its collection is quiet, as may its additions to a sum. `backlog` is the collection's.
        """
        return (
            self.is_damaged
            or self.nets > 1
            or self.more > 0
            or self._is_to_be_copied(rules)
            or len(self.merged) >= rules.prune_min
            or self._shows_merged()
            or is_worthwhile(settled=backlog.entries, oldest=backlog.oldest, rules=rules, now=now)
        )

    def _shows_merged(self) -> bool:
        """Return whether an entry is there that the net names: it is to be deleted."""
        if not self.entries or not self.merged:
            return False
        return not set(self.entries).isdisjoint(self.merged.sort_keys)

    def _is_to_be_copied(self, rules: Rules) -> bool:
        return any(
            rules.is_over(place) and self.copies.get(place, 0) < version
            for place, version in self.sums.items()
        )


@dataclass(frozen=True, slots=True)
class Cursor:
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
class Found:
    """The result of a run: due partitions in order, backlog, pages read, and where it stopped.

    `oldest` is the sort key of the oldest entry of the backlog, None if that is empty. `signed` is
    how many nets were signed by each key, unsigned ones under the empty name, where nets are.
    """

    due: list[str] = field(default_factory=list)
    backlog_entries: int = 0
    oldest: str | None = None
    collections: int = 0
    pages: int = 0
    signed: Counter[str] = field(default_factory=Counter)
    cursor: Cursor = field(default_factory=lambda: Cursor(1, {}))


class Finder:
    """One run of the search in one region; `indexer` compares the pages with the index."""

    def __init__(
        self,
        store: Store,
        *,
        rules: Rules,
        now: datetime,
        segments: int,
        pages_max: int,
        stop: anyio.Event,
        indexer: Indexer | None = None,
    ) -> None:
        self._store = store
        self._rules = rules
        self._indexer = indexer if rules.index else None
        attributes = (
            *_ATTRIBUTES,
            *(_OF_INDEX if self._indexer else ()),
            *(_OF_BUDGETS if rules.budgets else ()),
            *(_OF_SIGNED if rules.is_signed else ()),
        )
        self._attributes: Sequence[str] = tuple(dict.fromkeys(attributes))
        self._shown: dict[str, IndexState] = {}
        self._index_met: list[Key] = []
        self._now = now
        self._settled = older_than(rules.settle, now=now)
        self._segments = segments
        self._pages_left = pages_max
        self._stop = stop
        self._found = Found()
        self._due: dict[str, None] = {}
        """Each once: a collection may be due for its entries, and for its budget."""

    async def find(self, cursor: Cursor | None) -> Found:
        """Continue from a cursor, or begin a new round, up to the bound of pages.

        Raises:
            StoreError: the region cannot be scanned.
        """
        if cursor is None or cursor.segments != self._segments or cursor.is_finished:
            cursor = Cursor(self._segments, {}, self._now)
        places = dict(cursor.places)
        jobs = [
            partial(self._segment, segment, places)
            for segment in range(self._segments)
            if places.get(segment, ("", "")) is not None
        ]
        await run_all(jobs, at_once=self._segments)
        self._found.cursor = Cursor(self._segments, places, cursor.began)
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
        end = 0
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
            current.add_all(part, with_changes=self._indexer is not None)
            if self._rules.has_budget(partition) and any(map(self._is_to_be_resolved, part)):
                self._due[partition] = None
        return current

    def _is_to_be_resolved(self, item: Item) -> bool:
        """Return whether an entry is a hold that has expired, or let through and not charged.

        What cannot be read is for the visit to find, and to report.
        """
        if not is_open(item):
            return False
        try:
            return HOLD not in item or int(item[HOLD]["N"]) < self._now.timestamp()
        except (KeyError, TypeError, ValueError):
            return True

    def _meet_budget(self, counter: str, items: Sequence[Item]) -> None:
        """Take the counter for due where a grant of its budget is over, or rights are in flight.

        Or a step of its limit is announced.

        What cannot be read is for the visit to find, and to report.
        """
        over = self._now.timestamp() - self._rules.grant_late
        firsts = [first for item in items if (first := expires_first(item)) is not None]
        is_announced = any("announced" in item for item in items)
        in_flight = is_in_flight(items, is_over=self._rules.is_over)
        is_due = is_announced or in_flight or any(first < over for first in firsts)
        if is_due and self._rules.has_budget(counter):
            self._due[counter] = None

    def _complete(self, summary: Summary, *, is_cut: bool) -> None:
        if keys.counter_of(summary.partition) is None:
            return
        if self._indexer and summary.counts and self._rules.indexes(summary.partition):
            self._shown[summary.partition] = summary.shown
        self._found.collections += 1
        if self._rules.is_signed:
            self._found.signed.update(summary.signers)
        backlog = summary.backlog(self._rules)
        self._found.backlog_entries += backlog.entries
        if backlog.oldest is not None:
            self._found.oldest = min(backlog.oldest, self._found.oldest or backlog.oldest)
        if is_cut or summary.is_due(backlog, self._rules, now=self._now):
            self._due[summary.partition] = None


def next_search(cursor: Cursor | None, every: float, *, now: datetime) -> datetime | None:
    """Return when the next round begins, `every` seconds after the last began; None: search now.

    A round that is not finished is continued at once.
    """
    if cursor is None or not cursor.is_finished or cursor.began is None:
        return None
    # A round that began in the future was begun by a clock that has been corrected since.
    is_waiting = 0 <= (now - cursor.began).total_seconds() < every
    return cursor.began + timedelta(seconds=min(every, _FAR_SECONDS)) if is_waiting else None


async def load_cursor(store: Store, name: str) -> Cursor | None:
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


def _cursor_of(item: Item) -> Cursor:
    places = {
        int(segment): None if "NULL" in place else (place["L"][0]["S"], place["L"][1]["S"])
        for segment, place in item["places"]["M"].items()
    }
    began = datetime.fromisoformat(item["began"]["S"]) if "began" in item else None
    if began is not None and began.tzinfo is None:
        raise ValueError(f"{began} has no zone")
    return Cursor(int(item["segments"]["N"]), places, began)


def _is_place(key: Key | None) -> bool:
    return key is None or all(isinstance(part, str) and part for part in key)


async def save_cursor(store: Store, name: str, cursor: Cursor) -> None:
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

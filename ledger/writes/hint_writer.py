"""Leaving hints for the compactor, in the background and on a best-effort basis.

A writer leaves a hint for one entry in `compactor.hint_every`, chosen by its id; a reader leaves
one for a long collection that has stayed unmerged for longer than merging should take. Nothing here
delays or fails a call: a hint that cannot be left is dropped, and the compactor's full search finds
the collection.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import partial

import anyio
from anyio.abc import TaskGroup

from ledger.core.errors import AccessDenied, StoreError
from ledger.core.hints import Hint, ending_below, hint_for, ripe_hint
from ledger.core.values import Entry
from ledger.reads.total import Total
from ledger.runtime.services import Services
from ledger.runtime.tasks import is_cancelled, run_all
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.store.writes import BATCH_WRITES_MAX, Delete, Put

WAITING_MAX = 10_000
"""Hints that wait to be written; more are dropped."""
LEFT_MAX = 10_000
"""Hints remembered as left, so that a busy counter does not leave the same one repeatedly."""
WATCHED_MAX = 1_000
"""Long collections that a reader watches; the least recently read is forgotten first."""
PAUSE_SECONDS = 0.25
"""The wait between two batches: at most 100 hints a second, however much is written."""
CLOSE_SECONDS_MAX = 1.0
"""How long closing waits for hints that are still to be written."""
NEGLECTED_SETTLES = 2.0
"""A long collection that stays unmerged for this many times `settle` needs a hint."""
_LAST_DIGITS = slice(40, 44)
"""Of the id of an item, also in the id of a part of it: those that say whether to leave a hint."""

BATCHES_AT_ONCE = 8
"""Batches of hints that one caller has under way."""

log = logging.getLogger(__name__)


async def leave_hints(store: Store, hints: Iterable[Hint]) -> bool:
    """Write hints; return whether all are known to be written.

    Raises:
        StoreError: DynamoDB failed.
    """
    return await write_all(store, [Put(hint.item) for hint in hints])


async def write_all(store: Store, writes: Sequence[Put | Delete]) -> bool:
    """Write in batches, each once; return whether all is known to be written.

    Raises:
        StoreError: DynamoDB failed.
    """
    starts = range(0, len(writes), BATCH_WRITES_MAX)
    jobs = [
        partial(store.write_batch, writes[start : start + BATCH_WRITES_MAX]) for start in starts
    ]
    outcomes = await run_all(jobs, at_once=BATCHES_AT_ONCE)
    return not any(outcome.unprocessed or outcome.unknown for outcome in outcomes)


@dataclass(frozen=True, slots=True)
class SeenCounters:
    """A long collection as it was first read: when, and which net changes it showed."""

    at: datetime
    versions: tuple[str, ...]


class HintWatch:
    """Finds long collections that stay unmerged, from the totals that are read."""

    def __init__(self, *, entries_min: int, settle: float) -> None:
        self._entries_min = entries_min
        self._unmerged_max = timedelta(seconds=NEGLECTED_SETTLES * settle)
        self._seen: OrderedDict[str, SeenCounters] = OrderedDict()

    def neglected_since(self, total: Total) -> datetime | None:
        """Observe a total; return when its entries were first seen, if that is too long ago."""
        seen = self._seen.get(total.counter)
        if total.entries < self._entries_min:
            if seen is not None:
                del self._seen[total.counter]
            return None
        if seen is not None and seen.versions == total.versions:
            if total.as_of - seen.at <= self._unmerged_max:
                return None
        else:
            seen = None
        self._seen[total.counter] = SeenCounters(total.as_of, total.versions)
        self._seen.move_to_end(total.counter)
        while len(self._seen) > WATCHED_MAX:
            self._seen.popitem(last=False)
        return seen.at if seen else None


class HintWriter:
    """Leaves the hints of one process in one region; `tasks` runs the rest of the work."""

    def __init__(
        self,
        store: Store,
        *,
        settings: LiveSettings,
        services: Services,
        tasks: TaskGroup,
    ) -> None:
        self._store = store
        self._clock = services.clock
        self._metrics = services.metrics
        self._tasks = tasks
        self._settings = settings
        every = settings.current.compactor.hint_every
        self._below = ending_below(every)
        self._watch = (
            HintWatch(entries_min=every, settle=settings.current.settle) if every else None
        )
        self._waiting: deque[Hint] = deque()
        self._left: set[Hint] = set()
        self._is_sending = False
        self._is_refused = False
        self._is_closed = False

    def wrote(self, entry: Entry) -> None:
        """Leave a hint for an entry that was written, if the id of its item says so."""
        self.wrote_all((entry,))

    def wrote_all(self, entries: Iterable[Entry]) -> None:
        """Leave hints for entries that were written, as `wrote`."""
        below = self._below
        for entry in entries:
            if entry.id[_LAST_DIGITS] < below:
                self._leave(entry.counter, entry.at)

    def added(self, counters: Iterable[str], at: datetime) -> None:
        """Leave a hint for each watched counter whose sums have grown, one per span of time.

        Sums are not merged; but the compactor compares the counters it visits with the watches.
        """
        watched = {watch.counters for watch in self._settings.current.watches.values()}
        for counter in counters if watched else ():
            if any(fnmatchcase(counter, pattern) for pattern in watched):
                self._leave(counter, at)

    def read(self, total: Total) -> None:
        """Leave a hint for a total that was read, if its collection stays unmerged."""
        if self._watch is not None and not total.cached:
            since = self._watch.neglected_since(total)
            if since is not None:
                self._leave(total.counter, since)

    def asked(self, counter: str) -> None:
        """Leave a hint that is ripe now, and says that a key from before it was asked about."""
        settings = self._settings.current
        if not settings.terms.is_unmerged(counter):
            ripe = ripe_hint(counter, self._clock.now(), settle=settings.settle)
            self._leave_hint(replace(ripe, asked=True))

    async def close(self) -> None:
        """Write waiting hints, for a moment, and drop later ones; called before the tasks end.

        Not if everything is being cancelled: an error of cancellation, raised from here while
        another is on its way through the same exits, would tie their contexts into a cycle.
        """
        self._is_closed = True
        if self._waiting and not self._is_refused and not is_cancelled():
            with anyio.move_on_after(CLOSE_SECONDS_MAX, shield=True):
                await self._send_batch()

    def _leave(self, counter: str, at: datetime | None) -> None:
        settings = self._settings.current
        if settings.terms.is_unmerged(counter):
            return
        if at is not None:
            self._leave_hint(hint_for(counter, at, settle=settings.settle))

    def _leave_hint(self, hint: Hint) -> None:
        if hint in self._left or self._is_refused:
            return
        if self._is_closed or len(self._waiting) >= WAITING_MAX:
            self._metrics.hinted(self._store.region, "dropped")
            return
        if len(self._left) >= LEFT_MAX:
            self._left.clear()
        self._left.add(hint)
        self._waiting.append(hint)
        if not self._is_sending:
            self._is_sending = True
            self._tasks.start_soon(self._send)

    async def _send(self) -> None:
        try:
            while self._waiting and not self._is_refused:
                await self._send_batch()
                await self._clock.sleep(PAUSE_SECONDS)
        finally:
            self._is_sending = False

    async def _send_batch(self) -> None:
        """Write some hints, once each: no caller depends on them, so none is retried."""
        count = min(BATCH_WRITES_MAX, len(self._waiting))
        batch = [self._waiting.popleft() for _ in range(count)]
        left = 0
        try:
            outcome = await self._store.write_batch([Put(hint.item) for hint in batch])
            left = count - len(outcome.unprocessed) - len(outcome.unknown)
        except AccessDenied as error:
            self._is_refused = True
            log.info("no hints are left for the compactor: %s", error)
        except StoreError as error:
            log.debug("%d hints are dropped: %s", count, error)
        self._metrics.hinted(self._store.region, "left", left)
        self._metrics.hinted(self._store.region, "dropped", count - left)

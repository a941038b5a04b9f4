"""Writing changes: each an entry of its own, whose id is made once and reused by every retry.

::

    record --> put if absent --+-- applied ------------------------------> done
                               |-- rejected, same content there ---------> done (an earlier try)
                               |-- rejected, other content there --------> KeyConflict
                               `-- unknown --> the same id again, until `write_deadline` or the
                               retry
                                               horizon ends --> OutcomeUnknown, with the entry

Changes without a key that are recorded at the same time share batches
(`ledger.writing.group_commit`).
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from random import Random

import anyio
from anyio.abc import TaskGroup

from ledger.core import amounts, keys
from ledger.core.capacity import item_size
from ledger.core.errors import (
    DamagedItem,
    InvalidEntry,
    KeyConflict,
    OutcomeUnknown,
    StoreError,
)
from ledger.core.ids import SUFFIX_BITS
from ledger.core.values import Entry
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import run_all
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.retrier import DEADLINE_BACKOFF, Retrier
from ledger.store.writes import (
    BATCH_WRITES_MAX,
    TRANSACTION_ACTIONS_MAX,
    Applied,
    Outcome,
    Rejected,
    Unknown,
)
from ledger.writing.group_commit import GroupCommit, OnGroup, Settle
from ledger.writing.plan import (
    Change,
    Planned,
    confirmed,
    distinct,
    latest_repeat,
    plan,
    plan_group,
    replan,
)

TRANSACTION_BYTES_MAX = 4 * 1024 * 1024
WRITES_AT_ONCE = 8
COMBINES_MAX = 10_000
"""Counters of which a writer remembers whether their changes are combined."""


def _ignored(_applied: Sequence[Planned]) -> None:
    """Nobody asks before the whole is written."""


class Writer:
    """Writes changes in one region."""

    def __init__(
        self, store: Store, *, settings: Settings, clock: Clock, randomness: Random
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._random = randomness
        self._retrier = Retrier.of(
            store, clock=clock, randomness=randomness, backoff=DEADLINE_BACKOFF
        )
        self._combines = lru_cache(COMBINES_MAX)(settings.combines)
        self._group: GroupCommit | None = None

    def share(self, tasks: TaskGroup, *, on_group: OnGroup) -> None:
        """Let concurrent calls share batches, sent by `tasks`; without it each is sent alone.

        `on_group` is told the size of each batch, and how many calls wait.
        """
        self._group = GroupCommit(
            self._write_group,
            self._plan_group,
            tasks=tasks,
            clock=self._clock,
            settings=self._settings.writer,
            on_group=on_group,
        )

    def close(self) -> None:
        """Let no caller wait for ever: what still waits is not sent any more."""
        if self._group is not None:
            self._group.close()

    def record(self, change: Change) -> Awaitable[Entry]:
        """Write one change; see `Ledger.record`. What breaks a rule is refused before any wait."""
        if self._group is None or change.key is not None:
            return self._put(self._plan(change))
        if change.is_plain:
            return self.add(change.counter, change.change)
        return self._group.record_planned(partial(self._plan, change))

    def add(self, counter: str, change: int | Decimal) -> Awaitable[Entry]:
        """Write a change that is no more than an amount, as `record` does."""
        if self._group is None:
            return self._put(self._plan(Change(counter, change)))
        counter, amount = keys.checked_counter(counter), amounts.exact(change)
        if self._settings.combine and self._combines(counter):
            return self._group.combine(counter, amount)
        return self._group.record(counter, amount)

    async def record_many(self, changes: Sequence[Change]) -> list[Entry]:
        """Write many changes, each on its own; see `Ledger.record_many`."""
        planned = self._plan_many(changes)
        await self._write_all(planned)
        return [one.entry for one in planned]

    async def record_together(self, changes: Sequence[Change]) -> list[Entry]:
        """Write up to 100 changes, all or none; see `Ledger.record_together`."""
        planned = [self._plan(change) for change in changes]
        await self._transact(planned)
        return [one.entry for one in planned]

    async def retry(self, entries: Sequence[Entry], *, together: bool) -> list[Entry]:
        """Write the same entries again; see `Ledger.retry`."""
        now = self._clock.now()
        planned = [
            replan(entry, region=self._store.region, settings=self._settings, now=now)
            for entry in entries
        ]
        await (self._transact(planned) if together else self._write_all(planned))
        return [one.entry for one in planned]

    def _plan(self, change: Change) -> Planned:
        return plan(
            change,
            region=self._store.region,
            settings=self._settings,
            now=self._clock.now(),
            suffix=self._random.getrandbits(SUFFIX_BITS),
        )

    def _plan_many(self, changes: Sequence[Change]) -> list[Planned]:
        """Plan changes, at once if they are no more than amounts."""
        if not all(change.is_plain for change in changes):
            return [self._plan(change) for change in changes]
        return self._plan_group(
            [(keys.checked_counter(one.counter), amounts.exact(one.change), 1) for one in changes]
        )

    def _plan_group(self, changes: Sequence[tuple[str, Decimal, int]]) -> list[Planned]:
        return plan_group(
            changes,
            region=self._store.region,
            settings=self._settings,
            now=self._clock.now(),
            bits=self._random.getrandbits(SUFFIX_BITS * len(changes)),
        )

    async def _put(self, planned: Planned) -> Entry:
        outcome = await self._until_known(lambda: self._store.write(planned.put), [planned])
        if isinstance(outcome, Applied):
            return planned.entry
        # Not every engine hands back the item that was in the way.
        found = outcome.found[0] or await self._store.get(Get(planned.put.key))
        if found is None:
            raise _unknown([planned], "an item was in the way and is gone", 1, together=False)
        return confirmed(planned.entry, found)

    async def _until_known(
        self,
        attempt: Callable[[], Awaitable[Outcome]],
        planned: Sequence[Planned],
        *,
        together: bool = False,
    ) -> Applied | Rejected:
        """Try until the outcome is known, with the same ids."""
        deadline = self._clock.monotonic() + self._settings.write_deadline
        horizon = latest_repeat(planned)
        # A change with a key may repeat another process's try, and of a large write the last parts
        # have waited since their ids were checked; an id that nobody else can have never is late.
        fresh = not any(one.keyed for one in planned)
        tries = self._retrier.begin("write", deadline=deadline)
        cause = "the retry horizon passed before its turn came"
        while fresh or self._clock.now() <= horizon:
            left = math.inf if fresh else (horizon - self._clock.now()).total_seconds()
            fresh = False
            outcome = await self._attempt(attempt, left, known_unsent=tries.requests == 0)
            if not isinstance(outcome, Unknown):
                tries.succeeded()
                return outcome
            cause = outcome.cause
            if not await tries.again("unanswered", requests=outcome.requests):
                break
        raise _unknown(planned, cause, tries.requests, together=together)

    @staticmethod
    async def _attempt(
        attempt: Callable[[], Awaitable[Outcome]], left_seconds: float, *, known_unsent: bool
    ) -> Outcome:
        """Make one attempt; after an unknown one a plain failure leaves the fate unknown.

        The store's own tries within it are cut off at the retry horizon: no request that was
        signed later may be in flight when `settle` takes the id for dead.
        """
        try:
            if left_seconds == math.inf:  # as nearly always: a cut-off that never comes costs time
                return await attempt()
            with anyio.move_on_after(left_seconds):
                return await attempt()
        except StoreError as error:
            if known_unsent:
                raise
            return Unknown(str(error), error.requests)
        return Unknown("cut off at the retry horizon")

    async def _write_all(self, planned: Sequence[Planned]) -> None:
        """Write entries on their own: batches, and conditional puts where a key may conflict."""
        once = distinct(planned)
        keyed = [one for one in once if one.keyed]
        free = [one for one in once if not one.keyed]
        chunks = [
            free[start : start + BATCH_WRITES_MAX]
            for start in range(0, len(free), BATCH_WRITES_MAX)
        ]
        progress = _Progress(total=len(once))
        jobs = [partial(self._guarded, progress, [one], self._write_keyed) for one in keyed]
        jobs += [partial(self._guarded, progress, chunk, self._write_chunk) for chunk in chunks]
        await run_all(jobs, at_once=WRITES_AT_ONCE)
        progress.finish()

    async def _guarded(
        self,
        progress: "_Progress",
        planned: Sequence[Planned],
        write: Callable[[Sequence[Planned]], Awaitable[None]],
    ) -> None:
        """Write a part; its failure is noted and stops no other part."""
        if progress.refused is not None:
            progress.unwritten.extend(planned)
            return
        try:
            await write(planned)
        except OutcomeUnknown as error:
            progress.note(error, [one for one in planned if one.entry in error.entries])
        except (KeyConflict, DamagedItem) as error:
            progress.conflict = progress.conflict or error
            progress.conflicting.extend(planned)
        except StoreError as error:
            progress.refused = error
            progress.unwritten.extend(planned)

    async def _write_keyed(self, planned: Sequence[Planned]) -> None:
        for one in planned:
            await self._put(one)

    async def _write_group(self, planned: Sequence[Planned], settle: Settle) -> None:
        """Write what was recorded at the same time; `settle` hears of each as it is durable."""
        if len(planned) == 1:
            await self._put(planned[0])
            settle(planned)
        else:
            await self._write_chunk(planned, settle)

    async def _write_chunk(self, planned: Sequence[Planned], settle: Settle = _ignored) -> None:
        """Write up to 25 entries by batches: putting the same entry again changes nothing."""
        left = list(planned)

        async def attempt() -> Outcome:
            nonlocal left
            outcome = await self._store.write_batch([one.batch_put for one in left])
            if not outcome.unknown and not outcome.unprocessed:
                settle(left)
                return Applied()
            places = {*outcome.unknown, *outcome.unprocessed}
            settle([one for place, one in enumerate(left) if place not in places])
            left = [left[place] for place in sorted(places)]
            return Unknown(outcome.cause, outcome.requests)

        try:
            await self._until_known(attempt, planned)
        except OutcomeUnknown as error:
            raise OutcomeUnknown(str(error), entries=[one.entry for one in left]) from None

    async def _transact(self, planned: Sequence[Planned]) -> None:
        """Write up to 100 entries in one transaction.

        Entries that are there already, with the same content, were written by an earlier try,
        perhaps in another region from which not all have arrived: the rest is written together.
        """
        left = distinct(planned)
        _check_transaction(left)
        while left:
            puts = [one.put for one in left]
            outcome = await self._until_known(
                lambda puts=puts: self._store.transact(puts),  # type: ignore[misc]
                left,
                together=True,
            )
            if isinstance(outcome, Applied):
                return
            for place, found in outcome.found.items():
                if found is not None:
                    confirmed(left[place].entry, found)
            left = [one for place, one in enumerate(left) if place not in outcome.found]


class _Progress:
    """What became of the parts of a large write."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.unwritten: list[Planned] = []
        self.unknown: OutcomeUnknown | None = None
        self.refused: StoreError | None = None
        self.conflict: KeyConflict | DamagedItem | None = None
        self.conflicting: list[Planned] = []

    def note(self, error: OutcomeUnknown, planned: Sequence[Planned]) -> None:
        """Keep the entries whose outcome is unknown."""
        self.unknown = error
        self.unwritten.extend(planned)

    def finish(self) -> None:
        """Raise what went wrong, if anything did, naming what can be written again."""
        if self.refused is not None and self.unknown is None and len(self.unwritten) == self.total:
            raise self.refused
        if self.unwritten:
            cause = self.refused or self.unknown
            # A conflict is no less unwritten: a retry shows it again, where silence would not.
            entries = [one.entry for one in (*self.unwritten, *self.conflicting)]
            raise OutcomeUnknown(
                f"{len(entries)} of {self.total} changes are not confirmed: {cause}",
                entries=entries,
            )
        if self.conflict is not None:
            raise self.conflict


def _unknown(
    planned: Sequence[Planned], cause: str, requests: int, *, together: bool
) -> OutcomeUnknown:
    first = planned[0].entry
    more = f" and {len(planned) - 1} more" if len(planned) > 1 else ""
    # Without a key the same call would make a new id, and count a second time.
    safe = "the same call or Ledger.retry" if all(one.keyed for one in planned) else "Ledger.retry"
    return OutcomeUnknown(
        f"no answer after {requests} request{'s' if requests != 1 else ''} for counter"
        f" {first.counter!r} id {first.id}{more}: the change may or may not be there ({cause});"
        f" until the retry horizon {safe} is safe",
        entries=[one.entry for one in planned],
        together=together,
    )


def _check_transaction(planned: Sequence[Planned]) -> None:
    if len(planned) > TRANSACTION_ACTIONS_MAX:
        raise InvalidEntry(
            f"{len(planned)} changes together: a transaction holds up to {TRANSACTION_ACTIONS_MAX}"
        )
    size = sum(item_size(one.item) for one in planned)
    if size > TRANSACTION_BYTES_MAX:
        raise InvalidEntry(
            f"{size:,} bytes together: a transaction holds up to {TRANSACTION_BYTES_MAX:,};"
            " shorten the notes"
        )

"""Dead letters of guarded events, in the table: counted by all processes, listed and released."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from ledger.core.entry import Item
from ledger.core.errors import LeaseLost, LedgerError, RequestRefused, StoreError, Unreachable
from ledger.primitives.versions.failure_items import (
    FAILURES_MAX,
    DeadLetter,
    Failures,
    cause_of,
    checked_failures_max,
    failed_again,
    failures_item,
    failures_key,
    failures_of,
    partitions,
    unchanged,
)
from ledger.primitives.versions.version_rules import Event, Refused
from ledger.runtime.call_deadlines import arranging, changing, each_in_time, reading
from ledger.store.port import Store
from ledger.store.reads import Get, Query
from ledger.store.retrier import Retrier
from ledger.store.writes import Applied, Delete, Put, Rejected, Unknown

COUNT_TRIES_MAX = 20
_ID_BITS = 128

Outcome = TypeVar("Outcome")


class DeadLetters:
    """The failures of one table's events, by subject, kind and version.

    An event that failed `failures_max` times (5 if the guard was given none) is a dead letter: it
    is kept, with its causes, and not handled until it is released. All must write in one region.
    Methods are for any task.
    """

    def __init__(self, store: Store, retrier: Retrier, *, failures_max: int | None) -> None:
        self._store = store
        self._retrier = retrier
        self._failures_max = checked_failures_max(
            FAILURES_MAX if failures_max is None else failures_max
        )

    async def find(self, event: Event, *, timeout: float | None = None) -> DeadLetter | None:
        """Return the event's dead letter, strongly consistent; None without one.

        Raises:
            DamagedItem: the item of its failures is not of our form.
            ReadTooSlow: `timeout` seconds ended.
            StoreError: the table could not be read.
        """
        with reading(timeout):
            found = await self._read(event)
        return found.letter if found is not None and found.dead else None

    async def failed(
        self, event: Event, cause: object, *, timeout: float | None = None
    ) -> DeadLetter | None:
        """Count a failure of an event, an error or a text, once; return the dead letter, if any.

        A dead letter is counted no further. A count is kept for 14 days after its last failure,
        where the table's time to live is on; elsewhere it stays.

        Raises:
            DamagedItem: the item of its failures is not of our form.
            NotSent: `timeout` seconds ended; the failure is not counted.
            OutcomeUnknown: they ended, and it may be counted; the same call may count it twice.
            StoreError: the failure is not known to be counted.
        """
        with arranging(timeout, "the failure may be counted", retryable=False):
            return await self._failed(event, cause)

    async def _failed(self, event: Event, cause: object) -> DeadLetter | None:
        draw = self._retrier.randomness.getrandbits(_ID_BITS)
        failure = f"{draw:0{_ID_BITS // 4}x}", cause_of(cause)
        seen = await self._read(event)
        for tries in range(1, COUNT_TRIES_MAX + 1):
            if seen is not None and (seen.dead or failure[0] in seen.ids):
                return seen.letter if seen.dead else None
            wanted = failed_again(
                seen,
                event,
                failure,
                at=self._retrier.clock.now(),
                failures_max=self._failures_max,
            )
            write = Put(failures_item(wanted), unchanged(seen))
            final = await self._retrier.until_answered(partial(self._store.write, write))
            match final.outcome:
                case Applied():
                    return wanted.letter if wanted.dead else None
                case Rejected(found=found):
                    seen = _read(found[0])
                case Unknown(cause=why):
                    raise Unreachable.unanswered(f"a failure of {event} may not be counted: {why}")
            await self._retrier.pause(tries)
        raise Unreachable(f"a failure of {event} is not counted: too many others were at once")

    def letters(self, *, timeout: float | None = None) -> AsyncIterator[DeadLetter]:
        """Yield all dead letters, each as it was at some moment of the listing, in no order.

        `timeout` bounds each wait for the next one, in seconds.

        Raises:
            DamagedItem: the item of an event's failures is not of our form.
            ReadTooSlow: `timeout` ended.
            StoreError: the table could not be read.
        """
        return each_in_time(timeout, self._letters())

    async def _letters(self) -> AsyncIterator[DeadLetter]:
        for partition in partitions():
            query: Query | None = Query(partition)
            while query is not None:
                page = await self._store.query(query)
                for failures in map(failures_of, page.items):
                    if failures.dead:
                        yield failures.letter
                query = None if page.after is None else query.next(page)

    async def release(self, event: Event, *, timeout: float | None = None) -> bool:
        """Let a dead letter be handled when it is next delivered; its failures count from 0 again.

        Returns whether this is known to have released one; if not, there was none, or no answer
        came: repeat it.

        Raises:
            DamagedItem: the item of its failures is not of our form.
            NotSent: `timeout` seconds ended; nothing is released.
            StoreError: the table could not be read or written; nothing is released.
        """
        with changing(timeout):
            return await self._released(event)

    async def _released(self, event: Event) -> bool:
        found = await self._read(event)
        if found is None or not found.dead:
            return False
        write = Delete(failures_key(event), found.unchanged)
        final = await self._retrier.until_answered(lambda: self._store.write(write))
        match final.outcome:
            case Applied():
                return True
            case Rejected():
                return final.doubt is not None
            case Unknown():
                return False

    async def _read(self, event: Event) -> Failures | None:
        return _read(await self._store.get(Get(failures_key(event))))


def _read(item: Item | None) -> Failures | None:
    return None if item is None else failures_of(item)


async def handle_counting(
    letters: DeadLetters | None, event: Event, handle: Callable[[], Awaitable[Outcome]]
) -> Outcome | DeadLetter:
    """Handle an event unless it is a dead letter, and count if it fails; count nothing for None.

    What `handle` raises is raised, but for the failure that makes a dead letter. A lost lease, and
    a table that does not do what is asked, are no failures of the event. A failure that could not
    be counted is raised with a note.

    Raises:
        DamagedItem: the item of its failures is not of our form.
        StoreError: whether it is a dead letter could not be read; it was not handled.
    """
    if letters is None:
        return await handle()
    if (letter := await letters.find(event)) is not None:
        return letter
    try:
        outcome = await handle()
    except Exception as error:
        if not _is_failure(error) or (letter := await _counted(letters, event, error)) is None:
            raise
        return letter
    if isinstance(outcome, Refused):
        places = ", ".join(map(str, outcome.found))
        cause = f"refused: the condition of its action {places} was false"
        with suppress(LedgerError):  # nothing was written, counted or not
            return await letters.failed(event, cause) or outcome
    return outcome


async def _counted(letters: DeadLetters, event: Event, error: Exception) -> DeadLetter | None:
    try:
        return await letters.failed(event, error)
    except LedgerError as uncounted:
        error.add_note(str(uncounted))
        return None


def _is_failure(error: Exception) -> bool:
    if isinstance(error, LeaseLost):
        return False
    return not isinstance(error, StoreError) or isinstance(error, RequestRefused)

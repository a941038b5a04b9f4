"""Sends planned entries until their outcome is known, always under the same ids.

::

    put if absent --+-- applied ------------------------------> durable
                    |-- rejected, same content there ---------> durable (an earlier try)
                    |-- rejected, other content there --------> KeyConflict
                    `-- unknown --> the same id again, until `write_deadline` or the retry
                                    horizon ends --> OutcomeUnknown, with the entry

Batches and transactions end in the same ways, for each of their entries or for all together. Of
conditional puts that share a request (`Sender.each`) each ends in them on its own.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

import anyio

from ledger.core.capacity import item_size
from ledger.core.entry import Item
from ledger.core.errors import (
    InvalidEntry,
    LedgerError,
    NotSent,
    OutcomeUnknown,
    SignedTooLate,
    StoreError,
    safe_repeat,
)
from ledger.core.values import Entry
from ledger.runtime.services import Services
from ledger.runtime.tasks import run_all
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.retrier import DEADLINE_BACKOFF, Retrier, Tries
from ledger.store.writes import TRANSACTION_ACTIONS_MAX, Applied, Outcome, Rejected, Unknown
from ledger.writes.entry_plan import (
    PlannedEntry,
    batch_puts,
    confirm_entry,
    distinct,
    entries_written,
    latest_repeat,
)

TRANSACTION_BYTES_MAX = 4 * 1024 * 1024
READS_AT_ONCE = 16
"""Entries of a transaction or of several puts whose existing items are read, at a time."""
PASSED = "the retry horizon passed before its turn came"
TOO_LATE = "what is known of the table's contract is too old: repeat the call"
CUT_OFF = "cut off at the retry horizon"

ReportDurable = Callable[[Sequence[PlannedEntry]], None]
"""Called with the entries of a batch that are durable, as soon as that is known."""
Result = Entry | LedgerError
ReportResult = Callable[[PlannedEntry, Result], None]
"""Called with the outcome of one entry of several, as soon as that is known."""


def _ignored(_durable: Sequence[PlannedEntry]) -> None:
    """Wait for the whole batch."""


class Sender:
    """Sends entries to one region; a call ends `write_deadline` seconds after its first request.

    The deadline is checked between requests.
    """

    def __init__(self, store: Store, *, settings: LiveSettings, services: Services) -> None:
        self._store = store
        self._settings = settings
        self._clock = services.clock
        self._retrier = Retrier.of(
            store,
            clock=services.clock,
            randomness=services.randomness,
            backoff=DEADLINE_BACKOFF,
        )

    async def put(self, planned: PlannedEntry) -> Entry:
        """Send one entry, which may exist already.

        Raises:
            KeyConflict: its id stands for another change.
            OutcomeUnknown: no answer in time.
            StoreError: nothing was written.
        """
        return await self._put(planned, self._deadline())

    async def _put(self, planned: PlannedEntry, deadline: float) -> Entry:
        outcome = await self._until_known(
            lambda: self._store.write(planned.put), [planned], deadline=deadline
        )
        if isinstance(outcome, Applied):
            return planned.entry
        return await self._confirmed(planned, outcome.found[0], [planned])

    async def each(self, planned: Sequence[PlannedEntry], report: ReportResult) -> None:
        """Send up to 25 different entries in one request, each on the conditions of `put`.

        `report` gets the durable entry, or the error that `put` would have raised for that change.
        """
        sending = EachSending(report, self._unsent)
        deadline = self._deadline()
        tries = self._retrier.begin("write", deadline=deadline)
        left = self._in_time(planned, sending, tries)
        while left:
            answer = await self._each_once(left, fresh=tries.requests == 0)
            if taken := sending.settled(left, answer):
                jobs = [partial(self._put_alone, change, deadline, sending) for change in taken]
                await run_all(jobs, at_once=READS_AT_ONCE)
            left = sending.open_of(left)
            if not left:
                tries.succeeded()
            elif await tries.again("unanswered", requests=_requests_of(answer)):
                left = self._in_time(left, sending, tries)
            else:
                sending.give_up(left, tries.requests)
                return

    def _in_time(
        self, planned: Sequence[PlannedEntry], sending: "EachSending", tries: Tries
    ) -> list[PlannedEntry]:
        """Return the entries that may be sent now; the others are not sent, or stay unknown."""
        now, repeats = self._clock.now(), tries.requests > 0
        if planned and now <= latest_repeat(planned):
            return list(planned)
        late = [
            change
            for change in planned
            if (repeats or change.keyed) and now > latest_repeat([change])
        ]
        sending.give_up(late, tries.requests)
        return sending.open_of(planned) if late else list(planned)

    async def _each_once(
        self, planned: Sequence[PlannedEntry], *, fresh: bool
    ) -> Sequence[Outcome | StoreError]:
        """Send once; like a single one, a request is cut off at the first retry horizon in it."""
        repeated = [change for change in planned if change.keyed or not fresh]
        seconds = math.inf
        if repeated:
            seconds = (latest_repeat(repeated) - self._clock.now()).total_seconds()
        with anyio.move_on_after(seconds):
            try:
                answer = await self._store.write_each([change.put for change in planned])
            except StoreError as error:
                return [error] * len(planned)
            return answer.outcomes
        return [Unknown(CUT_OFF)] * len(planned)

    async def _put_alone(
        self, change: PlannedEntry, deadline: float, sending: "EachSending"
    ) -> None:
        """Put an entry whose item exists in a request of its own: that returns the item."""
        try:
            sending.end(change, await self._put(change, deadline))
        except (NotSent, StoreError) as error:
            cause = f"an item exists under its key and was not returned: {error}"
            sending.end(change, _unknown([change], cause, 1, together=False))
        except LedgerError as error:
            sending.end(change, error)

    async def batch(
        self, planned: Sequence[PlannedEntry], report_durable: ReportDurable = _ignored
    ) -> None:
        """Send up to 25 entries without keys: putting the same entry again changes nothing.

        Raises:
            OutcomeUnknown: with the entries that were not reported.
            StoreError: nothing was written.
        """
        left = list(planned)

        async def send() -> Outcome:
            nonlocal left
            outcome = await self._store.write_batch(batch_puts(left))
            if not outcome.unknown and not outcome.unprocessed:
                report_durable(left)
                return Applied()
            open_ones = {*outcome.unknown, *outcome.unprocessed}
            report_durable([change for place, change in enumerate(left) if place not in open_ones])
            left = [left[place] for place in sorted(open_ones)]
            return Unknown(outcome.cause, requests=outcome.requests)

        try:
            await self._until_known(send, planned)
        except OutcomeUnknown as error:
            entries = [change.entry for change in left]
            raise OutcomeUnknown(str(error), entries=entries, retryable=error.retryable) from None

    async def transaction(self, planned: Sequence[PlannedEntry]) -> list[Entry]:
        """Send up to 100 entries, all or none; return them in order, as they are in the table.

        Entries that exist already, with the same content, were written by an earlier try, perhaps
        in another region from which not all have arrived: the rest is written together.

        Raises:
            InvalidEntry: more than fits in a transaction.
            KeyConflict, OutcomeUnknown, StoreError: as `put`.
        """
        left, there = distinct(planned), list[Entry]()
        _check_transaction(left)
        deadline = self._deadline()
        while left:
            puts = [change.put for change in left]
            try:
                outcome = await self._until_known(
                    lambda puts=puts: self._store.transact(puts),  # type: ignore[misc]
                    left,
                    together=True,
                    deadline=deadline,
                )
            except (NotSent, StoreError) as error:
                if not there:
                    raise
                raise _unknown(left, str(error), 1, together=True) from error
            if isinstance(outcome, Applied):
                break
            checks = [
                partial(self._confirmed, left[place], found, left, together=True)
                for place, found in outcome.found.items()
            ]
            there += await run_all(checks, at_once=READS_AT_ONCE)
            left = [change for place, change in enumerate(left) if place not in outcome.found]
        return entries_written(planned, there)

    async def _confirmed(
        self,
        change: PlannedEntry,
        found: Item | None,
        planned: Sequence[PlannedEntry],
        *,
        together: bool = False,
    ) -> Entry:
        """Return the existing entry under the id of one of these, if it is the same change.

        Not every engine returns the item (`found`): otherwise it is read.

        Raises:
            KeyConflict: it is another change.
            OutcomeUnknown: it cannot be read, or is gone by now.
        """
        try:
            found = found or await self._store.get(Get(change.put.key))
        except StoreError as error:
            cause = f"an item exists under its key and could not be read: {error}"
            raise _unknown(planned, cause, 1, together=together) from error
        if found is None:
            cause = "an item existed under its key and is gone"
            raise _unknown(planned, cause, 1, together=together)
        return confirm_entry(change.entry, found)

    async def _until_known(
        self,
        send: Callable[[], Awaitable[Outcome]],
        planned: Sequence[PlannedEntry],
        *,
        together: bool = False,
        deadline: float | None = None,
    ) -> Applied | Rejected:
        """Send until the outcome is known, with the same ids."""
        deadline = self._deadline() if deadline is None else deadline
        horizon = latest_repeat(planned)
        # A change with a key may repeat another process's try, and of a large write the last parts
        # have waited since their ids were checked; an id known only to this process is not late.
        fresh = not any(change.keyed for change in planned)
        tries = self._retrier.begin("write", deadline=deadline)
        cause = TOO_LATE
        while fresh or self._clock.now() <= horizon:
            left = math.inf if fresh else (horizon - self._clock.now()).total_seconds()
            fresh = False
            try:
                outcome = await self._send_once(send, left, known_unsent=tries.requests == 0)
            except SignedTooLate as error:
                raise self._unsent(planned, str(error), together=together) from error
            if not isinstance(outcome, Unknown):
                tries.succeeded()
                return outcome
            cause = outcome.cause
            if not await tries.again("unanswered", requests=outcome.requests):
                break
        if not tries.requests:
            raise self._unsent(planned, cause, together=together)
        raise _unknown(planned, cause, tries.requests, together=together)

    def _unsent(
        self, planned: Sequence[PlannedEntry], cause: str, *, together: bool = False
    ) -> NotSent | OutcomeUnknown:
        """Return the error of entries for which no request was sent, nor will be.

        One that has passed its own retry horizon may have been written by an earlier call with its
        key, and merged since. Where only the view of the contract has ended the same call may be
        made again.
        """
        horizon = timedelta(seconds=self._settings.current.retry_horizon)
        if any(_is_past(change, self._clock.now() - horizon) for change in planned):
            return _unknown(planned, PASSED, 0, together=together)
        return NotSent(f"no request was sent for {_named(planned)}: it is not written ({cause})")

    @staticmethod
    async def _send_once(
        send: Callable[[], Awaitable[Outcome]], left_seconds: float, *, known_unsent: bool
    ) -> Outcome:
        """Send once; after an unknown outcome a plain failure leaves it unknown.

        The store's own retries within it are cut off at the retry horizon: no request that was
        signed later may be in flight once `settle` has passed and the id is forgotten.
        """
        try:
            if left_seconds == math.inf:  # nearly always: a cut-off would only cost time
                return await send()
            with anyio.move_on_after(left_seconds):
                return await send()
        except StoreError as error:
            if known_unsent:
                raise
            return Unknown(str(error), requests=error.requests)
        return Unknown(CUT_OFF)

    def _deadline(self) -> float:
        return self._clock.monotonic() + self._settings.current.write_deadline


class EachSending:
    """The outcomes of entries that share requests."""

    def __init__(
        self, report: ReportResult, unsent: Callable[[Sequence[PlannedEntry], str], LedgerError]
    ) -> None:
        self._report = report
        self._unsent = unsent
        self._doubts: dict[int, str] = {}
        self._ended: set[int] = set()

    def open_of(self, planned: Sequence[PlannedEntry]) -> list[PlannedEntry]:
        """Return those whose outcome is not certain."""
        return [change for change in planned if id(change) not in self._ended]

    def settled(
        self, sent: Sequence[PlannedEntry], answer: Sequence[Outcome | StoreError]
    ) -> list[PlannedEntry]:
        """Record an answer; returns the entries whose items exist already."""
        taken = []
        for change, outcome in zip(sent, answer, strict=True):
            match outcome:
                case Applied():
                    self.end(change, change.entry)
                case Rejected():
                    taken.append(change)
                case Unknown():
                    self._doubts[id(change)] = outcome.cause
                case StoreError():
                    self.fail(change, outcome)
        return taken

    def fail(self, change: PlannedEntry, error: StoreError) -> None:
        """Record that a request wrote nothing of an entry; an earlier one may have."""
        if id(change) in self._doubts:
            self._doubts[id(change)] = str(error)
        elif isinstance(error, SignedTooLate):
            self.end(change, self._unsent([change], str(error)))
        else:
            self.end(change, error)

    def end(self, change: PlannedEntry, result: Result) -> None:
        """Report the outcome of an entry."""
        self._ended.add(id(change))
        self._report(change, result)

    def give_up(self, planned: Sequence[PlannedEntry], requests: int) -> None:
        """Report of entries that they were not sent, or are unknown after `requests` requests."""
        for change in planned:
            doubt = self._doubts.get(id(change))
            if doubt is None:
                self.end(change, self._unsent([change], TOO_LATE))
            else:
                self.end(change, _unknown([change], doubt, requests, together=False))


def _requests_of(answer: Sequence[Outcome | StoreError]) -> int:
    """Return how many requests were sent for those that have no answer."""
    told = (outcome.requests for outcome in answer if isinstance(outcome, Unknown | StoreError))
    return max(told, default=1)


def _unknown(
    planned: Sequence[PlannedEntry], cause: str, requests: int, *, together: bool
) -> OutcomeUnknown:
    is_keyed = all(change.keyed for change in planned)
    if requests:
        sent = f"no answer after {requests} request{'s' if requests != 1 else ''}"
        doubt = "the change may or may not be there"
    else:
        sent = "no request was sent"
        doubt = "the change is there only if an earlier call with its key wrote it"
    return OutcomeUnknown(
        f"{sent} for {_named(planned)}: {doubt} ({cause});"
        f" until the retry horizon {safe_repeat(is_named=is_keyed)} is safe",
        entries=[change.entry for change in planned],
        together=together,
        retryable=is_keyed,
    )


def _is_past(change: PlannedEntry, horizon: datetime) -> bool:
    """Return whether an id that an earlier call may have used is of a time before the horizon."""
    at = change.entry.at
    return change.keyed and at is not None and at < horizon


def _named(planned: Sequence[PlannedEntry]) -> str:
    first = planned[0].entry
    more = f" and {len(planned) - 1} more" if len(planned) > 1 else ""
    return f"counter {first.counter!r} id {first.id}{more}"


def _check_transaction(planned: Sequence[PlannedEntry]) -> None:
    if len(planned) > TRANSACTION_ACTIONS_MAX:
        raise InvalidEntry(
            f"{len(planned)} changes together: a transaction holds up to {TRANSACTION_ACTIONS_MAX}"
        )
    size = sum(item_size(change.item) for change in planned)
    if size > TRANSACTION_BYTES_MAX:
        raise InvalidEntry(
            f"{size:,} bytes together: a transaction holds up to {TRANSACTION_BYTES_MAX:,};"
            " shorten the notes"
        )

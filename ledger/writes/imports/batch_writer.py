"""Writes one batch until its outcome is known.

Every attempt is a new transaction with new entry ids; the marker's condition lets only one of them
succeed. So an attempt whose answer was lost is simply followed by another::

    attempt 1  -------------- lost on the way --------------> lands: the marker exists, rejected
    attempt 2        applied: entries and marker
"""

from dataclasses import dataclass
from datetime import timedelta

from ledger.core.contract import NO_HOME
from ledger.core.entry import Item
from ledger.core.errors import (
    ImportRefused,
    LedgerError,
    OutcomeUnknown,
    StoreError,
)
from ledger.runtime.services import Services
from ledger.runtime.validity import signed_within
from ledger.settings import Settings
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.retrier import DEADLINE_BACKOFF, Retrier
from ledger.store.writes import Applied, Outcome, Put, Rejected, Unknown
from ledger.writes.imports.batches import (
    Batch,
    Marking,
    check_no_book,
    columns_of,
    fresh_ids,
    row_items,
    transaction,
    units_of,
)
from ledger.writes.imports.begin_marker import BeginMarker, check_columns
from ledger.writes.imports.survey import StopSign

WRITE_DEADLINES = 4
"""A batch is tried for this many times `write_deadline`: an import can wait longer than a call."""
TRIES_MAX = 1_000


@dataclass(frozen=True, slots=True)
class BatchDone:
    """One batch that is in the table; `there` if another run or an earlier one wrote it."""

    number: int
    rows: int
    there: bool
    write_units: int = 0


@dataclass(frozen=True, slots=True)
class _Again:
    """An attempt without a final outcome; `error` is set if it certainly failed."""

    cause: str
    units: int = 0
    unknown: bool = False
    collision: bool = False
    error: StoreError | None = None


def check_home(store: Store, settings: Settings) -> None:
    """Check that a store is the home region's, and that the home is not being moved.

    Two homes could each write a batch before the other's marker has arrived.

    Raises:
        ImportRefused: it is not, or the home is being moved.
    """
    home = settings.terms.home
    if home == NO_HOME:
        raise ImportRefused(
            "the home region is being moved: import again once the change of the contract is in"
            " force (`ledger table show`)"
        )
    if store.region != home:
        raise ImportRefused(f"an import writes through the home region {home}, not {store.region}")


class BatchWriter:
    """Writes the batches of one import through the home region's store."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        marking: Marking,
        begun: BeginMarker,
        *,
        services: Services,
        stop: StopSign,
    ) -> None:
        self._store = store
        self._settings = settings
        self._marking = marking
        self._begun = begun
        clock, randomness = services.clock, services.randomness
        self._clock = clock
        self._random = randomness
        self._retrier = Retrier.of(
            store, clock=clock, randomness=randomness, backoff=DEADLINE_BACKOFF
        )
        self._stop = stop

    async def write(self, batch: Batch) -> BatchDone | None:
        """Write one batch until its outcome is known; returns None if asked to stop before that.

        Raises:
            ImportRefused: the batch was imported with other columns, the home is being moved, or a
                region was lost since the import began.
            OutcomeUnknown: no answer within the bound.
            StoreError: the table did not do what was asked.
        """
        seconds = self._settings.current.write_deadline * WRITE_DEADLINES
        tries = self._retrier.begin("transact", deadline=self._clock.monotonic() + seconds)
        unknown = False
        units = 0
        for number in range(1, TRIES_MAX + 1):
            verdict = await self._attempt(batch)
            if isinstance(verdict, BatchDone):
                tries.succeeded()
                self._begun.batches.add(batch.number)
                there = verdict.there and not unknown
                return BatchDone(batch.number, verdict.rows, there, units + verdict.write_units)
            unknown = unknown or verdict.unknown
            units += verdict.units
            if self._stop.asked:
                return None
            may_repeat = verdict.collision or await tries.again(verdict.cause)
            if not may_repeat or number == TRIES_MAX:
                raise _given_up(batch, verdict, unknown=unknown)
        raise AssertionError("unreachable: the last try returns or raises")

    async def _attempt(self, batch: Batch) -> BatchDone | _Again:
        await self._settings.renew()
        settings, validity = self._settings.current, self._settings.validity
        check_home(self._store, settings)
        self._begun.check(settings.terms)
        check_no_book(batch, settings)
        items = row_items(batch.rows, settings.combines)
        actions = transaction(
            items,
            fresh_ids(self._clock.now(), len(items), self._random),
            self._marking.marker(batch, len(settings.terms.lost)),
            region=self._store.region,
            shards_now=settings.shards_now,
            horizon=timedelta(seconds=settings.retry_horizon),
        )
        try:
            with signed_within(validity, self._clock):
                outcome = await self._store.transact(actions)
        except StoreError as error:
            if not error.retryable:
                raise
            return _Again(str(error), error=error)
        return await self._judge(batch, actions, outcome)

    async def _judge(
        self, batch: Batch, actions: tuple[Put, ...], outcome: Outcome
    ) -> BatchDone | _Again:
        rows, units = len(batch.rows), units_of(actions)
        marker_position = len(actions) - 1
        match outcome:
            case Applied():
                return BatchDone(batch.number, rows, there=False, write_units=units)
            case Unknown(cause):
                return _Again(cause, unknown=True)
            case Rejected(found=found) if marker_position in found:
                # Not every engine returns the existing item.
                marker = found[marker_position] or await self._marker(batch)
                if marker is None:
                    return _Again("the marker existed and is gone", units=units)
                check_columns(self._marking, columns_of(marker))
                self._begun.check(self._settings.current.terms, marker)
                return BatchDone(batch.number, rows, there=True, write_units=units)
            case Rejected():
                return _Again("an entry id was taken", units=units, collision=True)

    async def _marker(self, batch: Batch) -> Item | None:
        return await self._store.get(Get(self._marking.key(batch.number), consistent=True))


def _given_up(batch: Batch, verdict: _Again, *, unknown: bool) -> LedgerError:
    name = "the batch of lines {} to {}".format(*batch.lines)
    if unknown:
        return OutcomeUnknown(
            f"{name} got no answer: {verdict.cause}; run the same command again: nothing is"
            " counted twice",
            # Only the import can repeat them: written one by one they would be counted twice.
            entries=(),
            retryable=True,
        )
    if verdict.error is not None:
        return verdict.error
    return ImportRefused(f"{name}: {verdict.cause} in every one of {TRIES_MAX:,} tries")

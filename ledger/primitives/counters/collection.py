"""The item collection: the ledger itself, as one of the ways to count."""

from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol

from ledger.core import keys
from ledger.core.amounts import check_bool
from ledger.core.errors import InvalidEntry, InvalidInput, KeyConflict, OutcomeUnknown
from ledger.core.reconciliation import Reconciled
from ledger.core.tokens import Details, Marker, time_of_key
from ledger.core.values import Entry
from ledger.primitives.counters.counter import Guarantees, ReconcileOutcome, keeps_nothing
from ledger.primitives.counters.new_tokens import new_token
from ledger.primitives.tokens import checked_token
from ledger.reads.reader import Reader
from ledger.reads.total import Total
from ledger.runtime.call_deadlines import bounded, deadline_of, not_read
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.store.writes import Applied, Outcome, Rejected, Unknown
from ledger.writes.entry_plan import Change
from ledger.writes.reconciliation import Reconciler
from ledger.writes.writer import Writer


class Records(Protocol):
    """The part of an open `Ledger` that the counter needs."""

    async def record(
        self,
        counter: str,
        change: int | Decimal,
        *,
        key: str | None = None,
        timeout: float | None = None,
    ) -> Entry:
        """Add to a counter; see `Ledger.record`."""

    async def total(
        self, counter: str, *, max_age: float | None = None, timeout: float | None = None
    ) -> Total:
        """Return the total of a counter; see `Ledger.total`."""

    async def reconcile(
        self,
        counter: str,
        *,
        counted: int | Decimal,
        at: datetime | None = None,
        reason: str | None = None,
        token: str | None = None,
        timeout: float | None = None,
    ) -> Reconciled:
        """Correct a total by a physical count; see `Ledger.reconcile`."""


class CollectionCounter:
    """A counter that is an item per change, summed by the reader and merged by the compactor.

    The change's key is the token, its time the token's own, so that a repeat in any process and
    region is the same entry. The ledger's settings decide how it reads.
    """

    guarantees = Guarantees(
        unknown="Exact: a try without an answer is repeated under the same id, and counts once.",
        tokens="Recognized in every region until the retry horizon (5 min), merged or not; then"
        " refused, never counted twice. Another change under it is refused. Its time is the"
        " token's: a UUIDv7, a ULID, or one of `new_token`.",
        thresholds="None: no condition can see the sum, which other regions change.",
        regions="Any number may write at once; nothing is lost, and all agree in the end.",
        cost="About 2.05 write units a change in its whole life with merging (1 to write, 1 to"
        " delete, 0.05 to merge); a value costs a read unit per 4 KB of entries not merged yet.",
        write_units=1,
        read_units=0,
        value_units=1,
    )

    def __init__(self, ledger: Records, name: str, *, services: Services) -> None:
        self.name = keys.checked_new_counter(name)
        self._ledger = ledger
        self._clock = services.clock
        self._random = services.randomness

    async def add(
        self,
        change: int | Decimal,
        *,
        token: str | None = None,
        details: Details | None = None,
        timeout: float | None = None,
    ) -> Outcome:
        """Record the change; see `Counter.add`.

        Raises:
            RetryHorizonPassed: the token is too old to be repeated safely; nothing was written.
            And as `Counter.add`.
        """
        if details is not None:
            raise keeps_nothing(self.name, "details")
        token = checked_token(token) or new_token(self._clock.now(), self._random)
        if time_of_key(token) is None:
            raise InvalidEntry(
                f"token must contain a time (a UUIDv7, a ULID, or of new_token), got {token[:60]!r}"
            )
        try:
            await self._ledger.record(self.name, change, key=token, timeout=timeout)
        except KeyConflict as error:
            return Rejected("token conflict", str(error))
        except OutcomeUnknown as error:
            return Unknown(str(error), token)
        return Applied()

    async def lookup(self, token: str, *, timeout: float | None = None) -> Marker | None:
        """Refuse; see `Counter.lookup`."""
        del token, timeout
        raise keeps_nothing(self.name, "markers")

    async def reconcile(
        self,
        *,
        counted: int | Decimal,
        at: datetime | None = None,
        value: int | Decimal | None = None,
        reason: str | None = None,
        token: str | None = None,
        timeout: float | None = None,
    ) -> ReconcileOutcome:
        """Correct the total by a physical count, in the home region; see `Ledger.reconcile`."""
        if value is not None:
            raise InvalidInput(
                f"counter {self.name!r}: the total of then is read: value must be None,"
                f" got {value!r:.80}"
            )
        if token is None and at is None:
            token = new_token(self._clock.now(), self._random)
        try:
            return await self._ledger.reconcile(
                self.name, counted=counted, at=at, reason=reason, token=token, timeout=timeout
            )
        except OutcomeUnknown as error:
            return Unknown(str(error), token)

    async def value(self, *, consistent: bool = True, timeout: float | None = None) -> Decimal:
        """Return the total in this region, read now; see `Counter.value`."""
        check_bool("consistent", consistent)  # the ledger's settings decide how it reads
        return (await self._ledger.total(self.name, max_age=0, timeout=timeout)).value


async def _no_archive() -> None:
    return None


async def _no_others() -> dict[str, Store]:
    return {}


class BareLedger:
    """Writer and reader of the ledger over one store, without its cache, groups and tasks."""

    def __init__(self, store: Store, *, services: Services, **terms: Any) -> None:
        """Take terms of a contract, which the table has had for ever."""
        settings = Settings(home=store.region, regions={store.region: {}}, **terms)
        self._writer = Writer(store, settings=settings, services=services)
        self._reader = Reader(store, settings=settings, services=services)
        self._reconciler = Reconciler(
            store,
            settings,
            services,
            archive=_no_archive,
            others=_no_others,
            on_entry=lambda _: None,
        )

    async def record(
        self,
        counter: str,
        change: int | Decimal,
        *,
        key: str | None = None,
        timeout: float | None = None,
    ) -> Entry:
        """Add to a counter; see `Ledger.record`."""
        return await self._writer.record(Change(counter, change, key=key), end=deadline_of(timeout))

    async def total(
        self, counter: str, *, max_age: float | None = None, timeout: float | None = None
    ) -> Total:
        """Read a counter's total now."""
        del max_age
        return await bounded(deadline_of(timeout), self._reader.total(counter), not_read)

    async def reconcile(
        self,
        counter: str,
        *,
        counted: int | Decimal,
        at: datetime | None = None,
        reason: str | None = None,
        token: str | None = None,
        timeout: float | None = None,
    ) -> Reconciled:
        """Correct a total by a physical count; see `Ledger.reconcile`."""
        return await self._reconciler.reconcile(
            counter, counted=counted, at=at, reason=reason, token=token, end=deadline_of(timeout)
        )


def make_collection(
    store: Store,
    name: str,
    *,
    services: Services,
    minimum: int | Decimal | None = None,
    maximum: int | Decimal | None = None,
    shards: int = 1,
) -> CollectionCounter:
    """Make the counter over one region's table, in the form that the registry needs.

    Without a table's contract all of its changes have been in `shards` item collections for ever.

    Raises:
        InvalidInput: `minimum` or `maximum` is given: no item collection can hold them.
    """
    if minimum is not None or maximum is not None:
        raise InvalidInput(f"counter {name!r}: method 'collection' takes no minimum or maximum")
    terms = {"shards": {"*": shards}} if shards > 1 else {}
    ledger = BareLedger(store, services=services, **terms)
    return CollectionCounter(ledger, name, services=services)

"""One process's view of the table's contract, and how long it may act on it.

::

    read ──── a minute ──── read again ...          each read renews the validity
      └────────── contract_life ──────────┤         no request is signed later than this

The contract is read strongly consistent in the process's own region. A view returns the settings of
the process with the contract's values in place of its own; while a change is pending, the stricter
of the old and the new.

Reading the contract in one region.

The check of operations that are allowed only through the home region.
"""

import logging
from datetime import datetime, timedelta

import anyio

from ledger.core.contract import NO_HOME, Terms, Validity
from ledger.core.contract_item import CONTRACT_PARTITION, TABLE_PREFIX, Contract, contract_of
from ledger.core.errors import (
    ContractConflict,
    ContractMissing,
    ContractStale,
    HomeMoving,
    InvalidInput,
    LedgerError,
    StoreError,
)
from ledger.runtime.clock import Clock
from ledger.settings import Settings
from ledger.settings.relations import VIEW_SHARE_LEFT
from ledger.store.port import Store
from ledger.store.reads import Query

_AFTER_PREFIX = chr(ord(TABLE_PREFIX[-1]) + 1)
NEWEST = Query(
    CONTRACT_PARTITION,
    first=TABLE_PREFIX,
    last=TABLE_PREFIX[:-1] + _AFTER_PREFIX,
    descending=True,
    limit=1,
)
"""Reads the item of the highest generation, if there is any."""


async def read_contract(store: Store) -> Contract | None:
    """Return the contract of the highest generation that a region shows; None without one.

    Strongly consistent in the region.

    Raises:
        ContractDamaged, UpgradeNeeded: it cannot be read by this release.
        StoreError: DynamoDB could not do it.
    """
    page = await store.query(NEWEST)
    return contract_of(page.items[0]) if page.items else None


REFRESH_SECONDS = 60.0
"""How old a view may be before the next piece of work reads the contract again."""
AGAIN_VOID_SECONDS = 0.5
"""The same while the view is void: calls in between fail at once, instead of one by one."""
REFRESH_SHARE = 1 - VIEW_SHARE_LEFT
"""Part of a short `contract_life`: time for several tries before the view is void."""
AGAIN_SECONDS = 5.0
"""The wait after a failed read, while the view is still valid."""
_REFRESH = timedelta(seconds=REFRESH_SECONDS)
log = logging.getLogger(__name__)


class ContractView:
    """The contract of a table as one region shows it, renewed by the processes that act on it.

    `renew` is awaited before each piece of work; `current` and `validity` are taken together, and
    every request based on `current` is sent within `validity`.
    """

    def __init__(self, store: Store, settings: Settings, *, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._lock = anyio.Lock()
        self._contract: Contract | None = None
        self._current = settings
        self._validity: Validity | None = None
        self._failure: StoreError | None = None  # of the last read, once the view is void
        self._is_closed = False
        self._due_elapsed = -1.0
        self._due_from = self._due_at = clock.now()

    async def open(self) -> None:
        """Read the contract for the first time, and compare the settings with it.

        Raises:
            ContractMissing: the table has none.
            ContractConflict: the settings differ from it.
            ContractDamaged, UpgradeNeeded: it cannot be read by this release.
            StoreError: DynamoDB could not do it.
        """
        await self._read()
        self._settings.check_agrees(*self.contract.accepted)
        if self._store.region not in self.terms.regions:
            raise ContractConflict(
                f"region {self._store.region} is not in the contract of table"
                f" {self._settings.table}: {', '.join(self.terms.regions)}"
            )

    @property
    def current(self) -> Settings:
        """The settings under the contract, as of the last read."""
        return self._current

    @property
    def contract(self) -> Contract:
        """The contract as of the last read.

        Raises:
            ContractMissing: it was not read yet.
        """
        if self._contract is None:
            raise ContractMissing(f"the contract of table {self._settings.table} was not read yet")
        return self._contract

    @property
    def terms(self) -> Terms:
        """The terms to obey, as of the last read."""
        return self.contract.obeyed

    @property
    def validity(self) -> Validity | None:
        """Until when a request based on `current` may be signed."""
        return self._validity

    def is_due(self) -> bool:
        """Whether the next piece of work begins with `renew`: to read, or to be refused."""
        return self.is_due_at(self._clock.monotonic(), self._clock.now())

    def is_due_at(self, monotonic: float, now: datetime) -> bool:
        """Whether `is_due` at these times of the clock."""
        return self._failure is not None or self._is_read_due(monotonic, now)

    def _is_read_due(self, monotonic: float, now: datetime) -> bool:
        return monotonic >= self._due_elapsed or not self._due_from <= now < self._due_at

    def close(self) -> None:
        """Stop reading; calls that wait for the contract end with an error."""
        self._is_closed = True

    async def renew(self) -> None:
        """Read the contract again if it is due; concurrent calls share one read.

        Raises:
            LedgerError: it was closed meanwhile.
            ContractStale: it cannot be read, and the view is too old to act on.
            ContractConflict: the region has left the table.
            ContractMissing, ContractDamaged, UpgradeNeeded: as `open`.
        """
        if not self.is_due():
            return
        async with self._lock:
            if self._is_closed:
                raise LedgerError("closed while the table's contract was read: nothing was written")
            if not self._is_read_due(self._clock.monotonic(), self._clock.now()):
                self._check_readable()
                return
            try:
                await self._read()
            except StoreError as error:
                self._read_failed(error)
            except anyio.get_cancelled_exc_class():
                # Its call has no time left: later ones go on with the view while it is valid.
                self._postpone()
                raise

    async def _read(self) -> None:
        elapsed, now = self._clock.monotonic(), self._clock.now()
        found, known = await read_contract(self._store), self._contract
        if found is None:
            raise ContractMissing(
                f"table {self._settings.table} has no contract in {self._store.region}:"
                " `ledger table adopt` writes it from the settings"
            )
        if found.is_founding:
            raise ContractMissing(
                f"the first contract of table {self._settings.table} is not in force yet: `ledger"
                " table adopt`, run again, completes it"
            )
        if known is not None and found.is_older_than(known):
            raise ContractStale(
                f"{self._store.region} shows revision {found.revision} of the table's contract,"
                f" after revision {known.revision}"
            )
        if self._store.region not in found.regions:
            raise ContractConflict(
                f"region {self._store.region} is not in the contract of table"
                f" {self._settings.table}: {', '.join(found.terms.regions)}"
            )
        if found != known:
            before = self._current.cache
            self._current = self._settings.under(found.obeyed, home=found.terms.home)
            if before.incremental and not self._current.cache.incremental:
                log.warning(
                    "cache.incremental is off from now on: the table has, or had, another region"
                    " than %s, so an entry may arrive at any age; totals are read whole",
                    self._store.region,
                )
            self._contract = found
        self._failure = None
        life = found.obeyed.contract_life
        self._validity = Validity.of_read(now, elapsed, contract_life=life)
        self._due_in(min(REFRESH_SECONDS, REFRESH_SHARE * life), elapsed, now)

    def _due_in(self, seconds: float, elapsed: float, now: datetime) -> None:
        self._due_elapsed, self._due_at = elapsed + seconds, now + timedelta(seconds=seconds)
        self._due_from = self._due_at - _REFRESH

    def _read_failed(self, error: StoreError) -> None:
        if not self._postpone():
            self._failure = error
            self._due_in(AGAIN_VOID_SECONDS, self._clock.monotonic(), self._clock.now())
        self._check_readable()
        log.warning("the table's contract could not be read again: %s", error)

    def _postpone(self) -> bool:
        """Put the next read off while the view is valid; return whether it is."""
        now, elapsed = self._clock.now(), self._clock.monotonic()
        valid = self._validity
        if valid is None or valid.is_over(now, elapsed=elapsed):
            return False
        left = min((valid.until - now).total_seconds(), valid.elapsed_until - elapsed)
        self._due_in(min(AGAIN_SECONDS, left), elapsed, now)
        return True

    def _check_readable(self) -> None:
        """Check that no read has failed since the view is too old to be acted on.

        Raises:
            ContractStale: one has.
        """
        if self._failure is not None:
            raise ContractStale(
                f"the table's contract cannot be read in {self._store.region}: {self._failure}"
            ) from self._failure


def check_home(store: Store, settings: Settings, *, what: str) -> None:
    """Check that a store is the home region's, where the conditions of a record hold for all.

    Raises:
        InvalidInput: it is another region's.
        HomeMoving: the home is being moved.
    """
    home = settings.terms.home
    if home == NO_HOME:
        raise HomeMoving(
            f"the home region is being moved, and {what} there: repeat the call once the change of"
            " the contract is in force (`ledger table show`)"
        )
    if store.region != home:
        raise InvalidInput(f"{what} in the home region {home}, not {store.region}")

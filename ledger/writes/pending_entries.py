"""Changes that wait, or are in flight, and the callers that wait for their outcomes.

Each becomes one entry: of one change, or of all changes of a counter that wait together. A caller
gets its outcome once.
"""

import asyncio
from copy import copy
from decimal import Decimal

from ledger.core import amounts
from ledger.core.errors import AmountOverflow, OutcomeUnknown, safe_repeat
from ledger.core.values import Entry
from ledger.writes.entry_plan import PlannedEntry

_NOTHING = Decimal(0)


class PendingEntry:
    """One change that waits or is in flight as an entry, and the caller that waits for it."""

    __slots__ = ("change", "counter", "planned", "waiter")

    count = 1

    def __init__(
        self,
        counter: str,
        change: Decimal,
        waiter: "asyncio.Future[Entry] | None",
        planned: PlannedEntry | None = None,
    ) -> None:
        self.counter = counter
        self.change = change
        self.waiter = waiter
        self.planned = planned

    def is_wanted(self) -> bool:
        """Return whether a caller still waits."""
        return self.waiter is not None and not self.waiter.done()

    @property
    def callers(self) -> "list[asyncio.Future[Entry]]":
        """The futures of callers that have no outcome yet."""
        return [] if self.waiter is None else [self.waiter]

    def has(self, waiter: "asyncio.Future[Entry]") -> bool:
        """Return whether a caller waits for this future."""
        return self.waiter is waiter

    def resolve(self, entry: Entry) -> int:
        """Give the entry to the caller, once; returns how many callers got it."""
        waiter, self.waiter = self.waiter, None
        if waiter is None:
            return 0
        if not waiter.done():
            waiter.set_result(entry)
        return 1

    def fail(self, error: BaseException | None) -> int:
        """Raise the error where a caller waits; returns as `resolve`. None: no caller waits."""
        waiter, self.waiter = self.waiter, None
        if waiter is None:
            return 0
        if error is not None and not waiter.done():
            waiter.set_exception(copy(error))  # raised twice it would collect two tracebacks
        return 1

    def unknown(self, why: str) -> OutcomeUnknown:
        """Return the error of a change that was in flight when its callers' wait ended."""
        is_keyed = self.planned is not None and self.planned.keyed
        return OutcomeUnknown(
            f"{why} while a change of {self.counter!r} was in flight: it may or may not be there;"
            f" {safe_repeat(is_named=is_keyed)} is safe until the retry horizon",
            entries=[self.planned.entry] if self.planned else [],
            retryable=is_keyed,
        )


class PendingSum(PendingEntry):
    """Changes of one counter that become one entry."""

    __slots__ = ("changes", "count", "since", "waiters")

    def __init__(self, counter: str, since: float) -> None:
        super().__init__(counter, _NOTHING, None)
        self.count = 0
        self.since = since
        self.changes: list[Decimal] = []
        self.waiters: list[asyncio.Future[Entry]] = []

    def is_wanted(self) -> bool:
        """Return whether a caller still waits."""
        for waiter in self.waiters:  # noqa: SIM110 (a generator takes longer than all the rest)
            if not waiter.done():
                return True
        return False

    @property
    def callers(self) -> "list[asyncio.Future[Entry]]":
        """The futures of callers that have no outcome yet."""
        return self.waiters

    def has(self, waiter: "asyncio.Future[Entry]") -> bool:
        """Return whether a caller waits for this future."""
        return waiter in self.waiters

    def resolve(self, entry: Entry) -> int:
        """Give the entry to every caller; returns how many."""
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(entry)
        return len(waiters)

    def fail(self, error: BaseException | None) -> int:
        """Raise the error in every caller that waits; returns how many."""
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if error is not None and not waiter.done():
                waiter.set_exception(copy(error))  # raised twice it would collect two tracebacks
        return len(waiters)

    def close(self) -> list[PendingEntry]:
        """Sum the changes whose callers still wait.

        Return them as entries of their own where each fits in 38 digits, and their sum does not.
        """
        changes, waiters = self.changes, self.waiters
        gone = [waiter for waiter in waiters if waiter.done()]
        if gone:
            pairs = [pair for pair in zip(changes, waiters, strict=True) if not pair[1].done()]
            changes, waiters = [change for change, _ in pairs], [waiter for _, waiter in pairs]
        try:
            self.change = amounts.total(changes)
            self.count = len(changes)
        except AmountOverflow:
            self.waiters = gone
            alone = zip(changes, waiters, strict=True)
            return [PendingEntry(self.counter, change, waiter) for change, waiter in alone]
        return []

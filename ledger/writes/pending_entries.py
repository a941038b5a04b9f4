"""Changes that wait, or are in flight, and the callers that wait for their outcomes.

Each becomes one item: of one change, or of the changes of a counter that wait together. A caller
gets its outcome once, and an entry of its own.
"""

import asyncio
from copy import copy
from decimal import Decimal
from typing import TypeVar

from ledger.core.errors import OutcomeUnknown, safe_repeat
from ledger.core.parts import Part, gathering, part_of, parts_of
from ledger.core.values import Entry
from ledger.writes.entry_plan import GroupedChange, PlannedEntry, grouped_parts

Error = TypeVar("Error", bound=BaseException)


class PendingEntry:
    """One change that waits or is in flight as an entry, and the caller that waits for it."""

    __slots__ = ("change", "counter", "planned", "waiter")

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

    @property
    def grouped(self) -> GroupedChange:
        """What its item is planned from."""
        return self.counter, self.change, 1, ""

    def is_wanted(self) -> bool:
        """Return whether a caller still waits."""
        return self.waiter is not None and not self.waiter.done()

    @property
    def callers(self) -> "list[asyncio.Future[Entry]]":
        """The futures of callers that have no outcome yet."""
        return [] if self.waiter is None else [self.waiter]

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

    def unknown(self, why: str, waiter: "asyncio.Future[Entry] | None" = None) -> OutcomeUnknown:  # noqa: ARG002 (there is one)
        """Return the error of what was in flight when the wait ended, of one caller or of all."""
        is_keyed = self.planned is not None and self.planned.keyed
        return OutcomeUnknown(
            f"{why} while a change of {self.counter!r} was in flight: it may or may not be there;"
            f" {safe_repeat(is_named=is_keyed)} is safe until the retry horizon",
            entries=[self.planned.entry] if self.planned else [],
            retryable=is_keyed,
        )


class PendingParts(PendingEntry):
    """Changes of one counter that share an item.

    `is_due` is set once it waits for a request. `turns` counts how often a turn ended before that,
    `has_passed_turn` says that one ended after it without a call.

    A caller whose time is over may repeat the item, from anywhere, while its request is under way.
    From then on nobody knows that the item was not written, whatever comes of the request.
    """

    __slots__ = (
        *("_gathered", "_may_be_repeated", "changes"),
        *("has_passed_turn", "is_due", "turns", "waiters"),
    )

    def __init__(self, counter: str, change: Part, waiter: "asyncio.Future[Entry]") -> None:
        super().__init__(counter, Decimal(0), None)
        self.changes: list[Part] = [change]
        self.waiters: list[asyncio.Future[Entry]] = [waiter]
        self.is_due = self.has_passed_turn = self._may_be_repeated = False
        self.turns = 0
        self._gathered = gathering(counter, change)

    def take(self, change: Part, waiter: "asyncio.Future[Entry]") -> bool:
        """Take a caller's change; return False if it needs another item."""
        if not self._gathered.take(change):
            return False
        self.changes.append(change)
        self.waiters.append(waiter)
        return True

    @property
    def grouped(self) -> GroupedChange:
        """What its item is planned from."""
        return grouped_parts(self._gathered)

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

    def without_gone(self) -> "list[PendingParts]":
        """Return what is to be sent of it: the changes whose callers still wait.

        Nearly always itself. Without those that have gone the sum of the others may not fit, so
        they gather anew.
        """
        pairs = list(zip(self.changes, self.waiters, strict=True))
        waiting = [pair for pair in pairs if not pair[1].done()]
        if len(waiting) == len(pairs):
            return [self]
        self.waiters = [waiter for _, waiter in pairs if waiter.done()]
        made = list[PendingParts]()
        for change, waiter in waiting:
            if not made or not made[-1].take(change, waiter):
                made.append(PendingParts(self.counter, change, waiter))
        return made

    def resolve(self, entry: Entry) -> int:
        """Give each caller its change of the item; returns how many callers got one."""
        waiters, self.waiters = self.waiters, []
        for waiter, part in zip(waiters, parts_of(entry, self.changes), strict=False):
            if not waiter.done():
                waiter.set_result(part)
        return len(waiters)

    def fail(self, error: BaseException | None) -> int:
        """Raise the error in every caller that waits; returns how many."""
        if self._may_be_repeated and error and not isinstance(error, OutcomeUnknown):
            error = super().unknown(str(error))
        waiters, self.waiters = self.waiters, []
        for place, waiter in enumerate(waiters):
            if error is not None and not waiter.done():
                waiter.set_exception(self._own(error, place))
        return len(waiters)

    def unknown(self, why: str, waiter: "asyncio.Future[Entry] | None" = None) -> OutcomeUnknown:
        """Return the error of what was in flight when the wait ended, of one caller or of all."""
        error = super().unknown(why)
        if waiter is None:
            return error
        self._may_be_repeated = True
        return self._own(error, self.waiters.index(waiter))

    def _own(self, error: Error, place: int) -> Error:
        """Return the error of one caller: a copy, since one raised twice collects two tracebacks.

        Of an unknown outcome it has the caller's change, which repeats the whole item.
        """
        own = copy(error)
        if isinstance(own, OutcomeUnknown) and self.planned is not None:
            whole = self.planned.entry
            own.entries = (part_of(whole, place, self.changes[place], parts=whole.parts),)
        return own

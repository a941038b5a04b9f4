"""Sending for calls that end early: when the ledger closes, or at the caller's deadline.

What is durable by then counts as written. The outcome of other entries in flight is unknown, so the
call raises `OutcomeUnknown` with those entries; entries not yet sent are never sent (`NotSent`). No
call goes on sending over closed connections.
"""

from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from functools import partial
from typing import TypeVar

import anyio

from ledger.core.errors import NotSent, OutcomeUnknown, safe_repeat
from ledger.core.values import Entry
from ledger.runtime.call_deadlines import NEVER, TIMEOUT, has_come
from ledger.runtime.services import Services
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.writing.plan import Planned
from ledger.writing.sender import ReportDurable, ReportResult, Result, Sender

Returned = TypeVar("Returned")


class _Calls:
    """The calls of a sender that are under way."""

    def __init__(self) -> None:
        self.scopes: set[anyio.CancelScope] = set()
        self.is_closed = False


class ClosableSender(Sender):
    """A sender whose calls end when it is closed, or at a deadline."""

    def __init__(self, store: Store, *, settings: LiveSettings, services: Services) -> None:
        super().__init__(store, settings=settings, services=services)
        self._calls = _Calls()
        self._end = NEVER

    def until(self, end: float) -> "ClosableSender":
        """Return this sender for calls that also end at a time of the event loop."""
        bounded: ClosableSender = copy(self)
        bounded._end = end
        return bounded

    def close(self) -> None:
        """End every call, and those that begin later, without waiting for them."""
        self._calls.is_closed = True
        for scope in self._calls.scopes:
            scope.cancel()

    async def put(self, planned: Planned) -> Entry:
        """Send one entry, as `Sender.put`.

        Raises:
            OutcomeUnknown, NotSent: ended during the call, or before it.
            And as `Sender.put`.
        """
        return await self._until_end(partial(super().put, planned), [planned])

    async def batch(
        self, planned: Sequence[Planned], report_durable: ReportDurable = lambda _durable: None
    ) -> None:
        """Send up to 25 entries, as `Sender.batch`.

        Raises:
            OutcomeUnknown: ended meanwhile; with the entries that were not reported.
            NotSent: ended before the call.
            And as `Sender.batch`.
        """
        left = list(planned)

        def report(durable: Sequence[Planned]) -> None:
            done = set(map(id, durable))
            left[:] = [change for change in left if id(change) not in done]
            report_durable(durable)

        await self._until_end(partial(super().batch, planned, report), left)

    async def each(self, planned: Sequence[Planned], report: ReportResult) -> None:
        """Send up to 25 different entries, as `Sender.each`; what is open at the end is unknown."""
        left = {id(change): change for change in planned}

        def noted(change: Planned, result: Result) -> None:
            if left.pop(id(change), None) is not None:
                report(change, result)

        try:
            await self._until_end(partial(super().each, planned, noted), planned)
        except (OutcomeUnknown, NotSent) as error:
            is_sent = isinstance(error, OutcomeUnknown)
            for change in list(left.values()):
                noted(change, self._unknown([change]) if is_sent else error)

    async def transaction(self, planned: Sequence[Planned]) -> list[Entry]:
        """Send up to 100 entries, all or none, as `Sender.transaction`.

        Raises:
            OutcomeUnknown, NotSent: ended during the call, or before it.
            And as `Sender.transaction`.
        """
        call = partial(super().transaction, planned)
        return await self._until_end(call, planned, together=True)

    async def _until_end(
        self,
        call: Callable[[], Awaitable[Returned]],
        planned: Sequence[Planned],
        *,
        together: bool = False,
    ) -> Returned:
        if self._calls.is_closed or has_come(self._end):
            raise NotSent(f"{self._why} before {_changes(planned)} sent: not written")
        with anyio.CancelScope(deadline=self._end) as scope:
            self._calls.scopes.add(scope)
            try:
                return await call()
            finally:
                self._calls.scopes.discard(scope)
        raise self._unknown(planned, together=together)

    def _unknown(self, planned: Sequence[Planned], *, together: bool = False) -> OutcomeUnknown:
        is_keyed = all(change.keyed for change in planned)
        return OutcomeUnknown(
            f"{self._why} before {_changes(planned)} confirmed: the change may or may not be there;"
            f" {safe_repeat(is_named=is_keyed)} is safe until the retry horizon",
            entries=[change.entry for change in planned],
            together=together,
            retryable=is_keyed,
        )

    @property
    def _why(self) -> str:
        return "the ledger was closed" if self._calls.is_closed else TIMEOUT


def _changes(planned: Sequence[Planned]) -> str:
    return f"{len(planned)} change{'s were' if len(planned) != 1 else ' was'}"

"""Sending for calls that a closing ledger must end, each with what is true of its changes.

What is durable when the ledger closes counts as written; of the rest a call cannot tell, so it ends
`OutcomeUnknown`, with those entries: no call goes on sending over connections that are closed.
"""

from collections.abc import Awaitable, Sequence
from random import Random
from typing import TypeVar

import anyio

from ledger.core.errors import OutcomeUnknown
from ledger.core.values import Entry
from ledger.runtime.clock import Clock
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.writing.plan import Planned
from ledger.writing.sender import ReportDurable, ReportResult, Result, Sender

Returned = TypeVar("Returned")


class ClosableSender(Sender):
    """A sender whose calls end when it is closed."""

    def __init__(
        self, store: Store, *, settings: LiveSettings, clock: Clock, randomness: Random
    ) -> None:
        super().__init__(store, settings=settings, clock=clock, randomness=randomness)
        self._calls: set[anyio.CancelScope] = set()
        self._is_closed = False

    def close(self) -> None:
        """End every call, and those that begin later, without waiting for them."""
        self._is_closed = True
        for call in self._calls:
            call.cancel()

    async def put(self, planned: Planned) -> Entry:
        """Send one entry, as `Sender.put`.

        Raises:
            OutcomeUnknown: closed meanwhile.
            And as `Sender.put`.
        """
        return await self._until_closed(super().put(planned), [planned])

    async def batch(
        self, planned: Sequence[Planned], report_durable: ReportDurable = lambda _durable: None
    ) -> None:
        """Send up to 25 entries, as `Sender.batch`.

        Raises:
            OutcomeUnknown: closed meanwhile; with the entries that were not reported.
            And as `Sender.batch`.
        """
        left = list(planned)

        def report(durable: Sequence[Planned]) -> None:
            done = set(map(id, durable))
            left[:] = [change for change in left if id(change) not in done]
            report_durable(durable)

        await self._until_closed(super().batch(planned, report), left)

    async def each(self, planned: Sequence[Planned], report: ReportResult) -> None:
        """Send up to 25 different entries, as `Sender.each`; what is open at the end is unknown."""
        left = {id(change): change for change in planned}

        def noted(change: Planned, result: Result) -> None:
            if left.pop(id(change), None) is not None:
                report(change, result)

        try:
            await self._until_closed(super().each(planned, noted), planned)
        except OutcomeUnknown:
            for change in list(left.values()):
                noted(change, _closed([change]))

    async def transaction(self, planned: Sequence[Planned]) -> None:
        """Send up to 100 entries, all or none, as `Sender.transaction`.

        Raises:
            OutcomeUnknown: closed meanwhile.
            And as `Sender.transaction`.
        """
        await self._until_closed(super().transaction(planned), planned, together=True)

    async def _until_closed(
        self, call: Awaitable[Returned], planned: Sequence[Planned], *, together: bool = False
    ) -> Returned:
        with anyio.CancelScope() as scope:
            self._calls.add(scope)
            if self._is_closed:
                scope.cancel()
            try:
                return await call
            finally:
                self._calls.discard(scope)
        raise _closed(planned, together=together)


def _closed(planned: Sequence[Planned], *, together: bool = False) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the ledger was closed before {len(planned)} changes were confirmed: they may or may"
        " not be there; Ledger.retry is safe until the retry horizon",
        entries=[change.entry for change in planned],
        together=together,
    )

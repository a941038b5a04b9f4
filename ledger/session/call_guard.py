"""What every call of an open `Ledger` has around it: contract check, time limit, error count."""

from collections.abc import AsyncIterator, Awaitable, Coroutine
from typing import Any, TypeVar

from ledger.contract.view import ContractView
from ledger.core.errors import InvalidInput, LedgerError
from ledger.reads.reader import read_seconds
from ledger.runtime.call_deadlines import NEVER, bounded, deadline_of, not_read, not_sent
from ledger.runtime.metrics import Metrics
from ledger.runtime.services import Services
from ledger.runtime.supervisor import Supervised
from ledger.session.components import Components
from ledger.settings import Settings

Result = TypeVar("Result")


class CallGuard:
    """The parts of an open ledger, for the calls built on them."""

    settings: Settings
    region: str
    metrics: Metrics
    _services: Services
    _view: ContractView | None
    _opening: Supervised[Components]

    async def _renew_by(self, end: float) -> float:
        """Read the contract again if it is due, for a call that writes; return when that ends.

        A write has `write_deadline` from when its call begins: what the contract takes is a part
        of it.
        """
        if self._view is None or not self._view.is_due():
            return end
        end = min(end, deadline_of(self._view.current.write_deadline))
        await self._counted(bounded(end, self._view.renew(), not_sent))
        return end

    async def _renew_to_read(self, *, in_turn: int = 1) -> float:
        """Read the contract again if it is due; return when a read has to end that it delays.

        Of reads that are done one after another, so many `in_turn`, it is when the last has to end.
        """
        if self._view is None or not self._view.is_due():
            return NEVER
        seconds = read_seconds(self._view.current)
        end, last = deadline_of(seconds), deadline_of(in_turn * seconds)
        await self._counted(bounded(end, self._view.renew(), not_read))
        return last

    async def _in_time(self, timeout: float | None, call: Coroutine[Any, Any, Result]) -> Result:
        """Await a call that reads, for at most `timeout` seconds; None for no limit.

        Raises:
            ReadTooSlow: `timeout` ended.
            And as the call.
        """
        try:
            end = deadline_of(timeout)
        except InvalidInput:
            call.close()
            raise
        return await bounded(end, call, self._not_read)

    async def _each_in_time(
        self, timeout: float, items: AsyncIterator[Result]
    ) -> AsyncIterator[Result]:
        """Yield what an iterator yields, with at most `timeout` seconds for each wait.

        Raises:
            ReadTooSlow: `timeout` ended.
            And as the iterator.
        """
        while True:
            try:
                item = await bounded(deadline_of(timeout), anext(items), self._not_read)
            except StopAsyncIteration:
                return
            yield item

    def _not_read(self) -> LedgerError:
        error = not_read()
        self.metrics.error(self.region, error)
        return error

    @property
    def _open_parts(self) -> Components:
        return self._opening.here()

    async def _counted(self, call: Awaitable[Result]) -> Result:
        """Count the errors raised to the caller."""
        try:
            return await call
        except LedgerError as error:
            self.metrics.error(self.region, error)
            raise

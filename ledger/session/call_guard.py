"""What every call of an open `Ledger` has around it: contract check, time limit, counts."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

from ledger.contract.view import ContractView
from ledger.core.errors import InvalidInput, LedgerError, OutcomeUnknown
from ledger.core.values import Entry
from ledger.reads.reader import read_seconds
from ledger.runtime.call_deadlines import NEVER, bounded, deadline_of, not_read, not_sent
from ledger.runtime.metrics import Metrics
from ledger.runtime.services import Services
from ledger.runtime.supervisor import Supervised
from ledger.session.components import Components
from ledger.settings import Settings
from ledger.writes.entry_plan import Change

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

    def _transfers(self, asked: Sequence[Change]) -> AbstractContextManager[list[Entry]]:
        """Count what becomes of the transfers among changes; only where there are books."""
        current = self._open_parts.settings.current
        if not current.books:
            return nullcontext([])
        return counted_transfers(self.metrics, self.region, current, asked)

    async def _counted(self, call: Awaitable[Result]) -> Result:
        """Count the errors raised to the caller."""
        try:
            return await call
        except LedgerError as error:
            self.metrics.error(self.region, error)
            raise


@contextmanager
def counted_transfers(
    metrics: Metrics, region: str, settings: Settings, asked: Sequence[Change]
) -> Iterator[list[Entry]]:
    """Count the transfers among changes; the entries that are made are added to what is yielded.

    They are applied, repeated, refused (by a rule, or a full book), unknown or failed.
    """
    made: list[Entry] = []
    outcomes = Counter[tuple[str, str]]()

    def note(book: str, outcome: str) -> None:
        outcomes[settings.terms.book_pattern_of(book) or "", outcome] += 1

    try:
        yield made
    except LedgerError as error:
        books = Counter(change.counter for change in asked if change.legs is not None)
        if isinstance(error, OutcomeUnknown):  # all others are durable
            unknown = Counter(entry.counter for entry in error.entries if entry.legs)
            for book in unknown.elements():
                note(book, "unknown")
            books -= unknown
        for book in books.elements():
            note(book, _outcome(error))
        raise
    else:
        for entry in made:
            if entry.legs:
                note(entry.counter, "repeated" if entry.repeated else "applied")
    finally:
        for (pattern, outcome), count in outcomes.items():
            metrics.transferred(region, pattern, outcome, count)


def _outcome(error: LedgerError) -> str:
    if isinstance(error, OutcomeUnknown):
        return "applied"
    if error.outcome == "unknown":
        return "unknown"
    return "refused" if isinstance(error, InvalidInput) else "failed"

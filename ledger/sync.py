"""The ledger without async, for scripts, Django and Lambda: the same code behind a portal.

One event loop runs in a thread of its own while a ledger is open; any thread may call.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import date, datetime
from decimal import Decimal
from types import TracebackType
from typing import Self

from anyio.from_thread import BlockingPortal, start_blocking_portal
from prometheus_client import CollectorRegistry

from ledger.core.errors import LedgerError
from ledger.core.values import Entry
from ledger.ledger import ChangeLike
from ledger.ledger import Ledger as AsyncLedger
from ledger.settings import Settings
from ledger.totals.history import Bound
from ledger.totals.reader import Total


class Ledger:
    """`ledger.Ledger` with plain calls; see there for guarantees and errors."""

    def __init__(self, behind: AsyncLedger) -> None:
        self._behind = behind
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        region: str | None = None,
        registry: CollectorRegistry | None = None,
    ) -> Self:
        """Return a ledger of this region (the home region if none is named), to be entered."""
        return cls(AsyncLedger.open(settings, region=region, registry=registry))

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal())
            stack.enter_context(portal.wrap_async_context_manager(self._behind))
            self._portal = portal
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back connections and end the thread; closing again is harmless."""
        self._portal = None
        self._stack.close()

    def record(
        self,
        counter: str,
        change: int | Decimal,
        *,
        note: str | None = None,
        effective: date | None = None,
        key: str | None = None,
        at: datetime | None = None,
    ) -> Entry:
        """Add `change` to a counter; see `ledger.Ledger.record`."""

        async def call() -> Entry:
            return await self._behind.record(
                counter, change, note=note, effective=effective, key=key, at=at
            )

        return self._open_portal.call(call)

    def record_many(self, changes: Iterable[ChangeLike]) -> list[Entry]:
        """Record many changes, each on its own; see `ledger.Ledger.record_many`."""
        return self._open_portal.call(self._behind.record_many, changes)

    def record_together(self, changes: Iterable[ChangeLike]) -> list[Entry]:
        """Record up to 100 changes, all or none; see `ledger.Ledger.record_together`."""
        return self._open_portal.call(self._behind.record_together, changes)

    def retry(self, entries: Sequence[Entry], *, together: bool = False) -> list[Entry]:
        """Write entries again under their ids; see `ledger.Ledger.retry`."""

        async def call() -> list[Entry]:
            return await self._behind.retry(entries, together=together)

        return self._open_portal.call(call)

    def total(self, counter: str, *, max_age: float | None = None) -> Total:
        """Return the total of a counter; see `ledger.Ledger.total`."""

        async def call() -> Total:
            return await self._behind.total(counter, max_age=max_age)

        return self._open_portal.call(call)

    def totals(self, counters: Iterable[str], *, max_age: float | None = None) -> dict[str, Total]:
        """Return the totals of many counters by name; see `ledger.Ledger.totals`."""

        async def call() -> dict[str, Total]:
            return await self._behind.totals(counters, max_age=max_age)

        return self._open_portal.call(call)

    def history(
        self, counter: str, *, after: Bound = None, before: Bound = None
    ) -> Iterator[Entry]:
        """Yield a counter's entries in order; see `ledger.Ledger.history`."""
        entries = self._behind.history(counter, after=after, before=before)

        async def following() -> Entry | None:
            return await anext(entries, None)

        while (entry := self._open_portal.call(following)) is not None:
            yield entry

    @property
    def _open_portal(self) -> BlockingPortal:
        if self._portal is None:
            raise LedgerError("the ledger is not open: use it inside `with`")
        return self._portal

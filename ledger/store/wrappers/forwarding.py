"""A store in front of another, for those that change what happens to some requests only."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from ledger.core.entry import Item
from ledger.store.port import Store
from ledger.store.reads import Get, Page, Query, Scan
from ledger.store.retry import RetryBudget
from ledger.store.writes import Action, BatchOutcome, BatchWrite, Outcome, Write

Answer = TypeVar("Answer")


class ForwardingStore:
    """A `Store` that hands every request to the one behind; each goes through `_carry`."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    @property
    def region(self) -> str:
        """The region of the store behind."""
        return self._inner.region

    @property
    def retry_budget(self) -> RetryBudget:
        """The budget of the store behind."""
        return self._inner.retry_budget

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""
        return await self._carry(lambda: self._inner.write(write))

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do a batch."""
        return await self._carry(lambda: self._inner.write_batch(writes))

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction."""
        return await self._carry(lambda: self._inner.transact(actions, token=token))

    async def get(self, get: Get) -> Item | None:
        """Read one item."""
        return await self._carry(lambda: self._inner.get(get))

    async def query(self, query: Query) -> Page:
        """Read one page of a partition."""
        return await self._carry(lambda: self._inner.query(query))

    async def scan(self, scan: Scan) -> Page:
        """Read one page of one segment."""
        return await self._carry(lambda: self._inner.scan(scan))

    async def close(self) -> None:
        """Close the store behind."""
        await self._inner.close()

    async def _carry(self, send: Callable[[], Awaitable[Answer]]) -> Answer:
        """Make a request and return its answer."""
        return await send()

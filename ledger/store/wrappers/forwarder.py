"""The store that every wrapper builds on: it forwards each request to the store behind it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, TypeVar

from ledger.core.clock_offset import ClockOffset
from ledger.core.entry import Item
from ledger.store.port import Store
from ledger.store.reads import FoundItems, Get, Page, Query, Scan
from ledger.store.retry import RetryBudget
from ledger.store.writes import Action, BatchOutcome, BatchWrite, EachOutcome, Outcome, Write

Answer = TypeVar("Answer")
Operation = Literal[
    "write", "write_batch", "write_each", "transact", "get", "get_each", "query", "scan", "replicas"
]
READS: frozenset[Operation] = frozenset({"get", "get_each", "query", "scan", "replicas"})


class ForwardingStore:
    """A `Store` that forwards every request to the one behind it, each through `_carry`.

    A wrapper overrides `_carry` for behaviour around every request, and an operation for behaviour
    specific to it.
    """

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

    @property
    def clock_offset(self) -> ClockOffset | None:
        """The offset that the store behind has measured."""
        return self._inner.clock_offset

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""
        return await self._carry("write", lambda: self._inner.write(write))

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do a batch of unconditional writes."""
        return await self._carry("write_batch", lambda: self._inner.write_batch(writes))

    async def write_each(self, writes: Sequence[Write]) -> EachOutcome:
        """Do several conditional writes, each on its own."""
        return await self._carry("write_each", lambda: self._inner.write_each(writes))

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction."""
        return await self._carry("transact", lambda: self._inner.transact(actions, token=token))

    async def get(self, get: Get) -> Item | None:
        """Read one item."""
        return await self._carry("get", lambda: self._inner.get(get))

    async def get_each(self, gets: Sequence[Get]) -> FoundItems:
        """Read several items."""
        return await self._carry("get_each", lambda: self._inner.get_each(gets))

    async def query(self, query: Query) -> Page:
        """Read one page of a partition."""
        return await self._carry("query", lambda: self._inner.query(query))

    async def scan(self, scan: Scan) -> Page:
        """Read one page of one segment."""
        return await self._carry("scan", lambda: self._inner.scan(scan))

    async def replicas(self) -> Mapping[str, str] | None:
        """Describe the table's replicas in other regions."""
        return await self._carry("replicas", self._inner.replicas)

    async def close(self) -> None:
        """Close the store behind."""
        await self._inner.close()

    async def _carry(self, operation: Operation, send: Callable[[], Awaitable[Answer]]) -> Answer:
        """Send a request and return its answer."""
        del operation
        return await send()

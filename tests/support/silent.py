"""A store that gives no answers while it is silent, and a clock of the event loop."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import anyio
from support.ledgers import HOME

from ledger.reads.feed.port import ShardListing, ShardRead
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.forwarder import READS, Answer, ForwardingStore, Operation
from ledger.testing.clock import START


class SilentStore(ForwardingStore):
    """Does what it is asked, and gives no answer while it is silent; reads may be answered."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(HOME))
        self.is_silent = False
        self.answers_reads = False
        self.requests = 0

    async def _carry(self, operation: Operation, send: Callable[[], Awaitable[Answer]]) -> Answer:
        self.requests += 1
        answer = await send()
        if self.is_silent and not (self.answers_reads and operation in READS):
            await anyio.sleep_forever()
        return answer


class SilentStream:
    """A stream of nothing that gives no answer while its store gives none."""

    def __init__(self, store: SilentStore) -> None:
        self._store = store

    async def listing(self, *, is_fresh: bool = False) -> ShardListing:  # noqa: ARG002 (always is)
        """Return no shards."""
        if self._store.is_silent:
            await anyio.sleep_forever()
        return ShardListing("s", ())

    async def read(self, shard: str, after: int) -> ShardRead:
        """Return nothing."""
        del shard, after
        return ShardRead()


class LoopClock:
    """The time of the event loop: on a virtual one, that of the test."""

    def now(self) -> datetime:
        """Return the time of day."""
        return START + timedelta(seconds=anyio.current_time())

    def monotonic(self) -> float:
        """Return the loop's seconds."""
        return anyio.current_time()

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        await anyio.sleep(seconds)

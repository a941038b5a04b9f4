"""One table, one virtual clock, and contenders for one lease."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

from anyio.lowlevel import checkpoint
from support.ledgers import services_of

from ledger.core.entry import Item, Key
from ledger.core.errors import Unreachable
from ledger.primitives.leases.lease import Lease, LeaseOptions
from ledger.primitives.leases.lease_rules import LeaseTerms, lease_key, record_item, record_of
from ledger.runtime.clock import Clock
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.port import Store
from ledger.store.wrappers.faults import Fault, FaultyStore, InOrder, Raises, Slow
from ledger.store.wrappers.forwarder import Answer, ForwardingStore, Operation
from ledger.testing.clock import START, ManualClock

KEY = lease_key("compactor")
TERMS = LeaseTerms(lease_seconds=30, heartbeat_seconds=10, margin_share=0.1, polls_per_heartbeat=5)
FIRST = int(START.timestamp() * 1000)
"""The epoch of a lease that is first taken at `START`."""
UNREACHABLE = Raises(Unreachable("no connection"))


class YieldingStore(ForwardingStore):
    """A store before and after whose answers others act."""

    async def _carry(self, operation: Operation, send: Callable[[], Awaitable[Answer]]) -> Answer:
        del operation
        await checkpoint()
        answer = await send()
        await checkpoint()
        return answer


class World:
    """One table, one virtual clock, and any number of contenders for one lease."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.table = MemoryTable()
        behind = YieldingStore(MemoryStore("eu-west-1", self.table))
        self.store = FaultyStore(behind, InOrder(), clock=self.clock)

    def fail_writes(self, *faults: Fault | None) -> None:
        """Set what becomes of the next single writes, in place of what was set."""
        fault = InOrder(*faults)
        self.store.decide = lambda call: fault(call) if call.operation == "write" else None

    def slow_writes(self, seconds: float) -> None:
        """Let each single write reach the table this much later."""
        slow = Slow(before_seconds=seconds)
        self.store.decide = lambda call: slow if call.operation == "write" else None

    def contender(
        self,
        owner: str,
        *,
        store: Store | None = None,
        clock: Clock | None = None,
        terms: LeaseTerms = TERMS,
        name: str = "compactor",
        key: Key = KEY,
        delete_on_release: bool = False,
    ) -> Lease:
        """Return a contender with randomness of its own."""
        return Lease(
            store or self.store,
            name,
            owner=owner,
            terms=terms,
            services=services_of(
                clock or self.clock,
                random.Random(owner),  # noqa: S311 (repeatable)
            ),
            options=LeaseOptions(key=key, delete_on_release=delete_on_release),
        )

    def epoch(self) -> int:
        """Return the epoch in the table."""
        return record_of(self.item()).epoch

    def item(self, key: Key = KEY) -> Item:
        """Return the item in the table."""
        item = self.table.get(key)
        assert item is not None
        return item

    async def force_taken(self, owner: str) -> None:
        """Let somebody take the lease out of turn."""
        record = record_of(self.item())
        taken = replace(record, owner=owner, rvn="forced", epoch=record.epoch + 1)
        self.table.set(KEY, record_item(taken))

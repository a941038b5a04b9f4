"""One table, one virtual clock, and contenders for one lease."""

import random
from dataclasses import replace

from support.clock import FakeClock
from support.faulty import FaultyStore

from ledger.core.entry import Item
from ledger.primitives.leases.lease import Lease
from ledger.primitives.leases.state import LeaseTerms, lease_key, record_item, record_of
from ledger.runtime.clock import Clock
from ledger.store.memory import Table
from ledger.store.port import Store
from ledger.store.writes import Outcome, Write

KEY = lease_key("compactor")
TERMS = LeaseTerms(lease_seconds=30, heartbeat_seconds=10, margin_share=0.1, polls_per_heartbeat=5)


class World:
    """One table, one virtual clock, and any number of contenders for one lease."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.table = Table()
        self.store = FaultyStore("eu-west-1", self.table)

    def contender(
        self,
        owner: str,
        *,
        store: Store | None = None,
        clock: Clock | None = None,
        terms: LeaseTerms = TERMS,
    ) -> Lease:
        """Return a contender with randomness of its own."""
        return Lease(
            store or self.store,
            "compactor",
            owner=owner,
            terms=terms,
            clock=clock or self.clock,
            randomness=random.Random(owner),  # noqa: S311 (repeatable)
            key=KEY,
        )

    def epoch(self) -> int:
        """Return the epoch in the table."""
        return record_of(self.item()).epoch

    def item(self) -> Item:
        """Return the item in the table."""
        item = self.table.get(KEY)
        assert item is not None
        return item

    async def force_taken(self, owner: str) -> None:
        """Let somebody take the lease out of turn."""
        record = record_of(self.item())
        taken = replace(record, owner=owner, rvn="forced", epoch=record.epoch + 1)
        self.table.set(KEY, record_item(taken))


class SlowStore(FaultyStore):
    """A store whose writes reach the table only after `seconds` of the world's clock."""

    def __init__(self, world: World, *, seconds: float) -> None:
        super().__init__("eu-west-1", world.table)
        self.clock = world.clock
        self.seconds = seconds

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write, late."""
        await self.clock.sleep(self.seconds)
        return await super().write(write)

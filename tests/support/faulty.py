"""A store that loses answers on demand."""

from collections import deque
from typing import Literal

from anyio.lowlevel import checkpoint

from ledger.core.entry import Item
from ledger.core.errors import Unreachable
from ledger.store.memory import MemoryStore, Table
from ledger.store.reads import Get
from ledger.store.writes import Outcome, Unknown, Write

Fault = Literal["applied, no answer", "not applied, no answer", "lands later", "unreachable"]


class FaultyStore(MemoryStore):
    """A store in memory whose next writes go wrong as `faults` says, in order; None: nothing wrong.

    A write that lands later waits in `in_flight` until `land` is called.
    """

    def __init__(self, region: str, table: Table | None = None) -> None:
        super().__init__(region, table)
        self.faults: deque[Fault | None] = deque()
        self.in_flight: deque[Write] = deque()

    def plan(self, *faults: Fault | None) -> None:
        """Set what becomes of the next writes, in place of what was planned."""
        self.faults = deque(faults)

    async def get(self, get: Get) -> Item | None:
        """Read one item; others act before the answer arrives."""
        item = await super().get(get)
        await checkpoint()
        return item

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write, or go wrong; others act before it arrives."""
        await checkpoint()
        fault = self.faults.popleft() if self.faults else None
        if fault is None:
            return await super().write(write)
        if fault == "unreachable":
            raise Unreachable("no connection")
        if fault == "applied, no answer":
            await super().write(write)
        if fault == "lands later":
            self.in_flight.append(write)
        return Unknown(fault)

    async def land(self) -> Outcome:
        """Let the oldest request in flight reach the table."""
        return await super().write(self.in_flight.popleft())

"""A store that loses answers on demand."""

from collections import deque
from typing import Literal

from ledger.core.errors import Unreachable
from ledger.store.memory import MemoryStore, Table
from ledger.store.port import Outcome, Unknown, Write

Fault = Literal["applied, no answer", "not applied, no answer", "lands later", "unreachable"]


class FaultyStore(MemoryStore):
    """A store in memory whose next writes go wrong as `faults` says, in order; None: nothing wrong.

    A write that lands later waits in `flying` until `land` is called.
    """

    def __init__(self, region: str, table: Table | None = None) -> None:
        super().__init__(region, table)
        self.faults: deque[Fault | None] = deque()
        self.flying: deque[Write] = deque()

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write, or go wrong."""
        fault = self.faults.popleft() if self.faults else None
        if fault is None:
            return await super().write(write)
        if fault == "unreachable":
            raise Unreachable("no connection")
        if fault == "applied, no answer":
            await super().write(write)
        if fault == "lands later":
            self.flying.append(write)
        return Unknown(fault)

    async def land(self) -> Outcome:
        """Let the oldest request in flight reach the table."""
        return await super().write(self.flying.popleft())

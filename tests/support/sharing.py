"""Writers whose calls share batches, a store that can be held up, and many calls at once."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from support.ledgers import HOME, make_writer

from ledger.core.errors import KeyConflict, OutcomeUnknown, StoreError
from ledger.core.values import Entry
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.writes import BatchOutcome, BatchWrite, EachOutcome, Outcome, Write
from ledger.testing.clock import ManualClock
from ledger.writes.entry_plan import Change
from ledger.writes.writer import Writer

TURNS = 20


class GatedStore(MemoryStore):
    """Notes the size of each request, and answers none while its gate is shut."""

    def __init__(self) -> None:
        super().__init__(HOME)
        self.sizes: list[int] = []
        self.gate = anyio.Event()
        self.gate.set()

    def shut(self) -> None:
        """Let requests wait until the gate is opened again."""
        self.gate = anyio.Event()

    async def write(self, write: Write) -> Outcome:
        """Do a single write once the gate is open."""
        self.sizes.append(1)
        await self.gate.wait()
        return await super().write(write)

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do a batch once the gate is open."""
        self.sizes.append(len(writes))
        await self.gate.wait()
        return await super().write_batch(writes)

    async def write_each(self, writes: Sequence[Write]) -> EachOutcome:
        """Do several conditional writes once the gate is open."""
        self.sizes.append(len(writes))
        await self.gate.wait()
        return await super().write_each(writes)


@asynccontextmanager
async def sharing(
    store: Store, *, clock: ManualClock | None = None, **overrides: Any
) -> AsyncIterator[Writer]:
    """Yield a writer whose calls share batches."""
    async with anyio.create_task_group() as tasks:
        writer = make_writer(store, clock=clock, **overrides)
        writer.share(tasks, on_group=lambda *_: None)
        try:
            yield writer
        finally:
            writer.close()
            tasks.cancel_scope.cancel()


Told = Entry | KeyConflict | OutcomeUnknown | StoreError


async def record_all(writer: Writer, asked: Sequence[Change]) -> list[Told]:
    """Record every change in a call of its own, all at once; an error stands in its place."""
    results: dict[int, Told] = {}

    async def one(place: int, change: Change) -> None:
        try:
            results[place] = await writer.record(change)
        except (KeyConflict, OutcomeUnknown, StoreError) as error:
            results[place] = error

    async with anyio.create_task_group() as tasks:
        for place, change in enumerate(asked):
            tasks.start_soon(one, place, change)
    return [results[place] for place in range(len(asked))]


async def record(writer: Writer, change: Change) -> Entry:
    """Record one change, as a task of its own may."""
    return await writer.record(change)


async def turns() -> None:
    """Let every task run until it waits."""
    for _ in range(TURNS):
        await checkpoint()


def ones(count: int, counter: str = "c") -> list[Change]:
    """Return changes 1, 2, 3 and so on."""
    return [Change(counter, number + 1) for number in range(count)]

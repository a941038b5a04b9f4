"""A cache over a source that answers when a test lets it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import anyio
from support.ledgers import HOME, sample, seeded

from ledger.core.errors import LedgerError
from ledger.reads.total import Total
from ledger.reads.total_cache import TotalCache
from ledger.runtime.metrics import Metrics
from ledger.runtime.services import Services
from ledger.settings.groups import CacheSettings
from ledger.testing.clock import START, ManualClock

Read = Callable[[str], Awaitable[Total]]


@dataclass
class Source:
    """A table of one number whose reads wait, half-way, until the test lets them answer.

    The number is read when a read begins: a change made while it waits is not in it.
    """

    value: int = 0
    reads: int = 0
    asleep: list[anyio.Event] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    free: bool = False

    async def read(self, counter: str) -> Total:
        """Read the number, then wait for `answer`."""
        self.reads += 1
        seen = self.value
        if not self.free:
            gate = anyio.Event()
            self.asleep.append(gate)
            await gate.wait()
        if self.errors:
            raise self.errors.pop(0)
        return Total(counter, Decimal(seen), START, HOME, entries=0, ended=START)

    def answer(self) -> None:
        """Let the oldest waiting read answer."""
        self.asleep.pop(0).set()


@dataclass
class World:
    """A cache over a source, on a clock that only the test moves."""

    source: Source
    clock: ManualClock
    cache: TotalCache
    metrics: Metrics
    tasks: anyio.abc.TaskGroup
    totals: dict[int, Total] = field(default_factory=dict)
    errors: dict[int, Exception] = field(default_factory=dict)
    calls: int = 0

    async def ask(self, max_age: float | None = None, counter: str = "c") -> int:
        """Ask in a task of its own, let it run, and return the number of the call."""
        self.calls += 1
        number = self.calls
        self.tasks.start_soon(self._ask, number, max_age, counter)
        await self.clock.run_pending()
        return number

    async def _ask(self, number: int, max_age: float | None, counter: str) -> None:
        try:
            self.totals[number] = await self.cache.total(counter, max_age)
        except LedgerError as error:
            self.errors[number] = error

    async def answer(self) -> None:
        """Let the oldest read answer, and everybody hear it."""
        self.source.answer()
        await self.clock.run_pending()

    def counted(self, name: str) -> float:
        """Return a metric of the cache."""
        return sample(self.metrics, f"ledger_cache_{name}", region=HOME)


@asynccontextmanager
async def world(*, free: bool = False, **settings: Any) -> AsyncIterator[World]:
    """Open a cache; what still waits at the end is cancelled."""
    source, clock, metrics = Source(free=free), ManualClock(), Metrics()
    async with anyio.create_task_group() as tasks:
        cache = TotalCache(
            source.read,
            region=HOME,
            settings=CacheSettings(**settings),
            services=Services(clock, seeded(), metrics),
            tasks=tasks,
        )
        yield World(source, clock, cache, metrics, tasks)
        tasks.cancel_scope.cancel()

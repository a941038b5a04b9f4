"""Regions of a soak without processes: a balancer before a service in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.soak.balancer import Attempt, Balancer
from lab.soak.instances import Instance, Life
from lab.soak.report import SoakOptions, SoakProgress
from lab.soak.service import Service
from support.lossy_http import Fault, LossyTransport, never
from support.serving import HOME, served

from ledger.demo.harness.checker import TaggedChecker
from ledger.testing import ManualClock, MemoryGlobalTable

REGION = HOME
HORIZON_SECONDS = 15.0


def an_instance(port: int, **known: Any) -> Instance:
    """Return an instance that listens; nothing is started."""
    one = Instance(f"i-{port}", "here", config=Path("c"), tokens=Path("t"), drain_seconds=1.0)
    one.life = Life(one.name, port, **known)
    return one


@dataclass(slots=True)
class Soaked:
    """A region of a soak, its progress, and the table behind it."""

    service: Service
    progress: SoakProgress
    table: MemoryGlobalTable
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def rules(self) -> list[str]:
        """The rules that were found broken."""
        return [wrong.rule for wrong in self.progress.wrong]


@asynccontextmanager
async def soaked(before: Fault = never, after: Fault = never) -> AsyncIterator[Soaked]:
    """Open a region over a service in memory; waits take no time."""
    table = MemoryGlobalTable(clock=ManualClock(instant=True))
    attempts: list[Attempt] = []
    async with served(table) as behind:
        balancer = Balancer(
            [an_instance(1, is_ready=True)],
            clock=table.clock,
            on_attempt=attempts.append,
            is_calm=lambda: False,
            was_late=lambda _: False,
            http=LossyTransport(behind.app, before=before, after=after),
        )
        service = Service(balancer, "token", horizon=HORIZON_SECONDS, clock=table.clock)
        progress = SoakProgress(SoakOptions(), TaggedChecker(), table.clock, started=0.0)
        async with service.ledger:
            yield Soaked(service, progress, table, attempts)

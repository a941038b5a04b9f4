"""Clients of one simulated table: each a process with store, clock and randomness of its own."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import anyio
from proof.simulator.process import RELIABLE, Process
from proof.simulator.randomness import stream
from proof.simulator.store import NO_FAULTS, FaultProfile, SimStore
from proof.simulator.world import World, WorldFacts
from support.ledgers import AWAY, HOME, sample, services_of

from ledger.runtime.clock import Clock
from ledger.runtime.metrics import Metrics
from ledger.runtime.services import Services
from ledger.store.port import Store
from ledger.store.wrappers.meter import MeteredStore

FAULTY = FaultProfile(lost=0.1, never_arrived=0.1, late=0.1, late_transactions=0.1)
"""About a third of the writes get no answer; a third of these land up to a minute later."""
SIGNATURE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Client:
    """One process that reaches one region."""

    store: Store
    clock: Clock
    randomness: Random
    process: Process

    @property
    def services(self) -> Services:
        """The services of the process."""
        return services_of(self.clock, self.randomness)


@dataclass
class Clients:
    """Any number of clients of a table of two regions, all from one seed, under one meter."""

    seed: int = 1
    faults: FaultProfile = NO_FAULTS
    staleness_seconds: float = 0.5
    metrics: Metrics = field(default_factory=Metrics)
    world: World = field(init=False)

    def __post_init__(self) -> None:
        self.world = World(
            (HOME, AWAY),
            loop=asyncio.get_running_loop(),
            randomness=stream(self.seed, "world"),
            facts=WorldFacts(staleness=self.staleness_seconds, signature_seconds=SIGNATURE_SECONDS),
        )

    def client(self, name: str, region: str = HOME) -> Client:
        """Return a client that is always well; its requests meet the faults."""
        process = Process(
            name,
            world=self.world,
            randomness=stream(self.seed, name),
            reliability=RELIABLE,
            skew_seconds=0,
            span=1,
        )
        store = SimStore(process, region, self.faults)
        metered = MeteredStore(store, metrics=self.metrics, clock=process.clock)
        return Client(metered, process.clock, stream(self.seed, f"{name}'s draws"), process)

    def units(self, kind: str) -> float:
        """Return the write or read units that all clients have taken."""
        return sample(self.metrics, "ledger_consumed_units_total", kind=kind)


async def together(works: Sequence[Callable[[], Coroutine[Any, Any, object]]]) -> None:
    """Do all of these at once, to the end."""
    async with anyio.create_task_group() as tasks:
        for work in works:
            tasks.start_soon(work)

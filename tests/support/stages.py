"""A small stage: two regions without faults, in which a test lets one thing happen by hand."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio
from proof.simulator.auditor import Auditor
from proof.simulator.process import RELIABLE, Process
from proof.simulator.randomness import stream
from proof.simulator.store import NO_FAULTS, SimStore
from proof.simulator.supervisor import REGISTRY
from proof.simulator.world import World
from support.ledgers import HOME, LOCAL, WEST

from compactor.job import Compactor
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.settings import Settings

One = TypeVar("One", bound=Process)


def stage_settings(**overrides: Any) -> Settings:
    """Return the default settings of two regions, but that everything is merged at once."""
    return Settings(
        home=HOME,
        regions={HOME: LOCAL, WEST: LOCAL},
        compactor={"fold_min": 1, "prune_min": 1, "scan_segments": 1, "scan_every": 0},
        **overrides,
    )


@dataclass
class Stage:
    """Two regions without faults under one auditor."""

    settings: Settings = field(default_factory=stage_settings)
    page_items_max: int = 1000
    world: World = field(init=False)
    auditor: Auditor = field(init=False)

    def __post_init__(self) -> None:
        self.world = World(
            (HOME, WEST),
            loop=asyncio.get_running_loop(),
            randomness=stream(1, "world"),
            page_items_max=self.page_items_max,
        )
        self.auditor = Auditor(self.world, found=lambda: None)

    def process(self, name: str, *, off_seconds: float = 0.0) -> Process:
        """Return a process whose clock is right, or off by so much."""
        return self.made(Process, name, off_seconds=off_seconds)

    def made(self, kind: type[One], name: str, *, off_seconds: float = 0.0) -> One:
        """Return a process of a kind of its own, whose clock is right, or off by so much."""
        return kind(
            name,
            world=self.world,
            randomness=stream(1, name),
            reliability=RELIABLE,
            skew_seconds=0,
            span=1,
            off_seconds=off_seconds,
        )

    def ledger(self, process: Process, region: str, store: type[SimStore] = SimStore) -> Ledger:
        """Return the ledger of a process."""
        return Ledger(
            self.settings,
            region=region,
            registry=REGISTRY,
            given=GivenConnections(store=store(process, region, NO_FAULTS)),
            services=Services.of(
                clock=process.clock, randomness=stream(1, f"{process.name} ids"), registry=REGISTRY
            ),
        )

    async def merge(self) -> None:
        """Fold what is settled, delete it and forget its ids."""
        process = self.process("compactor")
        stores = {region: SimStore(process, region, NO_FAULTS) for region in (HOME, WEST)}
        compactor = Compactor(
            self.settings,
            registry=REGISTRY,
            stores=stores,
            services=Services.of(
                clock=process.clock, randomness=stream(1, "compactor"), registry=REGISTRY
            ),
            owner="compactor",
        )
        for _ in range(3):
            await compactor.run_once()
            await anyio.sleep(5)

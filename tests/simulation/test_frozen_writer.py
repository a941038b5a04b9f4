"""A writer that freezes between its look at the clock and its request: found by this world.

::

    home     key k ── settled ── fold ── delete ── forget
    west     k again: in time ── frozen ──────────────────── signs? sends?
"""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import anyio
import pytest

from compactor.job import Compactor
from ledger.core.errors import OutcomeUnknown, RetryHorizonPassed
from ledger.lab.simulator import loop
from ledger.lab.simulator.auditor import Auditor, Violation
from ledger.lab.simulator.mutants import MUTANTS
from ledger.lab.simulator.process import RELIABLE, Process
from ledger.lab.simulator.randomness import stream
from ledger.lab.simulator.store import NO_FAULTS, SimStore
from ledger.lab.simulator.supervisor import REGISTRY
from ledger.lab.simulator.world import World
from ledger.ledger import Ledger
from ledger.settings import Settings

HOME, WEST = "us-east-1", "eu-west-1"
FROZEN_SECONDS = 1500.0
STEPS_BEFORE_SENDING = 5
"""Looks at the clock and the call of the store that a repeat takes before it sends."""


class Freezing(Process):
    """A process that freezes at one of its steps."""

    freezes_at = 0

    def step(self, weight: int = 1) -> None:
        """Count down to the freeze."""
        self.freezes_at -= 1
        if self.freezes_at == 0:
            self._awake_at = self.world.loop.time() + FROZEN_SECONDS
        super().step(weight)


@dataclass
class Stage:
    """Two regions without faults under one auditor."""

    world: World
    auditor: Auditor = field(init=False)
    settings: Settings = field(init=False)

    def __post_init__(self) -> None:
        self.auditor = Auditor(self.world, found=lambda: None)
        self.settings = Settings(
            home=HOME,
            regions={HOME: {}, WEST: {}},
            compactor={"fold_min": 1, "prune_min": 1, "scan_segments": 1, "scan_every": 0},
        )

    def process(self, name: str) -> Freezing:
        """Return a process whose clock is right."""
        return Freezing(
            name,
            world=self.world,
            randomness=stream(1, name),
            reliability=RELIABLE,
            skew_seconds=0,
            span=1,
        )

    def ledger(self, process: Process, region: str) -> Ledger:
        """Return the ledger of a process."""
        return Ledger(
            self.settings,
            region=region,
            registry=REGISTRY,
            store=SimStore(process, region, NO_FAULTS),
            clock=process.clock,
            randomness=stream(1, f"{process.name} ids"),
        )

    async def merge(self) -> None:
        """Fold what is settled, delete it and forget its ids."""
        process = self.process("compactor")
        stores = {region: SimStore(process, region, NO_FAULTS) for region in (HOME, WEST)}
        compactor = Compactor(
            self.settings,
            registry=REGISTRY,
            stores=stores,
            clock=process.clock,
            randomness=stream(1, "compactor"),
            owner="compactor",
        )
        for _ in range(3):
            await compactor.run_once()
            await anyio.sleep(5)


async def repeat(ledger: Ledger, at: datetime) -> None:
    """Make the same call again; that it is refused, or not known to be applied, is no harm."""
    try:
        await ledger.record("counter", 1, key="k", at=at)
    except (OutcomeUnknown, RetryHorizonPassed):
        return


async def frozen(step: int) -> tuple[Violation | None, int]:
    """Repeat a change with a key from a process that freezes at this step, merging meanwhile."""
    world = World((HOME, WEST), loop=asyncio.get_running_loop(), randomness=stream(1, "world"))
    stage = Stage(world)
    one, other = stage.process("one"), stage.process("other")
    async with stage.ledger(one, HOME) as here, stage.ledger(other, WEST) as there:
        at = one.clock.now()
        await here.record("counter", 1, key="k", at=at)
        await anyio.sleep(10)
        other.freezes_at = step
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(repeat, there, at)
            await anyio.sleep(1000)
            await stage.merge()
        await anyio.sleep(5)
        total = await here.total("counter", max_age=0)
        return stage.auditor.violation, int(total.value)


@pytest.mark.parametrize("step", range(2, STEPS_BEFORE_SENDING + 2))
def test_frozen_writer_counts_nothing_twice(step: int) -> None:
    """Wherever it freezes, a request that was in time when it began is not signed too late."""
    assert loop.run(partial(frozen, step)) == (None, 1)


def test_frozen_writer_would_count_twice() -> None:
    """Signed whenever the writer wakes up, its request would be counted twice."""
    with MUTANTS["signed-any-time"].active():
        results = [loop.run(partial(frozen, step)) for step in range(2, STEPS_BEFORE_SENDING + 2)]
    assert any(violation is not None and total == 2 for violation, total in results)

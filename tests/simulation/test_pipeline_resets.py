"""Resets in the deterministic world: cut off, twice at once, and of lanes left by dead workers."""

from functools import partial

import anyio
import pytest
from proof.simulator import loop
from proof.simulator.process import RELIABLE
from proof.simulator.randomness import stream
from proof.simulator.store import NO_FAULTS, SimStore
from support.clients import together
from support.ledgers import services_of
from support.pipelines import (
    BOTH_HOMES,
    SETTLED_SECONDS,
    PipelineWorld,
    map_items,
    pipeline_settings,
    shown,
)

from ledger.core.errors import LedgerError
from ledger.pipeline.auditing.audit import Audit
from ledger.pipeline.auditing.reset import Reset
from ledger.pipeline.core.items import STATE_PREFIX
from ledger.runtime.clock import Clock

pytestmark = pytest.mark.slow

SEEDS = range(60)
RUNS_MAX = 30


class ResetWorld(PipelineWorld):
    """A world that is reset, by runs that are cut off now and then, and then brought in again.

    Forced, it is so after its workers have died, wherever that was.
    """

    def __init__(self, seed: int, *, is_forced: bool) -> None:
        super().__init__(seed)
        self.is_forced = is_forced
        self.wrong: list[str] = []
        self._runs = 0
        self._chance = stream(seed, "resets")

    async def run(self) -> None:
        """Let lanes run, reset, look at what is left, and let all of them run once more."""
        await together([partial(self._work, lane) for lane in self.lanes])
        self.world.heal_all()
        if not self.is_forced:
            await together([self.worker(lane, RELIABLE).run for lane in self.lanes])
        await anyio.sleep(SETTLED_SECONDS)
        await self._reset()
        await anyio.sleep(SETTLED_SECONDS)
        for region, replica in self.world.replicas.items():
            table = replica.table
            states = [
                partition for partition in table.partitions if partition.startswith(STATE_PREFIX)
            ]
            if left := (shown(table), map_items(table), states) != ({}, [], []):
                self.wrong.append(f"{region}: left {left}")
        await together([self.worker(lane, RELIABLE).run for lane in self.lanes])
        await anyio.sleep(SETTLED_SECONDS)
        stores, clock = self._process_of("audit")
        settings = pipeline_settings(home=BOTH_HOMES)
        audit = Audit(
            stores,
            settings,
            services=services_of(clock, stream(self.seed, "audit")),
        )
        self.wrong += [f"audit: {difference}" for difference in (await audit.run()).differences]
        await anyio.sleep(SETTLED_SECONDS)
        self.world.end()

    def _process_of(self, name: str) -> tuple[dict[str, SimStore], Clock]:
        process = self._process(name, RELIABLE)
        regions = self.world.replicas
        return {region: SimStore(process, region, NO_FAULTS) for region in regions}, process.clock

    async def _reset(self) -> None:
        """Reset to the end, by as many runs as it takes, two of them at once now and then."""
        for _ in range(RUNS_MAX):
            with anyio.CancelScope() as life:
                if self._chance.random() < 0.5:
                    self.world.loop.call_later(self._chance.uniform(0.0, 2.0), life.cancel)
                together_ = self._chance.choice((1, 1, 2))
                done = [False] * together_

                async def run(number: int, done: list[bool] = done) -> None:
                    done[number] = await self._run_once()

                await together([partial(run, number) for number in range(together_)])
            if any(done):
                return
        raise AssertionError("the reset never ends")

    async def _run_once(self) -> bool:
        self._runs += 1
        stores, clock = self._process_of(f"reset {self._runs}")
        try:
            await Reset(
                stores,
                pipeline_settings(home=BOTH_HOMES),
                services=services_of(clock, stream(self.seed, f"reset {self._runs}")),
                is_forced=self.is_forced,
            ).run()
        except LedgerError:
            await anyio.sleep(1.0)
            return False
        return True


async def live(seed: int, *, is_forced: bool) -> ResetWorld:
    """Let a world live to its end."""
    world = ResetWorld(seed, is_forced=is_forced)
    await world.run()
    return world


@pytest.mark.parametrize("is_forced", [False, True])
def test_nothing_is_left_and_all_of_it_counts_again(*, is_forced: bool) -> None:
    """However resets and lanes are cut off: totals are 0 in each region, and then the truth."""
    found = {}
    for seed in SEEDS:
        world = loop.run(partial(live, seed, is_forced=is_forced))
        if wrong := world.wrong + world.verdict():
            found[seed] = wrong
    assert found == {}

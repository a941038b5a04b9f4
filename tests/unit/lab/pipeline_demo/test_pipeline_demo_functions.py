from collections.abc import Mapping

import pytest
from lab.pipeline_demo.faults import Crashed, StageFaults, StageFaultStore
from lab.pipeline_demo.functions import Connected, ShardOfEvents, lane_of_shard
from support.ledgers import HOME, seeded
from support.pipelines import POISON, map_items, message, pipeline_settings, shown, truth
from support.tiers import few_fast

from ledger.core.errors import LedgerError
from ledger.pipeline.core.items import lane_id, position_key
from ledger.pipeline.core.lane_state import lane_state_of
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.metrics import PipelineMetrics
from ledger.pipeline.sources.dead_letters import DeadLetterList
from ledger.pipeline.sources.source import ListSource
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.wrappers.faults import Fault, FaultyStore, Raises
from ledger.testing.clock import ManualClock

RAWS = [message(f"T{number % 40}", number // 40 + 1, 7 * number) for number in range(300)]
USUAL = {"state": 0.01, "map": 0.02, "reduce": 0.02}
BAD = {"state": 0.05, "map": 0.3, "reduce": 0.3}


class Shard:
    """A shard over a store in memory whose requests fail."""

    def __init__(
        self, fail: Mapping[str, float], seed: int = 7, *, always: Fault | None = None
    ) -> None:
        draw = seeded(seed)
        self.inner = MemoryStore(HOME)
        self.faults = {
            stage: StageFaults(share, draw, crashes=stage != "state")
            for stage, share in fail.items()
        }
        self.letters = DeadLetterList()
        self.counted: list[str] = []
        settings = pipeline_settings(home={"field": "none", "regions": {}})
        store: Store = StageFaultStore(self.inner, self.faults)
        if always is not None:
            store = FaultyStore(self.inner, lambda _call: always)
        self.shard = ShardOfEvents(
            "lane-0",
            HOME,
            Connected({HOME: store}, settings, self.letters),
            clock=ManualClock(instant=True),
            randomness=draw,
            metrics=PipelineMetrics(),
            on_counted=self.counted.append,
        )

    async def run(self, raws: list[bytes]) -> None:
        """Hand in records, ten at a time."""
        deliveries = [Delivery(f"{10 * place:020d}", raw) for place, raw in enumerate(raws, 1)]
        await self.shard.run(ListSource(deliveries), most=10)


@pytest.mark.parametrize("seed", few_fast(range(4), fast=1))
@pytest.mark.parametrize("fail", [USUAL, BAD])
async def test_the_function_is_exact_under_failures_of_every_stage(
    fail: Mapping[str, float], seed: int
) -> None:
    """Whatever fails and comes again, totals are the truth, and nothing waits."""
    one = Shard(fail, seed)
    await one.run([*RAWS, POISON])
    assert shown(one.inner.table) == truth(RAWS)
    assert map_items(one.inner.table) == []
    assert {letter.raw for letter in one.letters.letters} == {POISON}
    assert one.counted == [f"{10 * place:020d}" for place in [*range(10, 301, 10), 301]]
    if fail is BAD:
        assert one.shard.failed > 0
        assert all(faults.failed for faults in one.faults.values())
    lane = lane_id(HOME, lane_of_shard("lane-0"))
    state = lane_state_of(one.inner.table.get(position_key(lane)))
    assert int(state.position) == 10 * 301


async def test_an_event_that_never_gets_through_ends_the_lane() -> None:
    """Not for ever: after as many invocations as there may be."""
    one = Shard(USUAL, always=Raises(Crashed("before its request")))
    with pytest.raises(LedgerError, match="failed in 100 invocations"):
        await one.run(RAWS[:10])
    assert one.shard.failed == 100

"""How far a lane is behind, whether its records carry their own time or not."""

from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry
from support.clock import START, FakeClock
from support.lanes import lane_worker
from support.ledgers import HOME
from support.pipelines import deliveries, message

from ledger.pipeline.metrics import PipelineMetrics
from ledger.pipeline.stages.lag import Lag
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import Call, FaultyStore


def lag_of(metrics: PipelineMetrics) -> float:
    """Return the lag that a scrape would show."""
    (found,) = metrics.lag.collect()
    return sum(each.value for each in found.samples)


@pytest.mark.parametrize("is_known", [True, False])
async def test_the_lag_is_that_of_the_oldest_record_not_counted(*, is_known: bool) -> None:
    """It grows while a batch is held up, by its own time or from when it was read; then it is 0."""
    metrics, clock, lags = PipelineMetrics(), FakeClock(instant=True), list[float]()

    def held_up(call: Call) -> None:
        if call.operation == "transact":  # the batch's commit, then its reduce
            clock.pass_by(60)
        lags.append(lag_of(metrics))

    at = clock.now() - timedelta(seconds=5) if is_known else None
    records = [delivery._replace(at=at) for delivery in deliveries([message("T1", 1, 10)])]
    store = FaultyStore(MemoryStore(HOME), held_up)
    await lane_worker(records, store, metrics=metrics, clock=clock, reduce_every=0).run()
    age = 5.0 if is_known else 0.0
    assert {age, age + 60, age + 120} <= set(lags)
    assert lag_of(metrics) == 0


def test_a_batch_in_parts_lags_until_the_last_is_counted() -> None:
    """One whose records were parked is committed in several; none of them takes another away."""
    clock = FakeClock()
    clock.wall = START + timedelta(seconds=9)
    lag = Lag(PipelineMetrics(CollectorRegistry()), "us-east-1", "lane", clock)
    lag.read(START, "04")
    lag.read(START + timedelta(seconds=5), "08")
    shown = []
    for upto in ("01", "03", "04", "06", "08", "08"):
        lag.counted(upto)
        shown.append(lag.seconds())
    assert shown == [9.0, 9.0, 4.0, 4.0, 0.0, 0.0]

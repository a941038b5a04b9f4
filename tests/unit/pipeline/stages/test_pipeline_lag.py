"""A lane's lag: of a batch that is counted in parts it lasts until the last one."""

from datetime import timedelta

from prometheus_client import CollectorRegistry
from support.clock import START, FakeClock

from ledger.pipeline.metrics import PipelineMetrics
from ledger.pipeline.stages.lag import Lag


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

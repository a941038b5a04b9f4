"""The latency recorder: bounded memory, 2 % of precision, an exact worst."""

import pytest
from lab.harness.latency import LatencyRecorder


@pytest.mark.parametrize("scale", [1e-5, 1e-3, 1.0, 60.0])
def test_quantiles_are_within_two_percent(scale: float) -> None:
    """Whatever the size of the latencies, quantiles are off by a bucket; the worst is exact."""
    latencies = LatencyRecorder()
    for number in range(1, 1_001):
        latencies.add(number * scale)
    assert latencies.p50 == pytest.approx(500 * scale, rel=0.02, abs=1e-6)
    assert latencies.p99 == pytest.approx(990 * scale, rel=0.02, abs=1e-6)
    assert latencies.worst == 1_000 * scale


def test_a_latency_can_stand_for_many_calls() -> None:
    """A batch is recorded at once, with the number of its calls."""
    latencies = LatencyRecorder()
    latencies.add(0.1, 99)
    latencies.add(5.0)
    assert latencies.quantile(0.99) == pytest.approx(0.1, rel=0.02)
    assert latencies.quantile(1.0) == pytest.approx(5.0, rel=0.02)


def test_nothing_recorded_and_negative_durations_count_as_zero() -> None:
    """Without a call all is 0, as it is for a call that ended before it began."""
    latencies = LatencyRecorder()
    assert (latencies.p50, latencies.p99, latencies.worst) == (0.0, 0.0, 0.0)
    latencies.add(-1.0)
    assert (latencies.p50, latencies.worst) == (0.0, 0.0)


def test_a_day_does_not_overflow() -> None:
    """A latency longer than the last bucket is counted there."""
    latencies = LatencyRecorder()
    latencies.add(1e9)
    assert latencies.p50 > 3600

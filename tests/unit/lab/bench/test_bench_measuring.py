"""What is measured: latencies in buckets, windows of a meter."""

import pytest

from ledger.lab.bench.measuring import Latencies, Meter, memory_bytes


@pytest.mark.parametrize("scale", [1e-5, 1e-3, 1.0, 60.0])
def test_quantiles_are_within_two_percent(scale: float) -> None:
    """Whatever the size of the latencies, a quantile is off by at most a bucket."""
    latencies = Latencies()
    for number in range(1, 1_001):
        latencies.note(number * scale)
    assert latencies.quantile(0.5) == pytest.approx(500 * scale, rel=0.02, abs=1e-6)
    assert latencies.quantile(0.99) == pytest.approx(990 * scale, rel=0.02, abs=1e-6)


def test_without_a_call_there_is_no_latency() -> None:
    """A quantile of nothing is 0."""
    assert Latencies().quantile(0.99) == 0.0


def test_a_window_leaves_out_what_came_before() -> None:
    """Work and calls are the window's; the sum is of all that was acknowledged."""
    meter = Meter()
    meter.note(0.1, 25, 100)
    meter.begin()
    meter.note(0.2, 1, 3)
    found = meter.end()
    assert (found.work, found.calls, meter.amount) == (1, 1, 103)
    assert found.p50_seconds == pytest.approx(0.2, rel=0.02)


def test_memory_that_was_taken_and_given_back_shows() -> None:
    """The peak within a window counts, not what is left at its end."""
    meter = Meter()
    taken = bytearray(64 * 2**20)
    taken[::4096] = b"x" * len(taken[::4096])
    del taken
    assert meter.end().memory_bytes > 32 * 2**20
    assert memory_bytes() > 0

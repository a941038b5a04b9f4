"""What is measured: windows of a meter, and memory."""

import pytest
from lab.bench.measurement import Meter, memory_bytes


def test_a_window_leaves_out_what_came_before() -> None:
    """Work and calls are the window's; the sum is of all that was acknowledged."""
    meter = Meter()
    meter.note(0.1, 25, 100)
    meter.begin()
    meter.note(0.2, 1, 3)
    found = meter.end()
    assert (found.work, found.calls, meter.amount) == (1, 1, 103)
    assert found.p50_seconds == pytest.approx(0.2, rel=0.02)


def test_memory_that_is_taken_shows() -> None:
    """What is resident grows with what is written to."""
    before = memory_bytes()
    taken = bytearray(64 * 2**20)
    taken[::4096] = b"x" * len(taken[::4096])
    assert memory_bytes() - before > 32 * 2**20

"""Callers in a closed loop, and calls offered at a rate."""

import asyncio

import anyio
import anyio.lowlevel
import pytest
from lab.bench import load
from lab.bench.measurement import Meter

SECONDS = 0.05


async def test_each_caller_waits_for_its_answer() -> None:
    """Never more calls are in flight than there are callers, and all are answered at the end."""
    meter, in_flight, most = Meter(), 0, 0

    async def work(number: int) -> tuple[int, int]:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        await anyio.lowlevel.checkpoint()
        in_flight -= 1
        return 1, number

    await load.closed(work, meter, callers=7, seconds=SECONDS)
    assert most == 7
    assert in_flight == 0
    assert meter.calls > 7
    assert meter.amount == sum(range(meter.calls))


async def test_calls_beyond_the_bound_are_rejected() -> None:
    """With as many calls in flight as allowed, what is offered is counted and not begun."""
    meter, free = Meter(), anyio.Event()

    async def work(_: int) -> tuple[int, int]:
        await free.wait()
        return 1, 1

    offer = load.offered(work, meter, calls_per_second=2_000, calls_max=5, seconds=SECONDS)
    offering = asyncio.create_task(offer)
    await anyio.sleep(2 * SECONDS)
    free.set()
    await offering
    assert meter.calls == 5
    assert meter.rejected > 0
    assert meter.latencies.quantile(0.5) >= SECONDS / 2


async def test_at_a_low_rate_a_latency_is_the_call_s_and_nothing_polls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call is due when it is begun, and until the next is due there is one sleep."""
    now, sleeps = 0.0, 0
    meter = Meter(lambda: now)

    async def sleep(seconds: float) -> None:
        nonlocal now, sleeps
        sleeps, ends = sleeps + 1, now + seconds
        await anyio.lowlevel.checkpoint()  # the call that was begun runs meanwhile
        now = max(now, ends)

    async def work(_: int) -> tuple[int, int]:
        nonlocal now
        now += 0.003
        return 1, 1

    monkeypatch.setattr("asyncio.sleep", sleep)
    await load.offered(work, meter, calls_per_second=5, calls_max=5, seconds=2.1)
    assert meter.calls == 10
    assert meter.latencies.quantile(0.99) == pytest.approx(0.003, rel=0.1)
    assert sleeps <= 2 * meter.calls

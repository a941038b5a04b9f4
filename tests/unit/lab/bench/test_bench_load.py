"""Callers in a closed loop, and calls offered at a rate."""

import asyncio

import anyio
import anyio.lowlevel

from ledger.lab.bench import load
from ledger.lab.bench.measuring import Meter

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

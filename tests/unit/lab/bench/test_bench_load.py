"""Callers in a closed loop, and calls offered at a rate."""

import asyncio

import anyio
import anyio.lowlevel

from ledger.lab.bench import load
from ledger.lab.bench.measuring import Meter

SECONDS = 0.05


async def test_each_caller_waits_for_its_answer() -> None:
    """Never more calls are under way than there are callers, and all are answered at the end."""
    meter, under_way, most = Meter(), 0, 0

    async def work(number: int) -> tuple[int, int]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await anyio.lowlevel.checkpoint()
        under_way -= 1
        return 1, number

    await load.closed(work, meter, callers=7, seconds=SECONDS)
    assert most == 7
    assert under_way == 0
    assert meter.calls > 7
    assert meter.amount == sum(range(meter.calls))


async def test_calls_beyond_the_bound_are_turned_away() -> None:
    """With as many calls under way as allowed, what is offered is counted and not begun."""
    meter, free = Meter(), anyio.Event()

    async def work(_: int) -> tuple[int, int]:
        await free.wait()
        return 1, 1

    offer = load.offered(work, meter, calls_per_second=2_000, calls_max=5, seconds=SECONDS)
    offering = asyncio.create_task(offer)
    await anyio.sleep(2 * SECONDS)
    free.set()
    turned_away = await offering
    assert meter.calls == 5
    assert turned_away > 0
    assert meter.latencies.quantile(0.5) >= SECONDS / 2

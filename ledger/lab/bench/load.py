"""Callers: as many as asked for, each waiting for its answer, or so many calls offered a second."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from time import perf_counter

from ledger.lab.bench.measuring import Meter

Work = Callable[[int], Awaitable[tuple[int, int]]]
"""Makes call number so and so; returns how many changes were acknowledged, and their sum."""

TICK_SECONDS = 0.001


async def closed(work: Work, meter: Meter, *, callers: int, seconds: float) -> None:
    """Let each caller make one call after the other until the time is over, and all be answered."""
    deadline = perf_counter() + seconds
    numbers = count()

    async def call() -> None:
        while True:
            started = perf_counter()
            if started >= deadline:
                return
            changes, amount = await work(next(numbers))
            meter.note(perf_counter() - started, changes, amount)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(callers):
            tasks.create_task(call())


async def offered(
    work: Work, meter: Meter, *, calls_per_second: float, calls_max: int, seconds: float
) -> int:
    """Begin so many calls a second whatever becomes of them; returns how many were turned away.

    A call's latency counts from when it was due, so that a late start shows. With `calls_max`
    under way, further calls are turned away: callers without end are no load that can be held.
    """
    started, begun, turned_away, under_way = perf_counter(), 0, 0, 0

    async def call(number: int) -> None:
        nonlocal under_way
        changes, amount = await work(number)
        meter.note(perf_counter() - started - number / calls_per_second, changes, amount)
        under_way -= 1

    async with asyncio.TaskGroup() as tasks:
        while (elapsed := perf_counter() - started) < seconds:
            for number in range(begun, int(elapsed * calls_per_second)):
                if under_way >= calls_max:
                    turned_away += 1
                    continue
                under_way += 1
                tasks.create_task(call(number))
            begun = max(begun, int(elapsed * calls_per_second))
            await asyncio.sleep(TICK_SECONDS)
    return turned_away

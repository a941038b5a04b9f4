"""Load: a number of callers that each wait for their answers, or calls offered at a fixed rate."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count

from lab.bench.measurement import Meter

Work = Callable[[int], Awaitable[tuple[int, int]]]
"""Makes the call with this number; returns how many changes were acknowledged, and their sum."""

TICK_SECONDS = 0.001


async def closed(work: Work, meter: Meter, *, callers: int, seconds: float) -> None:
    """Make each caller call repeatedly until the time is over."""
    deadline = meter.now() + seconds
    numbers = count()

    async def call() -> None:
        while True:
            started = meter.now()
            if started >= deadline:
                return
            changes, amount = await work(next(numbers))
            meter.note(meter.now() - started, changes, amount)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(callers):
            tasks.create_task(call())


async def offered(
    work: Work, meter: Meter, *, calls_per_second: float, calls_max: int, seconds: float
) -> None:
    """Begin calls at a fixed rate, however long they take, by the meter's time.

    A call's latency counts from when it was due, so that a late start shows. With `calls_max` in
    flight, further calls are rejected: no system can hold an unbounded number of callers.
    """
    now = meter.now
    started, begun, in_flight = now(), 0, 0

    async def call(number: int) -> None:
        nonlocal in_flight
        changes, amount = await work(number)
        due = (number + 1) / calls_per_second
        meter.note(now() - started - due, changes, amount)
        in_flight -= 1

    async with asyncio.TaskGroup() as tasks:
        while (elapsed := now() - started) < seconds:
            for number in range(begun, int(elapsed * calls_per_second)):
                if in_flight >= calls_max:
                    meter.rejected += 1
                    continue
                in_flight += 1
                tasks.create_task(call(number))
            begun = max(begun, int(elapsed * calls_per_second))
            next_due = (begun + 1) / calls_per_second
            await asyncio.sleep(min(max(TICK_SECONDS, next_due - elapsed), seconds - elapsed))

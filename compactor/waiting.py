"""A sleep that a stop ends early."""

import anyio

from ledger.runtime.clock import Clock


async def sleep_or_stop(clock: Clock, seconds: float, stop: anyio.Event) -> bool:
    """Sleep until the time is over or `stop` is set; return whether it is set."""
    if seconds <= 0 or stop.is_set():
        return stop.is_set()
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            await stop.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        await clock.sleep(seconds)
        tasks.cancel_scope.cancel()
    return stop.is_set()

"""Waiting that a stop signal ends."""

import anyio

from ledger.runtime.clock import Clock


async def sleep_or_stop(clock: Clock, seconds: float, stop: anyio.Event) -> bool:
    """Sleep, or return at once when told to stop; tells whether it was."""
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

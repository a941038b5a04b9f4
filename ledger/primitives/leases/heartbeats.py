"""What runs beside the work of a holder: heartbeats, the end of its time, and the release.

Heartbeats are sent by the event loop of the work (`in_loop`), or by a thread with a loop and a
connection of its own (`in_thread`): work that holds up its event loop for longer than a lease, as
a long computation does, starves the first and not the second. Python's threads take turns every few
milliseconds; what keeps all of them from running (some C extensions) starves both.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from typing import Protocol

import anyio
import anyio.to_thread
from anyio.from_thread import start_blocking_portal

from ledger.core.errors import LeaseLost, LedgerError, StoreError
from ledger.primitives.leases.holding import Holding
from ledger.primitives.leases.item import LeaseItem
from ledger.runtime.clock import Clock
from ledger.runtime.services import Services
from ledger.runtime.tasks import background_tasks
from ledger.settings import Settings
from ledger.store.port import Store

RELEASE_SECONDS_MAX = 5.0
# No wait is shorter: a rounding error of a clock must not make a loop spin.
TICK_SECONDS = 0.001

Opening = Callable[[], AbstractAsyncContextManager[Store]]
"""Opens another connection to the lease's region."""

Keeping = Callable[[Holding, LeaseItem, Clock], AbstractAsyncContextManager[None]]
"""Sends heartbeats while its body runs."""


class Releasable(Protocol):
    """A lease that is held."""

    async def release(self) -> bool:
        """Release it."""


@asynccontextmanager
async def in_loop(holding: Holding, item: LeaseItem, clock: Clock) -> AsyncIterator[None]:
    """Send heartbeats by the event loop of the work."""
    async with background_tasks() as tasks:
        tasks.start_soon(send_beats, holding, item, clock)
        yield


def in_thread(opening: Opening) -> Keeping:
    """Return a keeping by a separate thread, which opens its own connection.

    The clock is read in both threads. What `opening` raises is raised before the body runs.
    """

    @asynccontextmanager
    async def keeping(holding: Holding, item: LeaseItem, clock: Clock) -> AsyncIterator[None]:
        stack = ExitStack()

        def begin() -> "Future[None]":
            portal = stack.enter_context(start_blocking_portal())
            store = stack.enter_context(portal.wrap_async_context_manager(opening()))
            beats = portal.start_task_soon(send_beats, holding, item.through(store), clock)
            stack.callback(beats.cancel)
            return beats

        try:
            beats = await anyio.to_thread.run_sync(begin)
            async with background_tasks() as tasks:
                tasks.start_soon(_announce, holding, beats)
                yield
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(stack.close)

    return keeping


async def _announce(holding: Holding, beats: "Future[None]") -> None:
    """Set `lost` in the thread of the work once the heartbeats have ended."""
    await asyncio.wrap_future(beats)
    holding.announce()


async def send_beats(holding: Holding, item: LeaseItem, clock: Clock) -> None:
    """Send heartbeats until the holding ends; a failed one is tried again sooner."""
    terms = holding.terms
    pause = terms.heartbeat_seconds
    while True:  # bounded by the lease: `beat` raises once it has ended
        await clock.sleep(pause)
        try:
            applied = await holding.beat(item)
        except LeaseLost:
            return
        except StoreError:
            applied = False
        pause = terms.heartbeat_seconds if applied else terms.poll_seconds


async def expire(holding: Holding, item: LeaseItem, clock: Clock) -> None:
    """Lose the holding when its time ends, even while a heartbeat waits for its answer.

    A suspended machine stops its timers too, so a long sleep would end late: the time left is
    looked at every `poll_seconds`. If this task itself was held up since the last heartbeat, for
    more than that in all, so were the heartbeats of its loop: then the table is asked, for up to
    `heartbeat_seconds`.
    """
    poll_seconds, applied = holding.terms.poll_seconds, holding.beats_applied
    held_up = 0.0 if holding.safe_seconds() > TICK_SECONDS else math.inf  # before it began
    while not holding.is_over:
        left = holding.safe_seconds()
        if left > TICK_SECONDS:
            began, pause = holding.elapsed_seconds(), min(left, poll_seconds)
            await clock.sleep(pause)
            held_up += max(0.0, holding.elapsed_seconds() - began - pause)
        elif held_up > poll_seconds:
            held_up = 0.0
            await _within(clock, holding.terms.heartbeat_seconds, lambda: holding.beat(item))
        else:
            holding.lose(holding.too_late())
        if holding.beats_applied > applied:
            applied, held_up = holding.beats_applied, 0.0


async def give_back(lease: Releasable, clock: Clock) -> None:
    """Release the lease, within `RELEASE_SECONDS_MAX`; what fails is left to run out by itself."""
    await _within(clock, RELEASE_SECONDS_MAX, lease.release)


async def _within(clock: Clock, seconds: float, work: Callable[[], Awaitable[object]]) -> None:
    """Do some work that may fail, for so long at most."""
    async with anyio.create_task_group() as tasks:

        async def stop() -> None:
            await clock.sleep(seconds)
            tasks.cancel_scope.cancel()

        tasks.start_soon(stop)
        with suppress(LedgerError):  # the lease then runs out, or what the body raised matters more
            await work()
        tasks.cancel_scope.cancel()


def thread_to(settings: Settings, region: str, services: Services) -> Keeping:
    """Return a keeping by a thread with another connection to a region's table."""

    def opening() -> AbstractAsyncContextManager[Store]:
        # Imported only here, since it brings botocore.
        from ledger.store.connections import open_store  # noqa: PLC0415

        return open_store(settings, region, metrics=services.metrics, clock=services.clock)

    return in_thread(opening)

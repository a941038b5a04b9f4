"""What happens beside the work of a holder: heartbeats, and at the end giving the lease back."""

from contextlib import suppress
from typing import Protocol

import anyio

from ledger.core.errors import LeaseLost, LedgerError, StoreError
from ledger.primitives.leases.state import LeaseTerms
from ledger.runtime.clock import Clock

RELEASE_SECONDS_MAX = 5.0


class Keepable(Protocol):
    """A lease that is held."""

    @property
    def terms(self) -> LeaseTerms:
        """How often it is to be kept."""

    async def heartbeat(self) -> bool:
        """Hold it for another lease."""

    async def release(self) -> bool:
        """Release it."""


async def keep(lease: Keepable, clock: Clock) -> None:
    """Send heartbeats until the lease is lost; one that failed is tried again sooner."""
    pause = lease.terms.heartbeat_seconds
    while True:  # bounded by the lease: `heartbeat` raises once it is lost
        await clock.sleep(pause)
        try:
            applied = await lease.heartbeat()
        except LeaseLost:
            return
        except StoreError:
            applied = False
        pause = lease.terms.heartbeat_seconds if applied else lease.terms.poll_seconds


async def give_back(lease: Keepable, clock: Clock) -> None:
    """Release the lease, within `RELEASE_SECONDS_MAX`; what fails is left to run out by itself."""
    async with anyio.create_task_group() as tasks:

        async def stop() -> None:
            await clock.sleep(RELEASE_SECONDS_MAX)
            tasks.cancel_scope.cancel()

        tasks.start_soon(stop)
        with suppress(LedgerError):  # what the body raised matters more
            await lease.release()
        tasks.cancel_scope.cancel()

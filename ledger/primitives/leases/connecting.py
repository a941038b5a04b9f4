"""Heartbeats from a thread that opens its own connection by the settings."""

from contextlib import AbstractAsyncContextManager

from ledger.primitives.leases.keeping import Keeping, in_thread
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.store.port import Store


def thread_to(settings: Settings, region: str, services: Services) -> Keeping:
    """Return a keeping by a thread with another connection to a region's table."""

    def opening() -> AbstractAsyncContextManager[Store]:
        # Imported only here, since it brings botocore.
        from ledger.store.connections import open_store  # noqa: PLC0415

        return open_store(settings, region, metrics=services.metrics, clock=services.clock)

    return in_thread(opening)

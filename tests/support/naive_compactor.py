"""A compactor that merges as is usually described, as a process; in the place of the real one."""

import sys
from contextlib import suppress

import anyio

from ledger.core.errors import StoreError
from ledger.lab.bench.usual_merge import merge_once
from ledger.lab.harness.census import take_census
from ledger.lab.harness.config import read_config
from ledger.runtime.clock import SystemClock
from ledger.settings import Settings
from ledger.store.opening import open_store

PAUSE_SECONDS = 0.2


async def merge_on(settings: Settings) -> None:
    """Merge every collection over and over until killed."""
    clock = SystemClock()
    async with open_store(settings, settings.home) as home:
        while True:
            with suppress(StoreError):  # the next round
                for partition in (await take_census(home)).entries:
                    await merge_once(home, partition, settle=settings.settle, clock=clock)
            await anyio.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    anyio.run(merge_on, read_config(sys.argv[1]))

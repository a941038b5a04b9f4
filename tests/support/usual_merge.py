"""The usual merge in place of a compactor: for given collections, or a whole table as a process.

python tests/support/usual_merge.py SETTINGS
"""

import sys
from collections.abc import Iterable
from contextlib import suppress

import anyio
from lab.bench.usual_merge import merge_once
from lab.harness.config import read_config

from ledger.contract.view import read_contract
from ledger.core.errors import StoreError, Throttled
from ledger.demo.harness.census import take_census
from ledger.runtime.clock import SystemClock
from ledger.settings import Settings
from ledger.store.connections import open_store
from ledger.store.port import Store


async def merge_every(
    home: Store, partitions: Iterable[str], *, settle: float, pause_seconds: float
) -> None:
    """Merge these collections again and again until cancelled."""
    clock = SystemClock()
    while True:
        for partition in partitions:
            with suppress(Throttled):  # a conflict with another transaction: the next round
                await merge_once(home, partition, settle=settle, clock=clock)
        await anyio.sleep(pause_seconds)


async def merge_table(settings: Settings, *, pause_seconds: float = 0.2) -> None:
    """Merge every collection of a table over and over until cancelled, by its contract's terms."""
    clock = SystemClock()
    async with open_store(settings, settings.home) as home:
        while True:
            with suppress(StoreError):  # the next round
                contract = await read_contract(home)
                assert contract is not None
                settle = contract.terms.settle
                for partition in (await take_census(home)).entries:
                    await merge_once(home, partition, settle=settle, clock=clock)
            await anyio.sleep(pause_seconds)


if __name__ == "__main__":
    anyio.run(merge_table, read_config(sys.argv[1]))

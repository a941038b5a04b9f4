"""What lies in a region's table: entries and net changes of each collection, from outside."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ledger.core import keys
from ledger.core.sums import SUM_PREFIX
from ledger.runtime.clock import Clock
from ledger.store.port import Store
from ledger.store.reads import Scan

STILL_SECONDS_MAX = 60.0
"""How long merging may make no progress before it counts as done, or stuck."""
MERGE_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Census:
    """How many entries and net changes each collection has; `merged` is what all nets count."""

    entries: Counter[str] = field(default_factory=Counter)
    nets: Counter[str] = field(default_factory=Counter)
    merged: int = 0


async def take_census(store: Store) -> Census:
    """Count a region's entries and net changes.

    Raises:
        StoreError: the region cannot be read.
    """
    entries, nets, merged = Counter[str](), Counter[str](), 0
    scan = Scan(attributes=("pk", "sk", "count"))
    while True:
        page = await store.scan(scan)
        for item in page.items:
            partition = item["pk"]["S"]
            if keys.counter_of(partition) is None:
                continue
            if item["sk"]["S"].startswith(keys.NET_PREFIX):
                nets[partition] += 1
                merged += int(item["count"]["N"])
            elif not item["sk"]["S"].startswith(SUM_PREFIX):
                entries[partition] += 1
        if page.after is None:
            return Census(entries, nets, merged)
        scan = scan.next(page)


async def wait_merged(look: Callable[[], Awaitable[list[Census]]], clock: Clock) -> None:
    """Wait until each region shows one net a collection alone, or merging makes no progress.

    `look` takes the census of each region.
    """
    before: object = None
    since = clock.monotonic()
    while clock.monotonic() - since < STILL_SECONDS_MAX:
        seen = await look()
        if not any(census.entries or census.nets.total() > len(census.nets) for census in seen):
            return
        now = [(counted.entries.total(), counted.nets.total(), counted.merged) for counted in seen]
        if now != before:
            before, since = now, clock.monotonic()
        await clock.sleep(MERGE_POLL_SECONDS)

"""What lies in a region's table: entries and net changes of each collection, from outside."""

from collections import Counter
from dataclasses import dataclass, field

from ledger.core import keys
from ledger.store.port import Store
from ledger.store.reads import Scan


@dataclass(frozen=True, slots=True)
class Census:
    """How many entries and net changes each collection has; `merged` is what all nets count."""

    entries: Counter[str] = field(default_factory=Counter)
    nets: Counter[str] = field(default_factory=Counter)
    merged: int = 0

    @property
    def partitions(self) -> set[str]:
        """Every collection that has an item."""
        return {*self.entries, *self.nets}


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
            else:
                entries[partition] += 1
        if page.after is None:
            return Census(entries, nets, merged)
        scan = scan.next(page)

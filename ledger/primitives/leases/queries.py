"""Looks at leases without contending for one: all leases of a table, and whether a holder lives."""

from collections.abc import AsyncIterator

from ledger.core import keys
from ledger.primitives.leases.heartbeats import TICK_SECONDS
from ledger.primitives.leases.item import LeaseItem
from ledger.primitives.leases.lease_rules import LeaseRecord, LeaseTerms, LeaseWatch, record_of
from ledger.runtime.call_deadlines import until_end
from ledger.runtime.clock import Clock
from ledger.store.port import Store
from ledger.store.reads import Scan

ATTRIBUTES = ("pk", "sk", "owner", "rvn", "lease_seconds", "epoch", "home", "data", "since")


async def list_leases(store: Store) -> AsyncIterator[LeaseRecord]:
    """Yield every lease under `~lease`, those of compactors and their members too, in no order.

    A Scan, since each lease is in its own partition: every item of the table is read and charged,
    half a read unit per 4 KB, in pages of up to 1 MB. So this is for an operator's look, not for a
    program's. Eventually consistent. A lease that was placed elsewhere by its key is not found.

    Raises:
        DamagedItem: an item there is not a lease.
        StoreError: the table cannot be scanned.
    """
    scan = Scan(attributes=ATTRIBUTES)
    while True:  # bounded by the table
        page = await store.scan(scan)
        for item in page.items:
            partition, sort_key = item["pk"]["S"], item["sk"]["S"]
            is_compactors = partition == keys.LEASE_PARTITION and not keys.is_slice(sort_key)
            if is_compactors or partition.startswith(keys.LEASE_PREFIX):
                yield record_of(item)
        if page.after is None:
            return
        scan = scan.next(page)


async def is_alive(item: LeaseItem, terms: LeaseTerms, clock: Clock) -> bool:
    """Look until a lease shows another record, or for as long as its owner declared; see `Lease`.

    Raises:
        DamagedItem, StoreError: as `LeaseItem.read`.
    """
    first = await item.read()
    watch = LeaseWatch().observe(first, at=clock.monotonic())
    while first and (left := watch.left_seconds(now=clock.monotonic())) > 0:
        await until_end(clock.sleep(max(min(left, terms.poll_seconds), TICK_SECONDS)))
        seen = await item.read()
        if seen is None or seen.rvn != first.rvn:
            return seen is not None and not seen.released
    return False

"""All leases of a table: a Scan, since each is in its own partition.

Every item of the table is read and charged, leases or not: half a read unit per 4 KB, in pages of
up to 1 MB. For an operator's look, not for a program's.
"""

from collections.abc import AsyncIterator

from ledger.core import keys
from ledger.primitives.leases.state import LeaseRecord, record_of
from ledger.store.port import Store
from ledger.store.reads import Scan

ATTRIBUTES = ("pk", "sk", "owner", "rvn", "lease_seconds", "epoch", "home", "data", "since")


async def list_leases(store: Store) -> AsyncIterator[LeaseRecord]:
    """Yield every lease under `~lease`, those of compactors and their members too, in no order.

    Eventually consistent. A lease that was placed elsewhere by its key is not found.

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

"""Reading the contract in one region."""

from ledger.core.contract_item import CONTRACT_PARTITION, TABLE_PREFIX, Contract, contract_of
from ledger.store.port import Store
from ledger.store.reads import Query

_AFTER_PREFIX = chr(ord(TABLE_PREFIX[-1]) + 1)
NEWEST = Query(
    CONTRACT_PARTITION,
    first=TABLE_PREFIX,
    last=TABLE_PREFIX[:-1] + _AFTER_PREFIX,
    descending=True,
    limit=1,
)
"""Reads the item of the highest generation, if there is any."""


async def read_contract(store: Store) -> Contract | None:
    """Return the contract of the highest generation that a region shows; None without one.

    Strongly consistent in the region.

    Raises:
        ContractDamaged, UpgradeNeeded: it cannot be read by this release.
        StoreError: DynamoDB could not do it.
    """
    page = await store.query(NEWEST)
    return contract_of(page.items[0]) if page.items else None

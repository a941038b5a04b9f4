"""The compactor's lease as each region shows it."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from compactor.observe import lease_name
from ledger.administration.contract import show
from ledger.core.errors import StoreError
from ledger.primitives.leases.state import LeaseRecord, lease_key, record_of
from ledger.settings import Settings
from ledger.store.opening import open_store
from ledger.store.port import Store
from ledger.store.reads import Get


@dataclass(frozen=True, slots=True)
class CompactorStatus:
    """The lease as each region shows it: None for no lease yet, an error if it cannot be read."""

    table: str
    lease: str
    regions: Mapping[str, LeaseRecord | StoreError | None]


async def status_of(settings: Settings) -> CompactorStatus:
    """Read the lease in every region that the table's contract names., or else the settings."""
    newest = (await show(settings)).newest
    if newest is not None:
        settings = settings.under(newest.obeyed, home=newest.terms.home)
    name = lease_name(settings)
    regions: dict[str, LeaseRecord | StoreError | None] = {}
    async with AsyncExitStack() as stack:
        for region in settings.regions:
            store = await stack.enter_async_context(open_store(settings, region))
            regions[region] = await _lease(store, name)
    return CompactorStatus(settings.table, name, regions)


async def _lease(store: Store, name: str) -> LeaseRecord | StoreError | None:
    try:
        item = await store.get(Get(lease_key(name)))
    except StoreError as error:
        return error
    return None if item is None else record_of(item)

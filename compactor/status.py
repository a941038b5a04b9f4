"""The compactor's lease as each region shows it, and who leads how many slices."""

from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from compactor.observe import lease_name
from compactor.sharing import read_directory
from compactor.slices import HEAD, NO_MEMBER, is_marked
from ledger.administration.contract import show
from ledger.core.errors import StoreError
from ledger.primitives.leases.state import LeaseRecord, lease_key, record_of
from ledger.settings import Settings
from ledger.store.opening import open_store
from ledger.store.port import Store
from ledger.store.reads import Get


@dataclass(frozen=True, slots=True)
class CompactorStatus:
    """The lease as each region shows it: None for no lease yet, an error if it cannot be read.

    `led` is how many slices each process leads by what home shows; of those without a leader the
    name is empty. It is empty where no process divides the collections, or home cannot be read.
    """

    table: str
    lease: str
    regions: Mapping[str, LeaseRecord | StoreError | None]
    led: Mapping[str, int]


async def status_of(settings: Settings) -> CompactorStatus:
    """Read the lease in every region that the table's contract names., or else the settings."""
    newest = (await show(settings)).newest
    if newest is not None:
        settings = settings.under(newest.obeyed, home=newest.terms.home)
    name = lease_name(settings)
    regions: dict[str, LeaseRecord | StoreError | None] = {}
    led: Mapping[str, int] = {}
    async with AsyncExitStack() as stack:
        for region in settings.regions:
            store = await stack.enter_async_context(open_store(settings, region))
            regions[region] = await _lease(store, name)
            if region == settings.home:
                led = await _led(store, name, regions[region], settings.compactor.slices)
    return CompactorStatus(settings.table, name, regions, led)


async def _lease(store: Store, name: str) -> LeaseRecord | StoreError | None:
    try:
        item = await store.get(Get(lease_key(name)))
    except StoreError as error:
        return error
    return None if item is None else record_of(item)


async def _led(
    store: Store, name: str, shown: LeaseRecord | StoreError | None, slices: int
) -> Mapping[str, int]:
    if not isinstance(shown, LeaseRecord) or not is_marked(shown.data, shown.owner, slices):
        return {}
    directory = await read_directory(store, name, slices)
    names = {HEAD: shown.owner, NO_MEMBER: ""}
    for member, item in directory.members.items():
        names[member] = record_of(item).owner
    return Counter(names.get(one.owner, "") for one in directory.slices)

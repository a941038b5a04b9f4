"""Observing a collection: the home region's net first, then the whole of it in every region."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from compactor.plan import Observation, Plan
from ledger.clock import Clock
from ledger.core import keys
from ledger.core.capacity import item_size
from ledger.core.entry import Key, NetChange
from ledger.core.errors import LeaseLost, StoreError
from ledger.core.fold import Collection, collect
from ledger.leases.state import LeaseRecord, lease_key, record_of
from ledger.store.port import Store
from ledger.tasks import run_all

Result = TypeVar("Result")


class RegionUnreadable(StoreError):
    """A region could not be read, so nothing is merged meanwhile; `region` names it."""

    def __init__(self, region: str, cause: StoreError) -> None:
        super().__init__(f"{region} cannot be read, so merging waits: {cause}")
        self.region = region


@dataclass(frozen=True, slots=True)
class View:
    """A whole collection as one region shows it, with the size of each item in bytes."""

    collection: Collection
    sizes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Observed:
    """An observation, when it was complete (monotonic), and the sizes of the home's items."""

    observation: Observation
    at: float
    sizes: Mapping[str, int]

    def sizes_for(self, plan: Plan) -> dict[str, int]:
        """Return the sizes of the items that a plan deletes or replaces."""
        net = self.observation.net
        touched = [*plan.deletes, *([keys.net_sort_key(net.generation)] if net else [])]
        return {key: self.sizes[key] for key in touched if key in self.sizes}


async def observe(
    stores: Mapping[str, Store], partition: str, *, home: str, clock: Clock
) -> Observed:
    """Read the net in the home region, then the collection in every region, all consistent.

    Raises:
        RegionUnreadable: one of them cannot be read.
        DamagedItem: an item in one of them cannot be counted.
    """
    net = await _readable(home, _read_net(stores[home], partition))
    reads = [partial(_read_view, store, partition) for store in stores.values()]
    views = dict(zip(stores, await run_all(reads, at_once=len(reads)), strict=True))
    collections = {region: view.collection for region, view in views.items()}
    return Observed(Observation(partition, net, collections), clock.monotonic(), views[home].sizes)


async def check_home(stores: Mapping[str, Store], lease_name: str, *, home: str) -> None:
    """Read the lease in every region: all can be read, and none shows another home.

    Two homes that merge at once could both write the first net of a collection, and one would be
    lost: a home is changed by handing the lease over, never by changing the settings alone.

    Raises:
        RegionUnreadable: a region cannot be read.
        LeaseLost: a region shows the lease as another home's.
    """
    reads = [partial(_read_lease, store, lease_name) for store in stores.values()]
    for region, record in zip(stores, await run_all(reads, at_once=len(reads)), strict=True):
        if record is not None and record.home != home:
            raise LeaseLost(
                f"{region} shows {record.home} as the home of lease {lease_name!r}, the settings"
                f" say {home}: finish `compactor move-home`, or mend the settings"
            )


async def _read_lease(store: Store, name: str) -> LeaseRecord | None:
    item = await _readable(store.region, store.get(lease_key(name)))
    return None if item is None else record_of(item)


async def _read_net(store: Store, partition: str) -> NetChange | None:
    """Read the highest generation of a collection's net: a page holds every generation."""
    page = await store.query(partition, first=keys.NET_PREFIX, last=keys.net_sort_key(9999))
    return collect(page.items).net


async def _read_view(store: Store, partition: str) -> View:
    collection, sizes = Collection(), {}
    after: Key | None = None
    while True:
        page = await _readable(store.region, store.query(partition, after=after))
        collection.add(page.items)
        sizes.update({item["sk"]["S"]: item_size(item) for item in page.items})
        after = page.after
        if after is None:
            return View(collection, sizes)


async def _readable(region: str, read: Awaitable[Result]) -> Result:
    try:
        return await read
    except StoreError as error:
        raise RegionUnreadable(region, error) from error

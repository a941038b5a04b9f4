"""Observing: the order of reads, whole collections, and what is refused."""

from collections.abc import Mapping
from decimal import Decimal

import pytest
from support.ledgers import HOME, SOUTH, WEST, net, three_regions

from compactor.net_reader import NetReader
from compactor.observation import observe
from ledger.core.entry import Item, entry_id, entry_item
from ledger.core.errors import (
    AccessDenied,
    DamagedItem,
    RegionUnreadable,
    StoreError,
    Unreachable,
)
from ledger.core.keys import NET_PREFIX
from ledger.core.values import Entry
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.reads import Get, Page, Query
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Raises
from ledger.store.writes import Put
from ledger.testing import MemoryGlobalTable
from ledger.testing.clock import START, ManualClock

KEY = str(entry_id(START, 1))


class Recording(MemoryStore):
    """A store that notes each request in a list shared by all regions."""

    def __init__(self, region: str, requests: list[tuple[str, str, bool]]) -> None:
        super().__init__(region, page_items_max=2)
        self.requests = requests

    async def get(self, get: Get) -> Item | None:
        """Read one item."""
        self.requests.append((self.region, "get", get.consistent))
        return await super().get(get)

    async def query(self, query: Query) -> Page:
        """Read one page."""
        self.requests.append((self.region, "net" if query.first else "page", query.consistent))
        return await super().query(query)


def failing(store: Store, error: StoreError) -> FaultyStore:
    """Return a store whose every read fails."""

    def decide(call: FaultCall) -> Fault:
        del call
        return Raises(error)

    return FaultyStore(store, decide)


async def test_net_is_read_first() -> None:
    """The home's net comes before any view, then every region is read whole, all consistently."""
    requests: list[tuple[str, str, bool]] = []
    stores = {region: Recording(region, requests) for region in (WEST, HOME, SOUTH)}
    for place in range(4):
        item = entry_item(Entry("counter", str(entry_id(START, place)), Decimal(1)))
        for store in stores.values():
            store.table.set(("counter", item["sk"]["S"]), item)
    await observe(stores, "counter", home=HOME, clock=ManualClock(instant=True))
    assert requests[0] == (HOME, "net", True)
    assert all(consistent for _, _, consistent in requests)
    assert sorted(requests[1:]) == sorted((region, "page", True) for region in stores for _ in "12")


async def test_every_page_is_seen() -> None:
    """A view holds every entry and the net, however many pages they take."""
    regions = three_regions(page_items_max=2)
    for place in range(7):
        item = entry_item(Entry("counter", str(entry_id(START, place)), Decimal(place)))
        regions.replicas[HOME].table.set(("counter", item["sk"]["S"]), item)
    shown = net("counter", 5, ())
    regions.replicas[HOME].table.set(("counter", "~net#0001"), shown)
    seen = await observe(regions.replicas, "counter", home=HOME, clock=ManualClock(instant=True))
    home = seen.observation.views[HOME]
    assert len(home.entries) == 7
    assert seen.observation.net == home.net
    assert home.net is not None
    assert home.total() == 26
    assert seen.observation.views[WEST].entries == {}


async def test_time_is_that_of_the_last_read() -> None:
    """The hold counts from when the observation was complete."""
    clock, regions = ManualClock(instant=True), three_regions()

    async def pass_by() -> None:
        clock.pass_by(2)

    regions.before_page = pass_by
    seen = await observe(regions.replicas, "counter", home=HOME, clock=clock)
    assert seen.at == 8  # one read of the net, three views


@pytest.mark.parametrize("region", [HOME, WEST, SOUTH])
@pytest.mark.parametrize("error", [Unreachable("no connection"), AccessDenied("not allowed")])
async def test_unreadable_region_is_named(region: str, error: StoreError) -> None:
    """Whichever region cannot be read, the error names it and the cause."""
    stores: dict[str, Store] = dict(three_regions().replicas)
    stores[region] = failing(stores[region], error)
    with pytest.raises(RegionUnreadable, match=f"{region} cannot be read.*{error}") as caught:
        await observe(stores, "counter", home=HOME, clock=ManualClock(instant=True))
    assert caught.value.region == region


@pytest.mark.parametrize("region", [HOME, WEST])
@pytest.mark.parametrize(
    ("sort_key", "attributes"),
    [(KEY, {}), (KEY, {"change": {"S": "1"}}), ("~net#0001", {"change": {"N": "1"}})],
)
async def test_damaged_item_is_an_error(
    region: str, sort_key: str, attributes: Mapping[str, Mapping[str, str]]
) -> None:
    """An entry or net that cannot be counted in any region makes no observation."""
    regions = three_regions()
    key = {"pk": {"S": "counter"}, "sk": {"S": sort_key}}
    regions.replicas[region].table.set(("counter", sort_key), {**key, **attributes})
    with pytest.raises(DamagedItem, match=sort_key):
        await observe(regions.replicas, "counter", home=HOME, clock=ManualClock(instant=True))


async def test_a_net_of_another_generation_is_refused() -> None:
    """In a table that lost no region it is no home's, and beside it the home's would not count."""
    stores = {region: MemoryStore(region) for region in (HOME, WEST, SOUTH)}
    for store in stores.values():
        await store.write(Put(net("counter", 1, [entry_id(START, 1)])))
    forged = net("counter", 1_000_000, [], generation=9)
    await stores[WEST].write(Put(forged))
    nets = NetReader(stores[HOME], generation=1)
    with pytest.raises(DamagedItem, match=f"{WEST} has a net of generation 9.*contract is of 1"):
        await observe(stores, "counter", home=HOME, clock=ManualClock(), nets=nets)


@pytest.mark.slow
async def test_entries_that_wait_for_grants_hold_up_none_behind_them() -> None:
    """More open holds than a fold takes: what was spent after them is merged."""
    options = {"fold_max": 2, "fold_min": 1, "scan_every": 0}
    world = MemoryGlobalTable(budgets={"key/*": {}}, compactor=options, page_items_max=2)
    async with world.table() as table:
        await table.budget("key/42").create(100)
        for _ in range(7):
            assert await table.budget("key/42").hold(1, expires=10 * 86_400)
        for _ in range(5):
            assert await table.budget("key/42").spend(1)
    for _ in range(12):
        await world.pass_time(1_000)
        await world.compact()
    query, left = Query("key/42"), list[Item]()
    while True:
        page = await world.store("us-east-1").query(query)
        left += [item for item in page.items if not item["sk"]["S"].startswith(NET_PREFIX)]
        if page.after is None:
            break
        query = query.next(page)
    assert ["hold" in item for item in left] == [True] * 7

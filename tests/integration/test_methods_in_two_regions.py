"""What the guarantees of the other methods say of two regions, on the local global table.

Each test cuts two regions off, lets both write, heals, and looks at what is left::

    us-east-1   write, applied ── cut ── x ... heal ──┐
    eu-west-1   write, applied ── cut ── x ... heal ──┴── one item, the later one, everywhere
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from itertools import count

import pytest
from support.engines import REGIONS
from support.guarding import Handling, event, record_put
from support.ledgers import make_services, seeded
from support.worlds import cut

from ledger.core.errors import LeaseLost
from ledger.local import LocalGlobalTable
from ledger.primitives.counters import METHODS, Counter, new_token
from ledger.primitives.leases import Lease, LeaseGrant, LeaseTerms
from ledger.primitives.sequences import CounterSequence, Numbered, SortKeySequence
from ledger.primitives.versions import ConditionGuard, Handled, LockGuard
from ledger.runtime.clock import SystemClock
from ledger.runtime.services import Services
from ledger.store.connections import open_stores
from ledger.store.port import Store
from ledger.store.writes import Applied, Rejected

HERE, THERE = REGIONS[:2]
SINGLE_ITEM = [name for name in METHODS if name != "collection"]
CHANGES_EACH = 12
CLOCK = SystemClock()
_seeds = count()


@dataclass(frozen=True)
class Two:
    """A table of two regions."""

    world: LocalGlobalTable
    stores: Mapping[str, Store]

    def cut(self) -> None:
        """Let nothing through between the two."""
        cut(self.world, HERE, THERE)

    async def meet(self) -> None:
        """Let everything through, until both show the same."""
        self.world.heal_all()
        await self.world.wait_replicated()


@pytest.fixture(scope="module")
async def two() -> AsyncIterator[Two]:
    """Run a local global table of two regions."""
    starting = LocalGlobalTable.start(regions=[HERE, THERE], lag=0.005, jitter=0.005)
    async with starting as world, open_stores(world.settings()) as stores:
        yield Two(world, stores)


def services() -> Services:
    """Return services with randomness that no one else has."""
    return make_services(CLOCK, next(_seeds))


def counters(two: Two, method: str, name: str) -> dict[str, Counter]:
    """Return the counter of this name as each region has it."""
    return {
        region: METHODS[method].make(store, name, services=services())
        for region, store in two.stores.items()
    }


async def values(counters: Mapping[str, Counter]) -> list[object]:
    """Return what each region shows."""
    return [await counter.value() for counter in counters.values()]


async def add_on_both_sides(two: Two, counters: Mapping[str, Counter]) -> None:
    """Add 1 some times in each region while they are cut off; every change is applied."""
    two.cut()
    for counter in counters.values():
        randomness = seeded(next(_seeds))
        for _ in range(CHANGES_EACH):
            token = new_token(CLOCK.now(), randomness)
            assert isinstance(await counter.add(1, token=token), Applied)
    await two.meet()


@pytest.mark.parametrize("method", SINGLE_ITEM)
async def test_a_single_item_loses_what_one_region_wrote(two: Two, method: str) -> None:
    """Of 12 changes in each region one region's are gone, or with shards many, without an error."""
    both = counters(two, method, f"lost-{method}")
    await add_on_both_sides(two, both)
    here, there = await values(both)
    assert here == there
    if method.endswith("-sharded"):
        assert CHANGES_EACH <= int(str(here)) < 2 * CHANGES_EACH
    else:
        assert here == CHANGES_EACH


async def test_the_collection_loses_nothing(two: Two) -> None:
    """The ledger behind the same protocol counts all 24, in both regions."""
    both = counters(two, "collection", "kept")
    await add_on_both_sides(two, both)
    assert await values(both) == [2 * CHANGES_EACH] * 2


async def test_a_marker_outlives_the_change_that_it_stands_for(two: Two) -> None:
    """After two regions wrote, one change is lost, and its marker says that it is counted."""
    both = counters(two, "marker", "marked")
    two.cut()
    for region, change in ((HERE, 1), (THERE, 2)):
        assert isinstance(await both[region].add(change, token=region), Applied)
    await two.meet()
    assert await values(both) == [2, 2]
    for region, change in ((HERE, 1), (THERE, 2)):
        assert await both[HERE].add(change, token=region) == Rejected("applied before")


async def test_each_region_counts_a_client_token_of_its_own(two: Two) -> None:
    """The token of a transaction is known in its region: elsewhere the same one counts again."""
    both = counters(two, "client-token", "tokens")
    for region in (HERE, HERE, THERE):
        assert isinstance(await both[region].add(5, token="t"), Applied)
        await two.meet()
    assert await values(both) == [10, 10]


async def test_two_regions_give_a_number_twice(two: Two) -> None:
    """Each way gives 1 on both sides; by sort key one of the two items is then lost."""
    two.cut()
    for region, store in two.stores.items():
        assert await CounterSequence(store, "orders", services=services()).next() == Numbered(1)
        tickets = SortKeySequence(store, "tickets", services=services())
        assert await tickets.append({"of": {"S": region}}) == Numbered(1)
    await two.meet()
    kept = [
        await SortKeySequence(store, "tickets", services=services()).read(1)
        for region, store in two.stores.items()
    ]
    assert kept == [{"of": {"S": THERE}}] * 2


async def test_guards_of_two_regions_handle_a_version_twice(two: Two) -> None:
    """While cut off both sides handle the same version; a lock that was seen is refused."""
    handler = Handling()

    def locked(region: str) -> LockGuard:
        return LockGuard(two.stores[region], owner=region, services=services())

    two.cut()
    for region, store in two.stores.items():
        assert await locked(region).handle(event(1), handler) == Handled(1)
        guard = ConditionGuard(store, services=services())
        assert await guard.handle(event(1, "balance"), [record_put(1)]) == Handled(1)
    assert handler.versions == [1, 1]
    await two.meet()
    with pytest.raises(LeaseLost, match="must all work through one region"):
        await locked(HERE).handle(event(2), handler)
    assert await locked(THERE).handle(event(2), handler) == Handled(2)


async def test_a_lease_never_seen_before_is_held_on_both_sides(two: Two) -> None:
    """Two regions that begin a lease at once both hold it, until one sees the other's."""
    terms = LeaseTerms(lease_seconds=30.0, heartbeat_seconds=10.0)
    here, there = (
        Lease(two.stores[region], "nightly", owner=region, terms=terms, services=services())
        for region in (HERE, THERE)
    )
    two.cut()
    for lease in (here, there):
        assert isinstance(await lease.acquire(0), LeaseGrant)
    await two.meet()
    with pytest.raises(LeaseLost, match=f"'{THERE}' has it"):
        await here.heartbeat()
    assert await there.heartbeat()
    with pytest.raises(LeaseLost, match="contend for it through that region"):
        await here.acquire(0)

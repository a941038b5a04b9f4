"""What a total costs once its counter is merged: one request of at most one read unit."""

from decimal import Decimal

import pytest
from support.compacting import SETTLE, World
from support.ledgers import HOME, WEST, make_settings, sample, seeded

from ledger.core.capacity import READ_UNIT_BYTES, item_size
from ledger.core.entry import net_item
from ledger.core.ids import EntryId
from ledger.core.values import NetChange
from ledger.reads.reader import Reader
from ledger.reads.total import Total
from ledger.runtime.metrics import Metrics
from ledger.runtime.services import Services
from ledger.settings.groups import CompactorSettings
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.meter import MeteredStore
from ledger.store.writes import Put
from ledger.testing.clock import ManualClock


async def cost(store: MemoryStore) -> tuple[Total, float, float]:
    """Return a total, and the requests and read units that it took."""
    metrics = Metrics()
    metered = MeteredStore(store, metrics=metrics, clock=ManualClock(instant=True))
    services = Services(ManualClock(instant=True), seeded(), metrics)
    reader = Reader(metered, settings=make_settings(), services=services)
    total = await reader.total("counter")
    units = sample(metrics, "ledger_consumed_units_total", operation="query")
    return total, sample(metrics, "ledger_read_pages_sum"), units


async def test_after_merging_a_total_costs_one_request_and_one_unit() -> None:
    """Folded, deleted and forgotten by the compactor: 300 entries are one net of under 4 KB."""
    world = World()
    await world.settled(entries=300)
    store = world.regions.replicas[WEST]
    before, _, units = await cost(store)
    assert (before.entries, units) == (300, 5)
    one = world.instance(prune_min=CompactorSettings().prune_min)
    for _ in range(3):
        await world.run_once(one)
    after, requests, units = await cost(store)
    assert after.value == before.value == world.sum["counter"]
    assert (after.entries, after.merged) == (0, 300)
    assert (requests, units) == (1, 1)


async def test_ids_that_are_not_worth_a_write_leave_it_at_one_unit() -> None:
    """Fewer than `prune_min` ids may stay named: still one unit."""
    world = World()
    left = CompactorSettings().prune_min - 1
    await world.settled(entries=left)
    one = world.instance(prune_min=CompactorSettings().prune_min)
    for _ in range(3):
        await world.run_once(one)
        await world.clock.advance(SETTLE)
    shown = world.shown(HOME).net
    assert shown is not None
    assert len(shown.merged) == left
    _, requests, units = await cost(world.regions.replicas[HOME])
    assert (requests, units) == (1, 1)


@pytest.mark.parametrize(("named", "units"), [(0, 1), (250, 1), (251, 2), (10_000, 40)])
async def test_ids_that_may_still_be_visible_cost_by_the_kilobyte(named: int, units: int) -> None:
    """Between fold and forgetting a net names its entries: one unit up to some 250 of them."""
    ids = tuple(EntryId(1_700_000_000_000_000 + number, number) for number in range(named))
    net = NetChange(Decimal(1), named, ids, "v" * 16, "", HOME)
    store = MemoryStore(HOME)
    await store.write(Put(net_item(net, "counter")))
    assert -(-item_size(net_item(net, "counter")) // READ_UNIT_BYTES) == units
    assert (await cost(store))[1:] == (1, units)

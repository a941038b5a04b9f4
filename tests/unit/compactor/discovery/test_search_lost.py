"""The search of a table that lost a region: what arrived in one other region alone is found."""

from dataclasses import replace
from decimal import Decimal

import pytest
from support.compacting import SETTLE, Instance, World, compactor_settings
from support.contracts import put_contract
from support.ledgers import HOME, SOUTH, WEST

from ledger.core.contract_item import Contract
from ledger.core.entry import entry_id, entry_item
from ledger.core.errors import Unreachable
from ledger.core.values import Entry
from ledger.store.wrappers.faults import FaultCall, Raises

CONTRACT = Contract(terms=compactor_settings().terms)
LOST = replace(CONTRACT, terms=replace(CONTRACT.terms, lost=("mars-1",)))
OLD = 100.0


async def left_in(world: World, region: str, contract: Contract) -> Instance:
    """Let an old entry of the lost region have arrived in one region, and start a compactor."""
    await put_contract(world.regions.replicas.values(), contract)
    entry = Entry("counter", str(entry_id(world.clock.now(), 7)), Decimal(5))
    item = entry_item(entry)
    world.regions.replicas[region].table.set((item["pk"]["S"], item["sk"]["S"]), item)
    await world.clock.advance(SETTLE + OLD)
    settings = compactor_settings(fold_age=OLD, scan_every=0)
    return Instance(world, "one", settings, contract=True)


@pytest.mark.parametrize("region", [WEST, SOUTH])
async def test_what_home_does_not_show_is_found_and_completed(region: str) -> None:
    """No hint names it, and in the end every region counts it, in a net alone."""
    world = World()
    one = await left_in(world, region, LOST)
    for _ in range(5):
        assert (await world.run_once(one)).is_success
    for shown in (world.shown(each) for each in (HOME, WEST, SOUTH)):
        assert (int(shown.total()), len(shown.entries)) == (5, 0)


async def test_a_table_that_lost_nothing_is_searched_at_home_alone() -> None:
    """There replication brings every entry home; the other regions cost nothing more."""
    world = World()
    one = await left_in(world, SOUTH, CONTRACT)
    calls: list[str] = []

    def note(call: FaultCall) -> None:
        calls.append(call.operation)

    one.faults[SOUTH] = note
    assert (await world.run_once(one)).due == 0
    assert "scan" not in calls


async def test_a_region_that_cannot_be_searched_is_named() -> None:
    """Merging waits for it."""
    world = World()
    one = await left_in(world, SOUTH, LOST)
    fault = Raises(Unreachable("no connection"))
    one.faults[SOUTH] = lambda call: fault if call.operation == "scan" else None
    assert (await world.run_once(one)).unreadable == SOUTH

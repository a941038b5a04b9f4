"""A pass without its lease: it ends before it writes, or its fence is refused."""

import pytest
from support.compacting import Instance, World, snapshot
from support.ledgers import HOME

from compactor.report import CompactorReport
from ledger.core.errors import LeaseLost
from ledger.primitives.leases.lease_rules import record_item
from ledger.store.wrappers.faults import Fault, FaultCall


async def test_lost_lease_stops_before_the_write() -> None:
    """A leader whose lease is taken during the hold raises and writes nothing."""
    world = World()
    await world.settled()
    await _loses_the_lease_in_a_hold(world, world.instance())


async def test_lost_lease_stops_before_deletes() -> None:
    """A leader whose lease is taken during the hold deletes nothing: a delete has no fence."""
    world = World()
    await world.settled(entries=6)
    one = world.instance()
    await world.run_once(one)
    await _loses_the_lease_in_a_hold(world, one)


async def test_stalled_leader_is_fenced() -> None:
    """A leader that stalls between its last check and its fold is rejected by the fence."""
    world = World()
    await world.settled()
    before, one = snapshot(world), world.instance()

    def stalled(call: FaultCall) -> Fault | None:
        if call.operation == "transact":
            _take_over(world)
        return None

    one.faults[HOME] = stalled
    report = await world.run_once(one)
    assert (report.folds, report.lost_races) == (0, 1)
    assert one.metric("compactor_folds_total", outcome="rejected") == 1
    assert one.metric("compactor_entries_merged_total") == 0
    assert snapshot(world) == before


async def _loses_the_lease_in_a_hold(world: World, one: Instance) -> None:
    """Do a pass whose lease is taken during its hold: it raises, and nothing changes."""
    before = snapshot(world)

    async def taken() -> CompactorReport:
        await world.clock.sleep(1)
        _take_over(world)
        return CompactorReport()

    with pytest.raises(LeaseLost):
        await world.drive(one.compactor.run_once, taken)
    assert snapshot(world) == before


def _take_over(world: World) -> None:
    """Give the lease to somebody else, under the next epoch."""
    record = world.lease()
    item = record_item(record)
    item |= {"owner": {"S": "other"}, "rvn": {"S": "other"}, "epoch": {"N": str(record.epoch + 1)}}
    world.regions.put(HOME, item)

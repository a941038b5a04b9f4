"""Worlds that lose a region for good, and worlds in which a stranger writes what is no entry."""

import asyncio

import pytest
from conformance.test_world import sim_store
from proof.simulator.auditor import Auditor
from proof.simulator.loop import VirtualLoop, run
from proof.simulator.losses import Loss, is_lossy
from proof.simulator.randomness import stream
from proof.simulator.run import run_seed
from proof.simulator.scenario import draw
from proof.simulator.stranger import bad_item, is_strange
from proof.simulator.world import World

from compactor.home_takeover import check_removed
from ledger.core.entry import entry_of, net_of
from ledger.core.errors import ContractChangeRefused, DamagedItem, Unreachable
from ledger.core.keys import generation_of
from ledger.store.reads import Get

pytestmark = pytest.mark.slow

SEEDS = [seed for seed in range(1100) if is_lossy(seed)]
EAST, WEST, SOUTH = "us-east-1", "eu-west-1", "ap-southeast-2"
LOSS = Loss(
    region=EAST,
    homes=(WEST,),
    stops_at=100.0,
    given_up_at=110.0,
    removed={WEST: 200.0, SOUTH: 230.0},
    arrives_until=230.0,
    never_share=0.5,
    late_seconds=300.0,
)


def test_losses_of_every_kind_are_drawn() -> None:
    """Home or another, before or at the removal, one operator or two with different homes."""
    drawn = [draw(seed) for seed in SEEDS]
    losses = [(scenario.regions, loss) for scenario in drawn if (loss := scenario.loss)]
    assert len(losses) == len(SEEDS)
    assert {loss.region == regions[0] for regions, loss in losses} == {True, False}
    assert {loss.stops_at < min(loss.removed.values()) for _, loss in losses} == {True, False}
    assert {len(set(loss.homes)) for _, loss in losses} == {1, 2}
    assert {len(regions) for regions, _ in losses} == {2, 3}


def test_a_share_of_worlds_loses_a_region() -> None:
    """About one in twelve, and no other names a loss."""
    assert 0.07 < len(SEEDS) / 1100 < 0.1
    assert draw(SEEDS[0] + 1).loss is None


def test_remaining_regions_take_over() -> None:
    """Writes of the lost home never arrive, and nets of the next generation succeed its own."""
    trace = "\n".join(run_seed(6, is_traced=True).trace)
    lost = draw(6).loss
    assert lost is not None
    assert f"region {lost.region} is lost" in trace
    assert f", without {lost.region}" in trace
    assert " loses put counter-" in trace
    assert "~net#0002" in trace


def _lossy_world() -> World:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    world = World((EAST, WEST, SOUTH), loop=loop, randomness=stream(1, "world"))
    world.lose(LOSS, stream(1, "last writes"))
    return world


def _written(number: int) -> dict[str, dict[str, str]]:
    return {"pk": {"S": "a"}, "sk": {"S": f"{number:03d}"}, "change": {"N": "1"}}


def test_last_writes_arrive_in_part() -> None:
    """Of what is on its way when a region stops each item reaches each other one late, or never."""

    async def main() -> None:
        world = _lossy_world()
        await asyncio.sleep(LOSS.stops_at)
        for number in range(100):
            world.put(EAST, _written(number))
            world.put(WEST, _written(200 + number))
        world.stop(EAST)
        await asyncio.sleep(1000.0)
        west, south = (
            {key for key in world.replicas[name].table.partitions["a"] if key < "200"}
            for name in (WEST, SOUTH)
        )
        assert west - south
        assert south - west
        assert 0 < len(west | south) < 100
        assert world.in_flight == 0
        assert len(world.replicas[EAST].table.partitions["a"]) == 100, "nothing arrives there"

    run(main)


def test_replicas_are_described_until_they_are_removed() -> None:
    """Each remaining region lists the lost one until a moment of its own."""

    async def main() -> None:
        world = _lossy_world()
        stores = {name: sim_store(world, name) for name in (WEST, SOUTH)}
        assert await stores[WEST].replicas() == {EAST: "ACTIVE", SOUTH: "ACTIVE"}
        await asyncio.sleep(150.0)
        assert await stores[WEST].replicas() == {EAST: "DELETING", SOUTH: "ACTIVE"}
        await asyncio.sleep(60.0)
        assert await stores[WEST].replicas() == {SOUTH: "ACTIVE"}
        with pytest.raises(ContractChangeRefused, match=f"{SOUTH} still lists {EAST}"):
            await check_removed(stores.values(), "ledger", [EAST])
        await asyncio.sleep(60.0)
        await check_removed(stores.values(), "ledger", [EAST])

    run(main)


def test_lost_region_serves_nothing() -> None:
    """Neither a new request nor one that is on its way when the region stops."""

    async def main() -> None:
        world = _lossy_world()
        store = sim_store(world, EAST)
        under_way = asyncio.ensure_future(store.get(Get(("a", "b"))))
        await asyncio.sleep(0)
        world.stop(EAST)
        for read in (under_way, store.get(Get(("a", "b")))):
            with pytest.raises(Unreachable):
                await read

    run(main)


def test_auditor_demands_what_a_remaining_region_has() -> None:
    """What only the lost region had is gone; what one remaining region got must come to all."""

    async def main() -> None:
        for number, region in enumerate((EAST, WEST)):
            world = _lossy_world()
            auditor = Auditor(world, found=lambda: None)
            auditor.lost.add(EAST)
            key = f"2026-11-21T06:50:00.000000Z#{number:016x}"
            item = {"sk": {"S": key}, "change": {"N": "1"}}
            auditor.arrived(region, ("a", key), item)
            auditor.check_rest()
            broken = auditor.violation
            assert (broken is not None) == (region == WEST)

    run(main)


def test_bad_items_cannot_be_counted() -> None:
    """Every kind is refused by the ledger's own reading of items."""
    for number in range(40):
        bad = bad_item(stream(number, "bad"))
        read = entry_of if generation_of(bad["sk"]["S"]) is None else net_of
        with pytest.raises(DamagedItem):
            read(bad)


def test_strangers_collection_is_read_in_vain() -> None:
    """A stranger writes in about one world of seven; everything else is merged at the end."""
    seeds = [seed for seed in range(40) if is_strange(seed)]
    assert len(seeds) == 5
    result = run_seed(seeds[1], is_traced=True)
    assert result.violation is None
    assert any("put stranger " in line for line in result.trace)

"""Moving the home: folds that name it, then the lease; interrupted anywhere, run again."""

from collections.abc import Awaitable, Callable
from zlib import crc32

import anyio
import pytest
from support.compacting import (
    HOLD,
    Instance,
    World,
    compactor_settings,
)
from support.ledgers import HOME, SOUTH, WEST

from compactor.discovery.scan import load_cursor
from compactor.report import CompactorReport
from ledger.core.errors import DamagedItem, LeaseLost, SettingsError, Unreachable
from ledger.primitives.leases.state import lease_key
from ledger.store.wrappers.faults import Call, Fault, Lost, NeverArrived, Raises

REGIONS = (HOME, WEST, SOUTH)
DEAD = Raises(Unreachable("killed"))
TO_WEST = compactor_settings(home=WEST)


def after(seconds: float, world: World, do: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    """Return a work that does something after a time."""

    async def later() -> None:
        await world.clock.sleep(seconds)
        do()

    return later


async def moved(world: World, instance: Instance, target: str = WEST) -> CompactorReport:
    """Move the home."""
    (report,) = await world.drive(lambda: instance.compactor.move_home(target))
    return report


def nets_homes(world: World) -> set[str]:
    """Return the homes of all nets, as every region shows them, and of the lease."""
    homes = {world.lease(region).home for region in REGIONS}
    for region in REGIONS:
        shown = (world.shown(region, counter).net for counter in world.sum)
        homes |= {net.home for net in shown if net is not None}
    return homes


async def test_move_home() -> None:
    """After a move the new home merges, and a compactor of the old settings refuses."""
    world = World()
    for number in range(4):
        await world.settled(counter=f"c{number}")
    one = world.instance("one")
    await world.run_once(one)
    await world.settled(entries=2, counter="few")
    report = await moved(world, one)
    assert (report.led, report.unmoved, report.folds) == (True, 0, 0)
    assert nets_homes(world) == {WEST}
    with pytest.raises(LeaseLost, match="move-home"):
        await world.run_once(one)
    two = world.instance("two", settings=TO_WEST)
    for number in range(4):
        await world.settled(counter=f"c{number}")
    for _ in range(4):
        assert (await world.run_once(two)).is_success
        assert world.is_right()
    for number in range(4):
        shown = world.shown(HOME, f"c{number}")
        assert not shown.entries
        assert shown.net is not None
        assert shown.net.count == 10
    assert nets_homes(world) == {WEST}


async def test_old_home_is_refused_before_the_move() -> None:
    """Settings changed alone, without a move, merge nothing."""
    world = World()
    await world.settled()
    await world.run_once(world.instance("one"))
    with pytest.raises(LeaseLost):
        await world.run_once(world.instance("two", settings=TO_WEST))
    assert world.lease().home == HOME


async def test_another_home_asks_every_region_before_it_begins() -> None:
    """Settings with another home do not begin beside a lease that has not arrived there yet."""
    world = World()
    await world.settled()
    world.regions.isolate(WEST)
    await world.run_once(world.instance("one"))
    with pytest.raises(LeaseLost, match=HOME):
        await world.run_once(world.instance("two", settings=TO_WEST))
    assert world.regions.replicas[WEST].table.get(lease_key("compactor")) is None


async def test_damaged_lease_is_waited_out_by_the_service() -> None:
    """A service outlives a lease item that somebody damages and mends; a single pass says so."""
    world = World()
    await world.settled(entries=6)
    one, stop = world.instance(), anyio.Event()
    errors: list[Exception] = []
    table = world.regions.replicas[HOME].table
    key = lease_key("compactor")
    table.set(key, {"pk": {"S": key[0]}, "sk": {"S": key[1]}, "owner": {"N": "1"}})
    with pytest.raises(DamagedItem):
        await world.run_once(world.instance("two"))

    async def serve() -> None:
        await one.compactor.run_every(8, stop=stop, on_error=errors.append)

    mend = after(10, world, lambda: table.set(key, None))
    await world.drive(serve, mend, after(40, world, stop.set))
    assert {type(error) for error in errors} == {DamagedItem}
    assert world.shown(HOME).net is not None


async def test_move_waits_for_every_region() -> None:
    """A move ends only when every region shows every net as the new home's."""
    world = World()
    await world.settled()
    one = world.instance("one")
    await world.run_once(one)
    world.regions.isolate(SOUTH)
    homes: list[set[str]] = []

    def heal() -> None:
        homes.append({world.lease(region).home for region in REGIONS})
        world.regions.heal()

    async def move() -> None:
        await one.compactor.move_home(WEST)

    await world.drive(move, after(60, world, heal))
    assert homes == [{HOME}]
    world.regions.deliver()
    assert nets_homes(world) == {WEST}


@pytest.mark.parametrize(("pages_max", "late"), [(1, "c1"), (1, "c3"), (2, "c0"), (4, "c2")])
async def test_move_in_parts_waits_for_every_part(pages_max: int, late: str) -> None:
    """A move whose search takes several runs ends only when no part of the table is left."""
    world = World(page_items_max=2)
    for number in range(5):
        await world.settled(counter=f"c{number}")
    one = world.instance("one")
    for _ in range(3):
        await world.run_once(one)
    world.regions.pause(HOME, SOUTH)
    done = anyio.Event()

    async def move() -> None:
        mover = world.instance("mover", scan_pages_max=pages_max, scan_segments=1)
        await mover.compactor.move_home(WEST)
        done.set()

    async def delay() -> None:
        for _ in range(200):
            await world.clock.sleep(0.25)
            world.regions.deliver_only(lambda _, key: key[0] != late)
        assert not done.is_set()
        world.regions.heal()

    await world.drive(move, delay)
    world.regions.deliver()
    assert nets_homes(world) == {WEST}


async def test_move_begins_a_round_of_its_own() -> None:
    """A first pass that finishes another's round, and finds nothing there, does not end a move."""
    world = World(page_items_max=2)
    first = min((f"c{number}" for number in range(99)), key=lambda name: crc32(name.encode()))
    await world.settled(counter=first)  # a scan of the store in memory goes by this hash
    for number in range(4):
        world.regions.put(HOME, {"pk": {"S": "~import"}, "sk": {"S": str(number)}})
    for _ in range(4):
        await world.run_once(world.instance("before", scan_segments=1))
    await world.run_once(world.instance("half", scan_segments=1, scan_pages_max=1))
    cursor = await load_cursor(world.regions.replicas[HOME], "compactor")
    assert cursor is not None
    assert not cursor.is_finished
    report = await moved(world, world.instance("mover", scan_segments=1))
    assert report.is_whole
    assert nets_homes(world) == {WEST}


@pytest.mark.parametrize("killed_after", [1, HOLD + 1, 2 * HOLD + 2, 3 * HOLD + 1])
async def test_interrupted_move_is_run_again(killed_after: float) -> None:
    """A move killed anywhere leaves right totals, one leader, and can be finished."""
    world = World()
    for number in range(3):
        await world.settled(counter=f"c{number}")
    one = world.instance("one")
    await world.run_once(one)

    async def move() -> None:
        await one.live(lambda: one.compactor.move_home(WEST))

    await world.drive(move, after(killed_after, world, lambda: one.kill(DEAD)))
    assert world.is_right()
    if world.lease().home == HOME:
        with pytest.raises(LeaseLost):
            await world.run_once(world.instance("early", settings=TO_WEST))
        assert (await world.run_once(world.instance("two"))).is_success
        assert world.is_right()
        assert not (await moved(world, world.instance("three"))).unmoved
    world.regions.deliver()
    assert nets_homes(world) == {WEST}
    assert world.is_right()


async def test_move_elsewhere_after_an_interruption() -> None:
    """After a move that was interrupted another may go elsewhere."""
    world = World()
    await world.settled()
    one = world.instance("one")
    await world.run_once(one)
    world.regions.pause(HOME, SOUTH)

    async def move() -> None:
        await one.live(lambda: one.compactor.move_home(WEST))

    await world.drive(move, after(HOLD + 1, world, lambda: one.kill(DEAD)))
    world.regions.heal()
    assert (await moved(world, world.instance("two"), SOUTH)).is_success
    world.regions.deliver()
    assert nets_homes(world) == {SOUTH}
    assert world.is_right()


@pytest.mark.parametrize("fault", [Lost(), NeverArrived()])
async def test_move_outlasts_lost_answers(fault: Fault) -> None:
    """A move whose folds and hand-over get no answer at first is finished all the same."""
    world = World()
    await world.settled()
    one = world.instance("one")
    await world.run_once(one)
    left = {"transact": 1}

    def some(call: Call) -> Fault | None:
        if left.get(call.operation, 0):
            left[call.operation] -= 1
            return fault
        return None

    one.faults[HOME] = some
    await moved(world, one)
    world.regions.deliver()
    assert left["transact"] == 0
    assert nets_homes(world) == {WEST}


async def test_stopped_move_hands_nothing_over() -> None:
    """A stopped move leaves the lease where it is."""
    world = World()
    await world.settled()
    one, stop = world.instance("one"), anyio.Event()

    async def move() -> CompactorReport:
        return await one.compactor.move_home(WEST, stop=stop)

    async def stopping() -> CompactorReport:
        await world.clock.sleep(2)
        stop.set()
        return CompactorReport()

    report, _ = await world.drive(move, stopping)
    assert not report.is_whole
    assert world.lease().home == HOME


BAD_ITEMS = [
    {"pk": {"S": "bad"}, "sk": {"S": "zzz"}, "change": {"S": "oops"}},
    {"pk": {"S": "c1"}, "sk": {"S": "zzz"}, "change": {"S": "oops"}},
    {"pk": {"S": "bad"}, "sk": {"S": "~net#0001"}, "change": {"N": "1"}},
]


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("item", BAD_ITEMS)
@pytest.mark.parametrize("pages_max", [1, 100])
async def test_move_leaves_damaged_collections_behind(
    region: str, item: dict[str, dict[str, str]], pages_max: int
) -> None:
    """One bad item stops no move: the rest is handed over and merged, the bad one named."""
    world = World(page_items_max=2)
    for number in range(3):
        await world.settled(counter=f"c{number}")
    one = world.instance("one", scan_pages_max=pages_max, scan_segments=1)
    await world.run_once(one)
    await world.run_once(one)
    key = (item["pk"]["S"], item["sk"]["S"])
    await world.settled(entries=4, counter=key[0])
    for number in range(3):
        await world.settled(counter=f"c{number}")
    for other in REGIONS if key[0] == "bad" else [region]:
        world.regions.replicas[other].table.set(key, item)

    report = await moved(world, one)
    assert (report.led, report.unmoved, report.is_success, report.is_whole) == (True, 0, True, True)
    assert (report.damaged, list(report.quarantined)) == (1, [key[0]])
    assert {world.lease(shown).home for shown in REGIONS} == {WEST}
    two = world.instance("two", settings=TO_WEST)
    for _ in range(4):
        after = await world.run_once(two)
        assert list(after.quarantined) == [key[0]]
    healthy = {"c0", "c1", "c2"} - {key[0]}
    assert not any(world.shown(region, name).entries for name in healthy for region in REGIONS)

    for other in REGIONS:
        world.regions.replicas[other].table.set(key, None)
    await world.settled(entries=6, counter=key[0])
    for _ in range(4):
        assert (await world.run_once(two)).damaged == 0
        assert world.is_right()
    assert nets_homes(world) == {WEST}
    assert not world.shown(SOUTH, key[0]).entries


async def test_collections_handed_over_are_merged_after_an_interruption() -> None:
    """A move that is never finished stops no merging: the lease says who folds."""
    world = World()
    for number in range(2):
        await world.settled(counter=f"c{number}")
    one = world.instance("one")
    await world.run_once(one)

    async def move() -> None:
        await one.live(lambda: one.compactor.move_home(WEST))

    await world.drive(move, after(HOLD + 1, world, lambda: one.kill(DEAD)))
    world.regions.deliver()
    assert world.lease().home == HOME
    assert nets_homes(world) == {HOME, WEST}
    two = world.instance("two")
    for number in range(2):
        await world.settled(counter=f"c{number}")
    for _ in range(4):
        assert (await world.run_once(two)).is_success
        assert world.is_right()
    assert nets_homes(world) == {HOME}
    assert not world.shown(SOUTH, "c0").entries


@pytest.mark.parametrize("target", [HOME, "eu-north-1"])
async def test_move_needs_another_region(target: str) -> None:
    """The new home is another region of the settings."""
    with pytest.raises(SettingsError, match=target):
        await World().instance().compactor.move_home(target)


async def test_round_trip_of_home() -> None:
    """A home that was moved away can be moved back."""
    world = World()
    await world.settled()
    one = world.instance("one")
    await world.run_once(one)
    await moved(world, one)
    await moved(world, world.instance("two", settings=TO_WEST), HOME)
    assert nets_homes(world) == {HOME}
    await world.settled()
    for _ in range(4):
        await world.run_once(world.instance("three"))
    assert not world.shown(SOUTH).entries
    assert world.is_right()

"""Nets that were lost, or replaced by older ones, and what the archive alone still has."""

from datetime import timedelta

import pytest
from support.archiving import ArchivedWorld, raced
from support.compacting import compactor_settings
from support.ledgers import HOME

from ledger.administration.archive.check import (
    ArchiveCheck,
    ArchiveFault,
    RestoredCollection,
    archived_in,
)
from ledger.administration.archive.cleanup import sweep
from ledger.core.entry import Item
from ledger.core.keys import net_sort_key
from ledger.reads.archive import objects
from ledger.reads.archive.places.memory import MemoryPlace
from ledger.reads.archive.places.opening import ReplicatedPlace
from ledger.runtime.output import utc_text

NET = ("one", net_sort_key(1))


async def merged(world: ArchivedWorld, *changes: int) -> None:
    """Record and merge changes of a counter."""
    async with world.ledger() as ledger:
        for change in changes:
            await ledger.record("one", change)
    await world.merge()


def put_back(world: ArchivedWorld, net: Item | None) -> None:
    """Show another net, or none, in all regions."""
    for replica in world.world.regions.replicas.values():
        replica.table.set(NET, net)


async def wrong_in(
    world: ArchivedWorld, *places: MemoryPlace, whole: bool = True
) -> list[ArchiveFault]:
    """Return what a check of all collections, or of one, says is wrong."""
    wrong: list[ArchiveFault] = []
    copies, replicas = ReplicatedPlace(places or [world.place]), world.world.regions.replicas
    check = ArchiveCheck(replicas, HOME, copies, wrong.append)
    if whole:
        await check.whole(archived_in(replicas[HOME]))
    else:
        await check.run(["one"])
    return wrong


@pytest.mark.parametrize("whole", [False, True])
async def test_an_older_net_in_all_regions_is_wrong(whole: bool) -> None:  # noqa: FBT001
    """What it does not count is named, with counter, object, sum and first entry."""
    world = ArchivedWorld()
    await merged(world, 1, 2, 3)
    older, names = world.world.regions.replicas[HOME].table.get(NET), set(world.place.objects)
    await merged(world, 5, 7)
    put_back(world, older)
    (wrong,) = await wrong_in(world, whole=whole)
    (name,) = set(world.place.objects) - names
    assert wrong.where == f"'one', object {name}"
    assert wrong.text.startswith("2 entries of segment 2, 12 in all, the first ")
    assert "a net was lost, or an older one put back" in wrong.text


@pytest.mark.parametrize("whole", [False, True])
async def test_a_net_that_all_regions_have_lost_is_wrong(whole: bool) -> None:  # noqa: FBT001
    """Though no region shows anything of its collection, each of its segments is named."""
    world = ArchivedWorld()
    await merged(world, 1, 2, 3)
    await merged(world, 5, 7)
    put_back(world, None)
    wrong = await wrong_in(world, whole=whole)
    assert sorted(each.text.split(",")[0] for each in wrong) == [
        "2 entries of segment 2",
        "3 entries of segment 1",
    ]


FOLDED = timedelta(minutes=59)
"""After an object was begun."""


@pytest.mark.parametrize(
    ("after", "until", "is_wrong"),
    [
        (timedelta(), timedelta(), False),
        (FOLDED, FOLDED, False),
        (timedelta(minutes=61), timedelta(minutes=61), True),
        (-timedelta(days=2), -timedelta(days=1), True),
    ],
)
async def test_what_a_restore_took_back_is_not_wrong(
    after: timedelta, until: timedelta, *, is_wrong: bool
) -> None:
    """What was folded between its moment and the end of the former table; all else is, with a time.

    A fold is signed within an hour of its object's beginning.
    """
    world = ArchivedWorld()
    await merged(world, 1, 2, 3)
    older, names = world.world.regions.replicas[HOME].table.get(NET), set(world.place.objects)
    await merged(world, 5, 7)
    put_back(world, older)
    (name,) = set(world.place.objects) - names
    made = objects.id_of(name)
    assert made is not None
    begun = made.at
    wrong: list[ArchiveFault] = []
    replicas, restored = (
        world.world.regions.replicas,
        RestoredCollection(begun + after, begun + until),
    )
    check = ArchiveCheck(replicas, HOME, ReplicatedPlace([world.place]), wrong.append, [restored])
    await check.run(["one"])
    assert [f"folded at {utc_text(begun)} or within" in each.text for each in wrong] == (
        [True] * is_wrong
    )
    assert check.taken_back == (0 if is_wrong else 2)


async def test_a_net_that_home_alone_has_lost_is_checked() -> None:
    """Another region's leads to its chain, so nothing of it is left over."""
    world = ArchivedWorld()
    await merged(world, 1, 2, 3)
    world.world.regions.replicas[HOME].table.set(NET, None)
    assert await wrong_in(world) == []


@pytest.mark.parametrize("lacks", [None, 0, 1])
async def test_what_a_lost_race_left_is_not_wrong(lacks: int | None) -> None:
    """Its entries are in another segment, also when one place lacks the object."""
    world = ArchivedWorld()
    await merged(world, 1, 2, 3)
    lost, copies = raced(world.place.objects), [MemoryPlace("file:///a"), MemoryPlace("file:///b")]
    for number, copy in enumerate(copies):
        copy.objects |= world.place.objects | ({} if number == lacks else lost)
    assert await wrong_in(world, *copies) == []


async def test_what_a_killed_process_left_is_not_wrong() -> None:
    """A fold that was archived and not sent: its entries are still in the table."""
    world = ArchivedWorld()
    table = world.world.regions.replicas[HOME].table
    async with world.ledger(HOME) as ledger:
        await ledger.record("one", 1)
    (entry,) = [item for item in table.items() if item["pk"]["S"] == "one"]
    await world.merge()
    put_back(world, None)
    table.set(("one", entry["sk"]["S"]), entry)
    assert await wrong_in(world) == []


async def begun_again(world: ArchivedWorld) -> set[str]:
    """Merge with an archive, without one, and with one; return the first chain's objects."""
    await merged(world, 1, 2, 3)
    former = set(world.place.objects)
    plain = world.world.instance("plain", settings=compactor_settings(fold_min=1))
    async with world.ledger() as ledger:
        await ledger.record("one", 5)
        await world.merge(by=plain)
    await merged(world, 7)
    return former


async def test_a_chain_that_was_ended_is_not_wrong() -> None:
    """It is in the base of the one that was begun when the archive was named again."""
    world = ArchivedWorld()
    assert await begun_again(world)
    assert await wrong_in(world) == []


async def test_sweep_keeps_a_chain_that_was_ended() -> None:
    """No net names it, and the base has its sum alone: its entries are nowhere else."""
    world = ArchivedWorld()
    former = await begun_again(world)
    later = world.world.clock.now() + timedelta(days=2)
    places, replicas = ReplicatedPlace([world.place]), world.world.regions.replicas
    swept = await sweep(replicas, places, home=HOME, now=later)
    assert (swept.removed, swept.only_here) == (0, len(former))
    assert former <= set(world.place.objects)

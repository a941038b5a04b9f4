"""The archive checked, swept, erased from, and a table rebuilt from it."""

from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from support.archiving import ArchivedWorld, raced
from support.compacting import World, compactor_settings
from support.ledgers import HOME, WEST

from ledger.administration.archive.check import ArchiveCheck, ArchiveFault, archived_in
from ledger.administration.archive.cleanup import erase_notes, sweep
from ledger.administration.archive.rebuild import Rebuild, RebuildResult
from ledger.core.entry import entry_item
from ledger.core.errors import ArchiveDamaged, InvalidInput
from ledger.core.values import Entry
from ledger.reads.archive.places.memory import MemoryPlace
from ledger.reads.archive.places.opening import ReplicatedPlace
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger

COUNTERS = ("one", "two")


async def filled(world: ArchivedWorld, *, rounds: int = 4) -> list[Entry]:
    """Record and merge entries with notes of two counters."""
    made = []
    async with world.ledger() as ledger:
        for number in range(rounds):
            for counter in COUNTERS:
                for change in range(3):
                    made.append(
                        await ledger.record(counter, change + number, note=f"note {number}")
                    )
                    await world.world.clock.advance(0.5)
            await world.merge(passes=2)
        await world.merge()
    return made


async def checked(
    world: ArchivedWorld, places: ReplicatedPlace | None = None
) -> tuple[Any, list[ArchiveFault]]:
    """Check the archive of a world."""
    wrong: list[ArchiveFault] = []
    places = places or ReplicatedPlace([world.place])
    check = ArchiveCheck(world.world.regions.replicas, HOME, places, wrong.append)
    await check.run(COUNTERS)
    return check, wrong


async def test_a_whole_archive() -> None:
    """All is counted, nothing is wrong."""
    world = ArchivedWorld()
    made = await filled(world)
    check, wrong = await checked(world)
    assert wrong == []
    assert (check.entries, check.collections, check.left_over) == (len(made), 2, 0)
    assert check.objects == len(world.place.objects)


async def test_each_flipped_byte_is_named() -> None:
    """Wherever it is, with the object, in whichever place."""
    world = ArchivedWorld()
    await filled(world, rounds=1)
    random = Random(1)  # noqa: S311 (repeatable)
    (name, *_), (data, *_) = zip(*world.place.objects.items(), strict=True)
    for at in range(0, len(data), 37):
        copy = MemoryPlace("file:///copy")
        copy.objects |= world.place.objects
        flipped = bytearray(data)
        flipped[at] ^= 1 << random.randrange(8)
        copy.objects[name] = bytes(flipped)
        _, wrong = await checked(world, ReplicatedPlace([world.place, copy]))
        assert any(name in each.where and copy.url in each.where for each in wrong), at


async def test_a_missing_object_and_another_net_are_named() -> None:
    """An object that one place lacks; a net that counts what the archive has not."""
    world = ArchivedWorld()
    await filled(world, rounds=2)
    copy = MemoryPlace("file:///copy")
    copy.objects |= world.place.objects
    del copy.objects[min(copy.objects)]
    _, wrong = await checked(world, ReplicatedPlace([world.place, copy]))
    assert wrong
    assert all(copy.url in each.where for each in wrong)
    plain = world.world.instance("plain", settings=compactor_settings(fold_min=1))
    async with world.ledger() as ledger:
        await ledger.record("one", 5)
    await world.merge(by=plain)
    _, wrong = await checked(world)
    assert wrong == []  # the chain has ended: the net says nothing of it any more


async def test_sweep_removes_what_no_net_names() -> None:
    """After a day, and not what is damaged or named."""
    world = ArchivedWorld()
    await filled(world, rounds=2)
    named = dict(world.place.objects)
    lost = raced(world.place.objects)
    world.place.objects |= lost
    places, replicas = ReplicatedPlace([world.place]), world.world.regions.replicas
    young = await sweep(replicas, places, home=HOME, now=world.world.clock.now())
    assert (young.removed, young.kept) == (0, len(world.place.objects))
    later = world.world.clock.now() + timedelta(days=2)
    tried = await sweep(replicas, places, home=HOME, now=later, dry_run=True)
    assert tried.removed == len(lost)
    assert await sweep(replicas, places, home=HOME, now=later) == tried
    assert world.place.objects == named
    assert (await checked(world))[1] == []
    del world.place.objects[min(named)]
    with pytest.raises(ArchiveDamaged, match="is in no object of the archive"):
        await sweep(replicas, places, home=HOME, now=later)


async def test_sweep_keeps_what_nothing_else_has() -> None:
    """Of a table that is not rebuilt yet, or has lost a net, each object stays."""
    world = ArchivedWorld()
    await filled(world, rounds=2)
    kept, places = dict(world.place.objects), ReplicatedPlace([world.place])
    later = world.world.clock.now() + timedelta(days=2)
    swept = await sweep(World().regions.replicas, places, home=HOME, now=later)
    assert (swept.removed, swept.kept, swept.only_here) == (0, len(kept), len(kept))
    assert world.place.objects == kept


async def test_sweep_removes_what_the_table_still_has() -> None:
    """A segment of a fold that was never sent, whose entries wait for another."""
    world, other = ArchivedWorld(), World()
    made = await filled(world, rounds=1)
    for entry in made:
        other.regions.put(HOME, entry_item(entry))
    later = world.world.clock.now() + timedelta(days=2)
    swept = await sweep(
        other.regions.replicas, ReplicatedPlace([world.place]), home=HOME, now=later
    )
    assert swept.only_here == 0
    assert not world.place.objects


async def test_an_object_that_one_place_lacks_is_read_in_another() -> None:
    """A put that failed in one place holds up neither a sweep nor a rebuild."""
    world, target = ArchivedWorld(), World()
    made = await filled(world, rounds=2)
    first, second = MemoryPlace("file:///first"), world.place
    first.objects |= second.objects
    lost = raced(world.place.objects)
    second.objects |= lost
    places, later = ReplicatedPlace([first, second]), world.world.clock.now() + timedelta(days=2)
    swept = await sweep(world.world.regions.replicas, places, home=HOME, now=later)
    assert swept.removed == len(lost)
    assert first.objects == second.objects
    del first.objects[min(first.objects)]
    assert (await rebuilt(world, target, places)).entries == len(made)


@pytest.mark.parametrize("lacks", [0, 1])
async def test_what_a_killed_process_left_in_one_place_is_no_damage(lacks: int) -> None:
    """No net needs it: it is counted as left over, whichever place lacks it, and swept."""
    world = ArchivedWorld()
    await filled(world, rounds=2)
    lost = raced(world.place.objects)
    copies = [MemoryPlace(f"file:///{letter}") for letter in "ab"]
    for number, copy in enumerate(copies):
        copy.objects |= world.place.objects
        copy.objects |= {} if number == lacks else lost
    check, wrong = await checked(world, ReplicatedPlace(copies))
    assert (wrong, check.left_over) == ([], 1)
    later = world.world.clock.now() + timedelta(days=2)
    swept = await sweep(world.world.regions.replicas, ReplicatedPlace(copies), home=HOME, now=later)
    assert (swept.left_over, swept.removed) == (1, 1)
    assert copies[0].objects == copies[1].objects == world.place.objects


async def test_a_region_that_is_behind_shows_a_part_of_the_chain() -> None:
    """Its net is compared with its own segment; no segment is walked twice."""
    world = ArchivedWorld()
    made = await filled(world, rounds=2)
    world.world.regions.pause(HOME, WEST)
    made += await filled(world, rounds=1)
    regions = world.world.regions
    nets = {regions.collection(region, "one").net.version for region in (HOME, WEST)}  # type: ignore[union-attr]
    assert len(nets) == 2
    check, wrong = await checked(world)
    assert (wrong, check.entries, check.left_over) == ([], len(made), 0)


async def test_only_what_was_asked_for_is_left_over() -> None:
    """Where single counters are checked, segments of others are not taken for left over."""
    world = ArchivedWorld()
    made = await filled(world)
    check = ArchiveCheck(
        world.world.regions.replicas, HOME, ReplicatedPlace([world.place]), lambda _: None
    )
    await check.run(COUNTERS[:1])
    assert (check.entries, check.left_over) == (len(made) / 2, 0)
    whole = ArchiveCheck(
        world.world.regions.replicas, HOME, ReplicatedPlace([world.place]), lambda _: None
    )
    await whole.whole(archived_in(world.world.regions.replicas[HOME]))
    assert (whole.entries, whole.collections, whole.left_over) == (len(made), 2, 0)


async def test_erased_notes() -> None:
    """The note is in no byte of any place, and nothing else has changed."""
    world = ArchivedWorld()
    made = await filled(world, rounds=2)
    copy = MemoryPlace("file:///copy")
    copy.objects |= world.place.objects
    places, home = ReplicatedPlace([world.place, copy]), world.world.regions.replicas[HOME]
    gone = [entry for entry in made if entry.counter == "one"][1:3]
    ids = [entry.id for entry in gone]
    assert await erase_notes(home, places, "one", ids, shards=1) == 2
    assert await erase_notes(home, places, "one", ids, shards=1) == 0
    assert (await checked(world, places))[1] == []
    async with world.ledger() as ledger:
        found = {entry.id: entry.note async for entry in ledger.history("one")}
        assert found == {
            entry.id: None if entry.id in ids else entry.note
            for entry in made
            if entry.counter == "one"
        }
        with pytest.raises(InvalidInput, match="the archive has no entry"):
            await erase_notes(home, places, "two", ids, shards=1)
        fresh = await ledger.record("one", 1, note="secret")
        world.world.regions.deliver()
        with pytest.raises(InvalidInput, match="still in the table"):
            await erase_notes(home, places, "one", [fresh.id], shards=1)


async def rebuilt(
    world: ArchivedWorld, target: World, places: ReplicatedPlace | None = None
) -> RebuildResult:
    """Rebuild the collections of a world's archive in another."""
    rebuild = Rebuild(
        target.regions.replicas[HOME],
        places or ReplicatedPlace([world.place]),
        world.settings,
        target.clock.now(),
        Random(1),  # noqa: S311 (repeatable)
    )
    done = await rebuild.run()
    target.regions.deliver()
    return done


async def test_rebuilt_table_is_the_same() -> None:
    """Totals, histories, moments and what is written on; a second run finds all done."""
    world, target = ArchivedWorld(periods={"*": {}}), World()
    made = await filled(world)
    done = await rebuilt(world, target)
    assert (done.collections, done.entries, done.unmerged) == (2, len(made), 0)
    assert (await rebuilt(world, target)).there == 2
    async with (
        Ledger(
            world.settings,
            region=WEST,
            given=GivenConnections(store=target.regions.replicas[WEST], archive=[world.place]),
            services=Services.of(clock=world.world.clock),
        ) as after,
        world.ledger() as before,
    ):
        for counter in COUNTERS:
            assert (await after.total(counter, max_age=0)).value == (
                await before.total(counter, max_age=0)
            ).value
            found = [entry async for entry in after.history(counter)]
            assert found == [entry async for entry in before.history(counter)]
            at = found[3].at
            assert (await after.total(counter, at=at)).value == (
                await before.total(counter, at=at)
            ).value
            assert (await after.periods(counter, by="hour")).periods == (
                await before.periods(counter, by="hour")
            ).periods
    full = World()
    full.regions.put(HOME, entry_item(Entry("one", made[0].id, Decimal(1))))
    with pytest.raises(InvalidInput, match="has other items of collection 'one'"):
        await rebuilt(world, full)


def ledger_of(world: ArchivedWorld, target: World) -> Ledger:
    """Return a ledger of a rebuilt table, at home."""
    return Ledger(
        world.settings,
        region=HOME,
        given=GivenConnections(store=target.regions.replicas[HOME], archive=[world.place]),
        services=Services.of(clock=world.world.clock),
    )


async def test_rebuilt_from_the_chain_that_begins_last() -> None:
    """Where the archive was taken back and begun again, though the chain before is longer."""
    world, target = ArchivedWorld(), World()
    await filled(world, rounds=3)
    plain = world.world.instance("plain", settings=compactor_settings(fold_min=1))
    async with world.ledger() as ledger:
        await ledger.record("one", 100)
        await world.merge(by=plain)
        await ledger.record("one", 1000)
        await world.merge()
        total = await ledger.total("one", max_age=0)
    await rebuilt(world, target)
    async with ledger_of(world, target) as after:
        assert (await after.total("one", max_age=0)).value == total.value


async def test_a_reversal_is_made_once_before_and_after_a_rebuild() -> None:
    """The rebuilt table has its record, so a repeat returns what was made first."""
    world, target = ArchivedWorld(), World()
    async with world.ledger(HOME) as ledger:
        entry = await ledger.record("one", 7)
        world.replicate()
        reversal = await ledger.reverse(entry, note="returned")
        await world.merge()
    await rebuilt(world, target)
    async with ledger_of(world, target) as after:
        assert await after.reverse(entry, note="returned") == reversal
        assert (await after.total("one", max_age=0)).value == 0


async def test_rebuilt_from_what_lost_its_race() -> None:
    """Entries in segments that no chain has become entries again."""
    world, target = ArchivedWorld(), World()
    made = await filled(world, rounds=1)
    async with world.ledger() as ledger:
        more = await ledger.record("one", 100)
    world.world.regions.deliver()
    await world.world.clock.advance(30)
    rival = world.world.instance("rival", settings=world.settings, archive=[world.place])
    copy = dict(world.place.objects)
    await world.world.run_once(rival)
    assert len(world.place.objects) > len(copy)
    last = max(world.place.objects.keys() - copy.keys())
    first = min(copy)
    # As if the entry had been archived twice, by folds of which one won.
    assert last != first
    done = await rebuilt(world, target)
    assert done.entries + done.unmerged == len(made) + 1
    async with Ledger(
        world.settings,
        region=HOME,
        given=GivenConnections(store=target.regions.replicas[HOME], archive=[world.place]),
        services=Services.of(clock=world.world.clock),
    ) as after:
        assert more.id in {entry.id async for entry in after.history("one")}

"""Items that several changes share, in the archive: whole, and as they came."""

from datetime import timedelta
from decimal import Decimal
from random import Random

import orjson
import pytest
from support.archiving import ArchivedWorld, fold_of
from support.combined import combined
from support.compacting import World
from support.ledgers import HOME, WEST

from ledger.administration.archive.check import ArchiveCheck, ArchiveFault
from ledger.administration.archive.cleanup import erase_notes
from ledger.administration.archive.rebuild import Rebuild
from ledger.core import archive_pointers
from ledger.core.amounts import total_wide
from ledger.core.entry import entry_item
from ledger.core.errors import InvalidInput
from ledger.core.parts import expanded
from ledger.core.values import Entry
from ledger.reads.archive.places.opening import ReplicatedPlace
from ledger.reads.archive.segments import item_of, of_lines, segment_of, to_lines
from ledger.testing.clock import START

ID = "2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887"
WHOLE = Entry("counter", ID, Decimal("4.5"), HOME, count=3, shard=0, parts="5 -1 0.5")


def test_a_line_is_as_releases_before_parts_wrote_it() -> None:
    """An attribute among others: its text and digests are the same, so either reads the other's."""
    segment = segment_of(
        "counter",
        archive_pointers.BEGUN,
        [entry_item(WHOLE)],
        [b""],
        fold=fold_of(WHOLE.change, 1),
    )
    lines = to_lines(segment)
    header, line = map(orjson.loads, lines.splitlines())
    assert line == {
        "id": ID,
        "change": "4.5",
        "region": HOME,
        "count": 3,
        "other": {"parts": {"S": "5 -1 0.5"}},
    }
    # Calculated by the release before parts.
    assert header["digest"] == "42cbd2c153f9472c9813a84ae87a1cf30da7483eec9592fb8941bf5ba1491060"
    assert header["chain"] == "ca7acf594f05633f1a23b0665bda389e78bdbbfd485bc364ee0dde8b1aa384ba"
    (read,) = of_lines(lines, "it").lines
    assert read.entry("counter", 0) == WHOLE
    assert read.entry("counter", 0).parts == WHOLE.parts
    assert item_of(read, "counter") == entry_item(WHOLE)


@pytest.mark.parametrize("parts", [{"L": [{"N": "5"}]}, {"N": "5"}])
def test_parts_of_another_type_are_none_of_ours(parts: dict[str, object]) -> None:
    """As another writer may have archived them before there were any."""
    item = {**entry_item(WHOLE), "parts": parts}
    segment = segment_of(
        "counter", archive_pointers.BEGUN, [item], [b""], fold=fold_of(Decimal(5), 1)
    )
    (line,) = of_lines(to_lines(segment), "it").lines
    assert expanded(line.entry("counter", 0)) == [line.entry("counter", 0)]
    assert item_of(line, "counter") == item


async def archived(world: ArchivedWorld, *items: Entry) -> list[Entry]:
    """Merge items and delete them; return their changes."""
    for place, item in enumerate(items):
        world.world.regions.put((HOME, WEST)[place % 2], entry_item(item))
    await world.merge()
    assert not world.world.shown(HOME).entries
    return [part for item in items for part in expanded(item)]


async def filled(world: ArchivedWorld) -> list[Entry]:
    """Archive items of several and of one change, in two segments; return their changes."""
    first = [combined(START, 5, -1, 8), combined(START, 7, suffix=8)]
    second = combined(START + timedelta(milliseconds=1), "0.25", "0.5")
    return [*await archived(world, *first), *await archived(world, second)]


async def test_the_check_of_an_archive_finds_nothing() -> None:
    """An item is one line, and one of what the net counts."""
    world, wrong = ArchivedWorld(), list[ArchiveFault]()
    await filled(world)
    replicas, places = world.world.regions.replicas, ReplicatedPlace([world.place])
    check = ArchiveCheck(replicas, HOME, places, wrong.append)
    await check.run(["counter"])
    assert (wrong, check.entries) == ([], 3)


async def test_a_rebuilt_table_has_each_change() -> None:
    """In each region; what only a segment has that lost its race is an item again, whole."""
    world, target, other = ArchivedWorld(), World(), ArchivedWorld(seed=2)
    late = combined(START + timedelta(milliseconds=2), 1, 2)
    made = [*await filled(world), *await archived(other, late)]
    world.place.objects |= other.place.objects
    home = target.regions.replicas[HOME]
    rebuild = Rebuild(
        home,
        ReplicatedPlace([world.place]),
        world.settings,
        target.clock.now(),
        Random(1),  # noqa: S311 (repeatable)
    )
    done = await rebuild.run()
    assert (done.entries, done.unmerged) == (3, 1)
    assert home.table.get(("counter", late.id)) == entry_item(late)
    target.regions.deliver()
    world.world.regions = target.regions
    for region in (HOME, WEST):
        async with world.ledger(region) as ledger:
            assert [one async for one in ledger.history("counter")] == made
            total = await ledger.total("counter", max_age=0)
            assert total.value == total_wide(one.change for one in made)


async def test_a_change_that_shares_its_item_has_no_note_to_erase() -> None:
    """The error says why; the id of its item has none either."""
    world = ArchivedWorld()
    part = (await filled(world))[0]
    home, places = world.world.regions.replicas[HOME], ReplicatedPlace([world.place])
    with pytest.raises(InvalidInput, match=rf"entry {part.id} shares its item .* no notes to era"):
        await erase_notes(home, places, "counter", [part.id], shards=1)
    assert await erase_notes(home, places, "counter", [part.id[:-4]], shards=1) == 0

"""Entries are in the archive before their fold, and the history goes on into it."""

import gzip
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from random import Random

import orjson
import pytest
from prometheus_client import CollectorRegistry
from support.archiving import URL, archived_settings
from support.compacting import World
from support.ledgers import HOME, SOUTH, WEST, seeded

from compactor.archive_object import ArchiveObject
from compactor.archiver import Archiver, PendingSegment, check_places, settled_upto
from compactor.merge_plan import MergeRules, Observation
from compactor.metrics import CompactorMetrics
from compactor.observation import CollectionViews
from ledger.core.archive_pointers import CHAIN_BYTES
from ledger.core.entry import entry_item
from ledger.core.errors import ArchiveDamaged, ArchiveError, ContractConflict
from ledger.core.fold import Collection
from ledger.core.ids import EPOCH, EntryIds, sort_key
from ledger.core.values import Entry, NetChange
from ledger.reads.archive import objects
from ledger.reads.archive.access import archived_of
from ledger.reads.archive.places.memory import MemoryPlace
from ledger.reads.archive.places.opening import ReplicatedPlace
from ledger.reads.archive.reader import ArchiveReader
from ledger.reads.history import HistoryRange, history
from ledger.runtime.services import Services
from ledger.testing.clock import ManualClock

REGIONS = (HOME, WEST, SOUTH)
RULES = MergeRules(home=HOME, settle=10, fold_max=10, fold_min=1, fold_age=60, prune_min=1)


async def whole_history(
    world: World, places: Sequence[MemoryPlace], region: str = WEST, counter: str = "counter"
) -> list[Entry]:
    """Return the history of a counter from table and archive."""
    found = history(
        world.regions.replicas[region],
        HistoryRange(counter),
        consistent=True,
        page_size=2,
        archive=ArchiveReader(ReplicatedPlace(places)),
    )
    return [entry async for entry in found]


async def test_history_outlives_merging() -> None:
    """After fold, delete and clean each region still shows every entry, each once, in order."""
    world, place = World(), MemoryPlace(URL)
    one = world.instance(settings=archived_settings(), archive=[place])
    made = []
    for _ in range(4):
        made += await world.settled(entries=6)
        for _ in range(3):
            assert (await world.run_once(one)).is_success
            assert world.is_right()
            for region in REGIONS:
                shown = [entry.id for entry in await whole_history(world, [place], region)]
                assert shown == sorted(map(str, made))
    assert not world.shown(WEST).entries
    net = world.shown(WEST).net
    assert archived_of(net, "counter").number == 4
    reader = ArchiveReader(ReplicatedPlace([place]))
    segments = [segment async for segment in reader.walk("counter", archived_of(net, "counter"))]
    assert [segment.number for segment in segments] == [4, 3, 2, 1]
    assert segments[-1].previous == bytes(CHAIN_BYTES)
    for name, data in place.objects.items():
        assert objects.whole_index(data, name)


async def test_object_is_a_gzip_file_of_json_lines() -> None:
    """Any tool reads an object: its segments' headers and entries, then the index."""
    world, place = World(), MemoryPlace(URL)
    one = world.instance(settings=archived_settings(), archive=[place])
    await world.settled(entries=6, counter="one")
    await world.settled(entries=6, counter="two")
    await world.run_once(one)
    (data,) = place.objects.values()
    lines = [orjson.loads(line) for line in gzip.decompress(data).splitlines()]
    assert len(lines) == 2 * 7 + 1
    assert {line.get("partition") for line in lines} == {"one", "two", None}


@pytest.mark.parametrize("seed", range(8))
async def test_any_flipped_byte_is_found(seed: int) -> None:
    """No byte of an object can change without notice."""
    world, place = World(), MemoryPlace(URL)
    one = world.instance(settings=archived_settings(), archive=[place])
    await world.settled(entries=6)
    await world.run_once(one)
    (data,) = place.objects.values()
    assert objects.whole_index(data, "it")
    random = Random(seed)  # noqa: S311 (repeatable)
    for at in range(seed, len(data), 8):
        flipped = bytearray(data)
        flipped[at] ^= 1 << random.randrange(8)
        with pytest.raises(ArchiveDamaged):
            objects.whole_index(bytes(flipped), "it")
    for end in range(seed, len(data), 8):
        with pytest.raises(ArchiveDamaged):
            objects.whole_index(data[:end], "it")


class DeafPlace(MemoryPlace):
    """A place that does not do what is asked, in one of several ways."""

    how = "fails"
    asked = 0

    async def put(self, name: str, data: bytes) -> None:
        """Fail, or keep another object."""
        self.asked += 1
        if self.how == "fails":
            raise ArchiveError("down")
        await super().put(name, data if self.how == "well" else data[:-1])


@pytest.mark.parametrize("how", ["fails", "cuts"])
async def test_nothing_is_folded_that_cannot_be_read_back(how: str) -> None:
    """While a place of the archive fails, entries stay; later they are folded as ever."""
    world, place, other = World(), DeafPlace(URL), MemoryPlace("file:///b")
    place.how = how
    one = world.instance(settings=archived_settings(), archive=[other, place])
    made = await world.settled(entries=6)
    report = await world.run_once(one)
    assert not report.is_success
    assert (report.folds, report.merged) == (0, 0)
    assert world.shown(WEST).net is None
    place.how = "well"
    assert (await world.run_once(one)).folds == 1
    assert await whole_history(world, [place]) == await whole_history(world, [other])
    assert [entry.id for entry in await whole_history(world, [place])] == sorted(map(str, made))


async def test_what_waits_for_a_place_is_counted() -> None:
    """Each fold, and for how long; the place is asked once for an object that all of them share."""
    world, place = World(), DeafPlace(URL)
    one = world.instance(settings=archived_settings(), archive=[place])
    for counter in ("one", "two", "three"):
        await world.settled(entries=6, counter=counter)
    report = await world.run_once(one)
    assert (report.archive_waits, report.folds, place.asked) == (3, 0, 1)
    assert one.metric("compactor_archive_waits_total") == 3
    assert one.metric("compactor_archive_waiting_seconds") == 0
    await world.clock.advance(100)
    assert (await world.run_once(one)).archive_waits == 3
    waiting = one.metric("compactor_archive_waiting_seconds")
    assert waiting is not None
    assert waiting > 100
    place.how = "well"
    assert (await world.run_once(one)).archive_waits == 0
    assert one.metric("compactor_archive_waiting_seconds") == 0
    assert one.metric("compactor_archive_entries_total") == 18
    labels = {"region": HOME, "place": URL, "operation": "put", "outcome": "failed"}
    assert one.metric("ledger_archive_requests_total", **labels) == 2


async def test_archive_begins_after_what_was_merged_before() -> None:
    """What was merged without an archive is the base of the chain, and in no segment."""
    world, place = World(), MemoryPlace(URL)
    before = await world.settled(entries=6)
    await world.run_once(world.instance("before"))
    one = world.instance("one", settings=archived_settings(), archive=[place])
    made = await world.settled(entries=6)
    for _ in range(3):
        await world.run_once(one)
    head = archived_of(world.shown(WEST).net, "counter")
    assert (head.number, head.base_count, head.since) == (1, 6, str(before[-1]))
    assert [entry.id for entry in await whole_history(world, [place])] == sorted(map(str, made))
    assert world.is_right()


async def test_chain_ends_where_the_archive_is_taken_back() -> None:
    """A fold without an archive leaves out what the net said of it; another chain may begin."""
    world, place = World(), MemoryPlace(URL)
    kept = world.instance("kept", settings=archived_settings(), archive=[place])
    await world.settled(entries=6)
    await world.run_once(kept)
    await world.settled(entries=6)
    without = world.instance("without")
    for _ in range(2):
        await world.run_once(without)
    assert archived_of(world.shown(WEST).net, "counter").number == 0
    await world.settled(entries=6)
    for _ in range(3):
        await world.run_once(kept)
    head = archived_of(world.shown(WEST).net, "counter")
    assert (head.number, head.base_count) == (1, 12)
    assert world.is_right()


def id_at(microseconds: int) -> str:
    """Return the id of an entry."""
    return sort_key(EPOCH + timedelta(microseconds=microseconds), 7)


@pytest.mark.parametrize(
    ("waiting", "upto", "expected"),
    [
        ({}, None, 1_000_000),
        ({HOME: ["foreign"]}, None, 1_000_000),
        ({HOME: [id_at(700)]}, None, 699),
        ({SOUTH: [id_at(700)], HOME: [id_at(800)]}, None, 699),
        ({}, id_at(500), 499),
        ({HOME: [id_at(700)]}, id_at(500), 499),
        ({HOME: [id_at(300)]}, id_at(500), 299),
        ({HOME: [id_at(0)]}, None, 0),
        ({}, "foreign", 0),
    ],
)
def test_what_has_settled(waiting: dict[str, list[str]], upto: str | None, expected: int) -> None:
    """Up to `settle` before the look, what waits in any region, and how far each was read."""
    folded = [id_at(100)]
    views = {
        region: Collection(dict.fromkeys([*folded, *waiting.get(region, ())], Decimal(1)))
        for region in REGIONS
    }
    began = EPOCH + timedelta(seconds=11)
    observed = CollectionViews(Observation("counter", None, views), at=0, began=began, upto=upto)
    assert settled_upto(observed, folded, RULES) == expected


@pytest.mark.parametrize(
    ("regions", "is_refused"),
    [
        ([HOME], True),
        ([HOME, HOME], True),
        ([HOME, WEST], False),
        ([WEST], False),
        ([HOME, None], False),
        ([], False),
    ],
)
def test_a_place_must_be_outside_home(regions: list[str | None], is_refused: bool) -> None:  # noqa: FBT001
    """One is enough; a folder is in no region."""
    if is_refused:
        with pytest.raises(ContractConflict, match="would be lost with it"):
            check_places(regions, home=HOME)
    else:
        check_places(regions, home=HOME)


class Filler:
    """Adds segments of one entry each to an archive, each of a collection of its own."""

    def __init__(self) -> None:
        self.clock, self.place = ManualClock(), MemoryPlace(URL)
        metrics = CompactorMetrics(CollectorRegistry())
        self.archiver = Archiver(
            [self.place],
            urls=(URL,),
            services=Services.of(clock=self.clock, randomness=seeded(1)),
            metrics=metrics,
            waiting=PendingSegment(metrics),
        )
        self._added = 0

    def add(self) -> ArchiveObject:
        """Add a segment; return its object."""
        self._added += 1
        counter, key = f"counter-{self._added}", id_at(self._added)
        item = entry_item(Entry(counter, key, Decimal(1)))
        view = Collection({key: Decimal(1)})
        view.items = {key: item}
        observation = Observation(counter, None, {HOME: view})
        observed = CollectionViews(observation, at=0, began=self.clock.now())
        fold = NetChange(Decimal(1), 1, EntryIds.of_sort_keys([key]), "v", key, HOME)
        _, made = self.archiver.add(observed, fold, RULES)
        assert made is not None
        return made


async def test_collections_share_an_object_until_it_is_put_or_half_an_hour_old() -> None:
    """So the last of its folds has half an hour in which it may be signed."""
    filler = Filler()
    first = filler.add()
    assert filler.add() is first
    await filler.clock.advance(objects.SIGNED_WITHIN.total_seconds() / 2)
    assert filler.add() is first
    await filler.clock.advance(1)
    second = filler.add()
    assert second is not first
    await filler.archiver.put(second)
    third = filler.add()
    assert third not in (first, second)
    await filler.archiver.put(first)
    assert filler.add() is third
    for made, segments in ((first, 3), (second, 1)):
        assert len(objects.whole_index(filler.place.objects[made.name], "it")) == segments


async def test_an_object_that_is_full_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next segment begins another."""
    monkeypatch.setattr("compactor.archiver.OBJECT_BYTES", 1)
    filler = Filler()
    assert filler.add() is not filler.add()


async def test_a_fold_whose_segment_could_not_be_read_is_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its entries stay, and the pass says what to do."""
    monkeypatch.setattr(objects, "LINES_BYTES_MAX", 700)
    world, place = World(), MemoryPlace(URL)
    one = world.instance(settings=archived_settings(), archive=[place])
    await world.settled(entries=6)
    report = await world.run_once(one)
    assert (report.archive_waits, report.folds, place.objects) == (1, 0, {})
    assert "compactor.fold_max" in report.sentence() + " ".join(report.hindrances)

"""The search led by hints: few reads, nothing lost, and a full search as the safety net."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from support.compacting import SETTLE, World
from support.ledgers import HOME, SOUTH, WEST, net

from compactor.discovery.hints import HintBook, delete_hints, read_hints
from compactor.report import CompactorReport
from ledger.core import keys
from ledger.core.entry import Item, entry_id
from ledger.core.errors import AccessDenied, Throttled, Unreachable
from ledger.core.hints import HINT_PARTITIONS, Hint, hint_for
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import Fault, FaultCall, Lost, Raises
from ledger.store.writes import BatchOutcome, BatchWrite
from ledger.testing.clock import START
from ledger.writes.hint_writer import leave_hints

SCAN_EVERY = 300.0
SPAN = SETTLE / 3


def hint_of(counter: str, *, seconds: float = 0.0) -> Hint:
    """Return the hint for a change made so long after the start."""
    hint = hint_for(counter, START, settle=SETTLE)
    assert hint is not None
    return Hint(counter, hint.ripe.replace(second=int(seconds)))


def hinted(world: World, counter: str = "counter", *, region: str = WEST) -> None:
    """Leave a hint now, as a writer in some region does."""
    hint = hint_for(counter, world.clock.now(), settle=SETTLE)
    assert hint is not None
    world.regions.put(region, hint.item)


def hints_shown(world: World, region: str = HOME) -> list[str]:
    """Return the counters that a region's hints name."""
    partitions = world.regions.replicas[region].table.partitions
    return sorted(
        key.partition("#")[2] for name in HINT_PARTITIONS for key in partitions.get(name, {})
    )


def figures(report: CompactorReport) -> tuple[bool, int, int, int]:
    """Return whether the table was searched, collections visited, entries merged and deleted."""
    return report.searched, report.collections, report.merged, report.deleted


async def searched(world: World, **overrides: Any) -> Any:
    """Return an instance that has just searched the whole table."""
    one = world.instance(**{"scan_every": SCAN_EVERY, **overrides})
    assert (await world.run_once(one)).searched
    return one


async def test_hints_lead_through_a_whole_merge() -> None:
    """Between two searches a hint leads pass after pass there, until nothing is left to do."""
    world = World()
    one = await searched(world)
    hinted(world)
    await world.settled(entries=6)
    await world.clock.advance(SPAN)
    found = [figures(await world.run_once(one)) for _ in range(4)]
    assert found == [(False, 1, 6, 0), (False, 1, 0, 6), (False, 1, 0, 0), (False, 0, 0, 0)]
    assert hints_shown(world) == hints_shown(world, SOUTH) == []
    net = world.shown(SOUTH).net
    assert net is not None
    assert (net.count, net.merged, world.shown(SOUTH).entries) == (6, (), {})
    assert world.is_right()
    assert one.metric("compactor_hints_total", action="read") == 3
    assert one.metric("compactor_hints_total", action="deleted") == 1


async def test_a_young_hint_waits() -> None:
    """Before its span has settled a hint is not even read, so nothing is observed for it."""
    world = World()
    one = await searched(world)
    hinted(world)
    world.write(entries=6)
    report = await world.run_once(one)
    assert (report.hints, report.collections, report.due) == (0, 0, 0)
    assert hints_shown(world) == ["counter"]


async def test_another_leader_goes_on_where_one_died() -> None:
    """A half-finished merge is in no process's memory: a new leader finds it by the same hint."""
    world = World()
    one = await searched(world)
    hinted(world)
    await world.settled(entries=6)
    await world.clock.advance(SPAN)
    assert figures(await world.run_once(one)) == (False, 1, 6, 0)
    found = [
        figures(await world.run_once(world.instance(owner, scan_every=SCAN_EVERY)))
        for owner in ("two", "three")
    ]
    assert found == [(False, 1, 0, 6), (False, 1, 0, 0)]


async def test_the_search_leaves_hints_for_what_it_finds() -> None:
    """What the search alone finds is merged to its end by hints, without another search."""
    world = World()
    await world.settled(entries=6)
    one = world.instance(scan_every=SCAN_EVERY)
    found = [figures(await world.run_once(one)) for _ in range(4)]
    assert found == [(True, 1, 6, 0), (False, 1, 0, 6), (False, 1, 0, 0), (False, 0, 0, 0)]
    assert hints_shown(world) == []


async def test_a_lost_hint_costs_a_wait() -> None:
    """Entries that no hint names are found when the next search begins, and not before."""
    world = World()
    one = await searched(world)
    await world.settled(entries=6)
    assert figures(await world.run_once(one)) == (False, 0, 0, 0)
    await world.clock.advance(SCAN_EVERY)
    assert figures(await world.run_once(one)) == (True, 1, 6, 0)


async def test_a_pass_that_searches_early_is_asked_to() -> None:
    """It says from when on the table is searched; asked to, it searches, and later passes go on."""
    world = World()
    one = await searched(world)
    await world.settled(entries=6)
    report = await world.run_once(one)
    due_at = (START + timedelta(seconds=SCAN_EVERY)).isoformat(timespec="seconds")
    assert report.next_search == due_at.replace("+00:00", "Z")
    assert f"the table is not searched before {report.next_search}" in report.sentence()
    report = await world.run_once(one, search=True)
    assert (figures(report), report.next_search) == ((True, 1, 6, 0), "")
    assert figures(await world.run_once(one)) == (False, 1, 0, 6)


@pytest.mark.parametrize("region", [WEST, SOUTH])
async def test_a_pass_without_a_visit_sees_a_region_that_is_down(region: str) -> None:
    """It would merge nothing, and a pass of the service would say that the region is back."""
    world = World()
    one = await searched(world)
    one.faults[region] = lambda _call: Raises(Unreachable("no connection"))
    report = await world.run_once(one)
    assert (report.collections, report.unreadable, report.is_success) == (0, region, False)
    assert f"region {region} cannot be read, so merging waits" in report.sentence()


async def test_without_a_safety_net_a_lost_hint_is_lost() -> None:
    """The negative control: a search that never begins again merges nothing that no hint names."""
    world = World()
    one = await searched(world, scan_every=1e9)
    await world.settled(entries=6)
    for _ in range(5):
        await world.clock.advance(SCAN_EVERY)
        assert figures(await world.run_once(one)) == (False, 0, 0, 0)


async def test_a_needless_hint_is_deleted_at_once() -> None:
    """A hint of a counter with nothing to merge costs one look."""
    world = World()
    one = await searched(world)
    hinted(world, "idle")
    await world.clock.advance(SETTLE + SPAN)
    world.regions.deliver()
    report = await world.run_once(one)
    assert (report.collections, report.folds, report.seconds) == (1, 0, 0)
    assert hints_shown(world) == []


async def test_a_hint_stays_while_a_region_lacks_the_entries() -> None:
    """Settled entries that one region does not show yet keep the hint until they can be merged."""
    world = World()
    one = await searched(world)
    hinted(world, region=HOME)
    world.regions.isolate(SOUTH)
    world.write(entries=6)
    await world.clock.advance(SETTLE + SPAN + 1)
    for _ in range(2):
        assert figures(await world.run_once(one))[1:] == (1, 0, 0)
    assert hints_shown(world) == ["counter"]
    world.regions.heal()
    world.regions.deliver()
    assert (await world.run_once(one)).merged == 6


async def test_every_shard_of_a_counter_is_visited() -> None:
    """A hint names a counter; it stays until the last of its shards has nothing left."""
    world = World()
    settings = world.instance().compactor.settings
    settings = settings.replace(shards={"wide": 3}, compactor={"scan_every": SCAN_EVERY})
    one = world.instance(settings=settings)
    assert (await world.run_once(one)).searched
    hinted(world, "wide")
    await world.settled(entries=6, counter="wide")
    await world.settled(entries=6, counter=keys.partition_key("wide", 2))
    await world.clock.advance(SPAN)
    reports = [await world.run_once(one) for _ in range(4)]
    assert [report.collections for report in reports] == [3, 3, 3, 0]
    assert [report.merged for report in reports] == [12, 0, 0, 0]
    assert hints_shown(world) == []


@pytest.mark.parametrize(
    "fault", [Raises(AccessDenied("not for you")), Raises(Throttled("slow down")), Lost()]
)
async def test_where_no_hints_can_be_left_the_search_goes_on(fault: Fault) -> None:
    """What it found is merged all the same, and the search does not move on past it."""
    world = World()
    await world.settled(entries=6)
    one = world.instance(scan_every=SCAN_EVERY)
    one.faults[HOME] = lambda call: fault if call.operation == "write_batch" else None
    assert figures(await world.run_once(one)) == (True, 1, 6, 0)
    one.faults.clear()
    assert figures(await world.run_once(one)) == (True, 1, 0, 6)
    assert figures(await world.run_once(one)) == (False, 1, 0, 0)


async def test_a_hint_that_cannot_be_deleted_leads_there_again() -> None:
    """It costs one more look, and the pass is none the worse for it."""
    world = World()
    one = await searched(world)
    hinted(world, "idle")
    await world.clock.advance(SETTLE + SPAN)
    world.regions.deliver()
    one.faults[HOME] = lambda call: (
        Raises(Throttled("slow down")) if call.operation == "write_batch" else None
    )
    report = await world.run_once(one)
    assert report.is_success
    one.faults.clear()
    assert figures(await world.run_once(one)) == (False, 1, 0, 0)
    assert hints_shown(world) == []


async def test_unreadable_hints_are_an_error_of_the_home_region() -> None:
    """A home region that does not answer is reported as ever."""
    world = World()
    one = await searched(world)
    slices = iter([None])  # read first, before the pass

    def fault(call: FaultCall) -> Fault | None:
        gone = Raises(Unreachable("no connection"))
        return next(slices, gone) if call.operation == "query" else None

    one.faults[HOME] = fault
    report = await world.run_once(one)
    assert not report.searched
    assert one.metric("compactor_errors_total", kind="Unreachable") == 1


SHARDS: Mapping[str, int] = {"wide": 2}


def test_book_is_in_order_of_time() -> None:
    """Collections come in the order of the oldest hint of their counter, shard by shard."""
    book = HintBook(lambda counter: SHARDS.get(counter, 1))
    for counter, seconds in (("b", 1), ("wide", 2), ("a", 3), ("b", 4)):
        book.add(hint_of(counter, seconds=seconds))
    assert book.partitions() == ["b", "wide", "~1~wide", "a"]
    assert len(book) == 3
    assert "wide" in book
    assert "c" not in book


def test_book_keeps_the_newest_hint_until_all_is_done() -> None:
    """Of several hints of a counter one is kept, and goes with the last of its shards."""
    book = HintBook(lambda counter: SHARDS.get(counter, 1))
    old, new = hint_of("wide", seconds=1), hint_of("wide", seconds=2)
    book.add(old)
    book.add(new)
    assert book.take_served() == [old]
    book.finish("wide")
    book.finish("other")
    book.finish("~lease")
    assert book.take_served() == []
    book.finish("~1~wide")
    assert book.take_served() == [new]
    assert book.take_served() == []


async def test_hints_are_read_in_pages_and_up_to_a_time() -> None:
    """All hints up to the bound come, oldest first, whichever partition and page they are on."""
    store = MemoryStore(HOME, page_items_max=3)
    made = [hint_of(f"c{number}", seconds=number) for number in range(50)]
    assert await leave_hints(store, made)
    store.table.set((HINT_PARTITIONS[1], "2026"), {"pk": {"S": "~hint-1"}, "sk": {"S": "2026"}})
    found, pages = await read_hints(store, last=made[30].sort_key)
    assert found == made[:31]
    assert pages > 10
    assert await delete_hints(store, made)
    assert await read_hints(store, last="9") == ([], 4)


@pytest.mark.parametrize("left", ["unprocessed", "unknown"])
async def test_hints_of_which_one_may_be_missing_are_not_left(left: str) -> None:
    """Then the cursor of the search may not advance: nothing would lead to that collection."""

    class Half(MemoryStore):
        async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
            await super().write_batch(writes[1:])
            return BatchOutcome((0,), ()) if left == "unprocessed" else BatchOutcome((), (0,))

    made = [hint_of(f"c{number}", seconds=number) for number in range(3)]
    assert not await leave_hints(Half(HOME), made)
    assert await leave_hints(MemoryStore(HOME), made)


def test_book_keeps_a_hint_that_was_asked() -> None:
    """A later ordinary one does not take its place, and the latest time is asked."""
    book = HintBook(lambda _counter: 2)
    moments = [START + timedelta(seconds=number) for number in range(3)]
    first, second = (Hint("a", moment, asked=True) for moment in moments[:2])
    for hint in (first, second, Hint("a", moments[2])):
        book.add(hint)
    for partition in book.partitions():
        assert book.asked_until(partition) == moments[1]
    assert book.asked_until("b") is None
    assert set(book.take_served()) == {first, Hint("a", moments[2])}


async def test_what_is_young_at_a_search_does_not_wait_for_the_next() -> None:
    """Entries that no writer's hint names are merged once they have settled, without a search."""
    world = World()
    one = world.instance(scan_every=SCAN_EVERY)
    world.write(entries=6)
    world.regions.deliver()
    assert figures(await world.run_once(one)) == (True, 0, 0, 0)
    await world.clock.advance(SETTLE)
    assert figures(await world.run_once(one)) == (False, 0, 0, 0)  # the span of its hint
    await world.clock.advance(SPAN)
    found = [figures(await world.run_once(one)) for _ in range(4)]
    assert found == [(False, 1, 6, 0), (False, 1, 0, 6), (False, 1, 0, 0), (False, 0, 0, 0)]
    assert world.is_right()


async def test_a_hint_for_what_is_young_that_cannot_be_left_repeats_the_search() -> None:
    """The place of the search is kept only once its hints are written."""
    world = World()
    one = world.instance(scan_every=SCAN_EVERY)
    world.write(entries=6)
    world.regions.deliver()
    one.faults[HOME] = lambda call: (
        Raises(Throttled("slow down")) if call.operation == "write_batch" else None
    )
    assert (await world.run_once(one)).searched
    one.faults.clear()
    assert [(await world.run_once(one)).searched for _ in range(2)] == [True, False]


@pytest.mark.parametrize("length", [996, 997, 1024])
async def test_a_counter_is_led_to_however_long_its_id_is(length: int) -> None:
    """A writer's hint leads the next pass to it, and is deleted once nothing is left to do."""
    world, name = World(), "c" * length
    one = await searched(world)
    hinted(world, name)
    await world.settled(entries=6, counter=name)
    reports = [await world.run_once(one) for _ in range(3)]
    assert [figures(report) for report in reports] == [
        (False, 1, 6, 0),
        (False, 1, 0, 6),
        (False, 1, 0, 0),
    ]
    await world.run_once(one)
    assert not any(
        world.regions.replicas[HOME].table.partitions.get(place) for place in HINT_PARTITIONS
    )


@pytest.mark.parametrize("entries", [2, 6])
async def test_a_hint_for_what_is_young_is_left_where_it_will_be_worth_a_visit(
    entries: int,
) -> None:
    """With fewer entries than `fold_min` a visit would find nothing to do."""
    world = World()
    world.write(entries=entries)
    world.regions.deliver()
    await world.run_once(world.instance(scan_every=SCAN_EVERY))
    assert hints_shown(world) == (["counter"] if entries >= 3 else [])


@pytest.mark.parametrize("damage", ["entry", "amount", "net", "digest", "generation", "sum"])
async def test_a_damaged_item_is_found_however_small_the_collection_is(damage: str) -> None:
    """The search sees what no total of the counter can be taken with, and the pass reports it."""
    world = World()
    world.regions.put(HOME, damaged_item(damage))
    world.regions.deliver()
    report = await world.run_once(world.instance(scan_every=SCAN_EVERY))
    assert [*report.quarantined] == ["counter"]
    assert "damaged" in report.sentence()


def damaged_item(damage: str) -> Item:
    """Return the only item of a counter, which cannot be counted."""
    key: Item = {"pk": {"S": "counter"}, "sk": {"S": str(entry_id(START, 1))}}
    whole = net("counter", 5, ())
    return {
        "entry": key,
        "amount": {**key, "change": {"S": "5"}},
        "net": {name: value for name, value in whole.items() if name != "until"},
        "digest": {**whole, "change": {"N": "50"}},
        "generation": net("counter", 5, (), generation=2),
        "sum": {"pk": {"S": "counter"}, "sk": {"S": "~sum#eu.1#0"}, "version": {"N": "1"}},
    }[damage]

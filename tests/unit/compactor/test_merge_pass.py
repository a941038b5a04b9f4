"""One pass after another on a virtual clock: fold, hold, delete, clean, and what makes it wait."""

from collections.abc import Callable

import anyio
import pytest
from support.compacting import HOLD, SETTLE, World, compactor_settings, snapshot
from support.ledgers import HOME, SOUTH, WEST

from compactor.merge_plan import UNDELETED_SECONDS
from compactor.pass_terms import rules_of
from compactor.report import CompactorReport
from ledger.core.errors import Throttled, Unreachable
from ledger.store.wrappers.faults import Fault, FaultCall, Late, Lost, NeverArrived, Raises

REGIONS = (HOME, WEST, SOUTH)


def only(operation: str, fault: Fault) -> Callable[[FaultCall], Fault | None]:
    """Let every call of one operation go wrong."""
    return lambda call: fault if call.operation == operation else None


def always(fault: Fault) -> Callable[[FaultCall], Fault | None]:
    """Let every call go wrong."""
    return lambda _call: fault


def figures(report: CompactorReport) -> tuple[int, int, int]:
    """Return folds, entries merged and entries deleted."""
    return report.folds, report.merged, report.deleted


async def test_fold_then_delete_then_clean() -> None:
    """The first pass folds, the next deletes, the next drops the ids; then nothing is left."""
    world = World()
    await world.settled(entries=6)
    one = world.instance()
    found = []
    for _ in range(4):
        report = await world.run_once(one)
        assert report.is_success
        assert report.is_whole
        assert world.is_right()
        net = world.shown(WEST).net
        assert net is not None
        found.append((*figures(report), len(world.shown(WEST).entries), len(net.merged), net.count))
    assert found == [
        (1, 6, 0, 6, 6, 6),
        (0, 0, 6, 0, 6, 6),
        (1, 0, 0, 0, 0, 6),
        (0, 0, 0, 0, 0, 6),
    ]


async def test_a_delete_that_is_lost_on_its_way_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its id stays named for as long as a region shows the entry; for an hour it may yet come."""
    world = World()
    [entry, *_] = await world.settled(entries=6)
    one = world.instance()
    await world.run_once(one)
    item = world.regions.replicas[WEST].table.get(("counter", str(entry)))
    await world.run_once(one)
    world.regions.replicas[WEST].table.set(("counter", str(entry)), item)
    await world.settled(entries=3)
    report = await world.run_once(one)
    assert (report.folds, report.undeleted) == (1, 0)
    assert one.metric("compactor_undeleted_entries") == 0
    await world.run_once(one)
    await world.clock.advance(UNDELETED_SECONDS)
    await world.settled(entries=3)
    report = await world.run_once(one)
    assert (report.undeleted, report.undeleted_in) == (1, {"counter": f"'{entry}' in {WEST}"})
    assert f"their ids stay named: 'counter' shows '{entry}' in {WEST}" in report.sentence()
    assert report.is_success
    assert one.metric("compactor_undeleted_entries") == 1
    assert f"as {entry} in {WEST}; their ids stay named" in caplog.text
    world.regions.replicas[WEST].table.set(("counter", str(entry)), None)
    await world.run_once(one)
    await world.settled(entries=3)
    assert (await world.run_once(one)).undeleted == 0
    assert one.metric("compactor_undeleted_entries") == 0
    assert world.is_right()


async def test_unsettled_entries_stay() -> None:
    """At rest a collection is one net and the entries that are too young."""
    world = World()
    await world.settled(entries=6)
    one = world.instance()
    for _ in range(3):
        fresh = world.write(entries=3)
        await world.run_once(one)
        assert world.is_right()
    for region in REGIONS:
        shown = world.shown(region)
        assert shown.net is not None
        assert {str(entry) for entry in fresh} <= shown.entries.keys()
    await world.clock.advance(SETTLE)
    for _ in range(4):
        await world.run_once(one)
    for region in REGIONS:
        shown = world.shown(region)
        assert not shown.entries
        assert shown.net is not None
        assert shown.net.count == 15
    assert world.is_right()


async def test_report_of_a_search() -> None:
    """The report says what was waiting when the pass began, and who did it."""
    world = World()
    await world.settled(entries=6, counter="a")
    await world.settled(entries=2, counter="b")
    report = await world.run_once(world.instance())
    assert (report.backlog, report.due, report.collections) == (8, 1, 1)
    assert (report.led, report.epoch, report.pages) == (True, world.lease().epoch, 4)
    assert report.seconds >= HOLD
    assert not report.is_idle


@pytest.mark.parametrize("start", [0.1, 1.7, 20.55, 48.493, 99_999.9, 8.2e6])
async def test_hold_is_respected(start: float) -> None:
    """Nothing of a collection is written earlier than a hold after it was read, and then it is."""
    world = World()
    world.clock.elapsed = start
    await world.settled(entries=6)
    reads: list[float] = []

    async def note() -> None:
        reads.append(world.clock.monotonic())

    world.regions.before_page = note
    one = world.instance(lease=100, heartbeat=50)  # slices are read once, before the pass
    for _ in range(3):
        reads.clear()
        world.writes.clear()
        report = await world.run_once(one)
        assert report.is_whole
        assert world.writes
        assert min(at for at, _ in world.writes) >= max(reads) + HOLD - 1e-6


async def test_holds_run_side_by_side() -> None:
    """Each collection is acted on when it is a hold old itself, however slowly others are read."""
    world = World()
    for number in range(4):
        await world.settled(counter=f"c{number}")
    reads: list[float] = []

    async def slowly() -> None:
        await world.clock.sleep(0.4)
        reads.append(world.clock.monotonic())

    world.regions.before_page = slowly
    world.writes.clear()
    began = world.clock.monotonic()
    report = await world.run_once(world.instance(concurrency=1))
    assert report.folds == 4
    acted = sorted(at for at, key in world.writes if key.startswith("~net"))
    assert acted[0] < max(reads) + HOLD
    assert acted[-1] - began < 3 * HOLD  # one hold after the other would take over four
    at_least = [sum(read <= at - HOLD + 1e-6 for read in reads) for at in acted]
    assert all(done >= (place + 1) * 4 for place, done in enumerate(at_least))


async def test_windows_are_held_one_by_one() -> None:
    """With more due collections than a window takes, the next wait for room."""
    world = World()
    for number in range(5):
        await world.settled(counter=f"c{number}")
    world.writes.clear()
    report = await world.run_once(world.instance(pending_max=2))
    assert report.folds == 5
    assert report.seconds >= 3 * HOLD
    moments = sorted({at for at, key in world.writes if key.startswith("~net")})
    assert len(moments) == 3


async def test_no_due_collection_needs_no_hold() -> None:
    """A pass with nothing to do ends at once."""
    world = World()
    await world.settled(entries=2)
    report = await world.run_once(world.instance())
    assert report.is_idle
    assert report.seconds == 0


@pytest.mark.parametrize("after", [0.5, HOLD - 0.5])
async def test_stop_during_hold(after: float) -> None:
    """A stop during the hold ends the pass soon, and nothing is written."""
    world = World()
    await world.settled()
    before, stop, started = snapshot(world), anyio.Event(), world.clock.monotonic()

    async def stopping() -> CompactorReport:
        await world.clock.sleep(after)
        stop.set()
        return CompactorReport()

    one = world.instance()
    report, _ = await world.drive(lambda: one.compactor.run_once(stop=stop), stopping)
    assert not report.is_whole
    assert figures(report) == (0, 0, 0)
    assert snapshot(world) == before
    assert world.clock.monotonic() - started < HOLD
    assert world.lease().released
    assert (await world.run_once(one)).folds == 1


async def test_stop_before_the_pass() -> None:
    """A stop set beforehand reads no collection."""
    world = World()
    await world.settled()
    before, stop = snapshot(world), anyio.Event()
    stop.set()
    report = await world.run_once(world.instance(), stop=stop)
    assert not report.is_whole
    assert report.collections == 0
    assert snapshot(world) == before


@pytest.mark.parametrize("region", [WEST, SOUTH])
async def test_unreadable_region_stops_merging(region: str) -> None:
    """While one region cannot be read nothing is written; afterwards merging goes on."""
    world = World()
    await world.settled()
    before, one = snapshot(world), world.instance()
    one.faults[region] = always(Raises(Unreachable("no connection")))
    report = await world.run_once(one)
    assert report.unreadable == region
    assert not report.is_success
    assert not report.is_whole
    assert snapshot(world) == before
    assert one.metric("compactor_region_unreadable_total", region=region) == 1
    assert one.metric("compactor_passes_total", outcome="waiting") == 1
    assert not one.metric("compactor_last_success_timestamp_seconds")
    one.faults.clear()
    assert (await world.run_once(one)).folds == 1


async def test_region_lost_between_windows() -> None:
    """A region that fails in the midst of a pass stops it; windows done before stand."""
    world = World()
    for number in range(3):
        await world.settled(counter=f"c{number}")
    one = world.instance(pending_max=1)
    queries = 0

    def third(call: FaultCall) -> Fault | None:
        nonlocal queries
        queries += call.operation == "query"
        return Raises(Unreachable("no connection")) if queries >= 3 else None

    one.faults[SOUTH] = third
    report = await world.run_once(one)
    assert (report.folds, report.unreadable) == (2, SOUTH)
    assert world.is_right()


async def test_paused_region_holds_back_the_next_step() -> None:
    """A region that does not get the net keeps its entries, and is right, until it does."""
    world = World()
    await world.settled(entries=6)
    world.regions.isolate(SOUTH)
    one = world.instance()
    assert figures(await world.run_once(one)) == (1, 6, 0)
    for _ in range(2):
        assert figures(await world.run_once(one)) == (0, 0, 0)
        assert world.is_right()
    assert len(world.shown(SOUTH).entries) == 6
    world.regions.heal()
    world.regions.deliver()
    assert figures(await world.run_once(one)) == (0, 0, 6)
    assert world.is_right()


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("sort_key", ["~net#0001", "2026-11-20T00:00:00.000000Z#0000000000000001"])
async def test_damaged_collection_is_left_alone(region: str, sort_key: str) -> None:
    """A damaged collection is reported and left as it is, and the others are merged."""
    world = World()
    for number in range(3):
        await world.settled(counter=f"c{number}")
    item = {"pk": {"S": "c1"}, "sk": {"S": sort_key}, "change": {"S": "one"}}
    world.regions.replicas[region].table.set(("c1", sort_key), item)
    before = [store.table.partitions["c1"].copy() for store in world.regions.replicas.values()]
    one = world.instance()
    report = await world.run_once(one)
    assert report.folds == 2
    assert (report.damaged, report.problems) == (1, [])
    assert sort_key in report.quarantined["c1"]
    assert "1 damaged collections left as they are: 'c1': " in report.sentence()
    assert report.is_success
    assert [store.table.partitions["c1"] for store in world.regions.replicas.values()] == before
    assert one.metric("compactor_errors_total", kind="DamagedItem") == 1
    assert one.metric("compactor_damaged_collections") == 1
    assert one.metric("compactor_passes_total", outcome="done") == 1


@pytest.mark.parametrize("region", REGIONS)
async def test_a_net_that_vanishes_is_left_alone(region: str) -> None:
    """A compactor that has seen a net makes no new one in its place, wherever it is gone."""
    world = World()
    await world.settled()
    one = world.instance()
    for _ in range(3):
        await world.run_once(one)
    kept = world.regions.replicas[region].table.get(("counter", "~net#0001"))
    world.regions.replicas[region].table.set(("counter", "~net#0001"), None)
    await world.settled(entries=6)
    report = await world.run_once(one)
    assert (report.folds, report.damaged) == (0, 1)
    assert f"in {region}: the net change counted 5" in report.quarantined["counter"]
    assert one.metric("compactor_errors_total", kind="NetVanished") == 1
    world.regions.replicas[region].table.set(("counter", "~net#0001"), kept)
    assert (await world.run_once(one)).folds == 1
    assert world.is_right()


async def test_overflow_is_left_alone() -> None:
    """A change with which a sum has over 38 digits waits, and is reported; others are merged."""
    world = World()
    huge = await world.settled(entries=5, counter="huge")
    for store in world.regions.replicas.values():
        for place, one in enumerate(huge[:2]):
            item = dict(store.table.partitions["huge"][str(one)])
            item["change"] = {"N": str(10**38 - 1 if place else 2)}
            store.table.set(("huge", str(one)), item)
    await world.settled(counter="small")
    instance = world.instance()
    report = await world.run_once(instance)
    assert report.folds == 2
    assert report.late > SETTLE
    await world.run_once(instance)  # deletes what was merged
    await world.clock.advance(10_000)  # from `fold_age` on a fold of it alone is tried
    report = await world.run_once(instance)
    assert "38" in report.quarantined["huge"]
    shown = world.shown(HOME, "huge")
    assert shown.net is not None
    assert (len(shown.entries), shown.net.count) == (1, 4)


@pytest.mark.parametrize("fault", [Lost(), NeverArrived(), Late()])
async def test_unknown_fold(fault: Fault) -> None:
    """After a fold without an answer, applied, not, or late, the next pass carries on exactly."""
    world = World()
    await world.settled(entries=6)
    one = world.instance()
    one.faults[HOME] = only("transact", fault)
    report = await world.run_once(one)
    assert (report.folds, report.merged, report.lost_races) == (0, 0, 1)
    assert one.metric("compactor_folds_total", outcome="unknown") == 1
    assert world.is_right()
    one.faults.clear()
    await world.run_once(one)
    for store in one.stores.values():
        while store.in_flight:
            await store.land()
    for _ in range(3):
        await world.run_once(one)
        assert world.is_right()
    net = world.shown(SOUTH).net
    assert net is not None
    assert (net.count, net.merged) == (6, ())
    assert not world.shown(SOUTH).entries


@pytest.mark.parametrize("operation", ["transact", "write_batch"])
async def test_failed_write_is_a_problem_of_one_collection(operation: str) -> None:
    """A write that DynamoDB refuses is reported, the pass goes on, and the next repeats it."""
    world = World()
    await world.settled(entries=6)
    one = world.instance()
    if operation == "write_batch":
        await world.run_once(one)
    one.faults[HOME] = only(operation, Raises(Throttled("slow down")))
    report = await world.run_once(one)
    assert report.problems == ["slow down"]
    assert one.metric("compactor_errors_total", kind="Throttled") == 1
    one.faults.clear()
    assert sum(figures(await world.run_once(one))) > 0
    assert world.is_right()


async def test_bounded_search_goes_on() -> None:
    """With a bound on pages each pass takes a part of the table, and together they merge it all."""
    world = World(page_items_max=4)
    for number in range(6):
        world.write(entries=6, counter=f"c{number}")
    await world.settled(entries=3, counter="last")
    one = world.instance(scan_segments=2, scan_pages_max=3)
    wholes = 0
    for _ in range(24):
        report = await world.run_once(one)
        assert report.pages <= 3
        wholes += report.is_whole
        assert world.is_right()
    assert wholes >= 2
    for counter in world.sum:
        assert not world.shown(SOUTH, counter).entries


async def test_metrics_of_a_pass() -> None:
    """The metrics hold what the passes did."""
    world = World()
    await world.settled(entries=6)
    one = world.instance()
    for _ in range(2):
        await world.run_once(one)
    expected = {
        "compactor_epoch": world.lease().epoch,
        "compactor_backlog_entries": 0,
        "compactor_due_collections": 1,
        "compactor_entries_merged_total": 6,
        "compactor_entries_deleted_total": 6,
        "compactor_scan_pages_total": 8,
        "compactor_pass_duration_seconds_count": 2,
        "compactor_last_success_timestamp_seconds": world.clock.now().timestamp(),
    }
    found = {name: one.metric(name) for name in expected}
    stamp = "compactor_last_success_timestamp_seconds"
    assert found.pop(stamp) == pytest.approx(expected.pop(stamp), abs=1)
    assert found == expected
    assert one.metric("compactor_folds_total", outcome="applied") == 1
    assert one.metric("compactor_passes_total", outcome="done") == 2
    assert one.metric("compactor_leader", region=HOME) == 0


def test_rules_come_from_the_settings() -> None:
    """A plan keeps to what the settings say."""
    settings = compactor_settings(fold_max=40)
    rules = rules_of(settings)
    assert (rules.home, rules.settle, rules.fold_max) == (HOME, SETTLE, 40)
    assert (rules.fold_min, rules.prune_min, rules.fold_age) == (3, 2, 10_000)
    assert rules_of(settings.replace(unmerged=["audit/*"])).unmerged == ("audit/*",)

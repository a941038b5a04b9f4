"""Watches at home: what a pass visited, and what a watch names, is looked at after the pass."""

import logging
from dataclasses import replace
from decimal import Decimal
from typing import Any

import anyio
import pytest
from support.compacting import Instance, World, compactor_settings, snapshot
from support.ledgers import HOME, WEST

from compactor.watch_check import WatchCheck
from ledger.core.contract import NO_HOME
from ledger.core.errors import Throttled
from ledger.core.watches import Phase, WatchState, state_key, state_of
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.store.reads import Page, Query
from ledger.store.wrappers.faults import Fault, FaultCall, Raises
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.watches.watcher import Watches

COUNTER = "counter"


def watching(counters: str = "count*", **bounds: Any) -> Settings:
    """Return settings with one watch, armed again 1,000 off its bound."""
    return compactor_settings().replace(watches={"low": {"counters": counters, **bounds}})


def state(world: World, counter: str = COUNTER) -> WatchState:
    """Return what the home region shows of the watch."""
    return state_of(world.regions.replicas[HOME].table.get(state_key("low", counter)))


def crossings(instance: Instance) -> float | None:
    """Return the metric of the watch."""
    return instance.metric("ledger_crossings_total", region=HOME, watch="low")


async def test_a_pass_notices_what_it_merges(caplog: pytest.LogCaptureFixture) -> None:
    """One crossing: in the report, the log and the metric; a second pass has nothing to add."""
    world = World()
    await world.settled()
    total = world.sum[COUNTER]
    instance = world.instance(settings=watching(below=int(total) + 1))
    with caplog.at_level(logging.WARNING, "ledger.watches"):
        report = await world.run_once(instance)
    assert (report.folds, report.crossings) == (1, 1)
    assert "1 crossings of watches delivered" in report.sentence()
    assert [record.message for record in caplog.records] == [
        f"watch 'low': 'counter' is {total}, below {int(total) + 1} (crossing 1)"
    ]
    assert crossings(instance) == 1
    assert (state(world).phase, state(world).value) == (Phase.DELIVERED, total)
    report = await world.run_once(instance)
    assert (report.crossings, crossings(instance)) == (0, 1)


async def test_what_no_pass_visits_is_seen_if_a_watch_names_it() -> None:
    """Unsettled changes are in the total; a pattern waits for a visit, a name does not."""
    world = World()
    world.write(entries=5)
    world.regions.deliver()
    for counters, expected in (("count*", 0), (COUNTER, 1)):
        instance = world.instance(counters, settings=watching(counters, above=-1000, rearm=-1000))
        report = await world.run_once(instance)
        assert (report.collections, report.crossings) == (0, expected)


async def test_the_shards_of_a_counter_are_one_total() -> None:
    """A visit sees one of them; the crossing has the sum of all."""
    world = World()
    await world.settled(counter="~1~counter")
    await world.settled()
    whole = int(world.sum[COUNTER]) + int(world.sum["~1~counter"])
    settings = watching(above=-1000, rearm=-1000).replace(shards={"count*": 2})
    report = await world.run_once(world.instance(settings=settings))
    assert report.crossings == 1
    assert state(world).value == whole


async def test_merging_is_the_same_with_and_without_watches() -> None:
    """The hook adds reads and the item of the watch, and changes nothing that is merged."""
    shown = []
    for settings in (compactor_settings(), watching(above=-1000, rearm=-1000)):
        world = World(seed=5)
        await world.settled(entries=30)
        await world.run_once(world.instance(settings=settings))
        world.regions.deliver()
        assert world.is_right()
        shown.append(snapshot(world))
    assert shown[0] == shown[1]


async def test_without_watches_nothing_more_is_asked() -> None:
    """No item is read at home but those of lease, scan and nets."""
    world = World()
    await world.settled()
    await world.run_once(world.instance())
    assert not [key for key in world.regions.replicas[HOME].table.partitions if "watch" in key]


async def test_a_look_that_fails_fails_no_pass(caplog: pytest.LogCaptureFixture) -> None:
    """Merging is done and reported; the next pass looks again at what is named."""
    world = World()
    await world.settled()
    instance = world.instance(settings=watching(COUNTER, above=-1000, rearm=-1000))
    is_broken = True

    def throttle(call: FaultCall) -> Fault | None:
        reads_state = call.operation == "get" and world.shown(HOME).net is not None
        return Raises(Throttled("slow down")) if is_broken and reads_state else None

    instance.faults[HOME] = throttle
    report = await world.run_once(instance)
    assert (report.folds, report.crossings, report.is_success) == (1, 0, True)
    assert "low could not be looked at" in caplog.text
    is_broken = False
    assert (await world.run_once(instance)).crossings == 1


async def test_watches_go_on_while_merging_waits() -> None:
    """A region that cannot be read stops merging; the total at home is there."""
    world = World()
    await world.settled()
    instance = world.instance(settings=watching(COUNTER, above=-1000, rearm=-1000))
    instance.faults[WEST] = lambda _call: Raises(Throttled("slow down"))
    report = await world.run_once(instance)
    assert (report.unreadable, report.folds, report.crossings) == (WEST, 0, 1)


async def test_each_watch_of_a_counter_counts() -> None:
    """Two watches of one counter are two crossings."""
    world = World()
    await world.settled()
    high = {"counters": "*", "above": -1000, "rearm": -1000}
    settings = compactor_settings().replace(watches={"low": high, "other": high})
    assert (await world.run_once(world.instance(settings=settings))).crossings == 2


async def test_a_pass_that_is_stopped_looks_at_nothing_more() -> None:
    """SIGTERM takes effect between two looks."""
    world = World()
    await world.settled()
    settings = watching(COUNTER, above=-1000, rearm=-1000)
    watcher = watcher_of(world, settings, settings)
    stop = anyio.Event()
    stop.set()
    assert (await watcher.look(stop), state(world)) == (0, WatchState())
    assert await watcher.look(anyio.Event()) == 1


async def test_totals_are_read_consistently_whatever_readers_do() -> None:
    """A replica of the home that is behind decides nothing."""
    world = World()
    await world.settled()
    settings = watching(COUNTER, above=-1000).replace(consistent_reads=False)
    asked: list[bool] = []

    class Noting(ForwardingStore):
        async def query(self, query: Query) -> Page:
            asked.append(query.consistent)
            return await super().query(query)

    watcher = watcher_of(world, settings, settings, Noting(world.regions.replicas[HOME]))
    await watcher.look(anyio.Event())
    assert asked
    assert all(asked)


def watcher_of(
    world: World, settings: Settings, current: Settings, home: Store | None = None
) -> WatchCheck:
    """Return what looks at the watches of settings, under others."""
    return WatchCheck(
        home or world.regions.replicas[HOME],
        Watches(settings),
        settings=current,
        services=Services.of(clock=world.clock, randomness=world.random),
    )


async def test_nothing_is_decided_while_the_home_moves(caplog: pytest.LogCaptureFixture) -> None:
    """The new home will decide; until then no line of the log says so for each counter."""
    world = World()
    await world.settled()
    settings = watching(COUNTER, above=-1000, rearm=-1000)
    moving = settings.under(replace(settings.terms, home=NO_HOME), home=HOME)
    watcher = watcher_of(world, settings, moving)
    assert await watcher.look(anyio.Event()) == 0
    assert (state(world), caplog.records) == (WatchState(), [])


async def test_two_compactors_deliver_a_crossing_once() -> None:
    """Both may believe that they lead; the state decides."""
    world = World()
    await world.settled()
    settings = watching(COUNTER, above=-1000, rearm=-1000)
    one, other = (world.instance(name, settings=settings) for name in ("one", "two"))
    reports = await world.drive(one.compactor.run_once, other.compactor.run_once)
    assert sum(report.crossings for report in reports) == 1
    assert state(world).number == 1
    assert state(world).value == Decimal(world.sum[COUNTER])

"""The job on a virtual clock: one leads, another takes over, the home moves, lag is measured."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio
import pytest
from support.compacting import (
    HEARTBEAT,
    HOLD,
    LEASE,
    Instance,
    World,
    compactor_settings,
)
from support.ledgers import HOME, SOUTH, WEST
from support.tiers import with_slow

from compactor.report import CompactorReport
from ledger.core.errors import LeaseLost, Unreachable
from ledger.primitives.leases.holding import BEATS_MAX
from ledger.primitives.leases.lease_rules import lease_key, record_item
from ledger.store.wrappers.faults import Fault, FaultCall, Raises

REGIONS = (HOME, WEST, SOUTH)
DEAD = Raises(Unreachable("killed"))
TO_WEST = compactor_settings(home=WEST)


def after(seconds: float, world: World, do: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    """Return a work that does something after a time."""

    async def later() -> None:
        await world.clock.sleep(seconds)
        do()

    return later


async def test_one_leads_and_the_other_waits() -> None:
    """Of two instances at once one leads; the other waits its turn and then finds less to do."""
    world = World()
    await world.settled(entries=6)
    one, two = world.instance("one"), world.instance("two")
    reports = await world.drive(one.compactor.run_once, two.compactor.run_once)
    assert all(report.led for report in reports)
    epoch = world.lease().epoch
    assert sorted(report.epoch for report in reports) == [epoch - 1, epoch]
    assert sorted((report.folds, report.deleted) for report in reports) == [(0, 6), (1, 0)]
    assert world.is_right()


async def test_an_instance_that_does_not_wait_does_nothing() -> None:
    """With no time to wait, an instance reports who leads and touches nothing."""
    world = World()
    await world.settled()
    one, two = world.instance("one"), world.instance("two")

    async def second() -> CompactorReport:
        await world.clock.sleep(1)
        return await two.compactor.run_once(wait_seconds=0)

    first, report = await world.drive(one.compactor.run_once, second)
    assert first.led
    assert (report.led, report.leader, report.epoch) == (False, "one", world.lease().epoch)
    assert report.is_success
    assert "one" in report.sentence()


@pytest.mark.parametrize("killed_after", [0.5, 1.9, 3.0, HOLD - 0.1])
async def test_killed_leader_is_replaced_within_one_lease(killed_after: float) -> None:
    """An instance that waits takes over within a lease, and a look, of its leader's death."""
    world = World()
    await world.settled(entries=6)
    one, two = world.instance("one"), world.instance("two")
    died, took_over, epoch = 0.0, 0.0, 0

    def kill() -> None:
        nonlocal died, epoch
        died, epoch = world.clock.monotonic(), world.lease().epoch
        one.kill(DEAD)

    async def second() -> CompactorReport:
        nonlocal took_over
        report = await two.compactor.run_once(wait_seconds=60)
        took_over = world.clock.monotonic() - report.seconds
        return report

    await world.drive(
        lambda: one.live(one.compactor.run_once),
        after(killed_after, world, kill),
        second,
    )
    net = world.shown(HOME).net
    assert net is not None
    assert net.count == 6
    assert world.lease().epoch == epoch + 1
    assert one.metric("compactor_leader", region=HOME) == 0
    look = HEARTBEAT
    assert LEASE - HEARTBEAT - look <= took_over - died <= LEASE + look
    assert world.is_right()


@pytest.mark.parametrize("applied", [False, True], ids=["not applied", "applied"])
@pytest.mark.parametrize("number", with_slow(range(1, 16), slow=range(1, 16, 2)))
async def test_kill_at_any_moment_leaves_nothing_to_mend(number: int, *, applied: bool) -> None:
    """Killed at any of its requests, a leader leaves right totals, and the next one goes on."""
    world = World(seed=number)
    await world.settled(entries=6)
    await world.run_once(world.instance("first"))
    await world.settled(entries=6)
    one = world.instance("one")
    one.faults[HOME] = _kill_at(one, number, applied=applied)
    await world.drive(lambda: one.live(one.compactor.run_once))
    assert one.is_dead
    assert world.is_right()
    for owner in ("two", "three", "four", "five"):
        await world.run_once(world.instance(owner))
        assert world.is_right()
    shown = world.shown(SOUTH)
    assert not shown.entries
    assert shown.net is not None
    assert shown.net.count == 12


def _kill_at(one: Instance, number: int, *, applied: bool) -> Callable[[FaultCall], Fault | None]:
    """Kill a process at its home region's how-manyth request, which may still be applied."""

    def fault(call: FaultCall) -> Fault | None:
        if call.number < number:
            return None
        one.kill(DEAD)
        is_write = call.operation in {"write", "write_batch", "transact"}
        return Raises(Unreachable("killed"), applied=applied and is_write)

    return fault


async def test_service_does_pass_after_pass() -> None:
    """A service leads, does a pass every so often, and ends when it is stopped."""
    world = World()
    await world.settled(entries=6)
    one, stop = world.instance(), anyio.Event()
    reports: list[CompactorReport] = []

    async def serve() -> None:
        await one.compactor.run_every(8, stop=stop, on_report=reports.append)

    await world.drive(serve, after(40, world, stop.set))
    assert [report.epoch for report in reports] == [world.lease().epoch] * 5
    assert [report.folds for report in reports] == [1, 0, 1, 0, 0]
    assert world.lease().released
    assert one.metric("compactor_leader", region=HOME) == 0


async def test_service_goes_on_after_errors() -> None:
    """Errors that may pass are handed on and counted, and the service goes on."""
    world = World()
    await world.settled(entries=6)
    one, stop = world.instance(), anyio.Event()
    reports: list[CompactorReport] = []
    errors: list[Exception] = []
    one.faults[HOME] = lambda _call: Raises(Unreachable("no connection"))

    async def serve() -> None:
        await one.compactor.run_every(
            8, stop=stop, on_report=reports.append, on_error=errors.append
        )

    await world.drive(serve, after(10, world, one.faults.clear), after(30, world, stop.set))
    assert [type(error) for error in errors] == [Unreachable] * 2
    assert one.metric("compactor_errors_total", kind="Unreachable") == 2
    assert sum(report.folds for report in reports) == 1


async def test_idle_service_notices_a_lost_lease() -> None:
    """A service with nothing to merge does not go on as a leader once another has the lease."""
    world = World()
    one, stop = world.instance(), anyio.Event()
    reports: list[CompactorReport] = []
    errors: list[Exception] = []

    def take_over() -> None:
        record = replace(world.lease(), owner="other", rvn="other", epoch=9, lease_seconds=1000.0)
        world.regions.replicas[HOME].table.set(lease_key(f"compactor@{HOME}"), record_item(record))
        reports.clear()

    async def serve() -> None:
        await one.compactor.run_every(
            3, stop=stop, on_report=reports.append, on_error=errors.append
        )

    await world.drive(serve, after(7.5, world, take_over), after(40, world, stop.set))
    assert [type(error) for error in errors] == [LeaseLost]
    assert len(reports) <= 1
    assert one.metric("compactor_leader", region=HOME) == 0


# Replication lag.


async def lags(world: World, one: Instance, seconds: float) -> list[float]:
    """Serve for some time, and return the lag of one region at each second."""
    stop, found = anyio.Event(), []

    async def serve() -> None:
        await one.compactor.run_every(5, stop=stop)

    async def look() -> None:
        for _ in range(int(seconds)):
            await world.clock.sleep(1)
            found.append(one.metric("compactor_replication_lag_seconds", region=SOUTH) or 0.0)
        stop.set()

    await world.drive(serve, look)
    return found


async def test_lag_of_regions_that_follow() -> None:
    """Where heartbeats arrive the lag is the time that they took; at home it is nothing."""
    world = World()
    one = world.instance()
    assert max(await lags(world, one, 20)) <= 0.5
    assert one.metric("compactor_replication_lag_seconds", region=HOME) == 0


async def test_lag_grows_while_a_region_is_paused() -> None:
    """A region that gets no heartbeat lags by more and more, and by little once it is back."""
    world = World()
    one = world.instance()
    world.regions.pause(HOME, SOUTH)
    found = await lags(world, one, 30)
    assert found == sorted(found)
    assert 25 <= found[-1] <= 30
    assert (one.metric("compactor_replication_lag_seconds", region=WEST) or 0) <= 0.5
    world.regions.heal()
    assert (await lags(world, one, 10))[-1] <= 0.5


@pytest.mark.slow
async def test_lag_grows_beyond_the_heartbeats_remembered() -> None:
    """The lag keeps growing after the heartbeat that is waited for has been forgotten."""
    world = World()
    one = world.instance(lease=1.0, heartbeat=0.5)
    world.regions.pause(HOME, SOUTH)
    found = await lags(world, one, 2 * BEATS_MAX * 0.5)
    assert found[-1] >= 1.5 * BEATS_MAX * 0.5

"""A clock that is off by more than the skew merges nothing and writes nothing."""

import itertools
from collections.abc import Awaitable, Callable
from decimal import Decimal

import anyio
import pytest
from prometheus_client import CollectorRegistry
from support.compacting import World
from support.ledgers import HOME, LOCAL, SOUTH, WEST, seeded
from support.off_clocks import MeasuringStore, OffClock

from compactor.job import Compactor
from compactor.report import CompactorReport
from ledger.core.errors import ClockOff, OutcomeUnknown
from ledger.core.values import Entry
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Late, Lost
from ledger.writes.entry_plan import Change
from ledger.writes.writer import Writer

OFF = 700.0
SETTINGS = Settings(
    home=HOME,
    regions=dict.fromkeys((HOME, WEST, SOUTH), LOCAL),
    write_deadline=5,
    compactor={"lease": 6, "heartbeat": 2, "fold_min": 1, "prune_min": 1, "scan_every": 0},
)
"""All durations that matter here are the defaults: 300 s, 900 s, 60 s, settled after 1,320 s."""


class Machine:
    """One machine whose clock is off, in a world: a writer at home, and a compactor."""

    def __init__(self, world: World, off: float, *, measured: bool, name: str = "one") -> None:
        self.world = world
        self.clock = OffClock(world.clock, off)
        self.registry = CollectorRegistry()
        self.stores = {
            region: MeasuringStore(store) for region, store in world.regions.replicas.items()
        }
        if measured:
            self.measure(off)
        self.home = FaultyStore(self.stores[HOME], _never, clock=world.clock)
        self.compactor = Compactor(
            SETTINGS,
            registry=self.registry,
            stores=self.stores,
            services=Services.of(clock=self.clock, randomness=seeded(1), registry=self.registry),
            owner=name,
        )
        self.writer = Writer(
            self.home,
            settings=SETTINGS,
            services=Services.of(clock=self.clock, randomness=seeded(int(off) % 97)),
        )

    def measure(self, off: float) -> None:
        """Let every region's answers tell this offset."""
        for store in self.stores.values():
            store.measure(off)

    async def record(self, change: Change) -> Entry:
        """Record a change while time passes."""
        (entry,) = await self.world.drive(lambda: self.writer.record(change))
        self.world.regions.deliver()
        return entry

    async def merge(self, passes: int = 4) -> list[CompactorReport]:
        """Do some passes."""
        return [
            report
            for _ in range(passes)
            for report in await self.world.drive(self.compactor.run_once)
        ]

    async def land(self) -> None:
        """Let what is in flight arrive, and replicate."""
        while self.home.in_flight:
            await self.home.land()
        self.world.regions.deliver()

    def metric(self, name: str, **labels: str) -> float | None:
        """Return the value of a metric of the compactor."""
        return self.registry.get_sample_value(name, labels)


def _never(_call: FaultCall) -> Fault | None:
    return None


def keyed(world: World) -> Change:
    """Return a change under a key, of now by the right clock."""
    world.sum["counter"] = Decimal(1)
    return Change("counter", 1, key="k", at=world.clock.now())


def total(world: World) -> Decimal:
    """Return what the farthest region counts."""
    return world.shown(SOUTH).total()


@pytest.mark.parametrize(("measured", "counted"), [(False, 2), (True, 1)])
async def test_a_compactor_that_is_ahead_merges_nothing(*, measured: bool, counted: int) -> None:
    """It takes an entry for settled whose repeat is in flight: 2 for 1 without the measurement."""
    world = World()
    right = Machine(world, 0.0, measured=True)
    change = keyed(world)
    await right.record(change)
    await world.clock.advance(285)
    right.home.decide = lambda _call: Late()
    with pytest.raises(OutcomeUnknown):
        await right.record(change)
    await world.clock.advance(350)
    reports = await Machine(world, OFF, measured=measured).merge()
    # Within the 900 s for which a request may be held up after it was signed.
    assert (world.clock.now() - change.at).total_seconds() < 285 + 900  # type: ignore[operator]
    await right.land()
    assert total(world) == counted
    assert [report.merged for report in reports] == ([0] * 4 if measured else [1, 0, 0, 0])


@pytest.mark.parametrize(("measured", "counted"), [(False, 2), (True, 1)])
async def test_a_writer_that_is_behind_repeats_nothing(*, measured: bool, counted: int) -> None:
    """It repeats a change past the horizon, and the request arrives after the merge: 2 for 1."""
    world = World()
    right = Machine(world, 0.0, measured=True)
    change = keyed(world)
    await right.record(change)
    await world.clock.advance(980)
    behind = Machine(world, -OFF, measured=measured)
    behind.home.decide = lambda _call: Late()
    with pytest.raises(ClockOff if measured else OutcomeUnknown):
        await behind.record(change)
    await world.clock.advance(400)
    reports = await right.merge()
    assert sum(report.merged for report in reports) == 1
    assert (world.clock.now() - change.at).total_seconds() < 980 + 900  # type: ignore[operator]
    await behind.land()
    assert total(world) == counted


async def test_without_a_key_a_writer_that_is_behind_would_count_twice_as_well() -> None:
    """Its entry has settled while a request for it is in flight, where no server dates requests."""
    world = World()
    right, behind = (Machine(world, off, measured=off == 0) for off in (0.0, -OFF))
    world.sum["counter"] = Decimal(1)
    behind.home.decide = lambda call: Lost() if call.number == 1 else Late()
    with pytest.raises(OutcomeUnknown) as lost:
        await behind.record(Change("counter", 1))
    await world.clock.advance(640)
    assert sum(report.merged for report in await right.merge()) == 1
    assert total(world) == 1
    await behind.land()
    assert total(world) == 2
    behind.measure(-OFF)
    for call in calls(behind.writer, lost.value.entries):
        with pytest.raises(ClockOff, match=r"clock is 11 min 40 s behind that of us-east-1"):
            await call()
    assert total(world) == 2


def calls(writer: Writer, entries: tuple[Entry, ...]) -> list[Callable[[], Awaitable[object]]]:
    """Return every way to write."""
    change = Change("counter", 1)
    return [
        lambda: writer.record(change),
        lambda: writer.add("counter", 1),
        lambda: writer.record_many([change]),
        lambda: writer.record_together([change]),
        lambda: writer.retry(entries, together=False),
    ]


@pytest.mark.parametrize("off", [-59.0, 0.0, 59.0, 60.5])
async def test_within_the_skew_all_goes_on(off: float) -> None:
    """A clock is off only once all that its answers allow is beyond the skew."""
    world = World()
    machine = Machine(world, off, measured=True)
    await machine.record(Change("counter", 1))
    await world.clock.advance(1400)
    assert [report.merged for report in await machine.merge(1)] == [1]
    assert machine.metric("compactor_waiting", reason="clock") == 0


async def test_an_instance_that_is_off_does_not_contend() -> None:
    """It says by how much, counts it, and leaves the lease to one whose clock is right."""
    world = World()
    machine = Machine(world, OFF, measured=True)
    (report,) = await machine.merge(1)
    assert (report.led, report.is_success, report.is_whole) == (False, False, False)
    assert report.sentence().startswith("no leader elected: this machine's clock is 11 min 39 s")
    assert "more than clock_skew (60 s)" in report.waits
    assert machine.metric("compactor_waiting", reason="clock") == 1
    assert machine.metric("compactor_passes_total", outcome="waiting") == 1


async def test_a_clock_that_is_set_during_a_pass_ends_it() -> None:
    """What the observation's own answers tell counts, before anything is decided."""
    world = World()
    machine = Machine(world, 0.0, measured=True)
    await machine.record(Change("counter", 1))
    await world.clock.advance(1400)

    pages = itertools.count()

    async def jump() -> None:
        if next(pages):  # the first is of the contract, before the pass
            machine.measure(OFF)

    before, world.regions.before_page = world.regions.before_page, jump
    (report,) = await machine.merge(1)
    assert (report.led, report.merged, report.is_success) == (True, 0, False)
    assert "merging waits: this machine's clock is" in report.sentence()
    assert machine.metric("compactor_waiting", reason="clock") == 1
    world.regions.before_page = before
    machine.measure(0.0)
    (report,) = await machine.merge(1)
    assert report.is_success
    assert machine.metric("compactor_waiting", reason="clock") == 0


async def test_a_leader_whose_clock_goes_wrong_gives_the_lease_back() -> None:
    """The next instance merges: one bad machine does not stop the house."""
    world = World()
    first = Machine(world, 0.0, measured=True, name="first")
    stop = anyio.Event()
    told: list[Exception] = []

    async def serve() -> None:
        await first.compactor.run_every(10, stop=stop, on_error=told.append)

    async def wait_for_another() -> None:
        await world.clock.sleep(15)
        first.measure(OFF)
        await world.clock.sleep(15)
        second = Machine(world, 0.0, measured=True, name="second")
        report = await second.compactor.run_once()
        assert report.led
        stop.set()

    await world.drive(serve, wait_for_another)
    assert {type(error) for error in told} == {ClockOff}

"""A holder whose event loop is held up: by a thread its heartbeats go on, without it asks."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import anyio
import pytest
from support.leases import KEY, TERMS, UNREACHABLE, World
from support.ledgers import make_services

from ledger.core.errors import LeaseLost, StoreError, Unreachable
from ledger.primitives.leases.heartbeats import Keeping, in_loop, in_thread
from ledger.primitives.leases.lease import Lease, LeaseOptions
from ledger.primitives.leases.lease_rules import LeaseGrant, record_of
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.port import Store
from ledger.store.writes import Outcome, Write
from ledger.testing.clock import START, ManualClock

HERE = "eu-west-1"
HANG_SECONDS = 60.0
"""Real seconds after which a test that waits for a thread fails."""
BEATS = 5


class SteppingClock:
    """Time that the thread of the heartbeats moves, a sleep at a time, and the work never does.

    It moves for `beats` sleeps; `moved` is set then.
    """

    def __init__(self, beats: int = BEATS) -> None:
        self.elapsed = 0.0
        self.moved = threading.Event()
        self._left = beats
        self._work = threading.get_ident()

    def now(self) -> datetime:
        """Return the time of day."""
        return START + timedelta(seconds=self.elapsed)

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self.elapsed

    async def sleep(self, seconds: float) -> None:
        """Move time on if a beat follows."""
        if threading.get_ident() == self._work:
            await anyio.sleep_forever()
        if self._left == 0:
            self.moved.set()
            await anyio.sleep_forever()
        self._left -= 1
        self.elapsed += seconds


class Shared(MemoryStore):
    """A store over a table that several threads write, one at a time."""

    _one = threading.Lock()

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""
        with self._one:
            return await super().write(write)


class Opened:
    """Opens connections to one table, and notes in which threads."""

    def __init__(self, table: MemoryTable, error: StoreError | None = None) -> None:
        self.table = table
        self.error = error
        self.threads: list[tuple[str, int]] = []

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[Store]:
        """Open another connection."""
        self.threads.append(("opened", threading.get_ident()))
        if self.error is not None:
            raise self.error
        yield Shared(HERE, self.table)
        self.threads.append(("closed", threading.get_ident()))


def contender(table: MemoryTable, clock: SteppingClock, keeping: Keeping = in_loop) -> Lease:
    """Return a contender over a table."""
    return Lease(
        Shared(HERE, table),
        "compactor",
        owner="one",
        terms=TERMS,
        services=make_services(clock, 1),
        options=LeaseOptions(key=KEY, keeping=keeping),
    )


async def test_a_thread_sends_heartbeats_while_the_loop_is_held_up() -> None:
    """Five heartbeats arrive while nothing of the loop runs: the lease is held without a gap."""
    table, clock = MemoryTable(), SteppingClock()
    opened = Opened(table)
    lease = contender(table, clock, in_thread(opened))
    async with lease.held(0) as held:
        assert isinstance(held, LeaseGrant)
        assert clock.moved.wait(HANG_SECONDS)  # the loop is held up
        assert clock.elapsed == BEATS * TERMS.heartbeat_seconds > TERMS.lease_seconds
        lease.check()
        assert lease.held_until == clock.elapsed + TERMS.lease_seconds
        assert len(lease.beats) == 1 + BEATS
        item = table.get(KEY)
        assert item is not None
        assert (record_of(item).epoch, record_of(item).rvn) == (held.epoch, lease.beats[-1].rvn)
    assert [what for what, _ in opened.threads] == ["opened", "closed"]
    (thread,) = {thread for _, thread in opened.threads}
    assert thread != threading.get_ident()


async def test_negative_twin_without_the_thread_the_lease_is_over(world: World) -> None:
    """The same time held up without a thread: `check` refuses what it cannot know."""
    one = world.contender("one")
    async with one.held():
        world.clock.pass_by(BEATS * TERMS.heartbeat_seconds)
        with pytest.raises(LeaseLost, match="no heartbeat"):
            one.check()


async def test_heartbeats_of_the_work_and_of_the_thread_do_not_disturb_each_other() -> None:
    """Data stored by the work, between two beats of the thread, stays; neither loses the lease."""
    table, clock = MemoryTable(), SteppingClock()
    lease = contender(table, clock, in_thread(Opened(table)))
    async with lease.held(0):
        stored = False
        while not (stored and clock.moved.is_set()):
            stored = await lease.heartbeat(data={"page": {"N": "7"}}) or stored
        lease.check()
        record = await lease.look()
        assert record is not None
        assert record.data == {"page": {"N": "7"}}


async def test_a_loss_noticed_by_the_thread_reaches_the_work() -> None:
    """The thread's heartbeat finds another owner: `lost` is set in the loop of the work."""
    world, clock = World(), SteppingClock()
    began = threading.Event()

    @asynccontextmanager
    async def opening() -> AsyncIterator[Store]:
        began.wait(HANG_SECONDS)
        yield MemoryStore(HERE, world.table)

    lease = contender(world.table, clock, in_thread(opening))
    await lease.acquire(0)
    await world.force_taken("thief")
    began.set()
    async with lease.held(0):
        with anyio.fail_after(HANG_SECONDS):
            await lease.lost.wait()
        with pytest.raises(LeaseLost, match="'thief'"):
            lease.check()
    assert record_of(world.item()).owner == "thief"


async def test_a_thread_that_cannot_connect_is_an_error_before_the_body() -> None:
    """What opening the connection raises is raised as it is, and the lease is given back."""
    table = MemoryTable()
    opened = Opened(table, Unreachable("no connection"))
    lease = contender(table, SteppingClock(), in_thread(opened))
    with pytest.raises(Unreachable):
        async with lease.held(0):
            pytest.fail("the body ran")
    item = table.get(KEY)
    assert item is not None
    assert record_of(item).released


@pytest.mark.parametrize("seconds", [28.0, 1000.0])
async def test_a_holder_that_was_held_up_asks_the_table(world: World, seconds: float) -> None:
    """No other wrote the lease meanwhile: it is held on, under the same epoch."""
    one = world.contender("one")
    async with one.held() as held:
        await world.clock.advance(1.0)
        world.clock.pass_by(seconds)
        await one.confirm()
        one.check()
        assert one.held_until == world.clock.elapsed + TERMS.lease_seconds
        assert isinstance(held, LeaseGrant)
        assert world.epoch() == held.epoch


async def test_a_holder_that_was_held_up_hears_who_took_it(world: World) -> None:
    """Another took the lease meanwhile: neither `confirm` nor a heartbeat brings it back."""
    one = world.contender("one")
    async with one.held():
        world.clock.pass_by(60.0)
        await world.force_taken("thief")
        with pytest.raises(LeaseLost, match="'thief' has it"):
            await one.confirm()
        with pytest.raises(LeaseLost):
            await one.heartbeat()
        assert one.lost.is_set()


async def test_a_holder_that_was_held_up_is_confirmed_in_the_background(world: World) -> None:
    """The work only waits for `lost`: the table is asked, and `lost` stays unset."""
    one = world.contender("one")
    async with one.held():
        await world.clock.advance(1.0)
        world.clock.pass_by(60.0)
        await world.clock.advance(TERMS.poll_seconds)
        assert not one.lost.is_set()
        one.check()


async def test_a_holder_that_was_held_up_and_cannot_ask_is_lost(world: World) -> None:
    """The table does not answer: `lost` is set within a heartbeat."""
    one = world.contender("one")
    async with one.held():
        await world.clock.advance(1.0)
        world.fail_writes(*[UNREACHABLE] * 100)
        world.clock.pass_by(60.0)
        await world.clock.advance(TERMS.heartbeat_seconds)
        assert one.lost.is_set()
        world.fail_writes()


class BusyClock(ManualClock):
    """The clock of a process whose loop is busy: each sleep takes a little longer."""

    async def sleep(self, seconds: float) -> None:
        """Wait this long, and until there is a turn."""
        await super().sleep(seconds + TERMS.poll_seconds / 4)


@pytest.mark.parametrize(("clock", "is_lost"), [(ManualClock, True), (BusyClock, False)])
async def test_many_short_delays_are_as_one_long(
    world: World,
    clock: type[ManualClock],
    is_lost: bool,  # noqa: FBT001 (a column of the table)
) -> None:
    """No heartbeat got through until the end: a loop that was busy all along asks once more."""
    one = world.contender("one", clock=clock(base=world.clock))
    async with one.held():
        world.fail_writes(*[UNREACHABLE] * 100)
        await world.clock.advance(26.0)
        world.fail_writes()
        one.check()
        world.slow_writes(2.0)
        await world.clock.advance(4.0)
        assert one.lost.is_set() is is_lost
        world.slow_writes(0.0)


async def test_a_holder_that_cannot_confirm_says_so(world: World) -> None:
    """`confirm` raises that the table could not be asked, and may be repeated."""
    one = world.contender("one")
    await one.acquire(0)
    world.clock.pass_by(60.0)
    world.fail_writes(UNREACHABLE)
    with pytest.raises(Unreachable):
        await one.confirm()
    await one.confirm()
    one.check()


async def test_confirming_in_time_sends_nothing(world: World) -> None:
    """While the lease is surely held, `confirm` is as `check`."""
    one = world.contender("one")
    await one.acquire(0)
    before = world.item()
    await one.confirm()
    assert world.item() == before

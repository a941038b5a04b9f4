"""Many contenders for one lease: never two holders at a time, whatever their clocks do."""

import random
from dataclasses import dataclass, field
from datetime import timedelta

import anyio
import pytest
from support.leases import FIRST, KEY, World

from ledger.core.errors import LeaseLost
from ledger.primitives.leases.lease import Lease
from ledger.primitives.leases.lease_rules import LeaseGrant, NotHeld
from ledger.runtime.clock import Clock
from ledger.store.writes import Applied, Outcome, Put, Rejected
from ledger.testing.clock import ManualClock

CONTENDERS = 300
FEW_CONTENDERS = 30


@dataclass
class Referee:
    """Notes who believes to hold the lease, by the world's own time."""

    world: World
    holders: set[str] = field(default_factory=set)
    most: int = 0
    epochs: list[int] = field(default_factory=list)

    def begins(self, lease: Lease, held: LeaseGrant) -> None:
        """Note the beginning of a holding."""
        self.holders.add(lease.owner)
        self.most = max(self.most, len(self.holders))
        self.epochs.append(held.epoch)

    def ends(self, lease: Lease) -> None:
        """Note that a holder has stopped."""
        self.holders.discard(lease.owner)


async def lead_until_lost(lease: Lease, referee: Referee, clock: Clock, seconds: float) -> None:
    """Hold the lease for some seconds without heartbeats, or until `check` refuses."""
    held = await lease.acquire()
    assert isinstance(held, LeaseGrant)
    referee.begins(lease, held)
    ends = clock.monotonic() + seconds
    try:
        while clock.monotonic() < ends:
            await clock.sleep(0.25)
            lease.check()
    except LeaseLost:
        referee.ends(lease)
        return
    referee.ends(lease)
    await lease.release()


@pytest.mark.parametrize(
    "contenders", [FEW_CONTENDERS, pytest.param(CONTENDERS, marks=pytest.mark.long)]
)
async def test_of_many_contenders_one_holds_at_a_time(world: World, contenders: int) -> None:
    """Many that come, lead, die silently or release: one holder at a time, all epochs once."""
    randomness = random.Random(5)  # noqa: S311 (repeatable)
    referee = Referee(world)
    async with anyio.create_task_group() as tasks:
        for number in range(contenders):
            dies = number % 10 == 0
            seconds = 100.0 if dies else randomness.uniform(0.0, 3.0)
            lease = world.contender(f"contender {number}")
            tasks.start_soon(lead_until_lost, lease, referee, world.clock, seconds)
        await world.clock.advance(contenders / 10 * 35.0 + contenders * 6.0)
    assert referee.most == 1
    assert referee.epochs == list(range(FIRST, FIRST + contenders))


async def test_contenders_that_start_together_are_one_leader_and_the_rest(world: World) -> None:
    """Of hundreds that try at the same moment exactly one acquires, the rest learn its name."""
    won: list[str] = []
    named: set[str] = set()

    async def once(owner: str) -> None:
        outcome = await world.contender(owner).acquire(0)
        if isinstance(outcome, LeaseGrant):
            won.append(owner)
        else:
            named.add(outcome.owner)

    async with anyio.create_task_group() as tasks:
        for number in range(CONTENDERS):
            tasks.start_soon(once, f"contender {number}")
    assert len(won) == 1
    assert named == set(won)


@pytest.mark.parametrize(
    ("holder_rate", "other_rate"), [(1.0, 1.0), (0.95, 1.04), (1.05, 0.96), (1.0, 0.92)]
)
async def test_clocks_within_the_margin_never_give_two_holders(
    world: World, holder_rate: float, other_rate: float
) -> None:
    """Clocks whose rates differ by less than the margin, with zeros far apart: one at a time."""
    referee = Referee(world)
    slow = ManualClock(base=world.clock, rate=holder_rate, zero=1e6)
    fast = ManualClock(base=world.clock, rate=other_rate, zero=-500.0)
    async with anyio.create_task_group() as tasks:
        for number, clock in enumerate((slow, fast, slow, fast)):
            lease = world.contender(f"contender {number}", clock=clock)
            tasks.start_soon(lead_until_lost, lease, referee, clock, 1000.0)
        await world.clock.advance(200.0)
    assert referee.most == 1
    assert len(referee.epochs) == 4


async def test_beyond_the_margin_the_fence_still_separates(world: World) -> None:
    """A clock that runs twice as fast steals early; the stolen holder's transaction is rejected."""
    fast = ManualClock(base=world.clock, rate=2.0)
    one, two = world.contender("one"), world.contender("two", clock=fast)
    held = await one.acquire(0)
    assert isinstance(held, LeaseGrant)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(two.acquire)
        await world.clock.advance(15.0)
    one.check()  # it cannot know
    outcomes: list[Outcome] = []
    for lease in (one, two):
        work = Put({"pk": {"S": "counter"}, "sk": {"S": lease.owner}})
        outcomes.append(await world.store.transact([lease.fence(), work]))
    assert isinstance(outcomes[0], Rejected)
    assert isinstance(outcomes[1], Applied)


async def test_a_contender_never_counts_wall_time(world: World) -> None:
    """A wall clock that jumps, either way, neither hurries nor delays it."""
    one, two = world.contender("one"), world.contender("two")
    assert isinstance(await one.acquire(), LeaseGrant)
    for days in (400, -800):
        assert isinstance(await two.acquire(0), NotHeld)
        world.clock.wall += timedelta(days=days)
    await world.clock.advance(29.9)
    assert isinstance(await two.acquire(0), NotHeld)
    await world.clock.advance(0.1)
    assert await two.acquire(0) == LeaseGrant(KEY, "two", FIRST + 1)


async def test_a_holder_that_was_suspended_stops(world: World) -> None:
    """Its monotonic clock stood still, but its lease may be another's by now."""
    one = world.contender("one")
    await one.acquire()
    world.clock.suspend(26.9)
    one.check()
    world.clock.suspend(0.1)
    with pytest.raises(LeaseLost):
        one.check()


async def test_a_holder_that_was_suspended_hears_of_it_soon(world: World) -> None:
    """Its timers stood still as well: within `poll_seconds` it asks, and `lost` is set."""
    one = world.contender("one")
    async with one.held():
        await world.clock.advance(0.5)
        assert not one.lost.is_set()
        world.clock.suspend(60.0)
        await world.force_taken("two")
        await world.clock.advance(one.terms.poll_seconds)
        assert one.lost.is_set()


async def test_a_holder_that_was_suspended_holds_on_to_what_is_not_taken(world: World) -> None:
    """No other wrote the lease while it slept: the heartbeat that shows so is applied."""
    one = world.contender("one")
    async with one.held():
        world.clock.suspend(60.0)
        await world.clock.advance(one.terms.poll_seconds)
        one.check()
        assert not one.lost.is_set()


async def test_a_wall_clock_that_is_set_back_gives_a_holder_no_time(world: World) -> None:
    """What is left of the lease is never more than the monotonic clock leaves."""
    one = world.contender("one")
    await one.acquire()
    world.clock.wall -= timedelta(days=400)
    await world.clock.advance(27.0)
    with pytest.raises(LeaseLost):
        one.check()

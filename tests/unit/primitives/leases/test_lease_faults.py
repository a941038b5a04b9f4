"""Leases whose requests fail, get no answer, or land late."""

import anyio
import pytest
from support.leases import FIRST, KEY, TERMS, UNREACHABLE, World

from ledger.core.errors import LeaseLost, Unreachable
from ledger.primitives.leases.heartbeats import RELEASE_SECONDS_MAX
from ledger.primitives.leases.holding import BEATS_MAX
from ledger.primitives.leases.lease import Lease
from ledger.primitives.leases.lease_rules import LeaseGrant, NotHeld, record_of
from ledger.store.wrappers.faults import Fault, Late, Lost, NeverArrived
from ledger.store.writes import Applied, Rejected


async def acquired(world: World, owner: str = "one") -> Lease:
    """Return a lease that this owner has just acquired."""
    lease = world.contender(owner)
    assert isinstance(await lease.acquire(0), LeaseGrant)
    return lease


@pytest.mark.parametrize("fault", [Lost(), NeverArrived()])
async def test_an_ambiguous_acquisition_is_read_again(world: World, fault: Fault) -> None:
    """An acquisition without an answer is ours if the table shows it, and tried again if not."""
    world.fail_writes(fault)
    one = world.contender("one")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.acquire)
        await world.clock.advance(TERMS.poll_seconds)
    one.check()
    assert world.epoch() == one.beats[0].sent * 1000 // 1 + FIRST


async def test_an_acquisition_that_lands_late_is_taken_over(world: World) -> None:
    """An acquisition given up as unknown, landing later, does not lock its own owner out."""
    world.fail_writes(Late())
    one = world.contender("one")
    assert isinstance(await one.acquire(0), NotHeld)
    assert isinstance(await world.store.land(), Applied)
    with pytest.raises(LeaseLost):
        one.check()
    assert await one.acquire(0) == LeaseGrant(KEY, "one", FIRST + 1)


async def test_a_heartbeat_applied_without_an_answer_counts(world: World) -> None:
    """A heartbeat whose answer was lost holds the lease on, once the table shows it."""
    one = await acquired(world)
    await world.clock.advance(10.0)
    world.fail_writes(Lost())
    assert await one.heartbeat()
    assert one.held_until == 40.0
    assert one.beats[-1].rvn == record_of(world.item()).rvn


async def test_a_heartbeat_not_applied_changes_nothing(world: World) -> None:
    """A heartbeat that did not arrive leaves the lease ours as before, and can be repeated."""
    one = await acquired(world)
    await world.clock.advance(10.0)
    world.fail_writes(NeverArrived())
    assert not await one.heartbeat()
    assert one.held_until == 30.0
    assert await one.heartbeat()
    assert one.held_until == 40.0


async def test_a_heartbeat_that_lands_late_is_recognized(world: World) -> None:
    """A heartbeat in flight that lands before the next one is known as ours, not as a thief's."""
    one = await acquired(world)
    await world.clock.advance(5.0)
    world.fail_writes(Late())
    assert not await one.heartbeat()
    await world.clock.advance(5.0)
    assert isinstance(await world.store.land(), Applied)
    assert not await one.heartbeat()
    assert one.held_until == 35.0
    assert await one.heartbeat()
    assert one.held_until == 40.0


async def test_a_heartbeat_that_lands_after_its_successor_is_void(world: World) -> None:
    """A heartbeat in flight is rejected once a later one has been applied."""
    one = await acquired(world)
    world.fail_writes(Late())
    assert not await one.heartbeat()
    assert await one.heartbeat()
    assert isinstance(await world.store.land(), Rejected)
    assert await one.heartbeat()


async def test_an_ambiguous_heartbeat_after_a_theft_is_a_loss(world: World) -> None:
    """A heartbeat without an answer is not taken for ours when the table shows another owner."""
    one = await acquired(world)
    await world.force_taken("thief")
    world.fail_writes(NeverArrived())
    with pytest.raises(LeaseLost, match="'thief'"):
        await one.heartbeat()


async def test_an_unreachable_table_costs_the_lease_only_at_its_end(world: World) -> None:
    """Background heartbeats go on failing until the margin, then the lease is lost."""
    one = world.contender("one")
    async with one.held():
        outage: list[Fault] = [UNREACHABLE] * 100
        world.fail_writes(*outage)
        await world.clock.advance(26.9)
        one.check()
        await world.clock.advance(0.2)
        assert one.lost.is_set()
        world.fail_writes()


async def test_a_short_outage_costs_nothing(world: World) -> None:
    """After failed heartbeats the next that arrives, tried at the pace of polls, holds on."""
    one = world.contender("one")
    async with one.held():
        world.fail_writes(UNREACHABLE, NeverArrived(), Lost())
        await world.clock.advance(14.0)
        assert one.held_until == 44.0
        await world.clock.advance(100.0)
        one.check()


async def test_a_heartbeat_says_that_the_table_is_unreachable(world: World) -> None:
    """A heartbeat that could not be sent raises, and the lease stays ours."""
    one = await acquired(world)
    world.fail_writes(UNREACHABLE)
    with pytest.raises(Unreachable):
        await one.heartbeat()
    one.check()


@pytest.mark.parametrize(
    ("faults", "released"),
    [
        ([Lost()], True),
        ([NeverArrived()], True),
        ([NeverArrived()] * 3, False),
    ],
)
async def test_an_ambiguous_release_is_read_again(
    world: World,
    faults: list[Fault],
    released: bool,  # noqa: FBT001 (a column of the table)
) -> None:
    """A release without an answer is repeated while the table shows us, within a bound."""
    one = await acquired(world)
    world.fail_writes(*faults)
    assert await one.release() is released
    assert record_of(world.item()).released is released


async def test_a_release_gets_past_a_heartbeat_in_flight(world: World) -> None:
    """A heartbeat that lands just before the release does not keep the lease from being free."""
    one = await acquired(world)
    world.fail_writes(Late())
    await one.heartbeat()
    await world.store.land()
    assert await one.release()
    assert record_of(world.item()).released


async def test_a_lease_given_up_as_too_old_is_still_released(world: World) -> None:
    """A holder that lost its lease by time frees it, if no one has taken it yet."""
    one = await acquired(world)
    await world.clock.advance(40.0)
    with pytest.raises(LeaseLost):
        one.check()
    assert await one.release()
    assert record_of(world.item()).released


async def test_the_end_of_the_body_releases(world: World) -> None:
    """`held` releases at the end of its body, and stops its heartbeats."""
    async with world.contender("one").held() as held:
        assert held == LeaseGrant(KEY, "one", FIRST)
    released = world.item()
    await world.clock.advance(100.0)
    assert record_of(released).released
    assert world.item() == released


async def test_an_error_in_the_body_comes_out_alone_after_the_release(world: World) -> None:
    """`held` releases when its body fails, and raises the body's own error, not a group."""
    with pytest.raises(ZeroDivisionError):
        async with world.contender("one").held():
            raise ZeroDivisionError
    assert record_of(world.item()).released


async def test_cancellation_releases(world: World) -> None:
    """`held` releases when it is cancelled, shielded from the cancellation."""

    async def work() -> None:
        async with world.contender("one").held():
            world.slow_writes(1.0)
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await world.clock.run_pending()
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await world.clock.advance(1.0)
    assert record_of(world.item()).released


async def test_a_release_that_hangs_is_given_up(world: World) -> None:
    """`held` ends within its bound though the table does not answer; the lease then runs out."""
    ended: list[float] = []

    async def work() -> None:
        async with world.contender("one").held():
            world.slow_writes(1000.0)
        ended.append(world.clock.elapsed)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await world.clock.advance(100.0)
    assert ended == [RELEASE_SECONDS_MAX]
    assert not record_of(world.item()).released


async def test_the_body_learns_that_it_does_not_lead(world: World) -> None:
    """`held` hands its body who leads instead, and leaves the lease alone."""
    await acquired(world, "leader")
    before = world.item()
    async with world.contender("one").held(0) as outcome:
        assert outcome == NotHeld(KEY, "leader", FIRST, 30.0)
    assert world.item() == before


async def test_beats_are_kept_within_a_bound(world: World) -> None:
    """The record of heartbeats for measuring lag holds the latest, and only so many."""
    one = await acquired(world)
    for _ in range(BEATS_MAX + 10):
        await one.heartbeat()
    assert len(one.beats) == BEATS_MAX
    assert one.beats[-1].rvn == record_of(world.item()).rvn
    assert len({beat.rvn for beat in one.beats}) == BEATS_MAX


def test_an_owner_has_a_name(world: World) -> None:
    """An empty owner, which would read as a released lease, is refused."""
    with pytest.raises(ValueError, match="owner"):
        world.contender("")


async def test_a_slow_acquisition_is_relied_on_from_when_it_was_sent(world: World) -> None:
    """The holder stops a lease less its margin after it asked, however late the answer came."""
    world.slow_writes(7.0)
    one = world.contender("one")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.acquire, 0)
        await world.clock.advance(7.0)
    await world.clock.advance(19.9)
    one.check()
    await world.clock.advance(0.2)
    with pytest.raises(LeaseLost, match="no heartbeat is known"):
        one.check()


async def test_an_acquisition_answered_too_late_is_none(world: World) -> None:
    """By then another may be about to take it, so the caller does not begin."""
    world.slow_writes(27.5)
    one, outcomes = world.contender("one"), list[LeaseGrant | NotHeld]()

    async def acquire() -> None:
        outcomes.append(await one.acquire(0))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(acquire)
        await world.clock.advance(27.5)
    assert isinstance(outcomes[0], NotHeld)
    with pytest.raises(LeaseLost):
        one.fence()


async def test_a_heartbeat_answered_too_late_is_a_loss(world: World) -> None:
    """It was applied, but the holder may not rely on it any more: it must hear so now."""
    one = await acquired(world)
    world.slow_writes(27.5)
    ended: list[Exception] = []

    async def beat() -> None:
        try:
            await one.heartbeat()
        except LeaseLost as error:
            ended.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beat)
        await world.clock.advance(27.5)
    assert len(ended) == 1
    assert one.lost.is_set()

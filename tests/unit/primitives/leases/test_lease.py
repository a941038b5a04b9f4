"""Leases held, lost and fenced, by virtual time, over one table in memory."""

import anyio
import pytest
from support.leases import FIRST, KEY, TERMS, World

from ledger.core.entry import Item
from ledger.core.errors import DamagedItem, LeaseLost
from ledger.primitives.leases.lease import Lease
from ledger.primitives.leases.lease_rules import LeaseGrant, NotHeld, record_of
from ledger.store.writes import Applied, Delete, Put, Rejected
from ledger.testing.clock import START

WORK: Item = {"pk": {"S": "counter"}, "sk": {"S": "~net#0001"}, "version": {"S": "mine"}}


async def test_the_first_contender_leads_at_once(world: World) -> None:
    """A lease that was never held is taken at once, and written as documented."""
    one = world.contender("one")
    assert await one.acquire(0) == LeaseGrant(KEY, "one", FIRST)
    one.check()
    assert {**world.item(), "rvn": {"S": ""}} == {
        "pk": {"S": "~lease"},
        "sk": {"S": "compactor"},
        "owner": {"S": "one"},
        "rvn": {"S": ""},
        "lease_seconds": {"N": "30"},
        "epoch": {"N": str(FIRST)},
        "home": {"S": "eu-west-1"},
        "since": {"S": START.isoformat()},
    }


async def test_the_second_contender_is_told_who_leads(world: World) -> None:
    """A contender that will not wait learns the holder, the epoch and the time still to wait."""
    await world.contender("one").acquire(0)
    assert await world.contender("two").acquire(0) == NotHeld(KEY, "one", FIRST, 30.0)


async def test_a_bounded_wait_ends_in_time(world: World) -> None:
    """A contender that waits 25 s for a kept lease gives up after exactly these."""
    one, two = world.contender("one"), world.contender("two")
    ended: list[float] = []

    async def wait() -> None:
        assert isinstance(await two.acquire(25.0), NotHeld)
        ended.append(world.clock.elapsed)

    async with anyio.create_task_group() as tasks, one.held():
        tasks.start_soon(wait)
        await world.clock.advance(60.0)
        assert ended == [25.0]
        one.check()


async def test_a_kept_lease_is_never_taken(world: World) -> None:
    """While heartbeats arrive, a contender that waits for ever waits."""
    async with anyio.create_task_group() as tasks, world.contender("one").held() as held:
        assert isinstance(held, LeaseGrant)
        tasks.start_soon(world.contender("two").acquire)
        await world.clock.advance(1000.0)
        assert record_of(world.item()).owner == "one"
        tasks.cancel_scope.cancel()


async def test_a_killed_leader_is_replaced_after_one_unchanged_lease(world: World) -> None:
    """A waiting contender takes a dead leader's lease after exactly one lease of watching it."""
    await world.contender("dead").acquire(0)
    two = world.contender("two")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(two.acquire)
        await world.clock.advance(29.99)
        assert record_of(world.item()).owner == "dead"
        await world.clock.advance(0.01)
        assert record_of(world.item()).owner == "two"
    two.check()
    assert world.epoch() == FIRST + 1


async def test_a_late_contender_watches_for_itself(world: World) -> None:
    """However long a leader has been dead, a new contender watches for a full lease of its own."""
    await world.contender("dead").acquire(0)
    await world.clock.advance(10_000.0)
    two = world.contender("two")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(two.acquire)
        await world.clock.advance(29.99)
        assert record_of(world.item()).owner == "dead"
        await world.clock.advance(0.01)
    two.check()


async def test_watching_goes_on_between_two_bounded_waits(world: World) -> None:
    """A scheduled job that tries again keeps what its earlier tries have seen."""
    await world.contender("dead").acquire(0)
    two = world.contender("two")
    assert await two.acquire(0) == NotHeld(KEY, "dead", FIRST, 30.0)
    await world.clock.advance(30.0)
    assert await two.acquire(0) == LeaseGrant(KEY, "two", FIRST + 1)


async def test_release_lets_the_next_in_at_once(world: World) -> None:
    """A released lease is taken without a wait, and its item kept its epoch."""
    one = world.contender("one")
    await one.acquire(0)
    assert await one.release()
    assert (world.item()["owner"], world.epoch()) == ({"S": ""}, FIRST)
    assert await world.contender("two").acquire(0) == LeaseGrant(KEY, "two", FIRST + 1)


async def test_a_waiting_contender_notices_a_release_within_one_poll(world: World) -> None:
    """A contender that waits takes a released lease at its next look."""
    one, two = world.contender("one"), world.contender("two")
    await one.acquire(0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(two.acquire)
        await world.clock.advance(3.0)
        await one.release()
        await world.clock.advance(TERMS.poll_seconds)
    two.check()


async def test_the_epoch_grows_by_one_at_each_acquisition(world: World) -> None:
    """Each acquisition raises the epoch by one, also by the same owner; heartbeats do not."""
    one, two = world.contender("one"), world.contender("two")
    epochs = []
    for lease in (one, two, one, one, two):
        held = await lease.acquire(0)
        assert isinstance(held, LeaseGrant)
        await lease.heartbeat()
        epochs.append((held.epoch, world.epoch()))
        await lease.release()
    assert epochs == [(number, number) for number in range(FIRST, FIRST + 5)]


async def test_acquiring_a_held_lease_changes_nothing(world: World) -> None:
    """A holder that acquires again gets the same holding, without a write."""
    one = world.contender("one")
    held = await one.acquire(0)
    before = world.item()
    assert await one.acquire(0) == held
    assert world.item() == before


async def test_heartbeats_leave_other_attributes_alone(world: World) -> None:
    """A heartbeat and a release change the rvn and the owner, and no other attribute."""
    one = world.contender("one")
    await one.acquire(0)
    world.table.set(KEY, {**world.item(), "theirs": {"S": "kept"}})
    await one.heartbeat()
    await one.release()
    assert world.item()["theirs"] == {"S": "kept"}


async def test_a_holder_without_heartbeats_stops_before_the_lease_can_be_taken(
    world: World,
) -> None:
    """`check` refuses from a margin before the end of the lease, not earlier."""
    one = world.contender("one")
    await one.acquire(0)
    await world.clock.advance(26.9)
    one.check()
    await world.clock.advance(0.1)
    with pytest.raises(LeaseLost, match="no heartbeat"):
        one.check()
    assert one.lost.is_set()
    with pytest.raises(LeaseLost):
        await one.heartbeat()


async def test_a_slow_answer_counts_from_when_it_was_asked_for(world: World) -> None:
    """The lease counts from before the heartbeat was sent, not from its answer."""
    world.slow_writes(7.0)
    one = world.contender("one")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.acquire, 0)
        await world.clock.advance(7.0)
    assert one.held_until == 30.0
    assert (one.beats[-1].sent, one.beats[-1].answered) == (0.0, 7.0)


async def test_lost_is_set_even_while_a_heartbeat_waits_for_its_answer(world: World) -> None:
    """A heartbeat that hangs does not keep the notice of the loss from coming in time."""
    one = world.contender("one")
    async with one.held():
        world.slow_writes(1000.0)
        await world.clock.advance(26.9)
        assert not one.lost.is_set()
        await world.clock.advance(0.1)
        assert one.lost.is_set()
        world.slow_writes(0.0)


async def test_a_lost_lease_is_noticed_by_the_next_heartbeat(world: World) -> None:
    """A holder whose lease was taken learns from its heartbeat who has it."""
    one = world.contender("one")
    await one.acquire(0)
    await world.force_taken("thief")
    with pytest.raises(LeaseLost, match="'thief' has it"):
        await one.heartbeat()
    assert one.lost.is_set()
    assert await one.release()
    assert record_of(world.item()).owner == "thief"


async def test_a_deleted_lease_is_lost(world: World) -> None:
    """A holder whose item was deleted does not write it again under the old epoch."""
    one = world.contender("one")
    await one.acquire(0)
    await world.store.write(Delete(KEY))
    with pytest.raises(LeaseLost, match="deleted"):
        await one.heartbeat()
    assert world.table.get(KEY) is None


async def test_a_damaged_lease_is_an_error_not_a_free_lease(world: World) -> None:
    """An item that is no lease is neither taken nor kept."""
    one = world.contender("one")
    await one.acquire(0)
    world.table.set(KEY, {**world.item(), "rvn": {"S": "x"}, "epoch": {"S": "one"}})
    with pytest.raises(LeaseLost, match="epoch"):
        await one.heartbeat()
    with pytest.raises(DamagedItem, match="epoch"):
        await world.contender("two").acquire(0)


async def stalled(world: World) -> tuple[Lease, LeaseGrant]:
    """Return a holder that stalled after its check, while another took the lease."""
    one, two = world.contender("one"), world.contender("two")
    held = await one.acquire(0)
    assert isinstance(held, LeaseGrant)
    one.check()
    await two.acquire(0)
    await world.clock.advance(30.0)
    assert isinstance(await two.acquire(0), LeaseGrant)
    return one, held


async def test_a_stalled_holder_is_stopped_by_the_fence(world: World) -> None:
    """The transaction of a holder that stalled after its check is rejected by its fence."""
    _, held = await stalled(world)
    outcome = await world.store.transact([held.fence(), Put(WORK)])
    assert isinstance(outcome, Rejected)
    assert outcome.found[0] == world.item()
    assert world.table.get(("counter", "~net#0001")) is None


async def test_without_the_fence_a_stalled_holder_writes(world: World) -> None:
    """The mutant: the same transaction without the fence is applied, too late."""
    await stalled(world)
    assert isinstance(await world.store.transact([Put(WORK)]), Applied)
    assert world.table.get(("counter", "~net#0001")) == WORK


async def test_the_current_holder_passes_its_fence(world: World) -> None:
    """The fence lets the transactions of the holder pass, before and after heartbeats."""
    one = world.contender("one")
    await one.acquire(0)
    assert isinstance(await world.store.transact([one.fence(), Put(WORK)]), Applied)
    await one.heartbeat()
    assert isinstance(await world.store.transact([one.fence(), Put(WORK)]), Applied)


async def test_an_old_holding_stays_fenced_after_its_owner_leads_again(world: World) -> None:
    """A task left over from an earlier holding of the same owner is stopped as well."""
    one = world.contender("one")
    first = await one.acquire(0)
    assert isinstance(first, LeaseGrant)
    await one.release()
    await one.acquire(0)
    assert isinstance(await world.store.transact([first.fence(), Put(WORK)]), Rejected)


async def test_no_fence_without_a_lease(world: World) -> None:
    """A contender that holds nothing has no fence to give."""
    with pytest.raises(LeaseLost, match="not acquired"):
        world.contender("one").fence()

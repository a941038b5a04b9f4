"""A lease handed over to another region: no one here holds it again, no one there too early."""

import anyio
import pytest
from support.leases import FIRST, KEY, World

from ledger.core.errors import LeaseLost
from ledger.primitives.leases.lease import Lease
from ledger.primitives.leases.lease_rules import LeaseGrant, record_of
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.wrappers.faults import Late, Lost, NeverArrived
from ledger.store.writes import Applied, Put, Rejected

THERE = "us-east-1"


async def acquired(world: World) -> Lease:
    """Return a lease just acquired at home."""
    lease = world.contender("one")
    assert await lease.acquire(0) == LeaseGrant(KEY, "one", FIRST)
    return lease


async def test_a_lease_handed_over_is_taken_there_and_not_here(world: World) -> None:
    """After a hand-over contenders at home are refused; the first of the other region leads."""
    one = await acquired(world)
    assert await one.hand_over(THERE)
    for owner in ("one", "two"):
        with pytest.raises(LeaseLost, match=THERE):
            await world.contender(owner).acquire(0)
    replica = MemoryTable()
    replica.set(KEY, world.item())
    there = world.contender("three", store=MemoryStore(THERE, replica))
    assert await there.acquire(0) == LeaseGrant(KEY, "three", FIRST + 2)


async def test_the_other_region_waits_for_the_hand_over(world: World) -> None:
    """A replica that still shows the old home does not let its own contenders in."""
    await acquired(world)
    replica = MemoryTable()
    replica.set(KEY, world.item())
    with pytest.raises(LeaseLost, match="eu-west-1"):
        await world.contender("three", store=MemoryStore(THERE, replica)).acquire(0)


async def test_a_hand_over_ends_the_holding_and_its_fence(world: World) -> None:
    """After a hand-over the old holder is refused by `check`, and its old fence by the table."""
    one = await acquired(world)
    fence = one.fence()
    await one.hand_over(THERE)
    with pytest.raises(LeaseLost, match="handed over"):
        one.check()
    work = Put({"pk": {"S": "counter"}, "sk": {"S": "x"}})
    assert isinstance(await world.store.transact([fence, work]), Rejected)


async def test_the_end_of_the_body_leaves_a_hand_over_alone(world: World) -> None:
    """The release at the end of `held` does not touch a lease that was handed over."""
    one = world.contender("one")
    async with one.held():
        await one.hand_over(THERE)
        handed = world.item()
        await world.clock.advance(100.0)
    assert world.item() == handed


async def test_a_hand_over_not_applied_is_repeated(world: World) -> None:
    """A hand-over without an answer that did not arrive leaves the lease ours; a repeat works."""
    one = await acquired(world)
    world.fail_writes(NeverArrived())
    assert not await one.hand_over(THERE)
    one.check()
    assert await one.hand_over(THERE)


async def test_a_hand_over_applied_without_an_answer_counts(world: World) -> None:
    """A hand-over whose answer was lost is known by reading the item again."""
    one = await acquired(world)
    world.fail_writes(Lost())
    assert await one.hand_over(THERE)
    assert record_of(world.item()).home == THERE


async def test_a_hand_over_gets_past_a_heartbeat_in_flight(world: World) -> None:
    """A heartbeat that lands just before the hand-over costs it a repeat, no more."""
    one = await acquired(world)
    world.fail_writes(Late())
    await one.heartbeat()
    assert isinstance(await world.store.land(), Applied)
    assert not await one.hand_over(THERE)
    assert await one.hand_over(THERE)


async def test_a_hand_over_after_a_theft_is_a_loss(world: World) -> None:
    """A holder whose lease was taken cannot hand it over."""
    one = await acquired(world)
    await world.force_taken("thief")
    with pytest.raises(LeaseLost, match="'thief'"):
        await one.hand_over(THERE)
    assert record_of(world.item()).owner == "thief"


async def test_a_hand_over_beside_heartbeats(world: World) -> None:
    """Repeated while heartbeats run in the background, a hand-over succeeds within a few tries."""
    one = world.contender("one")
    done: list[int] = []

    async def hand_over() -> None:
        async with one.held():
            await world.clock.sleep(10.0)  # just when a heartbeat is sent
            for tries in range(1, 5):
                if await one.hand_over(THERE):
                    done.append(tries)
                    return

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hand_over)
        await world.clock.advance(60.0)
    assert len(done) == 1
    assert record_of(world.item()).home == THERE

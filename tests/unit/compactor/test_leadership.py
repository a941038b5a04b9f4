"""Leadership on a virtual clock: a lease lost before a pass, and a hand-over without an answer."""

from dataclasses import replace
from random import Random

import anyio
import pytest
from support.compacting import LEASE, Instance, World
from support.ledgers import HOME, WEST

from compactor.leadership import Candidate
from ledger.core.errors import LeaseLost
from ledger.primitives.leases.state import LeaseGrant, lease_key, record_item
from ledger.store.wrappers.faults import Call, Fault, NeverArrived


def candidate_of(world: World, instance: Instance) -> Candidate:
    """Return a candidate with the stores and settings of a process."""
    return Candidate(
        instance.stores,
        settings=instance.compactor.settings,
        owner="candidate",
        clock=world.clock,
        randomness=Random(3),  # noqa: S311 (repeatable)
        metrics=instance.compactor.metrics,
    )


async def leads(world: World, candidate: Candidate) -> None:
    """Let a candidate acquire the lease."""
    stop = anyio.Event()
    (outcome,) = await world.drive(lambda: candidate.acquire(wait_seconds=0, stop=stop))
    assert isinstance(outcome, LeaseGrant)


async def test_lease_lost_before_leading_is_not_led() -> None:
    """A candidate that stalls after acquiring, until another has the lease, does not lead."""
    world = World()
    candidate = candidate_of(world, world.instance())
    await leads(world, candidate)
    await world.clock.advance(LEASE + 1)
    taken = replace(world.lease(), owner="other", rvn="other", epoch=2)
    world.regions.replicas[HOME].table.set(lease_key("compactor"), record_item(taken))

    async def lead() -> None:
        async with candidate.leading() as grant:
            pytest.fail(f"led under {grant}")

    with pytest.raises(LeaseLost, match="lost before the pass began"):
        await world.drive(lead)
    assert world.lease().owner == "other"


async def test_hand_over_is_repeated_until_it_is_known() -> None:
    """A hand-over whose request never arrives is sent again until the lease names the new home."""
    world = World()
    instance = world.instance()
    candidate = candidate_of(world, instance)
    await leads(world, candidate)
    lost = 0

    def three(call: Call) -> Fault | None:
        nonlocal lost
        if call.operation != "write" or lost == 3:
            return None
        lost += 1
        return NeverArrived()

    instance.faults[HOME] = three
    await world.drive(lambda: candidate.hand_over(WEST))
    assert lost == 3
    assert world.lease().home == WEST

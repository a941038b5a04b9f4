"""Leadership on a virtual clock: a lease lost before a pass."""

from dataclasses import replace

import anyio
import pytest
from support.compacting import LEASE, Instance, World
from support.ledgers import HOME, seeded

from compactor.context import MergeContext
from compactor.leadership import Candidate
from compactor.memory import MergeMemory
from ledger.core.errors import LeaseLost
from ledger.primitives.leases.lease_rules import LeaseGrant, lease_key, record_item
from ledger.runtime.services import Services


def candidate_of(world: World, instance: Instance) -> Candidate:
    """Return a candidate with the stores and settings of a process."""
    compactor = instance.compactor
    services = Services.of(clock=world.clock, randomness=seeded(3))
    context = MergeContext(instance.stores, compactor.settings, services, compactor.metrics)
    return Candidate(context, MergeMemory(), owner="candidate")


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
    world.regions.replicas[HOME].table.set(lease_key(f"compactor@{HOME}"), record_item(taken))

    async def lead() -> None:
        async with candidate.leading() as grant:
            pytest.fail(f"led under {grant}")

    with pytest.raises(LeaseLost, match="lost before the pass began"):
        await world.drive(lead)
    assert world.lease().owner == "other"

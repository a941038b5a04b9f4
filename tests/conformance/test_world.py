"""The simulated world keeps the port's guarantees: what is proved there is proved of any store."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from conformance.store_items import KEY, item
from conformance.store_suite import StoreSuite
from proof.simulator.loop import VirtualLoop
from proof.simulator.process import RELIABLE, Process
from proof.simulator.randomness import stream
from proof.simulator.store import NO_FAULTS, SimStore
from proof.simulator.world import World

from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import Put

HOME, WEST = "us-east-1", "eu-west-1"


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Callable[..., Any]]]:
    """Run on virtual time, as the world does."""
    return "asyncio", {"loop_factory": VirtualLoop}


@pytest.fixture
async def world() -> World:
    """Return two regions in which nothing goes wrong."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return World((HOME, WEST), loop=loop, randomness=stream(1, "world"), page_items_max=3)


class TestReplica(StoreSuite):
    """One region's replica, with three items a page."""

    @pytest.fixture
    def store(self, world: World) -> Store:
        """Return a store over an empty table."""
        return world.replicas[HOME]


class TestSimStore(StoreSuite):
    """The replica as a process reaches it, over a network where requests only take their time."""

    @pytest.fixture
    def store(self, world: World) -> Store:
        """Return a store over an empty table."""
        return sim_store(world, HOME)


def sim_store(world: World, region: str) -> SimStore:
    """Return the store of a process that is always well."""
    process = Process(
        f"process in {region}",
        world=world,
        randomness=stream(1, region),
        reliability=RELIABLE,
        skew_seconds=0,
        span=1,
    )
    return SimStore(process, region, NO_FAULTS)


async def test_what_is_put_reaches_the_other_region(world: World) -> None:
    """The stores of two regions are stores of one table, some time later."""
    here, there = sim_store(world, HOME), sim_store(world, WEST)
    await here.write(Put(item()))
    assert await there.get(Get(KEY)) is None
    await asyncio.sleep(world.lag.usual_seconds)
    assert await there.get(Get(KEY)) == item()

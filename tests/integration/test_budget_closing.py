"""What a process that spends does as it closes, over connections that it opened late."""

from collections.abc import AsyncIterator

import pytest
from support.engines import REGIONS

from ledger import Granted, Table
from ledger.budgets.rights_items import read_budget
from ledger.local import LocalGlobalTable
from ledger.store.connections import open_stores

HERE, THERE = REGIONS[:2]


@pytest.fixture
async def world() -> AsyncIterator[LocalGlobalTable]:
    """Run a local global table of two regions."""
    async with LocalGlobalTable.start(regions=[HERE, THERE], lag=0.005, jitter=0.005) as started:
        yield started


async def test_a_process_that_fetched_goes_on_with_a_step_as_it_closes(
    world: LocalGlobalTable, caplog: pytest.LogCaptureFixture
) -> None:
    """Its connections to other regions are open until then, whenever they were opened."""
    settings = world.settings(budgets={"key/*": {"window": "hour", "late": "10m"}})
    async with Table.open(settings, region=HERE) as here:
        await here.budget("key/1").create(60)
        raised = await here.budget("key/1").raise_limit(5, id="order-1")
        assert raised.is_announced
        await world.wait_replicated()
        async with Table.open(settings, region=THERE) as there:
            spent = await there.budget("key/1").spend(45, wait=5)  # more than is there
            assert isinstance(spent, Granted)
    async with open_stores(settings) as stores:
        limit = (await read_budget(stores[HERE], "key/1")).limit
    assert limit is not None
    assert limit.shown is not None, "every region shows the step, and nobody noted it"
    assert "cannot be reached" not in caplog.text
    assert "left to be closed" not in caplog.text

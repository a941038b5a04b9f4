"""A region is taken out of a table while everything runs: no change is lost, none counts twice."""

from decimal import Decimal
from functools import partial
from typing import Any

import anyio
import pytest
from support.replicas import remove_replica

from compactor import Compactor
from ledger import ContractConflict, Table
from ledger.administration.contract_changes import contract_writer, refined
from ledger.contract.wait_report import Waiting
from ledger.core.contract_item import Contract
from ledger.local import LocalGlobalTable
from ledger.runtime.clock import SystemClock
from ledger.settings import Settings

pytestmark = pytest.mark.slow
HOME, STAYS, LEAVES = REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1")
TIMES = {"settle": 2.0, "observation_delay": 0.3, "retry_horizon": 0.9, "contract_life": 3.0}
COMPACTOR = {"fold_min": 1, "prune_min": 1, "lease": 10, "heartbeat": 1}


async def test_a_region_is_taken_out() -> None:
    """Refused there from the announcement on; in force once its replica is removed, not before."""
    async with LocalGlobalTable.start(regions=REGIONS, lag=0.01, jitter=0.02) as world:
        settings = world.settings(**TIMES, compactor=COMPACTOR)
        for region, change in zip(REGIONS, (1, 2, 4), strict=True):
            await record(settings, region, change)
        await world.wait_replicated()
        asked = anyio.Event()
        seen: list[Waiting] = []

        def report(waiting: Waiting) -> None:
            seen.append(waiting)
            if waiting.replicas:
                asked.set()

        ended: list[Contract] = []

        async def take_out() -> None:
            ended.append(await without(settings, report))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take_out)
            await asked.wait()
            assert seen[-1].replicas == (LEAVES,)
            with pytest.raises(ContractConflict, match=f"region {LEAVES} is not written to"):
                await record(settings, LEAVES, 8)
            await record(settings, STAYS, 16)
            assert (await Compactor(settings).run_once()).is_success  # of all three, until it goes
            assert ended == []
            await world.wait_replicated()
            remove = partial(remove_replica, world, LEAVES, through=HOME)
            await anyio.to_thread.run_sync(remove)

        (contract,) = ended
        assert (contract.terms.regions, contract.coming) == ((HOME, STAYS), None)
        for _ in range(4):
            await anyio.sleep(settings.settle)
            assert (await Compactor(settings).run_once()).is_success
            await world.wait_replicated()
        for region in (HOME, STAYS):
            async with Table.open(settings, region=region) as table:
                total = await table.ledger.total("a", max_age=0)
                assert (total.value, total.merged, total.entries) == (Decimal(23), 4, 0)
        assert await without(settings, report) == contract


async def without(settings: Settings, report: Any) -> Contract:
    """Take the region out, as `ledger table set regions` does."""
    wanted = partial(
        refined,
        name="regions",
        value=f"{HOME},{STAYS}",
        settings=settings,
        now=SystemClock().now(),
    )
    async with contract_writer(settings, report=report) as writer:
        return await writer.change(wanted)


async def record(settings: Settings, region: str, change: int) -> None:
    """Record a change in a region."""
    async with Table.open(settings, region=region) as table:
        await table.ledger.record("a", change)

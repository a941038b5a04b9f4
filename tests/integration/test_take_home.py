"""A home region that is lost for good: taken over, and what it wrote counts once or nowhere."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal

import anyio
import pytest
from support.replicas import remove_replica

from compactor import Compactor
from compactor.home_takeover import take_home, without_lost
from ledger import ContractChangeRefused, ContractConflict, InvalidInput, Table
from ledger.administration.contract_changes import show
from ledger.contract.wait_report import Waiting
from ledger.core.contract_item import Contract
from ledger.local import LocalGlobalTable
from ledger.runtime.clock import SystemClock
from ledger.settings import Settings

pytestmark = pytest.mark.slow
HOME, NEW, THIRD = REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1")
TIMES = {"settle": 2.0, "observation_delay": 0.3, "retry_horizon": 0.9, "contract_life": 3.0}
COMPACTOR = {"fold_min": 1, "lease": 10, "heartbeat": 1}
POLL_SECONDS = 0.05


@asynccontextmanager
async def a_world() -> AsyncIterator[tuple[LocalGlobalTable, Settings]]:
    """Start three regions with short durations."""
    async with LocalGlobalTable.start(regions=REGIONS, lag=0.01, jitter=0.02) as world:
        yield world, world.settings(**TIMES, compactor=COMPACTOR)


async def totals(settings: Settings, *counters: str) -> dict[str, list[Decimal]]:
    """Return the totals of counters in each remaining region."""
    found: dict[str, list[Decimal]] = {}
    for region in settings.regions:
        async with Table.open(settings, region=region) as table:
            shown = await table.ledger.totals(counters, max_age=0)
            found[region] = [shown[counter].value for counter in counters]
    return found


async def record(settings: Settings, region: str, counter: str, *changes: int) -> None:
    """Record changes in one region."""
    async with Table.open(settings, region=region) as table:
        await table.ledger.record_many([(counter, change) for change in changes])


async def test_a_lost_home_is_taken_over_and_merging_goes_on() -> None:
    """What arrived in part is completed everywhere, merged once, and the old net is gone."""
    async with a_world() as (world, settings):
        await record(settings, HOME, "a", 1, 2, 4)
        await world.wait_replicated()
        await anyio.sleep(settings.settle)
        await Compactor(settings).run_once()
        await world.wait_replicated()
        world.pause(HOME, THIRD)
        await record(settings, HOME, "a", 8)  # arrives in one region of two
        await anyio.sleep(0.5)
        world.pause(HOME, NEW)
        await record(settings, HOME, "a", 16)  # lost
        remaining = without_lost(settings, NEW, [HOME])
        with pytest.raises(ContractChangeRefused, match="still lists us-east-1"):
            await take_home(remaining, NEW, [HOME], clock=SystemClock(), report=ignored)
        await anyio.to_thread.run_sync(lambda: remove_replica(world, HOME, through=NEW))
        world.heal_all()  # what still comes from a region that is no replica is dropped

        waits: list[Waiting] = []
        contract = await take_home(
            remaining,
            NEW,
            [HOME],
            clock=SystemClock(),
            report=waits.append,
            poll_seconds=POLL_SECONDS,
        )
        assert (contract.generation, contract.terms.home) == (2, NEW)
        assert contract.terms.regions == (NEW, THIRD)
        assert (await totals(remaining, "a"))[NEW] == [Decimal(15)]

        await record(remaining, THIRD, "a", 32)
        for _ in range(6):
            await anyio.sleep(settings.settle)
            await Compactor(remaining).run_once()
            await world.wait_replicated()
        assert await totals(remaining, "a") == {NEW: [Decimal(47)], THIRD: [Decimal(47)]}
        for region in remaining.regions:
            async with Table.open(remaining, region=region) as table:
                total = await table.ledger.total("a", max_age=0)
                assert (total.merged, total.entries) == (5, 0)


async def test_a_lost_region_that_was_not_home_is_given_up_alike() -> None:
    """The home stays, the generation too; an entry that one region alone got reaches the other."""
    async with a_world() as (world, settings):
        world.pause(THIRD, NEW)
        await record(settings, THIRD, "b", 3)  # arrives at home only
        await record(settings, HOME, "b", 5)
        await anyio.sleep(0.5)
        remaining = without_lost(settings, HOME, [THIRD])
        await anyio.to_thread.run_sync(lambda: remove_replica(world, THIRD, through=HOME))
        world.heal_all()
        contract = await take_home(
            remaining, HOME, [THIRD], clock=SystemClock(), report=ignored, poll_seconds=POLL_SECONDS
        )
        assert (contract.generation, contract.terms.home) == (1, HOME)
        assert await totals(remaining, "b") == {HOME: [Decimal(8)], NEW: [Decimal(5)]}
        for _ in range(5):
            await anyio.sleep(settings.settle)
            await Compactor(remaining).run_once()
            await world.wait_replicated()
        assert await totals(remaining, "b") == {HOME: [Decimal(8)], NEW: [Decimal(8)]}


async def test_a_take_over_that_was_interrupted_is_finished_by_a_later_run() -> None:
    """Killed while it waits, it leaves a pending change; merging waits; the next run ends it."""
    async with a_world() as (world, settings):
        await record(settings, NEW, "c", 1)
        await world.wait_replicated()
        remaining = without_lost(settings, NEW, [HOME])
        await anyio.to_thread.run_sync(lambda: remove_replica(world, HOME, through=NEW))

        def kill(waiting: Waiting) -> None:
            if waiting.seconds_left:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            await take_home(
                remaining, NEW, [HOME], clock=SystemClock(), report=kill, poll_seconds=POLL_SECONDS
            )
        with pytest.raises(ContractConflict, match="do not say at which endpoint it is"):
            await Compactor(remaining).run_once()  # it would have to observe the lost region, too
        contract = await take_home(
            remaining, NEW, [HOME], clock=SystemClock(), report=ignored, poll_seconds=POLL_SECONDS
        )
        assert (contract.generation, contract.coming) == (2, None)
        assert (await totals(remaining, "c"))[THIRD] == [Decimal(1)]
        assert (await Compactor(remaining).run_once()).led


async def test_of_two_operators_one_takes_over() -> None:
    """Each through a region of its own, at the same time: one contract is in force, everywhere."""
    async with a_world() as (world, settings):
        await anyio.to_thread.run_sync(lambda: remove_replica(world, HOME, through=NEW))
        ended: list[object] = []

        async def operator(target: str) -> None:
            remaining = without_lost(settings, target, [HOME])
            try:
                ended.append(
                    await take_home(
                        remaining,
                        target,
                        [HOME],
                        clock=SystemClock(),
                        report=ignored,
                        poll_seconds=POLL_SECONDS,
                    )
                )
            except (ContractChangeRefused, InvalidInput) as error:
                ended.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(operator, NEW)
            tasks.start_soon(operator, THIRD)
        await world.wait_replicated()
        homes = {contract.terms.home for contract in ended if isinstance(contract, Contract)}
        assert len(homes) == 1
        remaining = without_lost(settings, homes.pop(), [HOME])
        shown = await show(remaining)
        assert not shown.behind


def ignored(_waiting: Waiting) -> None:
    """Do nothing."""

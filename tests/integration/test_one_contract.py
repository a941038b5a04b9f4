"""Processes whose files disagree: each is refused by the table's contract, or the total is right.

Without the contract each of these pairs of files gave a wrong total, and nothing said so: a writer
with `shards: {"visits": 4}` beside a reader without (18 of 100); a retry horizon of 30 minutes
beside a compactor's default (2 for 1); a read deadline of 100 s beside a compactor's observation
delay of 20 s (8 for 4); a replica that the compactor's file lacks (2 for 1).
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import anyio
import pytest
from support.contracts import announce
from support.worlds import open_ledgers, totals

from compactor import Compactor
from ledger import ContractConflict, Ledger, Table
from ledger.local import LocalGlobalTable
from ledger.runtime.clock import SystemClock
from ledger.settings import Settings

pytestmark = pytest.mark.slow

HOME, AWAY = REGIONS = ("us-east-1", "eu-west-1")


@pytest.fixture
async def world() -> AsyncIterator[LocalGlobalTable]:
    """A table of two regions, its contract that of the defaults."""
    starting = LocalGlobalTable.start(regions=REGIONS, lag=0.01, jitter=0.01, replica_seconds=0.01)
    async with starting as world:
        yield world


def file_of(world: LocalGlobalTable, **values: Any) -> Settings:
    """Return settings that say how to reach the table, and these values."""
    reach = {region: {"endpoint": url} for region, url in world.endpoints.items()}
    return Settings(**{"table": world.table, "regions": reach, **values})


async def with_ledger(settings: Settings) -> None:
    """Open a ledger by these settings."""
    async with Ledger.open(settings):
        pass


async def with_table(settings: Settings) -> None:
    """Open a table by these settings."""
    async with Table.open(settings):
        pass


async def with_compactor(settings: Settings) -> None:
    """Do a pass by these settings."""
    await Compactor(settings).run_once()


PARTS = [with_ledger, with_table, with_compactor]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"shards": {"visits": 4}}, r"shards is \{'visits': .*count=4.* in the settings, \{\} in"),
        (
            {"retry_horizon": "30m", "settle": "47m"},
            "settle is 2820 s in the settings, 1320 s in the contract",
        ),
        (
            {"read_deadline": 100, "observation_delay": 120},
            "observation_delay is 120 s in the settings, 20 s in the contract",
        ),
    ],
    ids=["shards", "horizon", "deadline"],
)
async def test_another_value_is_refused(
    world: LocalGlobalTable, part: Callable[[Settings], Awaitable[None]], values: Any, message: str
) -> None:
    """Both values are named, before anything is read or written."""
    with pytest.raises(ContractConflict, match=message):
        await part(file_of(world, **values))


async def test_a_reader_without_the_shards_reads_them_all(world: LocalGlobalTable) -> None:
    """The number of shards is the table's: 100 changes of four shards are 100 for everyone."""
    world.settings(shards={"visits": 4})
    plain, sharded = file_of(world), file_of(world, shards={"visits": 4})
    async with Ledger.open(sharded) as writer, Ledger.open(plain) as reader:
        await writer.record_many(("visits", 1) for _ in range(100))
        assert (await reader.total("visits", max_age=0)).value == 100
        async with Table.open(plain, region=AWAY) as away:
            await world.wait_replicated()
            assert (await away.ledger.total("visits", max_age=0)).value == 100


async def test_shards_that_come_are_read_before_they_are_written(world: LocalGlobalTable) -> None:
    """A ledger opened while the change is pending reads both numbers, and writes by the old one."""
    settings = world.settings()
    coming = Settings(regions=settings.regions, shards={"visits": 4}).terms
    await announce(settings, replace(settings.terms, shards=coming.shards))
    async with Ledger.open(file_of(world)) as pending:
        await pending.record_many(("visits", 1) for _ in range(20))
        world.settings(shards={"visits": 4})
        async with Ledger.open(file_of(world)) as grown:
            await grown.record_many(("visits", 1) for _ in range(20))
        assert (await pending.total("visits", max_age=0)).value == 40


async def test_a_longer_horizon_is_every_compactors(world: LocalGlobalTable) -> None:
    """A change of 25 minutes ago may be repeated, so no compactor settles by its own 22 minutes."""
    world.settings(settle=3600.0, retry_horizon=1800.0)
    compactor = Compactor(file_of(world, compactor={"fold_min": 1, "scan_every": 0}))
    made = SystemClock().now() - timedelta(minutes=25)
    async with Ledger.open(file_of(world)) as ledger:
        for _repeated in range(2):
            await ledger.record("balance", 1, key="order-7", at=made)
            await world.wait_replicated()
            assert (await compactor.run_once()).merged == 0
        assert (await ledger.total("balance", max_age=0)).value == 1
        world.settings(observation_delay=0.2)  # and with the settle of the defaults
        assert (await compactor.run_once()).merged == 1


async def test_a_compactor_without_one_of_the_regions_is_refused(world: LocalGlobalTable) -> None:
    """It could not observe it; where the table is AWS's it is found, here it must be named."""
    reach = {HOME: {"endpoint": world.endpoints[HOME]}}
    with pytest.raises(ContractConflict, match=f"names region {AWAY}.*add it to `regions`"):
        await Compactor(Settings(table=world.table, regions=reach)).run_once()


async def test_a_file_that_only_reaches_the_table_is_enough(world: LocalGlobalTable) -> None:
    """Table, regions and endpoints: writers, readers and the compactor take the rest."""
    world.settings(settle=3.0, retry_horizon=1.2, observation_delay=0.4, read_deadline=0.3)
    plain = file_of(world)
    assert plain.model_fields_set == {"table", "regions"}
    async with open_ledgers(plain) as ledgers:
        for ledger in ledgers.values():
            await ledger.record_many(("balance", 1) for _ in range(10))
        await world.wait_replicated()
        await anyio.sleep(3.1)
        report = await Compactor(plain.replace(compactor={"scan_every": 0})).run_once()
        assert report.merged == 20
        await world.wait_replicated()
        assert await totals(ledgers, "balance") == dict.fromkeys(REGIONS, 20)

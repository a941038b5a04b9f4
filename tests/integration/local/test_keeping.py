"""A local global table that keeps its state in a folder, over stops, kills and starts."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from botocore.exceptions import BotoCoreError, ClientError
from support.engines import ENGINES, REGIONS
from support.local_worlds import EAST, TABLE, WEST, World, clients, item, make_table, open_world

from ledger.core.errors import LocalTableError
from ledger.local import LocalGlobalTable
from ledger.local.process import start_child, stop_child

pytestmark = pytest.mark.slow

ITEM = {**item("a", n=1), "b": {"B": b"\x00\xff"}, "s": {"SS": ["x", "y"]}, "m": {"M": {}}}
ACKNOWLEDGED_FIRST = 20


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Return each engine that is here."""
    return str(request.param)


async def test_a_later_start_goes_on(engine: str, tmp_path: Path) -> None:
    """Items, deletes, table settings and other tables are there again, in every region."""
    async with open_world(engine, data=tmp_path) as world:
        await set_up(world)
        contract = await world.everything(WEST)
    async with open_world(engine, data=tmp_path, create=False, lag=60) as world:
        assert set(world.table.status()["queued"].values()) == {0}
        for region in REGIONS:
            assert await world.get(region, "a") == ITEM
            assert await world.get(region, "gone") is None
        assert await world.everything(WEST) == contract
        client = world.clients[WEST]
        shown = await client.describe_time_to_live(TableName=TABLE)
        assert shown["TimeToLiveDescription"]["AttributeName"] == "expires"
        assert (await world.clients[EAST].list_tables())["TableNames"] == [TABLE, "other"]
        described = (await client.describe_table(TableName=TABLE))["Table"]
        assert len(described["Replicas"]) == 2
        world.table.set_lag(0)
        await world.put(EAST, "a", n=2)
        await world.table.wait_replicated()
        assert await world.numbers("a") == ["2"] * 3


async def set_up(world: World) -> None:
    """Write what a later start has to find."""
    client = world.clients[EAST]
    wanted = {"Enabled": True, "AttributeName": "expires"}
    await client.update_time_to_live(TableName=TABLE, TimeToLiveSpecification=wanted)
    await client.create_table(
        TableName="other",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "N"}],
    )
    await client.put_item(TableName="other", Item={"k": {"N": "1"}})
    await client.put_item(TableName=TABLE, Item=ITEM)
    await world.put(EAST, "gone")
    await world.table.wait_replicated()
    await world.delete(WEST, "gone")
    await world.table.wait_replicated()


async def test_what_was_on_its_way_arrives_after_the_start(engine: str, tmp_path: Path) -> None:
    """A put and a delete that a partition held arrive; an older write does not come back."""
    async with open_world(engine, data=tmp_path) as world:
        for pk in ("old", "both"):
            await world.put(EAST, pk, n=1)
        await world.table.wait_replicated()
        world.table.pause(EAST, WEST)
        await world.put(EAST, "new", n=1)
        await world.delete(EAST, "old")
        await world.put(EAST, "both", n=2)
        await world.put(WEST, "both", n=3)
        assert await world.number(WEST, "old") == "1"
    async with open_world(engine, data=tmp_path, create=False) as world:
        await world.table.wait_replicated()
        assert await world.numbers("new") == ["1"] * 3
        assert await world.numbers("old") == [None] * 3
        assert await world.numbers("both") == ["3"] * 3


async def test_a_token_counts_after_the_start(tmp_path: Path) -> None:
    """A transaction that is repeated with its token is not applied again."""
    update: dict[str, Any] = {
        "TableName": TABLE,
        "Key": item("a"),
        "UpdateExpression": "ADD n :d",
        "ExpressionAttributeValues": {":d": {"N": "1"}},
    }
    call = {"TransactItems": [{"Update": update}], "ClientRequestToken": "once"}
    for create in (True, False):
        async with open_world(data=tmp_path, create=create) as world:
            await world.clients[EAST].transact_write_items(**call)
            assert await world.number(EAST, "a") == "1"


async def test_a_reset_is_kept_too(tmp_path: Path) -> None:
    """After a reset a later start has the tables without items."""
    async with open_world(data=tmp_path) as world:
        await world.put(EAST, "a")
        await world.table.wait_replicated()
        world.table.reset()
    async with open_world(data=tmp_path, create=False) as world:
        assert [await world.get(region, "a") for region in REGIONS] == [None] * 3


async def test_a_folder_of_other_regions_is_refused(tmp_path: Path) -> None:
    """The error names both, and nothing is written over."""
    async with open_world(data=tmp_path) as world:
        await world.put(EAST, "a", n=1)
    with pytest.raises(LocalTableError, match=f"{WEST}.*asked for are {EAST}: choose"):
        async with LocalGlobalTable.start(regions=[EAST], data=tmp_path):
            pass
    async with open_world(data=tmp_path, create=False) as world:
        assert await world.number(EAST, "a") == "1"


async def test_a_kill_loses_nothing_that_was_answered(engine: str, tmp_path: Path) -> None:
    """After SIGKILL every answered transaction is there, and none is there in part."""
    options: dict[str, Any] = {
        "regions": REGIONS,
        "engine": engine,
        "data": str(tmp_path),
        "create": False,
    }
    options |= {"replica_seconds": 0.01, "lag": 0.002, "jitter": 0.02}
    process, status = await anyio.to_thread.run_sync(start_child, options)
    answered = 0
    try:
        async with clients(LocalGlobalTable.connect(status["control_url"]).endpoints) as opened:
            client = opened[EAST]
            await make_table(opened)

            async def write() -> None:
                nonlocal answered
                with suppress(BotoCoreError, ClientError):
                    while True:
                        await client.transact_write_items(TransactItems=five(answered + 1))
                        answered += 1

            async with anyio.create_task_group() as group:
                group.start_soon(write)
                while answered < ACKNOWLEDGED_FIRST:
                    await anyio.lowlevel.checkpoint()
                process.kill()
    finally:
        await anyio.to_thread.run_sync(stop_child, process)
    async with open_world(engine, data=tmp_path, create=False) as world:
        found = {await world.number(EAST, f"counter{number}") for number in range(5)}
        assert found in ({str(answered)}, {str(answered + 1)})
        await world.table.wait_replicated()
        assert {await world.number(WEST, f"counter{number}") for number in range(5)} == found


def five(value: int) -> list[dict[str, Any]]:
    """Give the actions that put a value into five items."""
    return [
        {"Put": {"TableName": TABLE, "Item": item(f"counter{number}", n=value)}}
        for number in range(5)
    ]

"""What a global table does between its regions, on both engines."""

import random

import anyio
import pytest
from botocore.exceptions import ClientError
from support.local_worlds import (
    ASIA,
    EAST,
    TABLE,
    WEST,
    World,
    code,
    item,
    open_world,
    until_active,
)

from ledger.core.errors import LocalTableError

pytestmark = pytest.mark.slow

LONG_JITTER_SECONDS = 3.0
"""So long that a read falls between the first and the last of twenty items."""
WAIT_SECONDS = 30.0


async def test_a_write_reaches_the_other_regions(world: World) -> None:
    """What is put, changed and deleted in one region ends the same in all."""
    await world.put(EAST, "kept", n=1)
    await world.put(EAST, "gone", n=1)
    await world.delete(EAST, "gone")
    await world.add(EAST, "kept", 4)
    await world.table.wait_replicated()
    assert await world.numbers("kept") == ["5"] * 3
    assert await world.numbers("gone") == [None] * 3


async def test_a_paused_pair_holds_one_direction_only(world: World) -> None:
    """Pausing A to B leaves B to A and A to C as they are; healing delivers what was held."""
    world.table.pause(EAST, WEST)
    await world.put(EAST, "from-east", n=1)
    await world.put(WEST, "from-west", n=2)
    with pytest.raises(LocalTableError, match=rf"{EAST} -> {WEST}.*paused"):
        await world.table.wait_replicated(timeout=0.3)
    assert await world.numbers("from-east") == ["1", None, "1"]
    assert await world.numbers("from-west") == ["2"] * 3
    assert world.table.status()["paused"] == [[EAST, WEST]]
    world.table.heal(EAST, WEST)
    await world.table.wait_replicated()
    assert await world.numbers("from-east") == ["1"] * 3


async def test_the_later_of_two_concurrent_writes_wins_everywhere(world: World) -> None:
    """Two regions write one item during a partition: the later write stays, whole."""
    world.table.pause(EAST, WEST)
    world.table.pause(WEST, EAST)
    await world.clients[EAST].put_item(TableName=TABLE, Item=item("a", first=1))
    await world.clients[WEST].put_item(TableName=TABLE, Item=item("a", second=2))
    world.table.heal_all()
    await world.table.wait_replicated()
    assert [await world.get(region, "a") for region in world.clients] == [item("a", second=2)] * 3
    assert world.table.status()["dropped"] >= 1


async def test_a_delete_wins_over_an_earlier_put_that_arrives_later(world: World) -> None:
    """A put held up on its way does not bring back what was deleted after it."""
    world.table.pause(EAST, WEST)
    await world.put(EAST, "a", n=1)
    await world.put(WEST, "a", n=2)
    await world.delete(WEST, "a")
    world.table.heal_all()
    await world.table.wait_replicated()
    assert await world.numbers("a") == [None] * 3


async def test_a_put_wins_over_an_earlier_delete_that_arrives_later(world: World) -> None:
    """A delete held up on its way does not take what was put after it."""
    await world.put(EAST, "a", n=1)
    await world.table.wait_replicated()
    world.table.pause(EAST, WEST)
    await world.delete(EAST, "a")
    await world.put(WEST, "a", n=2)
    world.table.heal_all()
    await world.table.wait_replicated()
    assert await world.numbers("a") == ["2"] * 3


async def test_concurrent_adds_lose_one_side(world: World) -> None:
    """The seed article's case: 4, minus 1 in one region, minus 2 in another, ends at 2 in all."""
    await world.put(EAST, "counter", n=4)
    await world.table.wait_replicated()
    world.table.pause(EAST, WEST)
    world.table.pause(WEST, EAST)
    await world.add(EAST, "counter", -1)
    await world.add(WEST, "counter", -2)
    world.table.heal_all()
    await world.table.wait_replicated()
    assert await world.numbers("counter") == ["2"] * 3


async def test_items_of_a_transaction_arrive_one_by_one() -> None:
    """A transaction is seen in part in another region while its items are on their way."""
    async with open_world(lag=0.0, jitter=LONG_JITTER_SECONDS, seed=3) as world:
        actions = [{"Put": {"TableName": TABLE, "Item": item("t", str(n))}} for n in range(20)]
        await world.clients[EAST].transact_write_items(TransactItems=actions)
        seen = 0
        with anyio.fail_after(WAIT_SECONDS):
            while not seen:
                seen = len(await world.everything(WEST))
        assert seen < 20, "never seen in part"


async def test_items_arrive_in_another_order_than_they_were_written() -> None:
    """Of items written one after the other, some later one arrives before an earlier one."""
    async with open_world(lag=0.0, jitter=LONG_JITTER_SECONDS, seed=3) as world:
        for number in range(20):
            await world.put(EAST, "order", f"{number:02}")
        disorder = False
        with anyio.fail_after(WAIT_SECONDS):
            while not disorder:
                there = [found["sk"]["S"] for found in await world.everything(WEST)]
                disorder = there != [f"{number:02}" for number in range(len(there))]
                assert disorder or len(there) < 20, "all arrived in the order of writing"


async def test_conditions_see_the_local_replica_only(world: World) -> None:
    """`attribute_not_exists` succeeds in two regions at once, and fails once the item is there."""
    world.table.pause(EAST, WEST)
    put = {"TableName": TABLE, "ConditionExpression": "attribute_not_exists(pk)"}
    await world.clients[EAST].put_item(**put, Item=item("a", n=1))
    await world.clients[WEST].put_item(**put, Item=item("a", n=2))
    world.table.heal_all()
    await world.table.wait_replicated()
    for client in world.clients.values():
        with pytest.raises(ClientError) as caught:
            await client.put_item(**put, Item=item("a", n=3))
        assert code(caught.value) == "ConditionalCheckFailedException"
    assert await world.numbers("a") == ["2"] * 3


async def test_what_changes_nothing_is_not_replicated(world: World) -> None:
    """Failed conditions, repeated puts, idle updates and deletes of nothing send nothing."""
    await world.put(EAST, "a", n=1)
    await world.table.wait_replicated()
    before = world.table.status()["applied"]
    client = world.clients[EAST]
    await world.put(EAST, "a", n=1)
    await world.delete(EAST, "never-there")
    await world.add(EAST, "a", 0)
    await client.batch_write_item(
        RequestItems={
            TABLE: [
                {"PutRequest": {"Item": item("a", n=1)}},
                {"DeleteRequest": {"Key": item("never-there")}},
            ]
        }
    )
    with pytest.raises(ClientError):
        await client.delete_item(
            TableName=TABLE, Key=item("a"), ConditionExpression="attribute_not_exists(pk)"
        )
    await world.table.wait_replicated()
    status = world.table.status()
    assert (status["applied"], status["dropped"]) == (before, 0)


@pytest.mark.parametrize("seed", [1, 2])
async def test_regions_converge_after_chaos(world: World, seed: int) -> None:
    """Writes of all kinds in all regions, under partitions that come and go, end alike."""
    chosen = random.Random(seed)  # noqa: S311 (a repeatable plan)
    keys = [f"k{number}" for number in range(12)]
    regions = list(world.clients)

    async def write(region: str, kind: int, key: str, value: int) -> None:
        client = world.clients[region]
        if kind == 0:
            await world.put(region, key, n=value)
        elif kind == 1:
            await world.delete(region, key)
        elif kind == 2:
            await world.add(region, key, value)
        elif kind == 3:
            other = keys[(keys.index(key) + 1) % len(keys)]
            await client.transact_write_items(
                TransactItems=[
                    {"Put": {"TableName": TABLE, "Item": item(key, n=value)}},
                    {"Delete": {"TableName": TABLE, "Key": item(other)}},
                ]
            )
        else:
            requests = [{"PutRequest": {"Item": item(k, n=value)}} for k in keys[:5]]
            await client.batch_write_item(RequestItems={TABLE: requests})

    for _ in range(12):
        source, target = chosen.sample(regions, 2)
        world.table.pause(source, target)
        async with anyio.create_task_group() as group:
            for _ in range(12):
                drawn = (chosen.choice(regions), chosen.randrange(5), chosen.choice(keys))
                group.start_soon(write, *drawn, chosen.randrange(100))
        if chosen.random() < 0.6:
            world.table.heal_all()
    world.table.heal_all()
    await world.table.wait_replicated()
    east, west, asia = [await world.everything(region) for region in (EAST, WEST, ASIA)]
    assert east == west == asia
    assert world.table.status()["dropped"] > 0


@pytest.mark.parametrize("key", ["pk", "id"])
async def test_a_table_made_again_gets_nothing_of_the_old_one(key: str) -> None:
    """Items on their way are those of the table that was deleted, and replication goes on."""
    async with open_world(lag=0.4, jitter=0.0) as world:
        await world.put(EAST, "old", n=1)
        for client in world.clients.values():
            await client.delete_table(TableName=TABLE)
        east = world.clients[EAST]
        await east.create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        )
        for region in (WEST, ASIA):
            update = [{"Create": {"RegionName": region}}]
            await east.update_table(TableName=TABLE, ReplicaUpdates=update)
            await until_active(east)
        await east.put_item(TableName=TABLE, Item={key: {"S": "new"}})
        await world.table.wait_replicated(timeout=WAIT_SECONDS)
        for region in world.clients:
            found = await world.clients[region].scan(TableName=TABLE)
            assert found["Items"] == [{key: {"S": "new"}}], region

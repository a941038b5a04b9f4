"""The control plane of a global table, through plain clients."""

from typing import Any

import pytest
from botocore.exceptions import ClientError
from support.engines import ENGINES
from support.local_worlds import ASIA, EAST, WEST, World, code, item, open_world, until_active

pytestmark = pytest.mark.slow

NAME = "other"
KEYS: dict[str, Any] = {
    "KeySchema": [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ],
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "S"},
    ],
    "BillingMode": "PAY_PER_REQUEST",
}
STREAM = {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}}


async def refused(call: Any, kind: str, match: str) -> None:
    """Check that a call is refused with this error."""
    with pytest.raises(ClientError, match=match) as caught:
        await call
    assert code(caught.value) == kind


async def add_replica(client: Any, region: str) -> dict[str, Any]:
    """Add a replica and wait until the table is ACTIVE again; give its first description."""
    update = {"ReplicaUpdates": [{"Create": {"RegionName": region}}]}
    answer: dict[str, Any] = await client.update_table(TableName=NAME, **update)
    await until_active(client, NAME)
    return dict(answer["TableDescription"])


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_replica_is_created_after_a_while_and_filled(engine: str) -> None:
    """A replica is CREATING first, then ACTIVE, and then holds what was written before it."""
    async with open_world(engine, replica_seconds=2.0, create=False) as world:
        client = world.clients[EAST]
        await client.create_table(TableName=NAME, **KEYS, **STREAM)
        for number in range(30):
            await client.put_item(TableName=NAME, Item=item("a", str(number)))
        described = await add_replica(client, WEST)
        assert described["TableStatus"] == "UPDATING"
        assert described["Replicas"] == [{"RegionName": WEST, "ReplicaStatus": "CREATING"}]
        await world.table.wait_replicated()
        final = (await client.describe_table(TableName=NAME))["Table"]
        assert final["GlobalTableVersion"] == "2019.11.21"
        assert final["Replicas"] == [{"RegionName": WEST, "ReplicaStatus": "ACTIVE"}]
        assert (await world.clients[WEST].scan(TableName=NAME))["Count"] == 30


async def test_a_table_without_replicas_does_not_replicate(world: World) -> None:
    """A table that was never made global stays in its region, also beside one of the same name."""
    for region in (EAST, WEST):
        await world.clients[region].create_table(TableName=NAME, **KEYS)
    await world.clients[EAST].put_item(TableName=NAME, Item=item("a"))
    await world.table.wait_replicated()
    assert (await world.clients[WEST].scan(TableName=NAME))["Count"] == 0
    missing = world.clients[ASIA].scan(TableName=NAME)
    await refused(missing, "ResourceNotFoundException", "not found")


async def test_a_new_replica_gets_what_is_still_on_its_way_to_the_others(world: World) -> None:
    """Writes and deletes that one region has not sent yet reach a replica added meanwhile."""
    client, west = world.clients[EAST], world.clients[WEST]
    await client.create_table(TableName=NAME, **KEYS, **STREAM)
    await add_replica(client, WEST)
    await client.put_item(TableName=NAME, Item=item("gone"))
    await world.table.wait_replicated()
    world.table.pause(WEST, EAST)
    world.table.pause(EAST, WEST)
    await west.put_item(TableName=NAME, Item=item("new"))
    await client.delete_item(TableName=NAME, Key=item("gone"))
    await add_replica(client, ASIA)
    world.table.heal_all()
    await world.table.wait_replicated()
    for region in world.clients:
        found = (await world.clients[region].scan(TableName=NAME))["Items"]
        assert found == [item("new")], region


async def test_a_replica_needs_a_full_stream_and_a_known_region(world: World) -> None:
    """A table without stream, and a region that is not there, are refused by rule."""
    client = world.clients[EAST]
    await client.create_table(TableName=NAME, **KEYS)
    create = {"ReplicaUpdates": [{"Create": {"RegionName": WEST}}]}
    call = client.update_table(TableName=NAME, **create)
    await refused(call, "ValidationException", "NEW_AND_OLD_IMAGES")
    await client.update_table(TableName=NAME, **STREAM)
    create["ReplicaUpdates"][0]["Create"]["RegionName"] = "eu-south-2"
    call = client.update_table(TableName=NAME, **create)
    await refused(call, "ValidationException", "eu-south-2")


async def test_a_table_is_busy_while_a_replica_is_made() -> None:
    """Until a replica is ACTIVE the table takes no other change, and the replica no requests."""
    async with open_world(replica_seconds=3600.0, create=False) as world:
        client = world.clients[EAST]
        await client.create_table(TableName=NAME, **KEYS, **STREAM)
        create = {"ReplicaUpdates": [{"Create": {"RegionName": WEST}}]}
        await client.update_table(TableName=NAME, **create)
        busy = "ResourceInUseException"
        create["ReplicaUpdates"][0]["Create"]["RegionName"] = ASIA
        await refused(client.update_table(TableName=NAME, **create), busy, "updating")
        await refused(client.delete_table(TableName=NAME), busy, "updating")
        await client.put_item(TableName=NAME, Item=item("a"))
        scan = world.clients[WEST].scan(TableName=NAME)
        await refused(scan, "ResourceNotFoundException", "not found")


async def test_a_removed_replica_is_gone_and_gets_nothing_more(world: World) -> None:
    """After its removal a region has no table, and the others go on replicating."""
    client = world.clients[EAST]
    await client.create_table(TableName=NAME, **KEYS, **STREAM)
    await add_replica(client, WEST)
    await add_replica(client, ASIA)
    delete = {"ReplicaUpdates": [{"Delete": {"RegionName": WEST}}]}
    await client.update_table(TableName=NAME, **delete)
    await client.put_item(TableName=NAME, Item=item("a"))
    await world.table.wait_replicated()
    assert (await world.clients[ASIA].scan(TableName=NAME))["Count"] == 1
    assert (await world.clients[WEST].list_tables())["TableNames"] == ["ledger"]


async def test_deletion_protection_and_recovery_belong_to_each_replica(world: World) -> None:
    """Protection refuses DeleteTable in its own region only; so with point-in-time recovery."""
    client, west = world.clients[EAST], world.clients[WEST]
    await client.create_table(TableName=NAME, **KEYS, **STREAM, DeletionProtectionEnabled=True)
    await add_replica(client, WEST)
    await refused(client.delete_table(TableName=NAME), "ValidationException", "protected")
    recovery = {"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}}
    await client.update_continuous_backups(TableName=NAME, **recovery)

    async def recovers(one: Any) -> str:
        answer = await one.describe_continuous_backups(TableName=NAME)
        described = answer["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"]
        return str(described["PointInTimeRecoveryStatus"])

    assert [await recovers(client), await recovers(west)] == ["ENABLED", "DISABLED"]
    await west.delete_table(TableName=NAME)
    await client.update_table(TableName=NAME, DeletionProtectionEnabled=False)
    await client.delete_table(TableName=NAME)
    assert (await client.list_tables())["TableNames"] == ["ledger"]


async def test_tags_and_time_to_live(world: World) -> None:
    """Tags are kept per replica; time to live is set once for the whole table."""
    client, west = world.clients[EAST], world.clients[WEST]
    arn = (await client.describe_table(TableName="ledger"))["Table"]["TableArn"]
    await client.tag_resource(ResourceArn=arn, Tags=[{"Key": "team", "Value": "ledger"}])
    tags = await client.list_tags_of_resource(ResourceArn=arn)
    assert tags["Tags"] == [{"Key": "team", "Value": "ledger"}]
    await client.untag_resource(ResourceArn=arn, TagKeys=["team"])
    assert (await client.list_tags_of_resource(ResourceArn=arn))["Tags"] == []
    wanted = {"Enabled": True, "AttributeName": "expires"}
    await client.update_time_to_live(TableName="ledger", TimeToLiveSpecification=wanted)
    shown = await west.describe_time_to_live(TableName="ledger")
    assert shown["TimeToLiveDescription"]["TimeToLiveStatus"] == "ENABLED"


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"TableName": "no spaces"}, "tableName"),
        ({"AttributeDefinitions": KEYS["AttributeDefinitions"][:1]}, "AttributeDefinitions"),
        ({"BillingMode": "PROVISIONED"}, "ReadCapacityUnits"),
        ({"KeySchema": [{"AttributeName": "sk", "KeyType": "RANGE"}]}, "KeySchema"),
        (
            {
                "LocalSecondaryIndexes": [
                    {
                        "IndexName": "byn",
                        "KeySchema": KEYS["KeySchema"],
                        "Projection": {"ProjectionType": "ALL"},
                    }
                ]
            },
            "not supported",
        ),
    ],
)
async def test_wrong_tables_are_refused(world: World, change: dict[str, Any], match: str) -> None:
    """A name, key or billing mode that breaks a rule is refused with the rule."""
    request = {"TableName": NAME, **KEYS, **change}
    await refused(world.clients[EAST].create_table(**request), "ValidationException", match)


async def test_warm_throughput_is_shown_raised_for_all_replicas_and_never_lowered(
    world: World,
) -> None:
    """A new table has AWS's first values; what is raised in one region holds in each."""
    first = {"ReadUnitsPerSecond": 12_000, "WriteUnitsPerSecond": 4_000, "Status": "ACTIVE"}
    more = {"ReadUnitsPerSecond": 20_000, "WriteUnitsPerSecond": 40_000}
    client = world.clients[EAST]
    await client.create_table(TableName=NAME, **KEYS, **STREAM)
    assert (await client.describe_table(TableName=NAME))["Table"]["WarmThroughput"] == first
    await add_replica(client, WEST)
    await client.update_table(TableName=NAME, WarmThroughput=more)
    for region in (EAST, WEST):
        described = await world.clients[region].describe_table(TableName=NAME)
        assert described["Table"]["WarmThroughput"] == {**more, "Status": "ACTIVE"}
    lower = client.update_table(TableName=NAME, WarmThroughput={"WriteUnitsPerSecond": 4_000})
    await refused(lower, "ValidationException", "lower than the current warm throughput")

"""Local global tables under test, with one plain client per region."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from aiobotocore.session import get_session
from botocore.config import Config
from botocore.exceptions import ClientError
from support.engines import REGIONS

from ledger.local import LocalGlobalTable

TABLE = "ledger"
EAST, WEST, ASIA = REGIONS
READ_SECONDS = 30.0
POLL_SECONDS = 0.01
_SESSION = get_session()  # keeps what it has read of botocore's models, which takes long


@dataclass(frozen=True, slots=True)
class World:
    """A running local global table and a client for each of its regions, without SDK retries."""

    table: LocalGlobalTable
    clients: Mapping[str, Any]

    async def put(self, region: str, pk: str, sk: str = "x", **numbers: int) -> None:
        """Put an item with number attributes."""
        await self.clients[region].put_item(TableName=TABLE, Item=item(pk, sk, **numbers))

    async def delete(self, region: str, pk: str, sk: str = "x") -> None:
        """Delete an item."""
        await self.clients[region].delete_item(TableName=TABLE, Key=item(pk, sk))

    async def add(self, region: str, pk: str, amount: int) -> None:
        """Add to attribute `n` of an item, as an atomic counter does."""
        await self.clients[region].update_item(
            TableName=TABLE,
            Key=item(pk),
            UpdateExpression="ADD n :d",
            ExpressionAttributeValues={":d": {"N": str(amount)}},
        )

    async def get(self, region: str, pk: str, sk: str = "x") -> dict[str, Any] | None:
        """Read an item, None if it is not there."""
        answer = await self.clients[region].get_item(
            TableName=TABLE, Key=item(pk, sk), ConsistentRead=True
        )
        found: dict[str, Any] | None = answer.get("Item")
        return found

    async def number(self, region: str, pk: str) -> str | None:
        """Read attribute `n` of an item, None if the item is not there."""
        found = await self.get(region, pk)
        return found["n"]["N"] if found else None

    async def numbers(self, pk: str) -> list[str | None]:
        """Read attribute `n` of an item in every region."""
        return [await self.number(region, pk) for region in self.clients]

    async def everything(self, region: str) -> list[dict[str, Any]]:
        """Read the whole table of a region, in the order of the keys."""
        items: list[dict[str, Any]] = []
        request: dict[str, Any] = {"TableName": TABLE, "ConsistentRead": True}
        while True:
            page = await self.clients[region].scan(**request)
            items += page["Items"]
            if "LastEvaluatedKey" not in page:
                return sorted(items, key=lambda it: (it["pk"]["S"], it["sk"]["S"]))
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def item(pk: str, sk: str = "x", **numbers: int | str) -> dict[str, Any]:
    """Give an item, or its key, as attribute values."""
    attributes = {name: {"N": str(value)} for name, value in numbers.items()}
    return {"pk": {"S": pk}, "sk": {"S": sk}, **attributes}


def code(error: ClientError) -> str:
    """Give the code of DynamoDB's error."""
    return str(error.response["Error"]["Code"])


@asynccontextmanager
async def open_world(engine: str = "memory", **options: Any) -> AsyncIterator[World]:
    """Run a local global table of three regions, fast unless `options` say otherwise."""
    chosen = {"regions": REGIONS, "lag": 0.002, "jitter": 0.02, "replica_seconds": 0.01, **options}
    starting = LocalGlobalTable.start(engine=engine, **{**chosen, "create": False})
    async with starting as table, clients(table.endpoints) as opened:
        if chosen.get("create", True):
            await make_table(opened)
        yield World(table, opened)


async def make_table(opened: Mapping[str, Any]) -> None:
    """Make the global table through the test's own clients, each of which takes long to open."""
    first, *others = opened
    client = opened[first]
    await client.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )
    for region in others:
        update = [{"Create": {"RegionName": region}}]
        await client.update_table(TableName=TABLE, ReplicaUpdates=update)
        await until_active(client)


async def until_active(client: Any, table: str = TABLE) -> None:
    """Wait until a table and its replicas are there."""
    with anyio.fail_after(READ_SECONDS):
        while await status_of(client, table) != "ACTIVE":  # noqa: ASYNC110 (the table says nothing)
            await anyio.sleep(POLL_SECONDS)


async def status_of(client: Any, table: str) -> str:
    """Return a table's status."""
    return str((await client.describe_table(TableName=table))["Table"]["TableStatus"])


@asynccontextmanager
async def clients(endpoints: Mapping[str, str]) -> AsyncIterator[dict[str, Any]]:
    """Open a client for each region, with credentials that mean nothing."""
    async with AsyncExitStack() as stack:
        opened = {}
        for region, endpoint in endpoints.items():
            opened[region] = await stack.enter_async_context(
                _SESSION.create_client(
                    "dynamodb",
                    region_name=region,
                    endpoint_url=endpoint,
                    aws_access_key_id="anything",
                    aws_secret_access_key="at-all",
                    config=Config(
                        retries={"total_max_attempts": 1},
                        read_timeout=READ_SECONDS,
                        max_pool_connections=100,
                    ),
                )
            )
        yield opened

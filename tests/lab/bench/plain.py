"""The baselines: other clients of DynamoDB, used as their documentation shows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

from lab.bench.measurement import Measured
from lab.bench.rounds import Round
from lab.bench.stub_pages import (
    MERGED_TOTAL,
    REGION,
    counter_name,
    expected_total,
    merged_name,
)
from ledger.core import ids
from ledger.core.entry import entry_id
from ledger.core.errors import LedgerError
from ledger.runtime.clock import SystemClock, system_random
from ledger.store.dynamodb.connect import client_options

TABLE = "ledger"
AMOUNTS = 9
"""Call number i changes by i % 9 + 1."""
BATCH = 25
"""DynamoDB's limit of one batch."""
_random = system_random()
_clock = SystemClock()


def amount(number: int) -> int:
    """Return the amount of the call with this number."""
    return number % AMOUNTS + 1


def plain_item(number: int) -> dict[str, Any]:
    """Return an item like an entry's, made without the ledger, in the low-level form."""
    entry = entry_id(_clock.now(), _random.getrandbits(ids.SUFFIX_BITS))
    return {
        "pk": {"S": f"counter-{number}"},
        "sk": {"S": str(entry)},
        "change": {"N": str(amount(number))},
        "region": {"S": REGION},
    }


def _python_item(number: int) -> dict[str, Any]:
    """Return the same as plain Python values, for clients that serialize them."""
    item = plain_item(number)
    texts = {name: item[name]["S"] for name in ("pk", "sk", "region")}
    return {**texts, "change": amount(number)}


@asynccontextmanager
async def _aiobotocore(round_: Round) -> AsyncIterator[Any]:
    from aiobotocore.session import AioSession  # noqa: PLC0415 (heavy)

    options: Any = client_options(REGION, round_.settings().region(REGION))
    async with AioSession().create_client("dynamodb", **options) as client:
        yield client


async def put(round_: Round) -> Measured:
    """Put one item a call: what a counter of single entries costs without this library."""
    async with _aiobotocore(round_) as client:

        async def work(number: int) -> tuple[int, int]:
            await client.put_item(TableName=TABLE, Item=plain_item(number))
            return 1, amount(number)

        return await round_.measure(work, units_per_change=1)


async def aiodynamo_batch(round_: Round) -> Measured:
    """Put 25 items a call with aiodynamo over aiohttp."""
    import aiohttp  # noqa: PLC0415 (heavy)
    from aiodynamo.client import Client  # noqa: PLC0415 (optional)
    from aiodynamo.credentials import Key, StaticCredentials  # noqa: PLC0415
    from aiodynamo.http.aiohttp import AIOHTTP  # noqa: PLC0415
    from aiodynamo.models import BatchWriteRequest  # noqa: PLC0415
    from yarl import URL  # noqa: PLC0415

    credentials = StaticCredentials(Key("local", "local"))
    async with aiohttp.ClientSession() as session:
        client = Client(AIOHTTP(session), credentials, REGION, URL(round_.stub.url))

        async def work(number: int) -> tuple[int, int]:
            numbers = range(number * BATCH, (number + 1) * BATCH)
            items = [_python_item(one) for one in numbers]
            await client.batch_write({TABLE: BatchWriteRequest(items_to_put=items)})
            return BATCH, sum(map(amount, numbers))

        return await round_.measure(work, units_per_change=1)


async def boto3_batch(round_: Round) -> Measured:
    """Put 25 items a call with boto3, one call after the other: it blocks the thread."""
    import boto3  # noqa: PLC0415 (heavy)

    options: Any = client_options(REGION, round_.settings().region(REGION))
    client = boto3.client("dynamodb", **options)

    async def work(number: int) -> tuple[int, int]:
        numbers = range(number * BATCH, (number + 1) * BATCH)
        puts: Any = [{"PutRequest": {"Item": plain_item(one)}} for one in numbers]
        client.batch_write_item(RequestItems={TABLE: puts})
        return BATCH, sum(map(amount, numbers))

    try:
        return await round_.measure(work, units_per_change=1)
    finally:
        client.close()


async def read(round_: Round) -> Measured:
    """Sum a collection with a paginated Query and boto3's TypeDeserializer."""
    from boto3.dynamodb.types import TypeDeserializer  # noqa: PLC0415 (heavy)

    entries = round_.options["entries"]
    name, deserialize = counter_name(entries), TypeDeserializer().deserialize
    async with _aiobotocore(round_) as client:
        pages = client.get_paginator("query")

        async def work(_: int) -> tuple[int, int]:
            total = Decimal(0)
            asked = pages.paginate(
                TableName=TABLE,
                KeyConditionExpression="pk = :pk",
                ExpressionAttributeValues={":pk": {"S": name}},
                ConsistentRead=True,
            )
            async for page in asked:
                for item in page["Items"]:
                    plain = {key: deserialize(value) for key, value in item.items()}
                    total += plain["change"]
            if total != expected_total(entries):
                raise LedgerError(f"read {total} instead of {expected_total(entries)}")
            return entries, 0

        return await round_.measure(work, kind="read")


async def query(round_: Round) -> Measured:
    """Query a collection of one item, and take its number."""
    counters = round_.options["counters"]
    async with _aiobotocore(round_) as client:

        async def work(number: int) -> tuple[int, int]:
            page = await client.query(
                TableName=TABLE,
                KeyConditionExpression="pk = :pk",
                ExpressionAttributeValues={":pk": {"S": merged_name(number % counters)}},
            )
            found = sum(Decimal(item["change"]["N"]) for item in page["Items"])
            if found != MERGED_TOTAL:
                raise LedgerError(f"read {found} instead of {MERGED_TOTAL}")
            return 1, 0

        return await round_.measure(work, kind="read")

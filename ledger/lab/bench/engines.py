"""The same writes against dynoxide, an engine that stores what it is sent, in place of the stub.

This shows how fast the engine is, and that what was acknowledged can be read.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ledger.lab.bench import plain, writes
from ledger.lab.bench.control import Arrived
from ledger.lab.bench.measuring import Measured
from ledger.lab.bench.plain import TABLE
from ledger.lab.bench.rounds import Round
from ledger.lab.bench.stub_pages import REGION
from ledger.local.engines.dynoxide import lone_table
from ledger.settings import Settings
from ledger.store.dynamodb.connect import client_options

ITEMS_MAX = 10_000_000


async def put(round_: Round) -> Measured:
    """Put one item a call with aiobotocore."""
    async with _dynoxide(round_):
        return await plain.aiobotocore_put(round_)


async def record(round_: Round) -> Measured:
    """Record one change a call."""
    async with _dynoxide(round_):
        return await writes.record(round_)


class StoredItems:
    """What an engine stores, in place of the stub's counts."""

    def __init__(self, url: str) -> None:
        self.url = url

    def reset(self, *, service_seconds: float = 0.0, counts_partitions: bool = False) -> None:
        """Do nothing: the table is new."""

    def arrived(self) -> Arrived:
        """Read the whole table, and sum the changes."""
        import boto3  # noqa: PLC0415 (heavy)

        settings = Settings(home=REGION, regions={REGION: {"endpoint": self.url}})
        options: Any = client_options(REGION, settings.region(REGION))
        client = boto3.client("dynamodb", **options)
        found = client.get_paginator("scan").paginate(
            TableName=TABLE, PaginationConfig={"MaxItems": ITEMS_MAX}
        )
        changes = [
            int(item["change"]["N"]) for page in found for item in page["Items"] if "change" in item
        ]
        return Arrived(requests={}, items=len(changes), sum=sum(changes), cpu_seconds=0.0)


@asynccontextmanager
async def _dynoxide(round_: Round) -> AsyncIterator[None]:
    """Run dynoxide with an empty table in place of the round's stub."""
    async with lone_table(REGION, TABLE) as url:
        round_.stub = StoredItems(url)
        yield

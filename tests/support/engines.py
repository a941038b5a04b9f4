"""The engines that tests run on, and empty tables of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from ledger.local.engines.dynoxide import DynoxideEngine
from ledger.runtime.clock import SystemClock
from ledger.runtime.metrics import Metrics
from ledger.settings import Settings
from ledger.settings.groups import Region
from ledger.store.connections import open_store
from ledger.store.dynamodb.client import TableClient
from ledger.store.dynamodb.store import DynamoStore
from ledger.store.port import Store
from ledger.store.wrappers.meter import MeteredStore

REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1")
DYNOXIDE = pytest.param("dynoxide", marks=pytest.mark.engines("dynoxide"))
ENGINES = ["memory", DYNOXIDE]
"""For `pytest.mark.parametrize("engine", ENGINES)`."""
LONG_ON_DYNOXIDE = [
    "memory",
    pytest.param("dynoxide", marks=[pytest.mark.engines("dynoxide"), pytest.mark.long]),
]
"""The same, of tests for whose second engine `.ci/run` has no time."""


@asynccontextmanager
async def bare_dynoxide() -> AsyncIterator[Settings]:
    """Run one dynoxide process with none of our code before it, and without a table."""
    engine, region = DynoxideEngine(), REGIONS[0]
    try:
        await engine.start([region])
        yield settings_of(engine.url(region))
    finally:
        await engine.close()


@asynccontextmanager
async def bare_table() -> AsyncIterator[Settings]:
    """Run one dynoxide process with none of our code before it, and an empty table."""
    async with bare_dynoxide() as settings, open_store(settings, settings.home) as store:
        await empty_table(store, settings.table)
        yield settings


def settings_of(endpoint: str) -> Settings:
    """Return the settings of one region behind this address.

    Over the SDK, whose client also makes tables; who wants the lean transport says so.
    """
    return Settings(
        home=REGIONS[0],
        regions={REGIONS[0]: Region(endpoint=endpoint)},
        transport="aiobotocore",
    )


async def empty_table(store: Store, name: str, metrics: Metrics | None = None) -> Store:
    """Make a table through the client of an open store, and return a store over it.

    A client takes longer to open than most tests to run, so that tests share one.
    """
    client: TableClient = store._inner._client  # type: ignore[attr-defined]
    request = {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        "AttributeDefinitions": [
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ],
    }
    await client.transport.send("create_table", request)
    dynamo = DynamoStore(replace(client, table=name))
    return MeteredStore(dynamo, metrics=metrics or Metrics(None), clock=SystemClock())

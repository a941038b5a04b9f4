"""The engines that tests run on; those that need dynoxide skip with the reason where it is not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy

import pytest

from ledger.clock import SystemClock
from ledger.core.errors import LocalTableError
from ledger.local.dynoxide_engine import DynoxideEngine, find_binary
from ledger.metrics import Metrics
from ledger.settings import Region, Settings
from ledger.store.dynamodb import open_store
from ledger.store.metered import MeteredStore
from ledger.store.port import Store

REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1")
DYNOXIDE = pytest.param("dynoxide", marks=pytest.mark.dynoxide)
ENGINES = ["moto", DYNOXIDE]
"""For `pytest.mark.parametrize("engine", ENGINES)`; the test calls `skip_without(engine)`."""


def skip_without(engine: str) -> None:
    """Skip the test, saying why, where this engine cannot run."""
    if engine == "dynoxide":
        try:
            find_binary()
        except LocalTableError as error:
            pytest.skip(str(error))


@asynccontextmanager
async def bare_dynoxide() -> AsyncIterator[Settings]:
    """Run one dynoxide process with none of our code before it, and without a table."""
    skip_without("dynoxide")
    engine, region = DynoxideEngine(), REGIONS[0]
    try:
        await engine.start([region])
        yield Settings(home=region, regions={region: Region(endpoint=engine._urls[region])})
    finally:
        await engine.close()


@asynccontextmanager
async def bare_table() -> AsyncIterator[Settings]:
    """Run one dynoxide process with none of our code before it, and an empty table."""
    async with bare_dynoxide() as settings, open_store(settings, settings.home) as store:
        await empty_table(store, settings.table)
        yield settings


async def empty_table(store: Store, name: str) -> Store:
    """Make a table through the client of an open store, and return a store over it.

    A client takes longer to open than most tests to run, so that tests share one.
    """
    dynamo = copy(store._inner)  # type: ignore[attr-defined]
    dynamo._table = name
    await dynamo._client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ],
    )
    return MeteredStore(dynamo, metrics=Metrics(None), clock=SystemClock())

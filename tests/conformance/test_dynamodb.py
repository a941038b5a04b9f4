"""The store over aiobotocore keeps the port's guarantees on every engine that runs here."""

from collections.abc import AsyncIterator

import pytest
from conformance.store_suite import StoreSuite
from support.engines import NEEDS_DYNOXIDE, REGIONS, bare_dynoxide

from ledger.clock import SystemClock
from ledger.local import LocalGlobalTable
from ledger.store.dynamodb import open_store
from ledger.store.faults import FaultyStore, InOrder
from ledger.store.memory import MemoryStore
from ledger.store.metered import MeteredStore
from ledger.metrics import Metrics
from ledger.store.port import Store

REGION = REGIONS[0]


async def local_store(engine: str) -> AsyncIterator[Store]:
    """Yield a store over an empty local global table, which is gone afterwards."""
    starting = LocalGlobalTable.start(regions=[REGION], engine=engine, replica_seconds=0)
    async with starting as world, open_store(world.settings(), REGION) as store:
        yield store


class TestMoto(StoreSuite):
    """The store over the local global table on moto."""

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        """Yield a store over an empty table."""
        async for store in local_store("moto"):
            yield store


@NEEDS_DYNOXIDE[0]
@NEEDS_DYNOXIDE[1]
class TestDynoxide(StoreSuite):
    """The store over the local global table on dynoxide."""

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        """Yield a store over an empty table."""
        async for store in local_store("dynoxide"):
            yield store


@NEEDS_DYNOXIDE[0]
@NEEDS_DYNOXIDE[1]
class TestBareDynoxide(StoreSuite):
    """The store over dynoxide itself, with nothing of ours between."""

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        """Yield a store over an empty table."""
        async with bare_dynoxide() as settings, open_store(settings, REGION) as store:
            yield store


class TestWrapped(StoreSuite):
    """The stores that wrap another one, where no fault is injected."""

    @pytest.fixture
    def store(self) -> Store:
        """Return a metered, faultless store over an empty table."""
        inner = FaultyStore(MemoryStore(REGION), InOrder())
        return MeteredStore(inner, metrics=Metrics(None), clock=SystemClock())

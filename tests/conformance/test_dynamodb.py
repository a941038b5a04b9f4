"""The store keeps the port's guarantees on every engine that runs here, over each transport."""

from collections.abc import AsyncIterator
from itertools import count

import pytest
from conformance import locked_moto
from conformance.known_gaps import DYNAMODB_LOCAL, DYNOXIDE, MOTO
from conformance.store_suite import StoreSuite
from support.engines import REGIONS, bare_dynoxide, empty_table

from ledger.core.signatures import NetKey, NetKeys
from ledger.local import LocalGlobalTable
from ledger.runtime.clock import SystemClock
from ledger.runtime.metrics import Metrics
from ledger.settings import Settings
from ledger.store.connections import open_store
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.wrappers.faults import FaultyStore, InOrder
from ledger.store.wrappers.meter import MeteredStore
from ledger.store.wrappers.net_signatures import NetSigningStore

REGION = REGIONS[0]
_numbers = count()


class RealStoreSuite(StoreSuite):
    """One engine and client for all tests of a class, and a table of its own for each test."""

    @pytest.fixture
    async def store(self, opened: Store) -> Store:
        """Return a store over an empty table."""
        return await empty_table(opened, f"table-{next(_numbers)}")

    @pytest.fixture
    async def other(self, opened: Store) -> str:
        """Make another empty table, and return its name."""
        name = f"table-{next(_numbers)}"
        await empty_table(opened, name)
        return name


class TestMemoryEngine(RealStoreSuite):
    """The store over the local global table on the memory engine."""

    @pytest.fixture(scope="class")
    async def opened(self) -> AsyncIterator[Store]:
        """Yield a store whose client the tests share."""
        async for store in local_store("memory"):
            yield store


@pytest.mark.engines("dynoxide")
class TestDynoxide(RealStoreSuite):
    """The store over the local global table on dynoxide."""

    @pytest.fixture(scope="class")
    async def opened(self) -> AsyncIterator[Store]:
        """Yield a store whose client the tests share."""
        async for store in local_store("dynoxide"):
            yield store


@pytest.mark.engines("dynoxide")
class TestBareDynoxide(RealStoreSuite):
    """The store over dynoxide itself, with nothing of ours between."""

    engine = DYNOXIDE

    @pytest.fixture(scope="class")
    async def opened(self) -> AsyncIterator[Store]:
        """Yield a store whose client the tests share."""
        async with bare_dynoxide() as settings, open_store(settings, REGION) as store:
            yield store


@pytest.mark.engines("moto_server")
class TestLockedMoto(RealStoreSuite):
    """The store over moto itself, with nothing of ours between but a lock."""

    engine = MOTO

    @pytest.fixture(scope="class")
    async def opened(self) -> AsyncIterator[Store]:
        """Yield a store whose client the tests share."""
        with locked_moto.running() as settings:
            async with open_store(settings, REGION) as store:
                yield store


@pytest.mark.engines("dynamodb_local")
class TestDynamoDbLocal(RealStoreSuite):
    """The store over AWS's DynamoDB Local, with nothing of ours between."""

    engine = DYNAMODB_LOCAL

    @pytest.fixture(scope="class")
    async def opened(self, dynamodb_local_settings: Settings) -> AsyncIterator[Store]:
        """Yield a store whose client the tests share."""
        async with open_store(dynamodb_local_settings, REGION) as store:
            yield store


class TestLeanMemoryEngine(RealStoreSuite):
    """The store over the lean transport, on the memory engine."""

    @pytest.fixture(scope="class")
    async def opened(self) -> AsyncIterator[Store]:
        """Yield a store whose client the tests share."""
        async for store in local_store("memory", transport="lean"):
            yield store


@pytest.mark.engines("dynoxide")
class TestLeanDynoxide(RealStoreSuite):
    """The store over the lean transport, on dynoxide itself."""

    engine = DYNOXIDE

    @pytest.fixture(scope="class")
    async def opened(self) -> AsyncIterator[Store]:
        """Yield a store whose client the tests share."""
        async with (
            bare_dynoxide() as settings,
            open_store(settings.replace(transport="lean"), REGION) as store,
        ):
            yield store


@pytest.mark.engines("dynamodb_local")
class TestLeanDynamoDbLocal(RealStoreSuite):
    """The store over the lean transport, on AWS's DynamoDB Local."""

    engine = DYNAMODB_LOCAL

    @pytest.fixture(scope="class")
    async def opened(self, dynamodb_local_settings: Settings) -> AsyncIterator[Store]:
        """Yield a store whose client the tests share."""
        settings = dynamodb_local_settings.replace(transport="lean")
        async with open_store(settings, REGION) as store:
            yield store


class TestWrapped(StoreSuite):
    """The stores that wrap another one, where no fault is injected."""

    @pytest.fixture
    def store(self) -> Store:
        """Return a metered, faultless store, which signs net changes, over an empty table."""
        inner = FaultyStore(MemoryStore(REGION), InOrder())
        metered = MeteredStore(inner, metrics=Metrics(None), clock=SystemClock())
        return NetSigningStore(metered, NetKeys((NetKey("one", bytes(32)),)))


async def local_store(engine: str, transport: str = "aiobotocore") -> AsyncIterator[Store]:
    """Yield a store of a local global table of one region, without a table."""
    starting = LocalGlobalTable.start(regions=[REGION], engine=engine, create=False)
    async with starting as world:
        opening = open_store(world.settings(transport=transport), REGION)
        async with opening as store:
            yield store

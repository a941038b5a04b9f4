"""The store in memory keeps the port's guarantees, as any other."""

import pytest
from conformance.store_items import item, query_keys
from conformance.store_suite import StoreSuite

from ledger.core.contract_item import contract_key
from ledger.core.errors import RequestRefused
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.port import Store
from ledger.store.reads import Get, Query
from ledger.store.writes import Applied, Delete, Put
from ledger.testing import MemoryGlobalTable


class TestMemoryStore(StoreSuite):
    """The store in memory with pages that hold whole tables."""

    @pytest.fixture
    def store(self) -> Store:
        """Return a store over an empty table."""
        return MemoryStore("eu-west-1")


class TestMemoryStoreWithSmallPages(StoreSuite):
    """The store in memory with two items a page."""

    @pytest.fixture
    def store(self) -> Store:
        """Return a store over an empty table."""
        return MemoryStore("eu-west-1", page_items_max=2)


async def test_stores_can_share_a_table() -> None:
    """Two stores over one table see each other's writes, as two processes of a region do."""
    table = MemoryTable()
    one, two = MemoryStore("eu-west-1", table), MemoryStore("eu-west-1", table)
    await one.write(Put(item()))
    assert await two.get(Get(("counter", "entry"))) == item()


async def test_pages_are_as_small_as_asked() -> None:
    """A query over small pages needs several, which is what they are for."""
    store = MemoryStore("eu-west-1", page_items_max=2)
    for number in range(3):
        await store.write(Put(item(("counter", str(number)))))
    assert len((await store.query(Query("counter"))).items) == 2
    assert await query_keys(store) == ["0", "1", "2"]


async def test_a_refused_transaction_leaves_no_trace() -> None:
    """A transaction with one item over the limit writes none of the others."""
    store = MemoryStore("eu-west-1")
    large = item(("counter", "b"), note={"S": "x" * (400 * 1024)})
    with pytest.raises(RequestRefused):
        await store.transact([Put(item(("counter", "a"))), Put(large)])
    assert store.table.partitions == {}
    assert await store.write(Put(item())) == Applied()


class TestMemoryGlobalTable(StoreSuite):
    """The double for tests of other programs, but for the contract that it begins with."""

    @pytest.fixture
    async def store(self) -> Store:
        """Return a store over an empty table."""
        made = MemoryGlobalTable(page_items_max=3)
        store = made.store()
        assert isinstance(await store.write(Delete(contract_key(1))), Applied)
        return store

"""Reading the contract: strongly consistent, and of several generations the newest."""

from dataclasses import replace

from support.contracts import make_terms
from support.ledgers import HOME

from ledger.contract.view import read_contract
from ledger.core.contract_item import Contract, contract_item
from ledger.store.memory import MemoryStore
from ledger.store.reads import Page, Query
from ledger.store.writes import Put


class NotingStore(MemoryStore):
    """A region that notes how it is read."""

    def __init__(self) -> None:
        super().__init__(HOME)
        self.queries: list[Query] = []

    async def query(self, query: Query) -> Page:
        """Read one page."""
        self.queries.append(query)
        return await super().query(query)


async def test_no_contract() -> None:
    """A table without one is no error here."""
    assert await read_contract(NotingStore()) is None


async def test_one_consistent_request() -> None:
    """An eventual read could show terms that are in force no more, for as long as it likes."""
    store = NotingStore()
    contract = Contract(terms=make_terms())
    await store.write(Put(contract_item(contract)))
    assert await read_contract(store) == contract
    assert [query.consistent for query in store.queries] == [True]


async def test_the_newest_generation_counts() -> None:
    """What a lost home wrote stays, and late writes of it count no more, whatever its revision."""
    store = NotingStore()
    old = Contract(terms=make_terms(), revision=8)
    new = replace(old, revision=2, generation=2)
    for contract in (new, old):
        await store.write(Put(contract_item(contract)))
    assert await read_contract(store) == new

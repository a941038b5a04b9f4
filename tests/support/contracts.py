"""What tests of the table's contract share: terms, regions in memory, contracts put into tables."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from anyio.lowlevel import checkpoint
from support.ledgers import AWAY, HOME, LOCAL, SOUTH

from ledger.contract.contract_writer import ContractWriter
from ledger.contract.view import read_contract
from ledger.contract.wait_report import Waiting
from ledger.core.contract import Terms
from ledger.core.contract_item import (
    CONTRACT_PARTITION,
    Contract,
    contract_item,
    contract_key,
    contract_of,
)
from ledger.core.errors import TableMissing, Unreachable
from ledger.settings import Settings
from ledger.store.connections import open_stores
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.port import Store
from ledger.store.reads import Page, Query
from ledger.store.writes import Applied, Delete, Outcome, Put, Unknown, Write
from ledger.testing.clock import START, ManualClock

REGIONS = (HOME, AWAY, SOUTH)


def make_terms(*, regions: Sequence[str] = REGIONS, **overrides: Any) -> Terms:
    """Return the terms that settings of these values would give to a table."""
    return Settings(**{"regions": dict.fromkeys(regions, LOCAL), **overrides}).terms


async def put_contract(stores: Iterable[Store], contract: Contract) -> None:
    """Let each region show this contract, as if it had been written and had arrived."""
    for store in stores:
        assert isinstance(await store.write(Put(contract_item(contract))), Applied)


async def announce(settings: Settings, coming: Terms, regions: Iterable[str] | None = None) -> None:
    """Let regions show a change to `coming` as pending, by default all."""
    async with open_stores(settings) as stores:
        found = await read_contract(stores[settings.home])
        assert found is not None
        pending = replace(found, revision=found.revision + 1, coming=coming, since=START)
        await put_contract((stores[name] for name in regions or stores), pending)


class ContractStore(MemoryStore):
    """A region in memory that counts reads of the contract and writes, and fails to order.

    `on_read` is awaited before each read. `lost` says of the next writes what became of them,
    though none gets an answer: applied or not.
    """

    def __init__(self, region: str, table: MemoryTable | None = None) -> None:
        super().__init__(region, table)
        self.reads = self.writes = self.applied = 0
        self.fails = self.is_missing = False
        self.on_read: Callable[[], Awaitable[None]] = checkpoint
        self.lost: list[bool] = []

    async def query(self, query: Query) -> Page:
        """Read a page, if reads do not fail."""
        self.reads += query.partition == CONTRACT_PARTITION
        await self.on_read()
        if self.is_missing:
            raise TableMissing(f"{self.region}: the table is not in this region")
        if self.fails:
            raise Unreachable(f"{self.region} gives no answer")
        return await super().query(query)

    async def write(self, write: Write) -> Outcome:
        """Write one item, or lose the answer."""
        self.writes += 1
        if not self.lost:
            outcome = await super().write(write)
            self.applied += isinstance(outcome, Applied)
            return outcome
        if self.lost.pop(0):
            await super().write(write)
        return Unknown("no answer")


class ContractWorld(ManualClock):
    """Regions that replicate the contract while time is slept through, and operators on it.

    Those in `cut` get nothing until they are taken out. `on_sleep` is called before each sleep.
    """

    def __init__(self, regions: Sequence[str] = REGIONS) -> None:
        super().__init__(instant=True)
        self.stores = {region: ContractStore(region) for region in regions}
        self.cut: set[str] = set()
        self.waits: list[Waiting] = []
        self.slept = 0
        self.on_sleep: Callable[[], None] = lambda: None

    def operator(self) -> ContractWriter:
        """Return one who writes the contract."""
        return ContractWriter(self.stores, clock=self, report=self.waits.append)

    async def sleep(self, seconds: float) -> None:
        """Let time pass, and the newest contract arrive in every region that is not cut off."""
        self.slept += 1
        self.on_sleep()
        self.replicate()
        await super().sleep(seconds)

    def replicate(self) -> None:
        """Let the newest contract arrive."""
        key = contract_key(generation=1)
        shown = [item for store in self.stores.values() if (item := store.table.get(key))]
        if not shown:
            return
        newest = max(shown, key=lambda item: int(item["revision"]["N"]))
        for region, store in self.stores.items():
            if region not in self.cut:
                store.table.set(key, newest)

    def show(self, contract: Contract) -> None:
        """Let every region show this contract."""
        for store in self.stores.values():
            store.table.set(contract_key(contract.generation), contract_item(contract))

    def at(self, region: str) -> Contract | None:
        """Return what a region shows."""
        item = self.stores[region].table.get(contract_key(generation=1))
        return None if item is None else contract_of(item)

    def shown(self) -> list[Contract | None]:
        """Return what each region shows."""
        return [self.at(region) for region in self.stores]


async def remove_contract(settings: Settings) -> None:
    """Let no region have a contract, as in a table that a template made."""
    async with open_stores(settings) as stores:
        for store in stores.values():
            assert isinstance(await store.write(Delete(contract_key(generation=1))), Applied)


def to(terms: Terms) -> Callable[[Contract], Terms]:
    """Return a change to these terms."""
    return lambda _contract: terms


async def established(terms: Terms | None = None) -> ContractWorld:
    """Return regions that all show a first contract."""
    world = ContractWorld()
    world.show(Contract(terms=terms or make_terms()))
    return world


def all_show(world: ContractWorld, contract: Contract) -> bool:
    """Return whether each region shows this contract."""
    return world.shown() == [contract] * len(REGIONS)

"""Sums in a table that lost a region: found by the search of any region, copied, and left alone."""

from dataclasses import replace

import pytest
from support.permissions import HOME, OTHER, SETTINGS

from compactor.job import Compactor
from ledger.core.contract_item import Contract, contract_item, contract_key
from ledger.core.entry import Item
from ledger.core.fold import collect
from ledger.store.memory import MemoryStore, MemoryTable

LOST = "mars-1"
COUNTER = "risk/Delta"


def added(region: str, version: int) -> Item:
    """Return the sum item of a region after so many additions of ten."""
    return {
        "pk": {"S": COUNTER},
        "sk": {"S": f"~sum#{region}.1#0"},
        "value": {"N": str(10 * version)},
        "version": {"N": str(version)},
    }


def put(table: MemoryTable, item: Item) -> None:
    """Let an item arrive in a region."""
    table.set((item["pk"]["S"], item["sk"]["S"]), item)


def total(table: MemoryTable) -> int:
    """Return the total that a region shows."""
    return int(collect(table.partitions.get(COUNTER, {}).values()).total())


async def merged(tables: dict[str, MemoryTable]) -> None:
    """Run a compactor for a few passes."""
    stores = {region: MemoryStore(region, table) for region, table in tables.items()}
    searching = SETTINGS.replace(
        compactor={"scan_every": 0, "hint_every": 0, "scan_pages_max": 100}
    )
    compactor = Compactor(searching, stores=stores)  # the contract says what is lost
    for _ in range(3):
        await compactor.run_once()


@pytest.mark.parametrize("lost", [(LOST,), ()])
async def test_what_only_some_regions_got_is_copied_each_time(lost: tuple[str, ...]) -> None:
    """The copies bring each region to the newest version, however late one arrives."""
    tables = {HOME: MemoryTable(), OTHER: MemoryTable()}
    contract = Contract(terms=replace(SETTINGS.terms, lost=lost))
    for table in tables.values():
        put(table, contract_item(contract))
        assert table.get(contract_key(generation=1)) is not None
    put(tables[HOME], added(LOST, 1))
    put(tables[OTHER], added(LOST, 2))
    put(tables[OTHER], added(OTHER, 5))
    await merged(tables)
    copy = (COUNTER, f"~sum#{LOST}.1#0#copy")
    assert total(tables[HOME]) == (20 if lost else 10)
    assert (tables[HOME].get(copy) is not None) == bool(lost)
    assert tables[HOME].get((COUNTER, f"~sum#{LOST}.1#0")) == added(LOST, 1)
    put(tables[OTHER], added(LOST, 3))
    await merged(tables)
    assert total(tables[HOME]) == (30 if lost else 10)
    assert [key for key in tables[HOME].partitions[COUNTER] if OTHER in key] == []
    assert tables[OTHER].get((COUNTER, f"~sum#{OTHER}.1#0")) == added(OTHER, 5)

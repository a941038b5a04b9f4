"""The single-item counters that the demo compares with."""

from decimal import Decimal

import pytest

from ledger.core.errors import StoreError, Throttled
from ledger.demo import naive
from ledger.store.faults import FaultyStore, InOrder, Lost, Raises
from ledger.store.memory import MemoryStore


async def test_one_region_alone_counts_right() -> None:
    """In one region `ADD` is exact, and counts its changes."""
    store = MemoryStore("us-east-1")
    for change in ("0.1", "0.2", "-1"):
        await naive.add(store, "a", Decimal(change))
    assert await naive.read_all(store, ["a", "b"]) == {
        "a": (Decimal("-0.7"), 3),
        "b": (Decimal(0), 0),
    }


@pytest.mark.parametrize("fault", [Lost(), Raises(Throttled("slow down"))])
async def test_what_is_not_known_to_be_applied_is_an_error(fault: Lost | Raises) -> None:
    """A lost answer is not repeated, which might count twice, but raised."""
    store = FaultyStore(MemoryStore("us-east-1"), InOrder(fault))
    with pytest.raises(StoreError):
        await naive.add(store, "a", Decimal(1))
    assert store.calls == 1


async def test_it_is_none_of_the_ledgers_counters() -> None:
    """Its items lie in a reserved partition, which readers and the compactor pass by."""
    store = MemoryStore("us-east-1")
    await naive.add(store, "a", Decimal(1))
    assert list(store.table.partitions) == [naive.PARTITION]
    assert naive.PARTITION.startswith("~")

"""The single-item counters that the demo compares with."""

from decimal import Decimal

import pytest

from ledger.core.errors import Throttled
from ledger.demo import naive
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import FaultyStore, InOrder, Lost, Raises


async def test_one_region_alone_counts_right() -> None:
    """In one region `ADD` is exact, and counts its changes."""
    store = MemoryStore("us-east-1")
    for change in ("0.1", "0.2", "-1"):
        await naive.add(store, "a", Decimal(change))
    assert await naive.read_all(store, ["a", "b"]) == {
        "a": (Decimal("-0.7"), 3),
        "b": (Decimal(0), 0),
    }


async def test_a_lost_answer_is_not_repeated() -> None:
    """A repeat might count twice: what became of the change stays unknown."""
    store = FaultyStore(MemoryStore("us-east-1"), InOrder(Lost()))
    assert not await naive.add(store, "a", Decimal(1))
    assert store.calls == 1


async def test_a_refusal_is_an_error() -> None:
    """What is known not to be written is raised."""
    store = FaultyStore(MemoryStore("us-east-1"), InOrder(Raises(Throttled("slow down"))))
    with pytest.raises(Throttled):
        await naive.add(store, "a", Decimal(1))


async def test_it_is_none_of_the_ledgers_counters() -> None:
    """Its items lie in a reserved partition, which readers and the compactor pass by."""
    store = MemoryStore("us-east-1")
    await naive.add(store, "a", Decimal(1))
    assert list(store.table.partitions) == [naive.PARTITION]
    assert naive.PARTITION.startswith("~")


async def test_counters_of_every_page_are_read() -> None:
    """With more counters than a page holds, none is taken for lost."""
    store = MemoryStore("us-east-1", page_items_max=2)
    for counter in "abcde":
        await naive.add(store, counter, Decimal(1))
    assert set((await naive.read_all(store, list("abcde"))).values()) == {(Decimal(1), 1)}

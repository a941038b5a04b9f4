"""Stores that go wrong in a given order, and changes whose sums tell on each of them."""

from support.ledgers import HOME

from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.wrappers.faults import Fault, FaultyStore, InOrder
from ledger.testing.clock import ManualClock
from ledger.writes.entry_plan import Change


def faulty(*faults: Fault | None) -> tuple[FaultyStore, MemoryTable]:
    """Return a store whose calls go wrong in this order, and the table behind it."""
    inner = MemoryStore(HOME)
    return FaultyStore(inner, InOrder(*faults), clock=ManualClock(instant=True)), inner.table


def always(fault: Fault) -> tuple[FaultyStore, MemoryTable]:
    """Return a store all whose calls go wrong."""
    inner = MemoryStore(HOME)
    return FaultyStore(inner, lambda _call: fault), inner.table


def many(count: int, counter: str = "c") -> list[Change]:
    """Return changes 1, 2, 3 and so on: every sum of a part of them tells on it."""
    return [Change(counter, n + 1) for n in range(count)]


async def land_all(store: FaultyStore) -> None:
    """Let everything in flight reach the table."""
    while store.in_flight:
        await store.land()

"""An event of the very version that was handled: skipped by `<`, or handled again by `<=`."""

import pytest
from support.guarding import (
    ARRIVALS,
    Handling,
    Noting,
    condition_guard,
    event,
    lock_guard,
    record_put,
)
from support.ledgers import HOME

from ledger.core.entry import Item
from ledger.core.errors import InvalidInput
from ledger.primitives.versions import Handled, Repeats, Skipped
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import Fault, FaultyStore, InOrder, Late, Lost, NeverArrived
from ledger.store.writes import Update

PLACE: Item = {"pk": {"S": "customer"}, "sk": {"S": "7"}}
DELIVERIES = (0, 0, 1, 1, 0)
ONCE = [Handled(0), Skipped(0, 0), Handled(1), Skipped(1, 1), Skipped(0, 1)]
AGAIN = [Handled(0), Handled(0), Handled(1), Handled(1), Skipped(0, 1)]
BOTH: list[tuple[Repeats, list[object]]] = [("skip", [*ONCE]), ("handle", [*AGAIN])]


@pytest.mark.parametrize(("repeats", "outcomes"), BOTH)
async def test_repeats_by_condition(repeats: Repeats, outcomes: list[object]) -> None:
    """Puts and transactions of versions 0, 0, 1, 1, 0: repeats as asked for, older ones never."""
    guard = condition_guard(MemoryStore(HOME), repeats=repeats)
    assert [await guard.put(PLACE, version=version) for version in DELIVERIES] == outcomes
    assert [await guard.handle(event(version), []) for version in DELIVERIES] == outcomes


@pytest.mark.parametrize("check_first", [False, True])
@pytest.mark.parametrize(("repeats", "outcomes"), BOTH)
async def test_repeats_by_lock(
    repeats: Repeats, outcomes: list[object], *, check_first: bool
) -> None:
    """The check before the lock, the one inside and the write agree on what a repeat is."""
    handler = Handling()
    guard = lock_guard(Noting(), repeats=repeats, check_first=check_first)
    assert [await guard.handle(event(version), handler) for version in DELIVERIES] == outcomes
    assert handler.versions == ([0, 1] if repeats == "skip" else [0, 0, 1, 1])


@pytest.mark.parametrize(("repeats", "times"), [("skip", "1"), ("handle", "2")])
async def test_a_count_is_counted_twice_by_the_sources_form(repeats: Repeats, times: str) -> None:
    """Effects that are no whole states add up with each repeat that is handled."""
    store = MemoryStore(HOME)
    guard = condition_guard(store, repeats=repeats)
    for _ in range(2):
        await guard.handle(event(1), [Update(("effects", "1"), add={"times": {"N": "1"}})])
    item = store.table.get(("effects", "1"))
    assert item is not None
    assert item["times"] == {"N": times}


@pytest.mark.parametrize(("repeats", "shown"), [("skip", "Riga"), ("handle", "Oslo")])
async def test_a_correction_under_one_version_is_taken_or_not(repeats: Repeats, shown: str) -> None:
    """Of two contents of one version the first stays by `<`, the last to arrive by `<=`."""
    guard = condition_guard(MemoryStore(HOME), repeats=repeats)
    for city in ("Riga", "Oslo"):
        await guard.put({**PLACE, "city": {"S": city}}, version=1)
    item = await guard.read(("customer", "7"))
    assert item is not None
    assert item["city"] == {"S": shown}


async def test_the_worked_example_is_the_same_by_both() -> None:
    """Without duplicates the two forms do the same."""
    guard = condition_guard(MemoryStore(HOME), repeats="handle")
    outcomes = [await guard.put(PLACE, version=version) for version in ARRIVALS]
    assert outcomes == [Handled(1), Handled(4), Skipped(3, 4), Skipped(2, 4), Handled(5)]


@pytest.mark.parametrize("fault", [Lost(), NeverArrived(), Late()])
async def test_one_delivery_is_handled_once_by_both(fault: Fault) -> None:
    """An unanswered transaction is repeated under its token: only deliveries are repeats."""
    inner = MemoryStore(HOME)
    store = FaultyStore(inner, InOrder(fault))
    counted = Update(("effects", "1"), add={"times": {"N": "1"}})
    guard = condition_guard(store, repeats="handle")
    assert await guard.handle(event(1), [record_put(1), counted]) == Handled(1)
    while store.in_flight:
        await store.land()
    item = inner.table.get(("effects", "1"))
    assert item is not None
    assert item["times"] == {"N": "1"}


async def test_another_word_is_refused() -> None:
    """`repeats` is one of two words, in both guards."""
    for make in (condition_guard, lock_guard):
        with pytest.raises(InvalidInput, match="repeats must be one of skip, handle, got 'twice'"):
            make(MemoryStore(HOME), repeats="twice")

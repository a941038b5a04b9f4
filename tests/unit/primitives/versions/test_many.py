"""Many records put by one call: each ends as its own put would."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.guarding import condition_guard
from support.ledgers import HOME

from ledger.core.entry import Item, key_of
from ledger.core.errors import DamagedItem, InvalidInput, StoreError, Throttled
from ledger.primitives.versions import ConditionGuard, Handled, Skipped, version_of
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import (
    FaultCall,
    FaultyStore,
    InOrder,
    Lost,
    NeverArrived,
    Partial,
    Raises,
    Seeded,
)
from ledger.store.writes import Put, Unknown
from ledger.testing.clock import ManualClock


def record(number: int, **attributes: Any) -> Item:
    """Return a record without its version."""
    return {"pk": {"S": "customer"}, "sk": {"S": str(number)}, **attributes}


def records(numbers: Iterable[int], version: int) -> list[tuple[Item, int]]:
    """Return records, all of one version."""
    return [(record(number), version) for number in numbers]


class Counting(FaultyStore):
    """A store that keeps its calls, each of which may go wrong."""

    def __init__(self, *faults: Any) -> None:
        self.inner = MemoryStore(HOME)
        self.noted: list[FaultCall] = []
        faulty = InOrder(*faults)

        def decide(call: FaultCall) -> Any:
            self.noted.append(call)
            return faulty(call)

        super().__init__(self.inner, decide, clock=ManualClock(instant=True))

    def sizes(self, operation: str) -> list[int]:
        """Return the sizes of the calls of an operation."""
        return [call.size for call in self.noted if call.operation == operation]


async def test_new_records_share_requests() -> None:
    """Sixty new records take three requests, and stand in the table as they were given."""
    store = Counting()
    told = await condition_guard(store).put_many(records(range(60), 3))
    assert told == [Handled(3)] * 60
    assert sorted(store.sizes("write_each")) == [10, 25, 25]
    assert store.sizes("write") == []
    assert store.inner.table.get(("customer", "7")) == {**record(7), "version": {"N": "3"}}


async def test_a_record_that_is_there_is_replaced_whole_if_it_is_older() -> None:
    """An older one loses its other attributes, as by `put`; a newer one, or the same, stays."""
    store = Counting()
    guard = condition_guard(store)
    await guard.put_many([(record(n, city={"S": "Riga"}), 4 + n) for n in range(3)])
    assert await guard.put_many(records(range(4), 5)) == [
        Handled(5),
        Skipped(5, 5),
        Skipped(5, 6),
        Handled(5),
    ]
    assert store.inner.table.get(("customer", "0")) == {**record(0), "version": {"N": "5"}}


async def test_where_most_are_there_no_second_write_is_paid() -> None:
    """Once most of 25 were there the next are put at once, until most are new again."""
    store = Counting()
    guard = condition_guard(store)
    await guard.put_many(records(range(50), 1))
    await guard.put_many(records(range(25), 2))
    before = len(store.noted)
    assert await guard.put_many(records(range(25), 3)) == [Handled(3)] * 25
    assert [call.operation for call in store.noted[before:]] == ["write"] * 25
    await guard.put_many(records(range(100, 125), 1))
    before = len(store.noted)
    await guard.put_many(records(range(200, 225), 1))
    assert [call.operation for call in store.noted[before:]] == ["write_each"]


@pytest.mark.parametrize(
    ("repeats", "told", "city"),
    [
        ("skip", [Skipped(1, 3), Handled(3), Skipped(3, 3), Skipped(2, 3)], "first"),
        ("handle", [Skipped(1, 3), Handled(3), Handled(3), Skipped(2, 3)], "second"),
    ],
)
async def test_versions_of_one_record_in_one_call(repeats: Any, told: Any, city: str) -> None:
    """Only the newest is written; of one version twice the first, or the last, as rules say."""
    store = Counting()
    guard = condition_guard(store, repeats=repeats)
    given = [(1, "old"), (3, "first"), (3, "second"), (2, "old")]
    several = [(record(7, city={"S": name}), version) for version, name in given]
    assert await guard.put_many(several) == told
    assert (store.inner.table.get(("customer", "7")) or {})["city"] == {"S": city}
    assert len(store.noted) == 1


@pytest.mark.parametrize("fault", [Lost(), NeverArrived()])
async def test_an_unanswered_request_is_made_up_for(fault: Any) -> None:
    """What may have been written is put again, and finding it there counts as handled."""
    store = Counting(fault)
    assert await condition_guard(store).put_many(records(range(5), 2)) == [Handled(2)] * 5


async def test_what_may_have_been_written_is_never_called_unwritten() -> None:
    """A throttled put after an unanswered request leaves that record unknown."""
    store = Counting(Partial(lost=(0,)), Raises(Throttled("slow down")))
    told = await condition_guard(store).put_many(records(range(3), 2))
    assert isinstance(told[0], Unknown)
    assert told[1:] == [Handled(2), Handled(2)]


async def test_one_bad_record_stops_no_other() -> None:
    """An item without a version, and one that is throttled, are raised after all were tried."""
    store = Counting(None, Partial(unprocessed=(1,)))
    await store.write(Put(record(0)))
    guard = condition_guard(store)
    with pytest.raises((DamagedItem, Throttled)):
        await guard.put_many(records(range(10), 2))
    assert set(store.inner.table.partitions["customer"]) == {
        str(number) for number in range(10) if number != 1
    }
    with pytest.raises(DamagedItem):
        await guard.put_many(records(range(10), 2))
    assert version_of(store.inner.table.get(("customer", "1"))) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "text",
        [record(1)],
        [(record(1), "1")],
        [(record(1), -1)],
        [({"pk": {"S": "~state~x"}, "sk": {"S": "1"}}, 1)],
        [(record(1, **{"~deleted": {"BOOL": True}}), 1)],
    ],
    ids=repr,
)
async def test_what_breaks_a_rule_writes_nothing(wrong: Any) -> None:
    """All records are looked at before any is written."""
    store = Counting()
    given = [(record(2), 1), *wrong] if isinstance(wrong, list) else wrong
    with pytest.raises(InvalidInput):
        await condition_guard(store).put_many(given)
    assert store.noted == []


@given(st.integers(0, 10**6), st.floats(0, 0.6), st.lists(st.integers(0, 30), max_size=80))
async def test_property_as_puts_one_by_one(seed: int, share: float, numbers: list[int]) -> None:
    """Whatever goes wrong: the newest stays, and what is called handled or skipped is so."""
    inner = MemoryStore(HOME)
    store = FaultyStore(inner, Seeded(seed, share=share), clock=ManualClock(instant=True))
    guard: ConditionGuard = condition_guard(store)
    arrivals = [(record(number % 9), number) for number in numbers]
    for start in (0, 40):
        part = arrivals[start : start + 40]
        try:
            told = await guard.put_many(part)
        except StoreError:
            continue
        for (item, version), one in zip(part, told, strict=True):
            there = version_of(inner.table.get(key_of(item)))
            if isinstance(one, Unknown):
                continue
            assert there is not None
            assert there >= (one.newest if isinstance(one, Skipped) else version)
    while store.in_flight:
        await store.land()
    store.decide = InOrder()
    await guard.put_many(arrivals)
    for key in {number % 9 for number in numbers}:
        newest = max(number for number in numbers if number % 9 == key)
        assert version_of(inner.table.get(("customer", str(key)))) == newest

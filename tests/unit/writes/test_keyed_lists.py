"""Lists of changes with one key: each change counts once, however often the list is repeated."""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ledgers import AWAY, HOME, make_ledger, make_settings, make_writer, two_regions

from ledger.core.entry import entry_of
from ledger.core.errors import (
    AmountOverflow,
    InvalidEntry,
    KeyConflict,
    OutcomeUnknown,
    RetryHorizonPassed,
    UntimedKey,
)
from ledger.core.parts import expanded
from ledger.core.values import Entry
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import FaultyStore, InOrder, Late, Lost, NeverArrived
from ledger.testing.clock import START
from ledger.writes.asked_parts import LISTED_MAX, ListedChanges
from ledger.writes.entry_plan import Change

KEY = "usage.log:4096"


def items(store: MemoryStore) -> list[Entry]:
    """Return all items of entries, in the order of counters and ids."""
    return [
        entry_of(item)
        for _, partition in sorted(store.table.partitions.items())
        for _, item in sorted(partition.items())
    ]


async def test_a_list_is_written_once() -> None:
    """A repeat finds its items, in any region; each change has its own entry, in order."""
    world = two_regions()
    changes = [
        ("a", Decimal(1)),
        ("b", Decimal(2)),
        ("a", Decimal("0.5")),
        ("a", Decimal(0)),
    ]
    async with make_ledger(world.replicas[HOME]) as book:
        first = await book.record_many(changes, key=KEY, at=START)
    world.deliver()
    async with make_ledger(world.replicas[AWAY], region=AWAY) as book:
        again = await book.record_many(changes, key=KEY, at=START)
        assert [(entry.counter, entry.change) for entry in first] == changes
        assert again == first
        assert {entry.repeated for entry in again} == {True}
        assert [entry async for entry in book.history("a")] == [first[0], first[2], first[3]]
        assert (await book.total("a", max_age=0)).value == Decimal("1.5")
    assert [(item.parts, item.count) for item in items(world.replicas[HOME])] == [
        ("1 0.5 0", 3),
        ("2", 1),
    ]


async def test_it_is_cut_by_number_whatever_the_contract_combines() -> None:
    """Else a repeat after a change of the contract would make other items, and count again."""
    changes = [("a", 10**37 + number) for number in range(5)] + [("b", 1)] * (2 * LISTED_MAX + 1)
    made = []
    for combine in ([], ["*"]):
        store = MemoryStore(HOME)
        writer = make_writer(store, combine=combine)
        asked = [Change(*change) for change in changes]
        await writer.record_listed(ListedChanges.of(asked, KEY, START))
        made.append([(item.id, item.count, item.parts) for item in items(store)])
    assert made[0] == made[1]
    assert sorted(count for _, count, _ in made[0]) == [1, 5, LISTED_MAX, LISTED_MAX]


async def test_another_list_under_the_key_is_a_conflict() -> None:
    """The error names the first change that differs; nothing of its item is written."""
    store = MemoryStore(HOME)
    async with make_ledger(store) as book:
        await book.record_many([("a", 1), ("a", 2)], key=KEY, at=START)
        for other in ([("a", 1), ("a", 3)], [("a", 2), ("a", 1)], [("a", 1), ("a", 2), ("a", 0)]):
            with pytest.raises(KeyConflict, match="of which 00"):
                await book.record_many(other, key=KEY, at=START)
        assert (await book.total("a", max_age=0)).value == 3


async def test_no_single_change_has_the_id_of_a_list() -> None:
    """A key of a caller holds no control character, so none is the key of an item."""
    store = MemoryStore(HOME)
    async with make_ledger(store) as book:
        await book.record("a", 1, key=KEY, at=START)
        await book.record("a", 1, key=f"{KEY}#0", at=START)
        await book.record_many([("a", 1)], key=KEY, at=START)
        assert (await book.total("a", max_age=0)).value == 3


@pytest.mark.parametrize("fault", [Lost(), Late(), NeverArrived()])
async def test_a_list_that_got_no_answer_is_repeated(fault: Lost | Late | NeverArrived) -> None:
    """By the same call, or by `retry`: the changes count once."""
    inner = MemoryStore(HOME)
    store = FaultyStore(inner, lambda _call: fault)
    changes = [("a", 1), ("b", 2), ("a", 3)]
    async with make_ledger(store) as book:
        with pytest.raises(OutcomeUnknown) as caught:
            await book.record_many(changes, key=KEY, at=START)
        assert caught.value.retryable
        assert [(entry.counter, int(entry.change)) for entry in caught.value.entries] == changes
        store.decide = InOrder()
        await book.retry(caught.value.entries)
        entries = await book.record_many(changes, key=KEY, at=START)
        assert [(entry.counter, int(entry.change)) for entry in entries] == changes
        found = await book.totals(["a", "b"], max_age=0)
    assert [total.value for total in found.values()] == [4, 2]


async def test_what_breaks_a_rule_is_refused_and_nothing_is_written() -> None:
    """A list is all amounts, and its key has a time."""
    store = MemoryStore(HOME)
    today = START.date()
    async with make_ledger(store) as book:
        for change in (
            Change("a", 1, note="n"),
            Change("a", 1, effective=today),
            Change("a", 1, key="k", at=START),
        ):
            with pytest.raises(InvalidEntry, match="an amount alone"):
                await book.record_many([("a", 1), change], key=KEY, at=START)
        with pytest.raises(InvalidEntry, match="give both, or neither"):
            await book.record_many([("a", 1)], at=START)
        with pytest.raises(UntimedKey):
            await book.record_many([("a", 1)], key=KEY)
        with pytest.raises(AmountOverflow):
            await book.record_many([("a", 10**38 - 1)] * 2, key=KEY, at=START)
        with pytest.raises(InvalidEntry, match="ahead of the clock"):
            await book.record_many([("a", 1)], key=KEY, at=START + timedelta(hours=1))
        assert await book.record_many([], key=KEY, at=START) == []
    assert items(store) == []


async def test_too_late_it_is_refused() -> None:
    """Whether an earlier call wrote it is not known, as of a single change."""
    at = START - timedelta(seconds=make_settings().retry_horizon + 1)
    async with make_ledger(MemoryStore(HOME)) as book:
        with pytest.raises(RetryHorizonPassed) as caught:
            await book.record_many([("a", 1)], key=KEY, at=at)
    assert caught.value.outcome == "unknown"


@given(
    changes=st.lists(
        st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(-(10**9), 10**9)), max_size=350
    ),
    shards=st.sampled_from([1, 3]),
)
async def test_every_change_of_a_list_is_there_once(
    changes: list[tuple[str, int]], shards: int
) -> None:
    """In order, under ids of their own, however many counters and shards."""
    store = MemoryStore(HOME)
    writer = make_writer(store, shards={"*": shards})
    asked = [Change(*change) for change in changes]
    for _ in range(2):
        entries = await writer.record_listed(ListedChanges.of(asked, KEY, START))
        assert [(entry.counter, int(entry.change)) for entry in entries] == changes
        assert len({(entry.counter, entry.id) for entry in entries}) == len(changes)
    there = [
        (part.counter, part.id, part.change) for item in items(store) for part in expanded(item)
    ]
    assert sorted(there) == sorted((entry.counter, entry.id, entry.change) for entry in entries)

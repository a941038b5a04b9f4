"""Requests of an earlier layout, or of an earlier move of pieces, that arrive late or twice."""

from decimal import Decimal

import pytest
from support.ledgers import HOME, make_services

from ledger.core.entry import Item, Key
from ledger.primitives.counters import AtomicCounter, shard_balance
from ledger.primitives.counters.layout import (
    LAYOUT,
    MOVES,
    Layout,
    Shape,
    announcement,
    finishing,
    layout_key,
    shard_keys,
)
from ledger.primitives.counters.thresholds import VALUE, Thresholds
from ledger.store.memory import MemoryStore
from ledger.store.reads import Get
from ledger.store.writes import Action, Applied, Rejected

TWO = Shape("sum", 2)
KEYS = shard_keys("counter", TWO)


async def uneven(store: MemoryStore) -> AtomicCounter:
    """Return a counter of 100 in one of two shards."""
    counter = AtomicCounter(store, "counter", services=make_services(), shards=2)
    await counter.add(100)
    return counter


async def held(counter: AtomicCounter) -> list[Decimal]:
    """Return what two shards hold, the less first."""
    return sorted([await counter.value_of(shard) for shard in range(2)])


def move_of(amount: int) -> list[Action]:
    """Return the first move of pieces of the first layout: from shard 0 to shard 1."""
    layout, deltas = Layout("sum", 2), {0: Decimal(-amount), 1: Decimal(amount)}
    return shard_balance.move(KEYS, layout.parts(Thresholds(), deltas), 0)


async def test_a_doubled_move_moves_once() -> None:
    """The request arrives again, as requests without an answer may: it is refused."""
    store = MemoryStore(HOME)
    counter = await uneven(store)
    assert isinstance(await store.transact(move_of(5)), Applied)
    after = await held(counter)
    assert isinstance(await store.transact(move_of(5)), Rejected)
    assert await held(counter) == after


async def test_a_move_after_a_change_of_layout_is_refused() -> None:
    """No move was made in the new layout, so only its revision tells the request from one."""
    store = MemoryStore(HOME)
    counter = await uneven(store)
    await counter.convert(shards=3)
    await counter.convert(shards=2)
    assert await held(counter) == [50, 50]
    assert isinstance(await store.transact(move_of(5)), Rejected)
    assert await held(counter) == [50, 50]


async def test_a_change_of_layout_begins_to_count_moves_again() -> None:
    """Shards of before and those added have counted alike, or no reader found them together."""
    counter = await uneven(MemoryStore(HOME))
    assert await counter.even_out()
    await counter.convert(shards=3)
    assert await counter.value() == 100


async def test_a_late_announcement_does_not_change_the_layout_again() -> None:
    """A change that others made and undid meanwhile is not begun once more."""
    store = MemoryStore(HOME)
    counter = await uneven(store)
    late = announcement("counter", Layout("sum", 2), Shape("sum", 4))
    await counter.convert(shards=4)
    await counter.convert(shards=3)
    assert isinstance(await store.write(late), Rejected)
    assert await counter.shards() == 3
    layout = await store.get(Get(layout_key("counter")))
    assert layout is not None
    assert "pending" not in layout


def put(store: MemoryStore, key: Key, **numbers: int) -> Item:
    """Put an item of numbers, as replication does, without a condition."""
    attributes = {name: {"N": str(number)} for name, number in numbers.items()}
    item: Item = {"pk": {"S": key[0]}, "sk": {"S": key[1]}, **attributes}
    store.table.set(key, item)
    return item


@pytest.mark.parametrize(
    ("revision", "shards"),
    [(3, (-3, -3)), (2, (2, -3)), (2, (3, -3)), (2, (-3, -4))],
    ids=["the layout came first", "a shard is thawed", "a shard came first", "a shard of later"],
)
async def test_items_that_replicate_one_by_one_are_not_finished(
    revision: int, shards: tuple[int, int]
) -> None:
    """After a hand-over items of another region may arrive between look and finish, each alone.

    So the layout's item and each shard are conditions of their own: neither speaks for the other.
    """
    store, layout = MemoryStore(HOME), Layout("sum", 2, 2, (), TWO)
    frozen = {key: put(store, key, value=9, layout=-3) for key in KEYS}
    finish = finishing("counter", layout, frozen)
    found = put(store, layout_key("counter"), revision=revision)
    store.table.set(layout_key("counter"), {**found, "pending": {"M": {}}})
    for key, shard in zip(KEYS, shards, strict=True):
        put(store, key, value=7, layout=shard, moves=1)
    assert isinstance(await store.transact(finish), Rejected)
    for key, shard in zip(KEYS, shards, strict=True):
        item = await store.get(Get(key))
        assert item is not None
        assert (item[VALUE], item[LAYOUT], item[MOVES]) == (
            {"N": "7"},
            {"N": str(shard)},
            {"N": "1"},
        )


async def test_what_is_frozen_is_finished() -> None:
    """The same items, as they were read: the change is done."""
    store, layout = MemoryStore(HOME), Layout("sum", 2, 2, (), TWO)
    frozen = {key: put(store, key, value=9, layout=-3) for key in KEYS}
    found = put(store, layout_key("counter"), revision=2)
    store.table.set(layout_key("counter"), {**found, "pending": {"M": {}}})
    assert isinstance(await store.transact(finishing("counter", layout, frozen)), Applied)

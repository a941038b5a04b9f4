"""The layout of a counter in the table: found, made, changed, at any kill, under late requests."""

from collections.abc import Sequence
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from support.ledgers import make_services

from ledger.core.entry import Key
from ledger.core.errors import AmountOverflow, DamagedItem, InvalidInput, MethodConflict
from ledger.primitives.counters import METHODS, ItemCounter
from ledger.primitives.counters.layout import layout_key, shard_key
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.wrappers.faults import FaultyStore
from ledger.store.writes import Action, Applied, Outcome, Write

NUMBER = 10**40
_seeds = count(1)


def made(
    method: str, store: MemoryStore | FaultyStore, shards: int | None = None, **limits: int
) -> Any:
    """Return a counter as a process of its own has it."""
    counter = METHODS[method].make(
        store, "counter", services=make_services(seed=next(_seeds)), **limits
    )
    assert isinstance(counter, ItemCounter)
    kind = type(counter)
    return kind(
        store, "counter", services=make_services(seed=next(_seeds)), shards=shards, **limits
    )


def put(store: MemoryStore, key: Key, **numbers: int) -> None:
    """Put an item of numbers, as another tool does."""
    attributes = {name: {"N": str(number)} for name, number in numbers.items()}
    store.table.set(key, {"pk": {"S": key[0]}, "sk": {"S": key[1]}, **attributes})


async def test_sharding_what_exists_keeps_its_value_and_maximum() -> None:
    """90 of 100 in one item, then 8 shards: 10 more fit, where each shard's part let 87 in."""
    store = MemoryStore("us-east-1")
    assert await made("atomic", store, maximum=100).add(90) == Applied(value=Decimal(90))
    wide = made("atomic", store, 8, maximum=100)
    outcomes = [await wide.add(1) for _ in range(20)]
    assert [isinstance(outcome, Applied) for outcome in outcomes] == [True] * 10 + [False] * 10
    assert await wide.value() == 100


async def test_callers_with_and_without_shards_share_one_limit() -> None:
    """In turns they take 100 of 100 and no more, and read the same; they took 151 before."""
    store = MemoryStore("us-east-1")
    plain, wide = made("atomic", store, maximum=100), made("atomic", store, 8, maximum=100)
    applied = 0
    for place in range(200):
        applied += isinstance(await (plain, wide)[place % 2].add(1), Applied)
        if place == 60:
            assert await plain.value() == await wide.value() == applied
    assert applied == await plain.value() == await wide.value() == 100


async def test_a_counter_opened_as_sharded_shows_its_value_at_once() -> None:
    """An item that another tool left is read before anything was added through shards."""
    store = MemoryStore("us-east-1")
    put(store, shard_key("counter", 0, "sum"), value=5)
    assert await made("atomic", store, 8).value() == 5
    assert await made("atomic", store).value() == 5
    assert await made("atomic", store, 8).add(1) == Applied()
    assert await made("atomic", store).value() == 6


async def test_more_shards_than_a_transaction_holds_are_refused() -> None:
    """One transaction changes them all."""
    with pytest.raises(InvalidInput, match="shards must be a whole number from 1 to 96, got 97"):
        made("atomic", MemoryStore("us-east-1"), 97)


@pytest.mark.parametrize(("first", "second"), [("marker", "optimistic"), ("history", "atomic")])
async def test_another_method_on_a_name_is_refused(first: str, second: str) -> None:
    """Where two values were counted under one name there is one, and an error that says so."""
    store = MemoryStore("us-east-1")
    await made(first, store).add(5)
    for using in (made(second, store).add(1), made(second, store, 4).value()):
        with pytest.raises(MethodConflict, match=rf"{first}.*{second}.*convert_counter"):
            await using
    assert await made(first, store).value() == 5


async def test_methods_of_one_kind_mix() -> None:
    """What one adds the others see, at one layout."""
    store = MemoryStore("us-east-1")
    for method in ("atomic", "atomic-once", "client-token", "marker"):
        await made(method, store, 3).add(1, token="t")
    assert await made("atomic", store).value() == 4


async def test_two_values_under_one_name_are_kept_apart_until_converted() -> None:
    """Who comes first has the name; the other is refused, not lost, and converting adds it."""
    store = MemoryStore("us-east-1")
    put(store, shard_key("counter", 0, "sum"), value=5)
    put(store, shard_key("counter", 0, "optimistic"), value=7)
    assert await made("atomic", store).add(1) == Applied(value=Decimal(6))
    with pytest.raises(MethodConflict):
        await made("optimistic", store).value()
    assert await made("optimistic", store).convert(shards=1) is None
    assert await made("optimistic", store).value() == 13


async def test_a_lost_layout_is_damage() -> None:
    """Shards of a changed layout without its item are not taken for a new counter."""
    store = MemoryStore("us-east-1")
    await made("atomic", store).add(5)
    await made("atomic", store).convert(shards=3)
    store.table.set(layout_key("counter"), None)
    with pytest.raises(DamagedItem, match="layout is missing"):
        await made("atomic", store).value()


async def test_a_damaged_layout_is_an_error() -> None:
    """What is not in its form is not guessed."""
    store = MemoryStore("us-east-1")
    put(store, layout_key("counter"), shards=3)
    with pytest.raises(DamagedItem, match="a counter's layout"):
        await made("atomic", store).add(1)


async def test_a_shard_that_cannot_be_read_stops_a_change_before_it_begins() -> None:
    """Nothing is frozen, so the other shards are used as before."""
    store = MemoryStore("us-east-1")
    counter = made("atomic", store, 2)
    await counter.add(1)
    damaged = shard_key("counter", 1, "sum")
    store.table.set(damaged, {"pk": {"S": damaged[0]}, "sk": {"S": "sum"}, "value": {"S": "x"}})
    with pytest.raises(DamagedItem):
        await counter.convert(shards=4)
    assert "pending" not in (store.table.get(layout_key("counter")) or {})


async def test_a_sum_of_39_digits_stays_where_it_is() -> None:
    """No item could hold it: the change ends with the shards as they were, all usable."""
    store = MemoryStore("us-east-1")
    counter = made("atomic", store, 2)
    await counter.add(0)
    for shard in range(2):
        put(store, shard_key("counter", shard, "sum"), value=10**38 - 1)
    with pytest.raises(AmountOverflow):
        await counter.convert(shards=1)
    assert await counter.shards() == 2
    for _ in range(11):
        assert await counter.add(-(10**37)) == Applied()
    assert await counter.value() == 2 * (10**38 - 1) - 11 * 10**37


class Killed(Exception):
    """The process ended here."""


class KillAfter(MemoryStore):
    """The process ends before its next write, once it has sent so many."""

    def __init__(self, table: MemoryTable, writes: int) -> None:
        super().__init__("us-east-1", table)
        self.left = writes

    async def write(self, write: Write) -> Outcome:
        """Write, or end."""
        self._spend()
        return await super().write(write)

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Write, or end."""
        self._spend()
        return await super().transact(actions, token=token)

    def _spend(self) -> None:
        if not self.left:
            raise Killed
        self.left -= 1


SHAPES = [("atomic", 4, 7), ("atomic", 7, 2), ("history", 1, 4), ("optimistic", 4, 4)]


@pytest.mark.parametrize(("method", "before", "after"), SHAPES)
async def test_a_change_may_end_after_any_step(method: str, before: int, after: int) -> None:
    """Killed after each of its writes, it is finished by who comes; value and limit stay."""
    kills = 0
    for writes in count():
        inner = MemoryStore("us-east-1")
        old = made(method, inner, before, minimum=0, maximum=100)
        for _ in range(30):
            assert isinstance(await old.add(1), Applied)
        try:
            await made(method, KillAfter(inner.table, writes)).convert(shards=after)
        except Killed:
            kills += 1
        assert await made(method, inner).value() == 30
        assert isinstance(await old.add(-1), Applied)
        other = made(method, inner, minimum=0, maximum=100)
        assert sum([isinstance(await other.add(1), Applied) for _ in range(100)]) == 71
        assert await old.value() == await other.value() == 100
        if writes > 2:
            assert await other.shards() == after
        if kills <= writes:
            break
    assert kills > max(before, after) if before != after else kills == 0

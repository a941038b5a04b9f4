from collections.abc import Iterator
from decimal import Decimal

import pytest
from support.counting import make_counter
from support.ledgers import make_services

from ledger.core.errors import InvalidInput, Unreachable
from ledger.primitives.counters import (
    AtomicCounter,
    ClientTokenCounter,
    HistoryCounter,
    MarkerCounter,
    OptimisticCounter,
    SlotsCounter,
)
from ledger.primitives.counters.item_counter import ItemCounter
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Lost, NeverArrived
from ledger.store.writes import Applied, Rejected, Unknown
from ledger.testing.clock import ManualClock

KINDS = [AtomicCounter, OptimisticCounter, HistoryCounter, ClientTokenCounter, MarkerCounter]


def sharded(
    kind: type[ItemCounter], store: Store, *, shards: int = 4, seed: int = 7, **limits: int
) -> ItemCounter:
    """Return a counter over shards."""
    clock = ManualClock(instant=True)
    return kind(store, "counter", services=make_services(clock, seed), shards=shards, **limits)


async def shard_values(kind: type[ItemCounter], store: Store, shards: int) -> list[int]:
    """Return what each shard holds."""
    items = kind(store, "counter", services=make_services())
    return [int(await items.value_of(shard)) for shard in range(shards)]


@pytest.mark.parametrize("kind", KINDS)
async def test_changes_are_spread_and_summed(kind: type[ItemCounter]) -> None:
    """Every shard gets its share of many changes, each a partition of its own."""
    store = MemoryStore("us-east-1")
    counter = sharded(kind, store)
    for _ in range(80):
        assert await counter.add(1) == Applied()  # the value of its shard is not the counter's
    values = await shard_values(kind, store, 4)
    assert sum(values) == await counter.value() == 80
    assert all(8 <= value <= 32 for value in values)
    partitions = {key for key in store.table.partitions if key.endswith("~counter")}
    assert {f"~count~{shard}~counter" for shard in range(4)} <= partitions


async def test_more_shards_while_in_use() -> None:
    """Those who knew fewer go on writing to them; everybody reads all."""
    store = MemoryStore("us-east-1")
    old = sharded(AtomicCounter, store, shards=2)
    await old.add(1)
    assert await sharded(AtomicCounter, store, shards=6).shards() == 6
    for _ in range(30):
        await old.add(1)
    new = sharded(AtomicCounter, store, shards=2)
    for _ in range(60):
        await new.add(1)
    assert await new.shards() == 6
    assert await old.value() == await new.value() == 91
    values = await shard_values(AtomicCounter, store, 6)
    assert min(values) > 0
    assert sum(values[:2]) >= 31


async def test_a_counter_asked_for_with_more_shards_grows() -> None:
    """Anyone who wants more than there are adds them; anyone who wants fewer uses what is there."""
    store = MemoryStore("us-east-1")
    await sharded(AtomicCounter, store, shards=2).add(1)
    assert await sharded(AtomicCounter, store, shards=5).shards() == 5
    assert await sharded(AtomicCounter, store, shards=3).shards() == 5


async def test_shards_are_never_taken_away() -> None:
    """Fewer would hide what the others hold: a counter made with fewer uses what is there."""
    store = MemoryStore("us-east-1")
    counter = sharded(AtomicCounter, store, shards=4)
    assert await counter.shards() == 4
    assert await sharded(AtomicCounter, store, shards=3).shards() == 4
    assert await counter.shards() == 4
    for shards in (0, -1, 1001, 2.5):
        with pytest.raises(InvalidInput, match="1 to 96"):
            sharded(AtomicCounter, store, shards=shards)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="1 to 96, got 97"):
        await sharded(AtomicCounter, MemoryStore("us-east-1"), shards=97).add(1)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_change_without_room_in_one_shard_is_split(kind: type[ItemCounter]) -> None:
    """All of what several shards hold can be taken at once; a hair more cannot."""
    store = MemoryStore("us-east-1")
    counter = sharded(kind, store, minimum=0)
    for _ in range(20):
        await counter.add(1)
    assert max(await shard_values(kind, store, 4)) < 20
    outcome = await counter.add(-21)
    assert outcome == Rejected("threshold", "minimum 0")
    assert await counter.add(-20) == Applied()
    assert await shard_values(kind, store, 4) == [0, 0, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_maximum_is_reached_by_ones(kind: type[ItemCounter]) -> None:
    """Looking for room in other shards, the whole of the maximum is used, and no more."""
    counter = sharded(kind, MemoryStore("us-east-1"), maximum=10)
    outcomes = [await counter.add(1) for _ in range(12)]
    assert [isinstance(outcome, Applied) for outcome in outcomes] == [True] * 10 + [False] * 2
    assert await counter.value() == 10


async def test_added_shards_loosen_no_threshold() -> None:
    """The negative case of dividing again: 4 times 25 in the old shards, and 12 in each new one."""
    store = MemoryStore("us-east-1")
    counter = sharded(AtomicCounter, store, maximum=100)
    assert await counter.add(100) == Applied()
    counter = sharded(AtomicCounter, store, shards=8, maximum=100)
    assert await counter.shards() == 8
    outcomes = [await counter.add(1) for _ in range(20)]
    assert all(isinstance(outcome, Rejected) for outcome in outcomes)
    assert await counter.value() == 100


async def test_a_marker_is_known_in_all_shards() -> None:
    """A token counts once, whichever shards its repeats would go to, and after growing."""
    store = MemoryStore("us-east-1")
    counter = sharded(MarkerCounter, store)
    await counter.add(1, token="t")
    counter = sharded(MarkerCounter, store, shards=9)
    assert await counter.shards() == 9
    for seed in range(10):
        again = await sharded(MarkerCounter, store, seed=seed).add(1, token="t")
        assert again == Rejected("applied before")
    assert await counter.value() == 1


@pytest.mark.parametrize("kind", [ClientTokenCounter, HistoryCounter, SlotsCounter])
async def test_a_token_known_in_its_item_has_its_own_shard(kind: type[ItemCounter]) -> None:
    """Anyone who repeats it reaches the same shard, so that it counts once."""
    store = MemoryStore("us-east-1")
    counter = sharded(kind, store)
    for place in range(12):
        await counter.add(1, token=f"t{place}")
    for place in range(12):
        await sharded(kind, store, seed=place).add(1, token=f"t{place}")
    assert await counter.value() == 12
    assert sum(value > 0 for value in await shard_values(kind, store, 4)) > 1


@pytest.mark.parametrize("kind", [ClientTokenCounter, HistoryCounter, OptimisticCounter])
async def test_a_token_counts_once_after_growing_too(kind: type[ItemCounter]) -> None:
    """It is looked for in the shard that it had by each number before, or is refused."""
    store = MemoryStore("us-east-1")
    counter = sharded(kind, store, shards=4)
    tokens = [f"t{place}" for place in range(3 if kind is OptimisticCounter else 12)]
    seen = [token for token in tokens if await counter.add(1, token=token) == Applied()]
    for shards in (6, 7, 9):
        counter = sharded(kind, store, shards=shards)
        before = await counter.value()
        for token in seen[-1:] if kind is OptimisticCounter else seen:
            again = await counter.add(1, token=token)
            assert isinstance(again, Rejected), token
        assert await counter.value() == before


async def test_slots_keep_their_number_of_shards() -> None:
    """A set of tokens cannot be divided again: more shards than there are is an error."""
    store = MemoryStore("us-east-1")
    await sharded(SlotsCounter, store).add(1, token="t")
    with pytest.raises(InvalidInput, match="a set of slots keeps its method and its 4 shard"):
        await sharded(SlotsCounter, store, shards=9).add(1, token="u")
    assert await sharded(SlotsCounter, store, shards=2).value() == 1


@pytest.mark.parametrize("kind", [ClientTokenCounter, HistoryCounter])
async def test_room_comes_to_the_shard_of_a_token(kind: type[ItemCounter]) -> None:
    """Pieces are moved to where a repeat would look, so that all of the room is used."""
    counter = sharded(kind, MemoryStore("us-east-1"), shards=4, maximum=4)
    outcomes = [await counter.add(1, token=f"t{place}") for place in range(40)]
    assert [isinstance(outcome, Applied) for outcome in outcomes] == [True] * 4 + [False] * 36
    assert await counter.value() == 4
    assert isinstance(await counter.add(1, token="t3"), Rejected | Applied)
    assert await counter.value() == 4


@pytest.mark.parametrize("kind", [OptimisticCounter, ClientTokenCounter, HistoryCounter])
async def test_a_change_too_large_for_the_shard_of_its_token_is_split(
    kind: type[ItemCounter],
) -> None:
    """A part of it, be it 0, is in the token's own shard; repeated, it counts no second time."""
    store = MemoryStore("us-east-1")
    counter = sharded(kind, store, shards=4, maximum=8)
    assert await counter.add(7, token="t") == Applied()
    for seed in range(3):
        again = await sharded(kind, store, maximum=8, seed=seed).add(7, token="t")
        assert again == Rejected("applied before") or kind is ClientTokenCounter
    assert await counter.value() == 7


@pytest.mark.parametrize("kind", [MarkerCounter, ClientTokenCounter])
async def test_a_split_with_lost_answers_counts_once(kind: type[ItemCounter]) -> None:
    """A split is one transaction: repeated after lost answers it is there once, in all parts."""
    inner = MemoryStore("us-east-1")
    filled = sharded(kind, inner, minimum=0)
    for _ in range(20):
        await filled.add(1)
    lost: Iterator[Fault] = iter([Lost(), NeverArrived(), Lost()])

    def decide(call: FaultCall) -> Fault | None:
        return next(lost, None) if call.operation == "transact" and call.size > 2 else None

    store = FaultyStore(inner, decide, clock=ManualClock(instant=True))
    counter = sharded(kind, store, seed=8, minimum=0)
    assert await counter.add(-19) == Applied()
    assert await counter.value() == 1
    assert next(lost, None) is None


async def test_no_token_is_given_that_would_lead_elsewhere() -> None:
    """After no answer at all, a made token helps only where the whole counter knows it."""
    for kind, is_given in ((MarkerCounter, True), (ClientTokenCounter, False)):
        inner = MemoryStore("us-east-1")
        await sharded(kind, inner).shards()
        store = FaultyStore(inner, lambda call: Lost() if call.operation == "transact" else None)
        outcome = await sharded(kind, store).add(1)
        assert isinstance(outcome, Unknown)
        assert (outcome.token is not None) == is_given


async def test_shards_are_known_before_the_first_change() -> None:
    """Unless their number stands in the table nothing is written, or readers would miss it."""
    inner = MemoryStore("us-east-1")

    def decide(call: FaultCall) -> Fault | None:
        return NeverArrived() if call.operation == "write" else None

    store = FaultyStore(inner, decide, clock=ManualClock(instant=True))
    with pytest.raises(Unreachable, match="shards"):
        await sharded(AtomicCounter, store).add(1)
    assert await make_counter("atomic-sharded", inner).value() == Decimal(0)
    assert inner.table.partitions == {}

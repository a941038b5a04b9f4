from collections.abc import Iterator
from decimal import Decimal

import pytest
from support.clock import FakeClock
from support.counting import make_counter
from support.ledgers import seeded

from ledger.core.errors import InvalidInput, Unreachable
from ledger.primitives.counters import (
    AtomicCounter,
    ClientTokenCounter,
    HistoryCounter,
    MarkerCounter,
    OptimisticCounter,
    ShardedCounter,
    SlotsCounter,
)
from ledger.primitives.counters.items import ItemCounter
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.wrappers.faults import Call, Fault, FaultyStore, Lost, NeverArrived
from ledger.store.writes import Applied, Rejected, Unknown

KINDS = [AtomicCounter, OptimisticCounter, HistoryCounter, ClientTokenCounter, MarkerCounter]
SPLITTING = [AtomicCounter, ClientTokenCounter, MarkerCounter]


def sharded(
    kind: type[ItemCounter], store: Store, *, shards: int = 4, seed: int = 7, **limits: int
) -> ShardedCounter:
    """Return a counter over shards."""
    items = kind(store, "counter", clock=FakeClock(instant=True), randomness=seeded(seed), **limits)
    return ShardedCounter(items, shards=shards)


async def shard_values(kind: type[ItemCounter], store: Store, shards: int) -> list[int]:
    """Return what each shard holds."""
    items = kind(store, "counter", clock=FakeClock(instant=True), randomness=seeded())
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
        with pytest.raises(InvalidInput, match="1 to 1,000"):
            sharded(AtomicCounter, store, shards=shards)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", SPLITTING)
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


async def test_without_splitting_one_shard_has_to_have_room() -> None:
    """The optimistic counter takes what one shard holds, although the sum would allow more."""
    store = MemoryStore("us-east-1")
    counter = sharded(OptimisticCounter, store, minimum=0)
    for _ in range(20):
        await counter.add(1)
    most = max(await shard_values(OptimisticCounter, store, 4))
    assert isinstance(await counter.add(-most - 1), Rejected)
    assert isinstance(await counter.add(-most), Applied)


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
    """Anyone who repeats it reaches the same shard, after growing too, so that it counts once."""
    store = MemoryStore("us-east-1")
    counter = sharded(kind, store)
    for place in range(12):
        await counter.add(1, token=f"t{place}")
    counter = sharded(kind, store, shards=9)
    assert await counter.shards() == 9
    for place in range(12):
        await sharded(kind, store, seed=place).add(1, token=f"t{place}")
    assert await counter.value() == 12
    assert sum(value > 0 for value in await shard_values(kind, store, 4)) > 1


async def test_a_token_with_its_own_shard_goes_nowhere_else() -> None:
    """Without room there it is rejected: in another shard a repeat would not be recognized."""
    store = MemoryStore("us-east-1")
    counter = sharded(ClientTokenCounter, store, shards=4, maximum=4)
    outcomes = [await counter.add(1, token=f"t{place}") for place in range(40)]
    assert sum(isinstance(outcome, Applied) for outcome in outcomes) == await counter.value() == 4
    counter = sharded(ClientTokenCounter, MemoryStore("us-east-1"), shards=4, maximum=4)
    assert isinstance(await counter.add(2, token="t"), Rejected)
    assert await counter.add(2) == Applied()


@pytest.mark.parametrize("kind", [MarkerCounter, ClientTokenCounter])
async def test_a_split_with_lost_answers_counts_once(kind: type[ItemCounter]) -> None:
    """A split is one transaction: repeated after lost answers it is there once, in all parts."""
    inner = MemoryStore("us-east-1")
    filled = sharded(kind, inner, minimum=0)
    for _ in range(20):
        await filled.add(1)
    lost: Iterator[Fault] = iter([Lost(), NeverArrived(), Lost()])

    def decide(call: Call) -> Fault | None:
        return next(lost, None) if call.operation == "transact" and call.size > 2 else None

    store = FaultyStore(inner, decide, clock=FakeClock(instant=True))
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
        items = kind(store, "counter", clock=FakeClock(instant=True), randomness=seeded())
        outcome = await ShardedCounter(items, shards=4).add(1)
        assert isinstance(outcome, Unknown)
        assert (outcome.token is not None) == is_given


async def test_shards_are_known_before_the_first_change() -> None:
    """Unless their number stands in the table nothing is written, or readers would miss it."""
    inner = MemoryStore("us-east-1")

    def decide(call: Call) -> Fault | None:
        return NeverArrived() if call.operation == "write" else None

    store = FaultyStore(inner, decide, clock=FakeClock(instant=True))
    with pytest.raises(Unreachable, match="shards"):
        await sharded(AtomicCounter, store).add(1)
    assert await make_counter("atomic-sharded", inner).value() == Decimal(0)
    assert inner.table.partitions == {}

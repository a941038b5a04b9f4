"""Stock over shards: a large change is spread, pieces come to where they are wanted."""

from decimal import Decimal
from itertools import count

import pytest
from support.ledgers import HOME, make_services, sample

from ledger.core.errors import InvalidInput
from ledger.primitives.counters import ItemCounter, SlotsCounter
from ledger.primitives.counters.catalog import ITEM_METHODS
from ledger.runtime.metrics import Metrics
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Lost
from ledger.store.wrappers.meter import MeteredStore
from ledger.store.writes import Applied, Rejected
from ledger.testing.clock import ManualClock

METHODS = [name for name in ITEM_METHODS if name != "slots"]
_seeds = count()
TOKENS = ["client-token", "optimistic", "history"]


def counter_of(
    method: str, store: MemoryStore | FaultyStore | MeteredStore, **limits: int
) -> ItemCounter:
    """Return a counter of 8 shards."""
    return ITEM_METHODS[method](
        store, "stock", services=make_services(seed=next(_seeds)), **{"shards": 8, **limits}
    )


async def held(counter: ItemCounter) -> list[int]:
    """Return what each shard holds."""
    return [int(await counter.value_of(shard)) for shard in range(8)]


@pytest.mark.parametrize("method", METHODS)
async def test_a_restock_is_spread_evenly(method: str) -> None:
    """1,000 in stock are 125 in each of 8 shards, in one transaction; with its token, once."""
    counter = counter_of(method, MemoryStore(HOME), minimum=0)
    assert await counter.add(1000, token="delivery-2") == Applied()
    assert await held(counter) == [125] * 8
    if method.startswith("atomic"):
        return
    again = await counter.add(1000, token="delivery-2")
    assert again == Rejected("applied before") or method == "client-token"
    assert await counter.value() == 1000


@pytest.mark.parametrize("method", METHODS)
async def test_room_given_back_is_spread_too(method: str) -> None:
    """Under a maximum it is the large change downwards that others use the room of."""
    counter = counter_of(method, MemoryStore(HOME), maximum=0)
    await counter.add(-16)
    assert await held(counter) == [-2] * 8


async def test_what_is_spread_is_said_or_asked_for() -> None:
    """Without a threshold on the other side, or for less than a unit each, `spread` decides."""
    store = MemoryStore(HOME)
    for change, spread, shards in ((1000, None, 1), (7, None, 1), (7, True, 7), (1000, False, 1)):
        limits = {} if change == 1000 and spread is None else {"minimum": 0}
        counter = counter_of("marker", store, **limits)
        await counter.add((await counter.value()).copy_negate())
        before = await held(counter)
        await counter.add(change, spread=spread)
        after = await held(counter)
        assert sum(one != other for one, other in zip(before, after, strict=True)) == shards
    slots = SlotsCounter(store, "seats", services=make_services())
    with pytest.raises(InvalidInput, match="cannot spread"):
        await slots.add(1, spread=True)


@pytest.mark.parametrize("method", METHODS)
async def test_a_restock_that_does_not_fit_everywhere_goes_where_it_does(method: str) -> None:
    """With both thresholds, room that is uneven is filled, and never passed."""
    counter = counter_of(method, MemoryStore(HOME), minimum=0, maximum=80)
    await counter.add(60)
    await counter.add(9, spread=False)
    assert await counter.add(11) == Applied()
    assert await counter.add(1) == Rejected("threshold", "minimum 0 and maximum 80")
    assert await counter.value() == 80


@pytest.mark.parametrize("method", ["marker", "client-token", "optimistic", "history"])
async def test_a_restock_without_an_answer_counts_once(method: str) -> None:
    """The transaction is repeated under its token, marker or tags."""
    inner = MemoryStore(HOME)
    await counter_of(method, inner, minimum=0).shards()
    lost = iter([Lost()])

    def decide(call: FaultCall) -> Fault | None:
        return next(lost, None) if call.operation == "transact" else None

    store = FaultyStore(inner, decide, clock=ManualClock(instant=True))
    assert await counter_of(method, store, minimum=0).add(1000, token="t") == Applied()
    assert next(lost, None) is None
    assert await counter_of(method, inner).value() == 1000


@pytest.mark.parametrize(
    ("method", "writes", "reads"), [("atomic", 1.0, 0.0), ("marker", 4.0, 0.0), ("history", 1, 1)]
)
async def test_a_sale_after_a_restock_costs_what_one_item_would(
    method: str, writes: float, reads: float
) -> None:
    """300 sales of 1,000 pieces find one in their own shard; it was 1.90 and 9.03 for `atomic`."""
    metrics, clock = Metrics(None), ManualClock(instant=True)
    store = MeteredStore(MemoryStore(HOME), metrics=metrics, clock=clock)
    counter = counter_of(method, store, minimum=0)

    def units(kind: str) -> float:
        return sample(metrics, "ledger_consumed_units_total", kind=kind)

    await counter.add(1000)
    before = units("write"), units("read")
    for _ in range(300):
        assert await counter.add(-1) == Applied()
    assert (units("write") - before[0]) / 300 == writes
    assert (units("read") - before[1]) / 300 == reads


@pytest.mark.parametrize("method", METHODS)
async def test_the_last_piece_is_sold(method: str) -> None:
    """Of 1,000 buyers of 1,000 pieces, one piece each, none is refused; the next one is."""
    counter = counter_of(method, MemoryStore(HOME), minimum=0)
    await counter.add(1000)
    for place in range(1000):
        outcome = await counter.add(-1, token=f"order-{place}")
        assert outcome == Applied(), place
    assert await counter.add(-1, token="order-1000") == Rejected("threshold", "minimum 0")


@pytest.mark.parametrize("method", TOKENS)
async def test_pieces_in_one_shard_are_sold_to_every_token(method: str) -> None:
    """All stock in one shard: 272 of 300 buyers were refused."""
    counter = counter_of(method, MemoryStore(HOME), minimum=0)
    await counter.add(1000, spread=False)
    assert sorted(await held(counter)) == [0] * 7 + [1000]
    for place in range(300):
        assert await counter.add(-1, token=f"order-{place}") == Applied()
    assert await counter.value() == 700
    assert 0 not in await held(counter)


@pytest.mark.parametrize("method", METHODS)
async def test_pieces_are_moved_when_that_pays(method: str) -> None:
    """The first sale that misses leaves all shards with pieces; the sum is what it was."""
    counter = counter_of(method, MemoryStore(HOME), minimum=0)
    await counter.add(1000, spread=False)
    for _ in range(20):
        assert await counter.add(-1) == Applied()
    values = await held(counter)
    assert sum(values) == 980
    assert min(values) > 110


@pytest.mark.parametrize("method", ["atomic", "optimistic"])
async def test_few_pieces_are_not_moved(method: str) -> None:
    """What the moving costs is not saved by the sales to come: they look in all shards."""
    counter = counter_of(method, MemoryStore(HOME), minimum=0)
    await counter.add(8, spread=False)
    for _ in range(4):
        await counter.add(-1)
    assert sorted(await held(counter)) == [0] * 7 + [4]


@pytest.mark.parametrize("method", METHODS)
async def test_evening_out_as_a_call(method: str) -> None:
    """It may be asked for at any time, and done twice does nothing more."""
    counter = counter_of(method, MemoryStore(HOME), minimum=0)
    await counter.add(83, spread=False)
    assert await counter.even_out()
    assert await held(counter) == [11, 11, 11, 10, 10, 10, 10, 10]
    assert await counter.even_out()
    assert await counter.value() == 83


async def test_slots_are_not_evened_out() -> None:
    """Their tokens cannot be moved."""
    slots = SlotsCounter(MemoryStore(HOME), "seats", services=make_services())
    with pytest.raises(InvalidInput, match="no pieces"):
        await slots.even_out()


async def test_an_optimistic_write_does_not_undo_a_move() -> None:
    """A value read before pieces were moved is not written back: its tag is the same."""

    class MovedAfterReading(MemoryStore):
        """Pieces are moved once, between a read and the write that rests on it."""

        moved = False

        async def get(self, get):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            """Read, then let another process move pieces."""
            item = await super().get(get)
            if not self.moved and "value" in (item or {}):
                self.moved = True
                assert await other.even_out()
            return item

    inner = MemoryStore(HOME)
    other = counter_of("optimistic", inner, shards=2, minimum=0)
    await other.add(100, spread=False)
    counter = counter_of("optimistic", MovedAfterReading(HOME, inner.table), shards=2, minimum=0)
    for _ in range(4):
        assert await counter.add(-1) == Applied()
    assert await other.value() == Decimal(96)

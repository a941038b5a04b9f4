"""A counter in shards whose sum 38 digits cannot hold: changes go on, and nothing is lost."""

from collections.abc import Awaitable, Callable
from decimal import Decimal
from itertools import count

import pytest
from support.ledgers import AWAY, HOME, make_services

from ledger.core.errors import AmountOverflow
from ledger.primitives.counters import ItemCounter, Layouts
from ledger.primitives.counters.catalog import ITEM_METHODS
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.writes import Applied

LARGE = 9 * 10**37
_seeds = count(1)
METHODS = sorted(set(ITEM_METHODS) - {"slots"})


def opened(table: MemoryTable, region: str, method: str, shards: int | None = None) -> ItemCounter:
    """Open the counter in a region, as a `MemoryTable` does."""
    counter = ITEM_METHODS[method](
        MemoryStore(region, table),
        "stock",
        services=make_services(seed=next(_seeds)),
        shards=shards,
    )
    counter.share(Layouts(), is_guarded=True)
    return counter


async def large(method: str) -> MemoryTable:
    """Return a table with a counter of 4 shards, at 1 more than twice a change that fits."""
    table = MemoryTable()
    counter = opened(table, HOME, method, 4)
    for change in (1, LARGE, LARGE):
        await applied(counter, change)
    return table


async def applied(counter: ItemCounter, change: int) -> None:
    """Make a change, in whatever shard has room for it."""
    for _ in range(100):
        try:
            assert isinstance(await counter.add(change), Applied)
        except AmountOverflow:
            continue
        return
    raise AssertionError("no shard has room")


@pytest.mark.parametrize(
    "call",
    [
        lambda counter: counter.value(),
        lambda counter: counter.convert(shards=2),
        lambda counter: counter.reconcile(counted=3),
    ],
    ids=["value", "convert", "reconcile"],
)
@pytest.mark.parametrize("method", METHODS)
async def test_what_needs_the_sum_is_refused_and_changes_nothing(
    method: str, call: Callable[[ItemCounter], Awaitable[object]]
) -> None:
    """Once the wrong change is taken back, all is as before."""
    table = await large(method)
    counter = opened(table, HOME, method)
    with pytest.raises(AmountOverflow):
        await call(counter)
    await applied(counter, -LARGE)
    assert await counter.value() == LARGE + 1


@pytest.mark.parametrize("method", METHODS)
async def test_portions_of_more_than_38_digits_are_not_made(method: str) -> None:
    """Moving pieces leaves them where they are, and says why."""
    table = await large(method)
    counter = opened(table, HOME, method)
    for _ in range(4):
        await applied(counter, LARGE)
    with pytest.raises(AmountOverflow):
        await counter.even_out()
    for _ in range(5):
        await applied(counter, -LARGE)
    assert await counter.value() == LARGE + 1


@pytest.mark.parametrize("method", METHODS)
async def test_a_wish_for_more_shards_stops_no_change(method: str) -> None:
    """No sum could be divided, so the counter keeps its shards."""
    table = await large(method)
    wide = opened(table, HOME, method, 8)
    await applied(wide, -LARGE)
    assert await wide.value() == LARGE + 1
    assert await wide.shards() == 4


@pytest.mark.parametrize("lost", [None, HOME], ids=["handed over", "taken from a lost region"])
@pytest.mark.parametrize("method", METHODS)
async def test_another_region_goes_on_with_it(method: str, lost: str | None) -> None:
    """Each shard keeps its value: a hand-over needs no sum."""
    table = await large(method)
    await opened(table, HOME if lost is None else AWAY, method).hand_over(AWAY, lost=lost)
    counter = opened(table, AWAY, method)
    await applied(counter, -LARGE)
    assert await counter.value() == Decimal(LARGE + 1)

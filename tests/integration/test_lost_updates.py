"""What single-item counters lose when two regions write before they have met, and the ledger not.

The example: a counter stands at 4. One region subtracts 1, another subtracts 2, before either has
seen the other's change. Global tables replicate the whole item and the later one wins::

    us-east-1   4 - 1 = 3 (earlier) ---.        2
    eu-west-1   4 - 2 = 2 (later) ------+---->  2     true value: 1; no error anywhere
"""

from collections.abc import Awaitable, Callable
from decimal import Decimal
from functools import partial
from itertools import combinations

import anyio
import pytest
from support.engines import ENGINES, REGIONS
from support.worlds import cut, open_ledgers, totals

from ledger import Ledger
from ledger.core.entry import Key, number_of
from ledger.demo import naive
from ledger.local import LocalGlobalTable
from ledger.runtime.tasks import run_all
from ledger.store.conditions import Equals
from ledger.store.connections import open_stores
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import Applied, Put, Update

HERE, THERE, _ = REGIONS
COUNTER = "customer1-balance"
KEY: Key = ("single item", COUNTER)
WRITERS = 300
AT_ONCE_PER_REGION = 16

Subtract = Callable[[Store, int], Awaitable[None]]


async def value(store: Store) -> Decimal:
    """Read the single-item counter."""
    item = await store.get(Get(KEY))
    assert item is not None
    return number_of(item, "value")


async def read_modify_write(store: Store, amount: int) -> None:
    """Read the value and put the new one, on condition that no one changed it in between."""
    before = await value(store)
    item = {"pk": {"S": KEY[0]}, "sk": {"S": KEY[1]}, "value": {"N": str(before - amount)}}
    assert await store.write(Put(item, Equals("value", {"N": str(before)}))) == Applied()


async def add(store: Store, amount: int) -> None:
    """Let DynamoDB change the value, with `ADD`."""
    outcome = await store.write(Update(KEY, add={"value": {"N": str(-amount)}}))
    assert isinstance(outcome, Applied)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("subtract", [pytest.param(read_modify_write, marks=pytest.mark.slow), add])
async def test_of_two_regions_changes_one_is_lost(engine: str, subtract: Subtract) -> None:
    """4 - 1 - 2 ends as 2 in every region, by conditional puts and by `ADD`, without an error."""
    starting = LocalGlobalTable.start(regions=REGIONS, lag=0.01, jitter=0.02, engine=engine)
    async with starting as world, open_stores(world.settings()) as stores:
        await stores[HERE].write(Update(KEY, add={"value": {"N": "4"}}))
        await world.wait_replicated()
        assert [await value(store) for store in stores.values()] == [4, 4, 4]

        cut(world, HERE, THERE)
        await subtract(stores[HERE], 1)
        await subtract(stores[THERE], 2)
        assert await value(stores[HERE]) == 3
        assert await value(stores[THERE]) == 2
        world.heal_all()
        await world.wait_replicated()

        assert [await value(store) for store in stores.values()] == [2, 2, 2]


@pytest.mark.parametrize("engine", ENGINES)
async def test_the_ledger_keeps_both_changes(engine: str) -> None:
    """4 - 1 - 2 ends as 1 in every region; before they meet each shows what has reached it."""
    starting = LocalGlobalTable.start(regions=REGIONS, lag=0.01, jitter=0.02, engine=engine)
    async with starting as world, open_ledgers(world.settings()) as ledgers:
        await ledgers[HERE].record(COUNTER, 4)
        await world.wait_replicated()
        assert await totals(ledgers, COUNTER) == dict.fromkeys(REGIONS, Decimal(4))

        cut(world, HERE, THERE)
        await ledgers[HERE].record(COUNTER, -1)
        await ledgers[THERE].record(COUNTER, -2)
        seen = await totals(ledgers, COUNTER)
        assert [seen[HERE], seen[THERE]] == [3, 2]
        world.heal_all()
        await world.wait_replicated()

        assert await totals(ledgers, COUNTER) == dict.fromkeys(REGIONS, Decimal(1))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
async def test_hundreds_of_writers_in_three_regions(
    engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 300 concurrent changes in three regions single items lose some, the ledger none."""
    starting = LocalGlobalTable.start(regions=REGIONS, lag=0.05, jitter=0.2, engine=engine)
    async with (
        starting as world,
        open_stores(world.settings()) as stores,
        open_ledgers(world.settings()) as ledgers,
    ):
        async with anyio.create_task_group() as tasks:
            for region in REGIONS:
                tasks.start_soon(write_all, ledgers[region], stores[region])
        await world.wait_replicated()

        assert await totals(ledgers, COUNTER) == dict.fromkeys(REGIONS, Decimal(WRITERS))
        kept = {(await naive.read_all(store, [COUNTER]))[COUNTER] for store in stores.values()}
    assert len(kept) == 1, "the regions do not agree"
    ((single, counted),) = kept
    assert single == counted < WRITERS
    with capsys.disabled():
        print(f"\n  {engine}: of {WRITERS} changes a single item lost {WRITERS - counted}")


async def write_all(ledger: Ledger, store: Store) -> None:
    """Write this region's share, each change by a writer of its own, both ways."""
    writers = [partial(write_one, ledger, store)] * (WRITERS // len(REGIONS))
    await run_all(writers, at_once=AT_ONCE_PER_REGION)


async def write_one(ledger: Ledger, store: Store) -> None:
    """Add 1 to the ledger and to a single item."""
    await ledger.record(COUNTER, 1)
    await naive.add(store, COUNTER, Decimal(1))


@pytest.mark.slow
async def test_cut_off_regions_lose_all_but_one() -> None:
    """Cut off from each other, three regions keep exactly one region's changes of a single item."""
    async with (
        LocalGlobalTable.start(regions=REGIONS, lag=0.01, jitter=0) as world,
        open_stores(world.settings()) as stores,
    ):
        for one, other in combinations(REGIONS, 2):
            cut(world, one, other)
        for number, store in enumerate(stores.values(), start=1):
            for _ in range(number * 2):
                await naive.add(store, COUNTER, Decimal(1))
        world.heal_all()
        await world.wait_replicated()
        kept = [(await naive.read_all(one, [COUNTER]))[COUNTER] for one in stores.values()]
    assert kept == [(Decimal(6), 6)] * 3

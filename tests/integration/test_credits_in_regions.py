"""Deliveries, sales and returns in three regions under a partition, on both engines.

The control keeps stock in a plain counter: each region looks at what it knows before it sells.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import pytest
from support.tutorials import THREE, Regions, three_regions

from ledger.budgets import grant_allowance, rights_fetcher
from ledger.budgets.spend_request import Granted
from ledger.core.errors import StoreError
from ledger.table import Table

ENGINES = ["memory", pytest.param("dynoxide", marks=pytest.mark.engines("dynoxide"))]
STOCK, PLAIN = "stock/lamp", "plain/lamp"
PAUSE_SECONDS = 1.0
SPENDABLE_SECONDS = 30.0
TAKEN_IN_SECONDS = 2.0
"""For how long a delivery is waited for: less than it takes while a region is cut off."""
WATCH_SECONDS = 0.05
AT_ONCE = 15
CUT = THREE[2]
Sell = Callable[[Table], Awaitable[bool]]
Deliver = Callable[[Table, int], Awaitable[Any]]


@pytest.fixture(autouse=True)
def asked_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a region that could not be reached be asked again after a second, however often."""
    pauses = replace(rights_fetcher.PAUSES, longest_seconds=PAUSE_SECONDS)
    monkeypatch.setattr(rights_fetcher, "PAUSES", pauses)


@asynccontextmanager
async def opened(engine: str) -> AsyncIterator[tuple[Regions, list[Table]]]:
    """Open a shop in each of three regions, with an empty stock that takes credits."""
    async with three_regions(engine, budgets={"stock/*": {"credits": "on"}}) as regions:
        shops = [(await regions.open(region))[0] for region in THREE]
        await shops[0].budget(STOCK).create(0)
        await regions.table.wait_replicated()
        yield regions, shops


async def heal(regions: Regions) -> None:
    """Reach all regions again, as soon as each asks."""
    await regions.heal()
    await anyio.sleep(PAUSE_SECONDS + grant_allowance.REFUSAL_SECONDS)


@asynccontextmanager
async def watched(shops: Sequence[Table], counter: str) -> AsyncIterator[list[int]]:
    """Read a counter in every region all the time; what is below zero is in the list."""
    below: list[int] = []

    async def watch(shop: Table) -> None:
        while True:
            shown = int((await shop.ledger.total(counter, max_age=0)).value)
            below.extend([shown] if shown < 0 else [])
            await anyio.sleep(WATCH_SECONDS)

    async with anyio.create_task_group() as tasks:
        for shop in shops:
            tasks.start_soon(watch, shop)
        yield below
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_delivery_a_sale_and_a_return_under_a_partition(engine: str) -> None:
    """What is delivered during it counts, and is sold once every region shows it; all is sold."""
    async with opened(engine) as (regions, shops), watched(shops, STOCK) as below:
        us, eu, ap = (shop.budget(STOCK) for shop in shops)
        assert not await us.spend(1)
        delivery = await eu.credit(5, key="delivery-1", at=_now(eu), wait=SPENDABLE_SECONDS)
        assert delivery.is_spendable
        sale = await ap.spend(2, wait=SPENDABLE_SECONDS)
        assert isinstance(sale, Granted)
        await regions.table.wait_replicated()
        regions.cut(CUT)
        later = [await each.credit(4) for each in (us, eu, ap)]
        assert not any(credited.is_spendable for credited in later)
        with pytest.raises(StoreError):
            await shops[0].ledger.reverse(sale.entry)
        sold = 0
        for each in (us, eu, ap) * 5:
            sold += bool(await each.spend(1))
        assert sold <= 3
        await heal(regions)
        back = await shops[0].ledger.reverse(sale.entry)
        assert back.change == 2
        await regions.table.wait_replicated()
        with anyio.fail_after(SPENDABLE_SECONDS):
            while sold < 5 + 3 * 4:
                for each in (us, eu, ap):
                    sold += bool(await each.spend(1))
                await anyio.sleep(WATCH_SECONDS)
        assert not any([bool(await each.spend(1)) for each in (us, eu, ap)])
        await regions.table.wait_replicated()
        totals = [int((await shop.ledger.total(STOCK, max_age=0)).value) for shop in shops]
        assert totals == [0, 0, 0]
    assert below == []


def _now(budget: Any) -> Any:
    return budget._parts().spender.now()


async def serve(shops: Sequence[Table], buyers: int, sell: Sell) -> int:
    """Let so many buyers ask, in all regions at once; return how many got a piece."""
    sold = 0

    async def lane(number: int) -> None:
        nonlocal sold
        for buyer in range(buyers // AT_ONCE):
            got = await sell(shops[(number + buyer) % len(shops)])
            sold += got  # others have added meanwhile

    async with anyio.create_task_group() as tasks:
        for number in range(AT_ONCE):
            tasks.start_soon(lane, number)
    return sold


async def sale(
    regions: Regions, shops: Sequence[Table], sell: Sell, deliver: Deliver
) -> tuple[int, int]:
    """Deliver, and sell while more is delivered, in a partition and after it; return both."""
    delivered = 0

    async def deliveries(times: int) -> None:
        nonlocal delivered
        for _ in range(times):
            for shop in shops:
                delivered += 5
                await deliver(shop, 5)

    async def both(buyers: int, times: int) -> int:
        got: list[int] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(deliveries, times)
            got.append(await serve(shops, buyers, sell))
        return got[0]

    await deliveries(4)
    await regions.table.wait_replicated()
    regions.cut(CUT)
    sold = await both(300, 4)
    await heal(regions)
    sold += await both(150, 2)
    await regions.table.wait_replicated()
    for _ in range(20):
        await anyio.sleep(PAUSE_SECONDS / 2)
        sold += await serve(shops, 60, sell)
        if sold >= delivered:
            break
    return sold, delivered


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_flash_sale_with_deliveries_in_the_partition_sells_what_was_delivered(
    engine: str,
) -> None:
    """All of it in the end, and never more: no region ever shows less than none."""

    async def sell(shop: Table) -> bool:
        return bool(await shop.budget(STOCK).spend(1))

    async def deliver(shop: Table, pieces: int) -> None:
        await shop.budget(STOCK).credit(pieces, wait=TAKEN_IN_SECONDS)

    async with opened(engine) as (regions, shops), watched(shops, STOCK) as below:
        sold, delivered = await sale(regions, shops, sell, deliver)
        assert (sold, delivered) == (150, 150)
    assert below == []


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_total_as_guard_sells_more_than_was_delivered(engine: str) -> None:
    """The control: the same sale over a plain counter."""

    async def sell(shop: Table) -> bool:
        if (await shop.ledger.total(PLAIN, max_age=0)).value < 1:
            return False
        await shop.ledger.record(PLAIN, -1)
        return True

    async def deliver(shop: Table, pieces: int) -> None:
        await shop.ledger.record(PLAIN, pieces)

    async with opened(engine) as (regions, shops), watched(shops, PLAIN) as below:
        sold, delivered = await sale(regions, shops, sell, deliver)
        assert sold > delivered
    assert below

"""The programs about budgets on both engines: what is sold and spent is the limit, exactly."""

import os
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.tutorials import (
    THREE,
    adding,
    begin,
    calling,
    program,
    spend_all,
    spent,
    three_regions,
)

from ledger import Table
from ledger.budgets import grant_allowance, rights_fetcher
from ledger.runtime.clock import SystemClock

GATEWAY = "ledger/docs/howto/hold-an-amount.md"
SALE = "ledger/docs/start/budget.md"
WALLET = "ledger/docs/howto/keep-a-wallet.md"
IS_WHOLE = bool(os.environ.get("LEDGER_WHOLE"))
ENGINES = ["memory", pytest.param("dynoxide", marks=pytest.mark.engines("dynoxide"))]
PAUSE_SECONDS = 1.0
CREDIT_SECONDS = 30.0
"""How long a credit may take until it can be spent: a bound for failures."""


@pytest.fixture(autouse=True)
def asked_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a region that could not be reached be asked again after a second, however often."""
    pauses = replace(rights_fetcher.PAUSES, longest_seconds=PAUSE_SECONDS)
    monkeypatch.setattr(rights_fetcher, "PAUSES", pauses)


async def sell(engine: str, folder: Path, pieces: int, buyers: int, way: str) -> tuple[int, int]:
    """Run the sale; return how many buyers got a piece, and what the counter shows everywhere."""
    page = program(SALE, folder)
    by, counter = {
        "budget": (page["by_budget"], "lamp"),
        "total": (page["by_total"](pieces, 0 if pieces < 1_000 else 5), "lamps-sold"),
    }[way]
    async with three_regions(engine, budgets={"lamp": {}}) as regions:
        shops = [(await regions.open(region))[0] for region in THREE]
        await shops[0].budget("lamp").create(pieces)
        await regions.table.wait_replicated()

        async def heal() -> None:
            await regions.heal()
            await anyio.sleep(PAUSE_SECONDS + grant_allowance.REFUSAL_SECONDS)

        sold = await page["sale"](
            shops, pieces, buyers, by, cut=regions.cut, heal=heal, meanwhile=lambda: None
        )
        await regions.table.wait_replicated()
        shown = {int((await shop.ledger.total(counter, max_age=0)).value) for shop in shops}
        (value,) = shown
        return sold, value


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_small_flash_sale_sells_each_piece_once(engine: str, tmp_path: Path) -> None:
    """300 pieces, 3,000 buyers, one region of three cut off in the middle."""
    assert await sell(engine, tmp_path, 300, 3_000, "budget") == (300, -300)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_total_as_guard_oversells(engine: str, tmp_path: Path) -> None:
    """The control: the same sale, each region looking at what it knows."""
    sold, shown = await sell(engine, tmp_path, 300, 3_000, "total")
    assert sold == shown
    assert sold > 300


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.skipif(not IS_WHOLE, reason="LEDGER_WHOLE is not set")
@pytest.mark.parametrize("engine", ENGINES)
async def test_the_whole_flash_sale_sells_each_piece_once(engine: str, tmp_path: Path) -> None:
    """10,000 pieces, 100,000 buyers."""
    assert await sell(engine, tmp_path, 10_000, 100_000, "budget") == (10_000, -10_000)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.skipif(not IS_WHOLE, reason="LEDGER_WHOLE is not set")
async def test_the_whole_sale_by_totals_oversells(tmp_path: Path) -> None:
    """The control of it."""
    sold, shown = await sell("memory", tmp_path, 10_000, 100_000, "total")
    assert sold == shown
    assert sold > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_key_spends_no_more_than_its_cap(engine: str, tmp_path: Path) -> None:
    """A cap of 10, three regions, one of them cut off, a gateway that crashes with open holds."""
    page = program(GATEWAY, tmp_path)
    async with three_regions(engine, budgets={"key/*": {}}) as regions:
        tables = [(await regions.open(region))[0] for region in THREE]
        crashing, number = await regions.open(THREE[0])
        await tables[0].budget("key/42").create(10)
        await regions.table.wait_replicated()
        store, most = page["BudgetStore"], Decimal(1)
        calls = [calling(page, store(table, most)) for table in tables]
        held = await begin(store(crashing, most), "open-1", "open-2")
        regions.kill(number)
        regions.cut(THREE[2])
        made = await spend_all(calls, 60)
        await regions.heal()
        await anyio.sleep(PAUSE_SECONDS + grant_allowance.REFUSAL_SECONDS)
        made += await spend_all(calls, 60)
        await regions.table.wait_replicated()
        assert (made, held, {await spent(table) for table in tables}) == (8, 2, {Decimal(10)})


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_counter_in_each_region_spends_twice_the_cap(engine: str) -> None:
    """The control: two regions that see each other spend 10 together, the third 10 again."""
    async with three_regions(engine) as regions:
        calls = [adding((await regions.open(region))[0]) for region in THREE]
        regions.cut(THREE[2])
        made = 0
        for _ in range(12):
            for call in calls:
                made += await call("call", 1.0)
                await anyio.sleep(0.1)  # more than replication takes between the other two
        assert made == 20


class Wallet:
    """Ann's wallet by the program of its page, in three shops; orders of 1 are paid in turn."""

    def __init__(self, page: dict[str, Any], shops: list[Table]) -> None:
        self.page, self.shops = page, shops
        self.at = SystemClock().now()
        self.orders = 0

    async def top_up(self, shop: Table, payment: str, paid: int) -> bool:
        """Add a payment, or say again whether it can be spent."""
        return bool(await self.page["top_up"](shop, payment, Decimal(paid), self.at))

    async def spendable(self, shop: Table, payment: str, paid: int) -> None:
        """Add a payment; a repeat of the call waits until it can be spent."""
        await self.top_up(shop, payment, paid)
        budget = shop.budget("wallet/ann")
        again = await budget.credit(paid, key=payment, at=self.at, wait=CREDIT_SECONDS)
        assert (again.entry.repeated, again.is_spendable) == (True, True)

    async def pay(self, orders: int) -> list[Any]:
        """Pay so many orders; return the entries of those that could be paid."""
        paid = []
        for _ in range(orders):
            self.orders += 1
            shop = self.shops[self.orders % len(self.shops)]
            paid.append(await self.page["pay"](shop, f"order-{self.orders}", Decimal(1), self.at))
        return [entry for entry in paid if entry is not None]

    async def balances(self) -> list[int]:
        """Return the balance that each region shows."""
        totals = [await shop.ledger.total("wallet/ann", max_age=0) for shop in self.shops]
        return [int(total.value) for total in totals]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_wallet_never_goes_below_zero(engine: str, tmp_path: Path) -> None:
    """Topped up and spent in three regions, one of them cut off; refunds can be spent again."""
    async with three_regions(engine, budgets={"wallet/*": {"credits": True}}) as regions:
        shops = [(await regions.open(region))[0] for region in THREE]
        await shops[0].budget("wallet/ann").create(0)
        await regions.table.wait_replicated()
        wallet = Wallet(program(WALLET, tmp_path), shops)
        for number, shop in enumerate(shops):
            await wallet.spendable(shop, f"payment-{number}", 10)
        regions.cut(THREE[2])
        assert not await wallet.top_up(shops[0], "in the cut", 10)
        paid = await wallet.pay(60)
        assert len(paid) <= 30
        assert min(await wallet.balances()) >= 0
        await regions.heal()
        await wallet.spendable(shops[0], "in the cut", 10)
        await anyio.sleep(PAUSE_SECONDS + grant_allowance.REFUSAL_SECONDS)
        paid += await wallet.pay(60)
        await regions.table.wait_replicated()
        assert (len(paid), await wallet.balances()) == (40, [0, 0, 0])

        await shops[0].ledger.reverse(paid[0])
        await wallet.page["refund"](shops[1], "refund-1", "order", Decimal(2), wallet.at)
        await regions.table.wait_replicated()
        await anyio.sleep(2 * PAUSE_SECONDS + grant_allowance.REFUSAL_SECONDS)
        assert len(await wallet.pay(9)) == 3
        await regions.table.wait_replicated()
        assert await wallet.balances() == [0, 0, 0]

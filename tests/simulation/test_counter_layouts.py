"""Counters whose layout changes under them: lost and late requests, kills, restocks."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from random import Random
from typing import TypeVar

import anyio
import pytest
from proof.simulator import loop
from proof.simulator.randomness import stream
from support.clients import FAULTY, Client, Clients, together
from support.counting import Fate, fate_of, times_counted, until_known, wrong
from support.ledgers import HOME

from ledger.core.errors import InvalidInput, StoreError
from ledger.primitives.counters import ItemCounter
from ledger.primitives.counters.catalog import ITEM_METHODS
from ledger.store.writes import Applied, Unknown

Result = TypeVar("Result")
WISHES = (None, 2, 5)
CHANGES_EACH = 4
MAXIMUM = 40
QUIET_SECONDS = 120.0
"""By then everything late has landed."""
KILLED_WITHIN_SECONDS = 2.0
EXACT = ("marker", "client-token", "optimistic", "history")
FAST = {("marker", 0), ("history", 0)}


def cases(methods: Sequence[str]) -> list[object]:
    """Return methods with seeds: one seed of two methods in the fast tier."""
    return [
        pytest.param(method, seed, marks=() if (method, seed) in FAST else pytest.mark.slow)
        for method in methods
        for seed in range(40)
    ]


def counter_of(
    method: str, client: Client, *, shards: int | None = None, **limits: int
) -> ItemCounter:
    """Return the counter as this client has it."""
    return ITEM_METHODS[method](
        client.store, "counter", services=client.services, shards=shards, **limits
    )


async def sure(call: Callable[[], Awaitable[Result]]) -> Result:
    """Repeat a call of no consequence until it is answered."""
    while True:
        try:
            return await call()
        except StoreError:
            await anyio.sleep(1)


async def change_layouts(method: str, clients: Clients, chance: Random) -> None:
    """Change the number of shards again and again; some who do so end between two steps."""
    for number in range(6):
        counter = counter_of(method, clients.client(f"changer {number}"))
        with anyio.move_on_after(chance.uniform(0, KILLED_WITHIN_SECONDS)):
            try:
                if chance.random() < 0.3:
                    await counter.even_out()
                else:
                    await counter.convert(shards=chance.randint(1, 7))
            except StoreError:
                continue
        await anyio.sleep(chance.uniform(0, 3))


async def write(counter: ItemCounter, fates: dict[int, Fate], writer: int, chance: Random) -> None:
    """Make this writer's changes, each of them known by its digit, some spread over all shards."""
    for number in range(CHANGES_EACH):
        place = writer * CHANGES_EACH + number
        await anyio.sleep(chance.uniform(0, 3))
        if chance.random() < 0.3:
            fates[place] = await fate_of(counter.add(Decimal(10) ** place, spread=True))
        else:
            fates[place] = await until_known(counter, Decimal(10) ** place)


@pytest.mark.parametrize(("method", "seed"), cases(EXACT))
def test_each_change_counts_as_its_caller_was_answered(method: str, seed: int) -> None:
    """Whichever layouts callers know, wish for and make, in a storm, with kills."""

    async def run() -> tuple[Sequence[Fate], Sequence[int]]:
        clients, fates = Clients(seed, FAULTY), dict[int, Fate]()
        chance = stream(seed, "changes of layout")
        await sure(counter_of(method, clients.client("first")).shards)
        writers = [
            counter_of(method, clients.client(f"writer {place}"), shards=wish)
            for place, wish in enumerate(WISHES)
        ]
        jobs = [partial(write, one, fates, place, chance) for place, one in enumerate(writers)]
        await together([*jobs, partial(change_layouts, method, clients, chance)])
        await anyio.sleep(QUIET_SECONDS)
        value = await sure(counter_of(method, clients.client("reader")).value)
        assert await sure(writers[0].value) == value
        known = [fates[place] for place in sorted(fates)]
        return known, times_counted(value, len(known))

    fates, counted = loop.run(run)
    assert wrong(fates, counted) == []
    assert sum(isinstance(fate, Applied) for fate in fates) > len(fates) / 3


@dataclass
class Shop:
    """What was put in stock and sold, as callers heard; what may have been besides."""

    stocked: int = 0
    sold: int = 0
    doubtful: int = 0
    values: list[Decimal] = field(default_factory=list)


async def trade(counter: ItemCounter, shop: Shop, chance: Random) -> None:
    """Restock and sell in turns, a piece or several, and read what there is."""
    for _ in range(12):
        await anyio.sleep(chance.uniform(0, 1))
        change = chance.choice((20, 7, -1, -1, -2, -5))
        fate = await fate_of(counter.add(change))
        if isinstance(fate, Applied):
            shop.stocked += max(change, 0)
            shop.sold -= min(change, 0)
        elif isinstance(fate, Unknown):
            shop.doubtful += abs(change)
        with anyio.move_on_after(5):
            try:
                shop.values.append(await counter.value())
            except StoreError:
                continue


@pytest.mark.parametrize(("method", "seed"), cases(("marker", "atomic", "history", "client-token")))
def test_stock_never_passes_its_limits(method: str, seed: int) -> None:
    """Below 0 or above 40 there is never any, while its layout changes and pieces are moved."""

    async def run() -> Shop:
        clients, shop = Clients(seed, FAULTY), Shop()
        chance = stream(seed, "trade")
        limits = {"minimum": 0, "maximum": MAXIMUM}
        await sure(counter_of(method, clients.client("first"), shards=3).shards)
        traders = [
            counter_of(method, clients.client(f"trader {place}"), shards=wish, **limits)
            for place, wish in enumerate(WISHES)
        ]
        await together(
            [
                *(partial(trade, trader, shop, chance) for trader in traders),
                partial(change_layouts, method, clients, chance),
            ]
        )
        await anyio.sleep(QUIET_SECONDS)
        shop.values.append(await sure(traders[0].value))
        return shop

    shop = loop.run(run)
    assert min(shop.values) >= 0
    assert max(shop.values) <= MAXIMUM
    if method != "atomic":  # which may count too often
        assert abs(shop.values[-1] - (shop.stocked - shop.sold)) <= shop.doubtful
    assert shop.sold > 0


@pytest.mark.parametrize("seed", range(3))
def test_a_counter_is_converted_back_and_forth(seed: int) -> None:
    """Callers of either method are refused or counted, while it changes between the two."""

    async def run() -> tuple[int, int, Decimal]:
        clients = Clients(seed, FAULTY)
        chance = stream(seed, "methods")
        applied, doubtful = 0, 0

        async def add(method: str) -> None:
            nonlocal applied, doubtful
            counter = counter_of(method, clients.client(method))
            for _ in range(10):
                await anyio.sleep(chance.uniform(0, 2))
                try:
                    fate = await counter.add(1)
                except (InvalidInput, StoreError):
                    continue
                applied += isinstance(fate, Applied)
                doubtful += isinstance(fate, Unknown)

        async def convert() -> None:
            for number in range(6):
                method = ("marker", "history")[number % 2]
                counter = counter_of(method, clients.client(f"converter {number}"))
                with anyio.move_on_after(chance.uniform(0, KILLED_WITHIN_SECONDS)):
                    try:
                        await counter.convert(shards=chance.randint(1, 4))
                    except StoreError:
                        continue
                await anyio.sleep(2)

        await together([partial(add, "marker"), partial(add, "history"), convert])
        await anyio.sleep(QUIET_SECONDS)
        last = counter_of("marker", clients.client("last", HOME))
        await sure(partial(last.convert, shards=2))
        return applied, doubtful, await sure(last.value)

    applied, doubtful, value = loop.run(run)
    assert applied <= value <= applied + doubtful
    assert applied > 3

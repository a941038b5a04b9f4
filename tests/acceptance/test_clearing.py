"""Money between two books, by clearing accounts, with a crash between the two transfers."""

from collections.abc import AsyncIterator
from datetime import datetime
from decimal import Decimal

import pytest

from ledger import Book, Entry, Transfer
from ledger.testing import MemoryGlobalTable

NORTH, SOUTH = "book/north", "book/south"
REGIONS = ("us-east-1", "eu-west-1")


class Crash(Exception):
    """The program ends here."""


def out_of(payment: str, at: datetime, amount: Decimal) -> Transfer:
    """Return what the first book moves: from ann into what it owes the other book."""
    legs = [("ann", "EUR", -amount), (f"due/{SOUTH}", "EUR", amount)]
    return Transfer(legs, key=payment, at=at, metadata={"to": SOUTH, "account": "bob"})


def into(payment: str, at: datetime, amount: Decimal) -> Transfer:
    """Return what the second book moves: from what the first book owes it to bob."""
    return Transfer([(f"due/{NORTH}", "EUR", -amount), ("bob", "EUR", amount)], key=payment, at=at)


async def pay(books: tuple[Book, Book], payment: str, at: datetime, *, crashes: bool) -> None:
    """Move 5 from ann in one book to bob in the other, as a program does that may crash."""
    await books[0].transfer_many([out_of(payment, at, Decimal(5))])
    if crashes:
        raise Crash
    await books[1].transfer_many([into(payment, at, Decimal(5))])


async def sweep(books: tuple[Book, Book], orders: dict[str, str]) -> list[Entry]:
    """Repeat the second transfer of every first one; `orders` has each payment by its entry's id.

    A program keeps them with its payments. The same key counts once.
    """
    made = list[Entry]()
    async for first in books[0].history(f"due/{SOUTH}"):
        assert first.at is not None
        assert first.metadata == {"to": SOUTH, "account": "bob"}
        due = next(leg.amount for leg in first.legs if leg.account == f"due/{SOUTH}")
        made += await books[1].transfer_many([into(orders[first.id], first.at, due)])
    return made


async def shown(world: MemoryGlobalTable) -> AsyncIterator[dict[str, Decimal]]:
    """Yield the balances of both books by account, as each region shows them."""
    for region in REGIONS:
        async with world.table(region) as table:
            balances = dict[str, Decimal]()
            for name in (NORTH, SOUTH):
                found = await table.book(name).balances(max_age=0)
                assert found.total("EUR") == 0, (region, name)
                balances |= found.assets.get("EUR", {})
            yield balances


async def test_a_crash_between_the_two_transfers_loses_nothing() -> None:
    """Each book balances always; what is under way has a name; the sweep ends it, once."""
    world = MemoryGlobalTable(REGIONS, books=["book/*"])
    async with world.table(REGIONS[1]) as table:
        books = table.book(NORTH), table.book(SOUTH)
        at = world.clock.now()
        with pytest.raises(Crash):
            await pay(books, "pay-1", at, crashes=True)
        await pay(books, "pay-2", at, crashes=False)
        world.replicate()
        async for balances in shown(world):
            assert [balances["ann"], balances["bob"]] == [-10, 5]
            due = [balances[f"due/{SOUTH}"], balances[f"due/{NORTH}"]]
            assert due == [10, -5], "5 are under way, and say so"

        orders = {}
        for payment in ("pay-1", "pay-2"):  # a repeat tells which entry a payment is
            (first,) = await books[0].transfer_many([out_of(payment, at, Decimal(5))])
            assert first.repeated
            orders[first.id] = payment
        for _ in range(2):
            made = await sweep(books, orders)
            assert len(made) == 2
        assert all(entry.repeated for entry in made)
        world.replicate()
        async for balances in shown(world):
            assert [balances["ann"], balances["bob"]] == [-10, 10]
            assert balances[f"due/{SOUTH}"] == -balances[f"due/{NORTH}"] == 10

"""Transfers that share items of a book: as programs use them, each is a transfer of its own."""

import asyncio
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.ledgers import AWAY, HOME

from ledger import (
    DamagedItem,
    Entry,
    InvalidEntry,
    InvalidInput,
    KeyConflict,
    Table,
    Transfer,
    Unbalanced,
)
from ledger.core import books, transfers
from ledger.core.entry import entry_item, entry_of
from ledger.store.memory import MemoryStore
from ledger.testing import MemoryGlobalTable

SHOP = "book/shop"
FEW = {"fold_min": 1, "prune_min": 1, "scan_every": 0}


def sale(number: int) -> list[tuple[str, str, Decimal]]:
    """Return the legs of one sale."""
    amount = Decimal(f"{number * 25}e-2")
    return [("cash", "EUR", amount.copy_negate()), (f"customer/{number:04d}", "EUR", amount)]


SALES = [sale(number) for number in range(1, 11)]


def a_table(**settings: Any) -> MemoryGlobalTable:
    """Return a table of two regions whose books are combined."""
    given = {"books": ["book/*"], "combine": ["book/*"], "compactor": FEW, **settings}
    return MemoryGlobalTable(**given)


def partition(world: MemoryGlobalTable, region: str) -> dict[str, Any]:
    """Return what a region has in the shop's book, by sort key."""
    store = world.store(region)
    assert isinstance(store, MemoryStore)
    return store.table.partitions.setdefault(SHOP, {})


def items(world: MemoryGlobalTable, region: str = HOME) -> list[Entry]:
    """Return the entries of the shop's book that a region has, as items."""
    found = partition(world, region)
    return [entry_of(item) for key, item in sorted(found.items()) if not key.startswith("~")]


async def lines(table: Table, **bounds: Any) -> list[tuple[str, transfers.Legs]]:
    """Return id and legs of each transfer of the history."""
    return [(one.id, one.legs) async for one in table.book(SHOP).history(**bounds)]


async def test_transfers_of_one_call_share_items() -> None:
    """Each is whole and its own; balances of all regions are those of all of them."""
    world = a_table()
    async with world.table(HOME) as table, world.table(AWAY) as other:
        made = await table.book(SHOP).transfer_many([Transfer(legs) for legs in SALES])
        await world.pass_time(1)
        alone = await table.book(SHOP).transfer(sale(11), note="kept apart")
        shown = await lines(table)
        world.replicate()
        for region in (table, other):
            found = await region.book(SHOP).balances(max_age=0)
            assert found.total("EUR") == 0
            assert found.of("cash", "EUR") == Decimal("-16.5")
            assert found.of("customer/0010", "EUR") == Decimal("2.5")
        assert [one.legs for one in made] == [books.checked_legs(legs) for legs in SALES]
        assert shown == [(one.id, one.legs) for one in (*made, alone)]
        assert [(item.count, transfers.is_text(item.parts)) for item in items(world)] == [
            (10, True),
            (1, False),
        ]
        assert [one async for one in other.book(SHOP).history("customer/0003")] == [made[2]]


async def test_calls_that_wait_together_share_items() -> None:
    """And each gets its own transfer."""
    world = a_table()
    async with world.table(HOME) as table:
        book = table.book(SHOP)
        made = await asyncio.gather(*(book.transfer(legs) for legs in SALES))
        assert [one.legs for one in made] == [books.checked_legs(legs) for legs in SALES]
        assert sorted(await lines(table)) == sorted((one.id, one.legs) for one in made)
        assert len(items(world)) < len(SALES)
        assert (await book.balances(max_age=0)).of("cash", "EUR") == Decimal("-13.75")
        with pytest.raises(Unbalanced):
            await book.transfer([*SALES[0], ("tax", "EUR", 1)])


async def test_what_says_more_or_is_long_has_an_item_of_its_own() -> None:
    """As a change of a counter; nothing but transfers gets into a book."""
    world = a_table()
    long = [(f"{'x' * 200}/{number}", "EUR", 1 - 2 * (number % 2)) for number in range(60)]
    async with world.table(HOME) as table:
        book, at = table.book(SHOP), table._services.clock.now()
        more: list[dict[str, Any]] = [{"key": "k", "at": at}, {"note": "n"}]
        more += [{"metadata": {"a": "b"}}, {"effective": at.date()}]
        for number, said in enumerate(more):
            await book.transfer_many([Transfer(sale(1)), Transfer(sale(number + 1), **said)])
        made = await book.transfer(long)
        assert "." not in made.id.partition("#")[2]
        assert sorted(item.parts == "" for item in items(world)) == [False] * 4 + [True] * 5
        with pytest.raises(InvalidEntry, match="at most 8,192 bytes as JSON, got"):
            await book.transfer_many([Transfer(long)], key="k", at=at)
        for key in (None, "k"):
            with pytest.raises(InvalidInput, match="is a book"):
                await table.ledger.record_many([(SHOP, 1)], key=key, at=at if key else None)
            with pytest.raises(InvalidInput, match="is no book"):
                await table.book("stock").transfer_many(
                    [Transfer(sale(1))], key=key, at=at if key else None
                )
    async with a_table(books=["book/*"], combine=[]).table(HOME) as table:
        (made,) = await table.book(SHOP).transfer_many([Transfer(sale(1))])
        assert made.id.endswith(".000") is False


async def test_a_list_with_a_key_counts_once() -> None:
    """In any region, whatever the contract combines; another list is refused by what differs."""
    world = a_table(combine=[])
    asked = [Transfer(sale(number)) for number in range(1, 206)]
    async with world.table(HOME) as table, world.table(AWAY) as other:
        at = table._services.clock.now()
        made = await table.book(SHOP).transfer_many(asked, key="day-1", at=at)
        assert sorted(item.count for item in items(world)) == [5, 100, 100]
        world.replicate()
        again = await other.book(SHOP).transfer_many(asked, key="day-1", at=at)
        assert again == made
        assert {one.repeated for one in again} == {True}
        assert (await other.book(SHOP).balances(max_age=0)).of("customer/0205", "EUR") == Decimal(
            "51.25"
        )
        with pytest.raises(KeyConflict, match=r'003 is \{"EUR":\{"cash":-1,"customer/0004":1\}\}'):
            await table.book(SHOP).transfer_many(
                [*asked[:3], Transfer(sale(9)), *asked[4:]], key="day-1", at=at
            )
        with pytest.raises(InvalidEntry, match="all amounts, or all transfers"):
            await table.ledger.record_many(
                [(SHOP, 1), *(one.change(SHOP) for one in asked[:1])], key="k", at=at
            )
        with pytest.raises(InvalidEntry, match="legs of a transfer, without note"):
            await table.book(SHOP).transfer_many([Transfer(sale(1), note="n")], key="k", at=at)


async def test_a_list_is_cut_by_the_length_of_its_text() -> None:
    """So that whoever repeats an item has at most 8 KB of it; a repeat makes the same items."""
    world = a_table()
    long = [
        Transfer([("cash", "EUR", -1), (f"{number:03d}{'x' * 250}", "EUR", 1)])
        for number in range(70)
    ]
    async with world.table(HOME) as table:
        at = table._services.clock.now()
        made = await table.book(SHOP).transfer_many(long, key="k", at=at)
        again = await table.book(SHOP).transfer_many(long, key="k", at=at)
        assert again == made
        assert sum(item.count for item in items(world)) == 70
        sizes = [len(item.parts.encode()) for item in items(world)]
        assert max(sizes) <= transfers.TEXT_BYTES_MAX
        assert len(sizes) == 3


async def test_one_of_an_item_is_reversed(tmp_path: Path) -> None:
    """Once, merged or not, by its place; the whole item is refused."""
    world = a_table(archive=[f"file://{tmp_path}"])
    async with world.table(HOME) as table:
        made = await table.book(SHOP).transfer_many([Transfer(legs) for legs in SALES])
        world.replicate()
        reversal = await table.ledger.reverse(made[3])
        assert reversal.legs == books.opposite(made[3].legs)
        (item, *_) = items(world)
        with pytest.raises(InvalidEntry, match=r"has 10 changes: name one"):
            await table.ledger.reverse(item)
        await world.merge()
        assert await table.ledger.reverse(made[3]) == reversal
        merged = await table.ledger.reverse(made[5])
        world.replicate()
        found = await table.book(SHOP).balances(max_age=0)
        assert found.of("customer/0004", "EUR") == found.of("customer/0006", "EUR") == 0
        assert found.of("cash", "EUR") == Decimal("-11.25")
        assert [one[0] for one in await lines(table)] == [
            *(one.id for one in made),
            reversal.id,
            merged.id,
        ]


async def test_an_archive_keeps_each_transfer(tmp_path: Path) -> None:
    """With balances at a moment before, between and after; and the sums of the chain."""
    world = a_table(archive=[f"file://{tmp_path}"])
    async with world.table(HOME) as table:
        moments: list[datetime] = []
        for part in (SALES[:4], SALES[4:]):
            await world.pass_time(60)
            await table.book(SHOP).transfer_many([Transfer(legs) for legs in part])
            await world.pass_time(1)
            moments.append(table._services.clock.now())
            await world.merge()
        assert not items(world)
        shown = await lines(table)
        assert [legs for _, legs in shown] == [books.checked_legs(legs) for legs in SALES]
        for moment, cash in zip(moments, ("-2.5", "-13.75"), strict=True):
            found = await table.book(SHOP).balances(at=moment)
            assert found.of("cash", "EUR") == Decimal(cash)
            assert found.total("EUR") == 0


async def test_an_unknown_transfer_repeats_its_item() -> None:
    """Whole, and once; a part that was changed is refused."""
    world = a_table()
    async with world.table(HOME) as table:
        book, at = table.book(SHOP), table._services.clock.now()
        made = await book.transfer_many([Transfer(legs) for legs in SALES], key="k", at=at)
        (item,) = items(world)
        asked = [replace(one, parts=item.parts, legs=one.legs[::-1]) for one in made[2:4]]
        again = await table.ledger.retry(asked)
        assert again == made[2:4]
        changes: list[dict[str, Any]] = [
            {"legs": made[5].legs},
            {"counter": "stock"},
            {"parts": item.parts.replace("0.25", "0.5")},
        ]
        for wrong in changes:
            with pytest.raises(InvalidInput if "parts" not in wrong else KeyConflict):
                await table.ledger.retry([replace(asked[0], **wrong)])
        assert len(items(world)) == 1


@pytest.mark.parametrize("data", [b"x", b""])
async def test_a_damaged_item_ends_every_read(data: bytes) -> None:
    """It is never counted in part, nor merged."""
    world = a_table()
    async with world.table(HOME) as table:
        made = await table.book(SHOP).transfer_many([Transfer(legs) for legs in SALES])
        (item,) = items(world)
        for region in (HOME, AWAY):
            damaged = {**entry_item(item), "legs": {"B": data}}
            partition(world, region)[item.id] = damaged
        assert len(made) == len(SALES)
        with pytest.raises(DamagedItem):
            await table.book(SHOP).balances(max_age=0)
        with pytest.raises(DamagedItem):
            await lines(table)
        assert await world.merge() == 0

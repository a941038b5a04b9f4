"""Books, as programs use them: each transfer whole in every region, however a merge spreads."""

import random
from dataclasses import replace
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from support.ledgers import AWAY, HOME

from ledger import (
    AmountOverflow,
    Balances,
    BookFull,
    Entry,
    InvalidEntry,
    InvalidInput,
    KeyConflict,
    Table,
    Transfer,
    Unbalanced,
)
from ledger.core import books, keys
from ledger.core.entry import entry_id
from ledger.core.values import Leg
from ledger.reads.collection import read_net
from ledger.testing import MemoryGlobalTable

SHOP = "book/shop"
FEW = {"fold_min": 2, "prune_min": 1, "fold_age": 3600}
SALE = [("cash", "EUR", Decimal("-12.50")), ("customer/alice", "EUR", Decimal("12.50"))]


def a_table(**settings: Any) -> MemoryGlobalTable:
    """Return a table of two regions with books."""
    return MemoryGlobalTable(books=["book/*"], compactor=FEW, **settings)


def new_id(table: Table) -> str:
    """Return the id of an entry of now."""
    return str(entry_id(table._services.clock.now(), 7))


async def of_region(world: MemoryGlobalTable, region: str) -> Balances:
    """Return what a region shows of the shop's book now."""
    async with world.table(region) as table:
        return await table.book(SHOP).balances(max_age=0)


async def test_a_transfer_moves_an_amount_between_accounts() -> None:
    """In one entry whose change is 0; what is read back is what was written."""
    async with a_table().table(HOME) as table:
        book = table.book(SHOP)
        made = await book.transfer(SALE, note="order 17", metadata={"order": "17"})
        found = await book.balances(max_age=0)
        (read,) = [entry async for entry in book.history("cash")]
        assert [entry async for entry in book.history("bob")] == []
    assert made.change == 0
    assert read == made
    assert read.metadata == {"order": "17"}
    assert found.of("customer/alice", "EUR") == Decimal("12.5")
    assert found.of("customer/bob", "EUR") == found.total("EUR") == 0
    assert found.assets == {"EUR": {"cash": Decimal("-12.5"), "customer/alice": Decimal("12.5")}}


@pytest.mark.parametrize(
    ("legs", "error", "said"),
    [
        ([("a", "EUR", 1), ("b", "EUR", -2)], Unbalanced, "-1 in EUR"),
        ([("a", "EUR", 1), ("b", "USD", -1)], Unbalanced, "1 in EUR"),
        ([("a", "EUR", 1)], InvalidEntry, "2 to 100 legs, got 1"),
        ([("a", "EUR", 0), ("b", "EUR", 0)], InvalidEntry, "0 of EUR"),
        ([("a", "EUR", 1), ("a", "EUR", -1)], InvalidEntry, "'a' in EUR twice"),
        ([("~a", "EUR", 1), ("b", "EUR", -1)], InvalidEntry, "'~'"),
        ([("a" * 256, "EUR", 1), ("b", "EUR", -1)], InvalidEntry, "255 bytes"),
        ([("a", "E R", 1), ("b", "E R", -1)], InvalidEntry, "without a space"),
        ([("a", "€", 1), ("b", "€", -1)], InvalidEntry, "ASCII"),
        ([("a", "EUR", 0.5), ("b", "EUR", -0.5)], InvalidInput, "float"),
        (["a", "b"], InvalidEntry, "account, asset, amount"),
        ([(f"a{n}", "EUR", 1 if n % 2 else -1) for n in range(102)], InvalidEntry, "got more"),
    ],
)
async def test_legs_that_break_a_rule_are_refused(
    legs: list[tuple[str, str, int]], error: type[Exception], said: str
) -> None:
    """Nothing is written, and the message names value and rule."""
    async with a_table().table(HOME) as table:
        book = table.book(SHOP)
        with pytest.raises(error, match=said):
            await book.transfer(legs)
        with pytest.raises(error, match=said):
            await book.transfer_many([Transfer(SALE), Transfer(legs)])
        assert [entry async for entry in book.history()] == []


async def test_a_book_takes_transfers_alone_and_no_other_counter_takes_any() -> None:
    """By the contract's patterns, whichever call is made."""
    async with a_table().table(HOME) as table:
        ledger = table.ledger
        for call in (
            ledger.record(SHOP, 1),
            ledger.record(SHOP, 1, note="note"),
            ledger.record_many([("stock", 1), (SHOP, 1)]),
            ledger.record_many([(SHOP, 1)], key="batch", at=table._services.clock.now()),
            ledger.record_together([(SHOP, 1)]),
            ledger.reconcile(SHOP, counted=1),
        ):
            with pytest.raises(InvalidInput, match="is a book"):
                await call
        with pytest.raises(InvalidInput, match="is no book"):
            await table.book("stock").transfer(SALE)
        with pytest.raises(InvalidInput, match="is no book"):
            await table.book("stock").balances()


async def test_an_answer_is_asked_for_by_names_that_accounts_can_have() -> None:
    """A text is no list of names, though each of its letters would be one."""
    async with a_table().table(HOME) as table:
        book = table.book(SHOP)
        await book.transfer([("a", "EUR", 1), ("h", "EUR", -1)])
        for accounts in ("cash", b"cash", [1], [""], 5):
            with pytest.raises(InvalidInput):
                await book.balances(accounts, max_age=0)  # type: ignore[arg-type]
        for prefix in (b"a", None):
            with pytest.raises(InvalidInput, match="prefix must be a text"):
                await book.balances(prefix=prefix)  # type: ignore[arg-type]
        for account in (5, ""):
            with pytest.raises(InvalidInput):
                _ = [entry async for entry in book.history(account)]  # type: ignore[arg-type]
        with pytest.raises(InvalidEntry, match="got more"):
            await book.transfer(("a", "EUR", 1) for _ in count())
        with pytest.raises(InvalidEntry, match="1 to 255 bytes"):
            await book.transfer([("", "EUR", 1), ("b", "EUR", -1)])
        assert (await book.balances(["a", "b"], max_age=0)).assets == {"EUR": {"a": Decimal(1)}}


@pytest.mark.parametrize("shard", [1, 77, -1, "x"])
async def test_no_entry_is_written_where_no_total_counts_it(shard: object) -> None:
    """What is repeated may come from anywhere: its shard is one of the counter's."""
    async with a_table().table(HOME) as table:
        forged = Entry("stock", new_id(table), Decimal(1), shard=shard)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="must be in a shard of 'stock', 0 to 0"):
            await table.ledger.retry([forged])
        for wrong in ({"spending": 5}, {"effective": "2026"}, {"region": 7}, {"count": -5}):
            with pytest.raises(InvalidInput, match="got one"):
                await table.ledger.retry([replace(forged, shard=0, **wrong)])
        legs = (Leg("a", "EUR", Decimal(1)), Leg("b", "EUR", Decimal(-1)))
        combined = replace(forged, counter=SHOP, change=Decimal(0), shard=0, legs=legs)
        with pytest.raises(InvalidInput, match="say nothing else"):
            await table.ledger.retry([replace(combined, parts="0 0", count=2)])


async def test_a_transfer_is_reversed_once_and_repeated_under_its_key() -> None:
    """The opposite legs; the same key with other legs is refused, and names the difference."""
    world = a_table()
    async with world.table(HOME) as table:
        book, at = table.book(SHOP), table._services.clock.now()
        made = await book.transfer(SALE, key="order-17", at=at)
        again = await book.transfer(SALE, key="order-17", at=at)
        with pytest.raises(KeyConflict, match="refused change 0 moving -1 EUR to 'b'"):
            await book.transfer([("cash", "EUR", 1), ("b", "EUR", -1)], key="order-17", at=at)
        world.replicate()
        reversal = await table.ledger.reverse(made)
        repeated = await table.ledger.reverse(made)
        found = await book.balances(max_age=0)
    assert again == made
    assert again.repeated
    assert reversal.reverses == made.id
    assert repeated == reversal
    assert reversal.legs == books.opposite(made.legs)
    assert found.assets == {}


@pytest.mark.parametrize("settings", [{}, {"shards": {"book/*": 3}}], ids=["whole", "in shards"])
async def test_each_read_of_each_region_is_whole_while_a_merge_spreads(
    settings: dict[str, Any],
) -> None:
    """P6: every asset sums to 0; in the end every region shows the same, which is right."""
    world, drawn = a_table(**settings), random.Random(7)  # noqa: S311 (amounts of a test)
    truth = books.AccountSums()
    async with world.table(HOME) as one, world.table(AWAY) as two:
        for turn in range(12):
            for table in (one, two):
                amount, account = drawn.randint(1, 99), f"customer/{drawn.randint(1, 5)}"
                legs = [("cash", "EUR", -amount), (account, "EUR", amount)]
                legs += [("fee", "USD", -turn - 1), (account, "USD", turn + 1)]
                truth.move((await table.book(SHOP).transfer(legs)).legs)
            if turn % 3 == 0:
                world.isolate(AWAY)
            elif turn % 3 == 1:
                world.heal()
                world.replicate()
            if turn % 4 == 3:
                world.heal()
                world.replicate()
                await world.pass_time(1500)
                await world.compact()
            for table in (one, two):
                found = await table.book(SHOP).balances(max_age=0)
                assert {asset: found.total(asset) for asset in found.assets} == dict.fromkeys(
                    found.assets, Decimal(0)
                )
                assert (await table.ledger.total(SHOP, max_age=0)).value == 0
    world.heal()
    await world.merge()
    for region in (HOME, AWAY):
        found = await of_region(world, region)
        assert found.assets == truth.accounts()
        assert found.transfers == 24
    nets = [await read_net(world.store(HOME), keys.partition_key(SHOP, n)) for n in range(3)]
    assert any(net is not None and net.accounts is not None for net in nets)


async def test_a_full_book_opens_no_account_and_goes_on_with_those_that_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before anything is sent; what was opened meanwhile stays unmerged, and counts."""
    monkeypatch.setattr(books, "ACCOUNTS_BYTES_OPEN", 100)
    world = a_table()
    async with world.table(HOME) as table:
        book = table.book(SHOP)
        for number in range(40):
            await book.transfer([("cash", "EUR", -1), (f"customer/{number}", "EUR", 1)])
        assert await world.merge() == 40
    async with world.table(HOME) as table:
        book = table.book(SHOP)
        new = [("cash", "EUR", -1), ("customer/40", "EUR", 1)]
        with pytest.raises(BookFull, match="no room for account 'customer/40' in EUR") as caught:
            await book.transfer(new)
        assert caught.value.outcome == "not_applied"
        with pytest.raises(BookFull) as caught:
            await book.transfer(new, key="k", at=table._services.clock.now())
        assert caught.value.outcome == "unknown", "an earlier call may have made it"
        for key, outcome in (("k", "unknown"), (None, "not_applied")):
            at = table._services.clock.now() if key else None
            with pytest.raises(BookFull) as caught:
                await book.transfer_many([Transfer(new)], key=key, at=at)
            assert caught.value.outcome == outcome
        with pytest.raises(BookFull, match="in USD"):
            await book.transfer([("cash", "USD", -1), ("customer/3", "USD", 1)])
        await book.transfer([("cash", "EUR", -1), ("customer/3", "EUR", 1)])
        assert (await book.balances(max_age=0)).of("customer/3", "EUR") == 2
        monkeypatch.setattr(books, "ACCOUNTS_BYTES_OPEN", 10**6)
        late = world.table(AWAY)
        async with late as other:  # whose look was before
            await other.book(SHOP).transfer([("cash", "EUR", -1), ("customer/40", "EUR", 1)])
        monkeypatch.setattr(books, "ACCOUNTS_BYTES_OPEN", 100)
        world.replicate()
    async with world.table(HOME) as table:
        await table.book(SHOP).transfer([("customer/40", "EUR", -1), ("cash", "EUR", 1)])


async def test_a_balance_beyond_38_digits_is_named() -> None:
    """By book, asset and account; so the transfer that is wrong can be found, and reversed."""
    world = a_table()
    async with world.table(HOME) as table:
        book = table.book(SHOP)
        for amount in (Decimal("1E+30"), Decimal("1E-30")):
            await book.transfer([("cash", "EUR", amount.copy_negate()), ("ann", "EUR", amount)])
        with pytest.raises(AmountOverflow, match=r"book 'book/shop': balance of .* in EUR"):
            await book.balances(max_age=0)
        (wrong,) = [one async for one in book.history() if one.legs[0].amount == Decimal("1E+30")]
        world.replicate()
        await table.ledger.reverse(wrong)
        assert (await book.balances(max_age=0)).of("ann", "EUR") == Decimal("1E-30")


async def test_a_book_has_no_budget() -> None:
    """Though it may match a pattern of budgets."""
    async with a_table(budgets={"*": {}}).table(HOME) as table:
        with pytest.raises(InvalidInput, match="is a book"):
            await table.budget(SHOP).create(100)


async def test_an_account_of_any_shard_stays_usable_in_a_full_book(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A transfer of it may go to another shard, which has not got it yet."""
    monkeypatch.setattr(books, "ACCOUNTS_BYTES_OPEN", 100)
    world = a_table(shards={"book/*": 3})
    async with world.table(HOME) as table:
        for number in range(60):
            legs = [("cash", "EUR", -1), (f"customer/{number}", "EUR", 1)]
            await table.book(SHOP).transfer(legs)
        await world.merge()
    async with world.table(HOME) as table:
        book = table.book(SHOP)
        for number in range(60):
            await book.transfer([("cash", "EUR", 1), (f"customer/{number}", "EUR", -1)])
        assert (await book.balances(max_age=0)).assets == {}
        with pytest.raises(BookFull):
            await book.transfer([("cash", "EUR", 1), ("customer/60", "EUR", -1)])

"""Books of the client: values and errors of the library, and no transfer counts twice."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any, Self

import httpx
import pytest
from support.ledgers import seeded
from support.lossy_http import Fault, LossyTransport, cut, first, never
from support.serving import SERVICE, served

from ledger import Change, Transfer
from ledger.core import books
from ledger.core.errors import (
    BookFull,
    InvalidEntry,
    InvalidInput,
    KeyConflict,
    OutcomeUnknown,
    Unbalanced,
)
from ledger.http import client
from ledger.http.client import requests
from ledger.http.client import sync as client_sync
from ledger.http.service import answers
from ledger.testing import ManualClock, MemoryGlobalTable

SALE = [("cash", "EUR", Decimal("-12.50")), ("customer/alice", "EUR", Decimal("12.50"))]
FEW = {"fold_min": 2, "prune_min": 1, "fold_age": 3600}


@asynccontextmanager
async def lossy(
    before: Fault = never, after: Fault = never
) -> AsyncIterator[tuple[client.Ledger, MemoryGlobalTable]]:
    """Open a client whose waits take no time, over a transport with these faults."""
    table = MemoryGlobalTable(clock=ManualClock(instant=True), books=["book/*"], compactor=FEW)
    async with served(table, body_max=1_000_000) as service:
        transport = LossyTransport(service.app, before=before, after=after)
        made = client.Ledger(SERVICE, transport=transport, clock=table.clock, randomness=seeded(1))
        async with made as opened:
            yield opened, table


async def test_a_transfer_is_that_of_the_library() -> None:
    """The same entry, balances and history; a repeat under its key, and its reversal."""
    async with lossy() as (remote, table), table.table() as direct:
        book, own = remote.book("book/shop"), direct.book("book/shop")
        assert book.name == own.name
        named: Any = {"key": "order-17", "at": table.clock.now()}
        made = await book.transfer(SALE, note="sale", metadata={"order": "17"}, **named)
        again = await book.transfer(reversed(SALE), note="sale", metadata={"order": "17"}, **named)
        assert made == again
        assert (made.repeated, again.repeated) == (False, True)
        assert [entry async for entry in own.history()] == [made]
        assert [entry async for entry in book.history("cash")] == [made]
        assert [entry async for entry in book.history("customer/bob")] == []
        with pytest.raises(KeyConflict) as refused:
            await book.transfer([("cash", "EUR", -1), ("b", "EUR", 1)], **named)
        assert refused.value.theirs == made
        found, known = await book.balances(max_age=0), await own.balances(max_age=0)
        assert (
            found.assets
            == known.assets
            == {"EUR": {"cash": Decimal("-12.5"), "customer/alice": Decimal("12.5")}}
        )
        assert (found.book, found.region, found.transfers) == ("book/shop", known.region, 1)
        assert found.of("cash", "EUR") == found.of("customer/alice", "EUR").copy_negate()
        assert found.total("EUR") == 0
        table.replicate()
        reversal = await remote.reverse(made)
        assert reversal.legs == books.opposite(made.legs)
        assert (await book.balances(max_age=0)).assets == {}


async def test_balances_are_chosen_as_by_the_library() -> None:
    """By names, however many, and by prefix; no account at all is no balance."""
    async with lossy() as (remote, table), table.table() as direct:
        book, own = remote.book("book/shop"), direct.book("book/shop")
        await book.transfer(SALE)
        await book.transfer([("fee", "USD", 1), ("customer/bob", "USD", -1)])
        many = ["cash", *(f"customer/{number}" for number in range(200))]
        for names in (None, [], ["cash"], ["cash", "fee"], many):
            for prefix in ("", "customer/", "c"):
                ours = await book.balances(names, prefix=prefix, max_age=0)
                theirs = await own.balances(names, prefix=prefix, max_age=0)
                assert ours.assets == theirs.assets, (names, prefix)
        assert (await book.balances(steady=True)).steady
        with pytest.raises(InvalidInput, match="never cached"):
            await book.balances(steady=True, max_age=5)


async def test_a_history_goes_on_after_a_page_without_transfers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The service looks at so many for each page, however few name the account."""
    monkeypatch.setattr(answers, "LOOKED_MAX", 3)
    async with lossy() as (remote, table):
        book = remote.book("book/shop")
        for number in range(10):
            account = "customer/alice" if number == 8 else "customer/bob"
            made = await book.transfer([("cash", "EUR", -1), (account, "EUR", 1)], note=account)
            table.clock.pass_by(1)
        alices = [entry async for entry in book.history("customer/alice")]
        assert [entry.note for entry in alices] == ["customer/alice"]
        assert len([entry async for entry in book.history(after=alices[0].id)]) == 1
        assert [entry async for entry in book.history(after=made.at)] == []


async def test_errors_are_those_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """What can be told without the service is told before anything is sent."""
    async with lossy() as (remote, table):
        book = remote.book("book/shop")
        with pytest.raises(Unbalanced, match="-1 in EUR"):
            await book.transfer([("a", "EUR", 1), ("b", "EUR", -2)])
        with pytest.raises(InvalidEntry, match="2 to 100 legs"):
            await book.transfer_many([Transfer(SALE), Transfer(SALE[:1])])
        with pytest.raises(InvalidInput, match="must be a Transfer"):
            await book.transfer_many([SALE])  # type: ignore[list-item]
        with pytest.raises(InvalidInput, match="is a book"):
            await remote.record("book/shop", 1)
        for call in (remote.book("stock").transfer(SALE), remote.book("stock").balances()):
            with pytest.raises(InvalidInput, match="is no book"):
                await call
        with pytest.raises(InvalidInput, match="is no book"):
            [entry async for entry in remote.book("stock").history()]
        monkeypatch.setattr(books, "ACCOUNTS_BYTES_OPEN", 60)
        async with table.ledger() as direct:
            assert not [entry async for entry in direct.history("book/shop")]
        for number in range(20):
            await book.transfer([("cash", "EUR", -1), (f"customer/{number}", "EUR", 1)])
        await table.merge()
    async with served(table) as service:
        transport = httpx.ASGITransport(service.app)
        async with client.Ledger(SERVICE, transport=transport, clock=table.clock) as remote:
            with pytest.raises(BookFull, match="customer/20"):
                await remote.book("book/shop").transfer(
                    [("cash", "EUR", -1), ("customer/20", "EUR", 1)]
                )


@pytest.mark.parametrize("is_sent", [False, True])
async def test_a_lost_answer_is_asked_for_again(*, is_sent: bool) -> None:
    """Under the key that was made for the call: the transfer counts once."""
    faults = {"after" if is_sent else "before": first(2, cut)}
    async with lossy(**faults) as (remote, _):
        book = remote.book("book/shop")
        await book.transfer(SALE)
        assert (await book.balances(max_age=0)).of("cash", "EUR") == Decimal("-12.5")


async def test_an_unknown_transfer_is_for_retry() -> None:
    """Its entry has legs and metadata, and is the one that is written then."""
    async with lossy(after=first(1_000, cut)) as (remote, table):
        with pytest.raises(OutcomeUnknown) as lost:
            await remote.book("book/shop").transfer(SALE, metadata={"order": "17"}, timeout=5)
    (entry,) = lost.value.entries
    assert (len(entry.legs), entry.metadata) == (2, {"order": "17"})
    async with served(table) as service:
        transport = httpx.ASGITransport(service.app)
        async with client.Ledger(SERVICE, transport=transport, clock=table.clock) as remote:
            (again,) = await remote.retry([entry])
            assert again.repeated
            assert (again.legs, again.metadata) == (entry.legs, entry.metadata)
            found = await remote.book("book/shop").balances(max_age=0)
            assert found.of("cash", "EUR") == Decimal("-12.5")


async def test_very_many_transfers_are_as_many_requests_as_the_service_takes() -> None:
    """By the values of each, of which a request may have 20,000."""
    legs = [(f"customer/{number}", "EUR", 1 if number % 2 else -1) for number in range(100)]
    async with lossy() as (remote, _):
        book = remote.book("book/shop")
        made = await book.transfer_many([Transfer(legs) for _ in range(120)])
        assert len(made) == 120
        assert (await book.balances(max_age=0)).of("customer/1", "EUR") == 120
        listed = [(f"c{number}", number) for number in range(1_000)]
        assert len(await remote.record_many(listed)) == 1_000
    fields = {"counter": "a", "metadata": {f"name {number}": "" for number in range(20)}}
    assert requests.size_of(fields) == 22 * requests.VALUE_BYTES
    assert requests.size_of({"counter": "a" * 1_000}) == 1_014


async def test_lists_of_changes_take_transfers() -> None:
    """Together with a counter all or none; a list with a key has amounts alone."""
    async with lossy() as (remote, table):
        moved = Change("book/shop", 0, legs=SALE, metadata={"order": "17"})
        made = await remote.record_together([moved, ("stock", -1)])
        assert [len(entry.legs) for entry in made] == [2, 0]
        with pytest.raises(Unbalanced):
            await remote.record_together([replace(moved, legs=[*SALE, ("a", "EUR", 1)])])
        with pytest.raises(InvalidInput, match="is a book"):
            await remote.record_together([("stock", -1), ("book/shop", 0)])
        for change in (moved, Change("stock", 1, metadata={"order": "17"})):
            with pytest.raises(InvalidInput, match="an amount alone"):
                await remote.record_many([change], key="k", at=table.clock.now())
        assert (await remote.total("stock", max_age=0)).value == -1
        assert (await remote.total("book/shop", max_age=0)).value == 0
        assert (await remote.book("book/shop").balances()).transfers == 1


async def test_metadata_of_a_plain_change_comes_back() -> None:
    """In its entry, and in the history."""
    async with lossy() as (remote, _):
        made = await remote.record("stock", 1, metadata={"order": "17"})
        assert made.metadata == {"order": "17"}
        assert [entry async for entry in remote.history("stock")] == [made]
        assert (await remote.record("stock", 1, metadata={})).metadata is None
        with pytest.raises(InvalidEntry, match="texts by name"):
            await remote.record("stock", 1, metadata={"order": 17})  # type: ignore[dict-item]


class WithService(client.Ledger):
    """A client that runs the service, too, in the loop in which it is opened."""

    async def __aenter__(self) -> Self:
        self._service = AsyncExitStack()
        table = MemoryGlobalTable(books=["book/*"])
        service = await self._service.enter_async_context(served(table))
        self._clock = table.clock
        self._transport = httpx.ASGITransport(app=service.app)
        return await super().__aenter__()

    async def close(self) -> None:
        """End both."""
        await super().close()
        await self._service.aclose()


def test_plain_calls_do_the_same() -> None:
    """For scripts: transfers, balances, and the history of an account."""
    with client_sync.Ledger(WithService(SERVICE)) as remote:
        book = remote.book("book/shop")
        made = book.transfer(SALE, metadata={"order": "17"})
        assert book.name == "book/shop"
        assert list(book.history("cash")) == [made]
        assert len(book.transfer_many([Transfer(SALE), Transfer(SALE)])) == 2
        assert book.balances(["cash"], max_age=0).of("cash", "EUR") == Decimal("-37.5")


async def test_transfers_with_one_key_count_once() -> None:
    """A lost answer leaves all unknown; each repeats the item that it shares, which counts once."""
    asked = [Transfer([("cash", "EUR", -n), (f"customer/{n}", "EUR", n)]) for n in range(1, 121)]
    async with lossy(after=first(1_000, cut)) as (remote, table):
        with pytest.raises(OutcomeUnknown) as lost:
            await remote.book("book/shop").transfer_many(
                asked, key="day-1", at=table.clock.now(), timeout=5
            )
    entries = list(lost.value.entries)
    assert [len(entry.legs) for entry in entries] == [2] * 120
    async with served(table, body_max=1_000_000) as service:
        transport = httpx.ASGITransport(service.app)
        async with client.Ledger(SERVICE, transport=transport, clock=table.clock) as remote:
            book, at = remote.book("book/shop"), table.clock.now()
            again = await remote.retry(entries[3:5])
            assert [(one.id, one.legs, one.repeated) for one in again] == [
                (one.id, one.legs, True) for one in entries[3:5]
            ]
            forged = [replace(entries[0], legs=entries[1].legs)]
            with pytest.raises(InvalidEntry, match="say nothing else"):
                await remote.retry(forged)
            assert [one.id for one in await remote.retry(entries)] == [one.id for one in entries]
            other = await book.transfer_many(asked[:3], key="day-2", at=at)
            found = await book.balances(max_age=0)
            assert found.of("cash", "EUR") == Decimal(-sum(range(121)) - 6)
            shown = [one async for one in book.history()]
            assert {(one.id, one.legs) for one in shown} == {
                (one.id, one.legs) for one in (*entries, *other)
            }
            with pytest.raises(InvalidEntry, match="a request has up to 1,000"):
                await book.transfer_many(asked * 9, key="day-3", at=at)

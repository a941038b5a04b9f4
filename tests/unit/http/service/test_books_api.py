"""Books over HTTP: transfers under keys, balances, histories by account, and who may do what."""

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from support.serving import AWAY, HOME, Served, served
from support.tokens import token_header

from ledger.core import books, keys
from ledger.core.amounts import of_text, total_wide
from ledger.core.entry import entry_item, net_item
from ledger.core.values import Entry, Leg, NetChange
from ledger.http.service import answers
from ledger.http.service.access.access import FileAccess
from ledger.http.service.api import entries
from ledger.http.service.api.books import ACCOUNTS_AT_ONCE
from ledger.http.service.context import LOOKS_AT_ONCE
from ledger.http.wire import schemas
from ledger.session.ledger import store_here
from ledger.store.writes import Put, Unknown
from ledger.testing import MemoryGlobalTable

SHOP = "/v1/books/book%2Fshop"
FEW = {"fold_min": 2, "prune_min": 1, "fold_age": 3600}


def a_table(**settings: Any) -> MemoryGlobalTable:
    """Return a table of two regions with books."""
    return MemoryGlobalTable([HOME, AWAY], books=["book/*"], compactor=FEW, **settings)


def legs(*moved: tuple[str, str, str]) -> list[dict[str, str]]:
    """Return legs as a body has them."""
    return [dict(zip(("account", "asset", "amount"), leg, strict=True)) for leg in moved]


SALE = legs(("cash", "EUR", "-12.50"), ("customer/alice", "EUR", "12.5"))


async def assets(service: Served, **asked: Any) -> Any:
    """Return the balances of the shop."""
    answer = await service.http.get(f"{SHOP}/balances", params={"max_age": 0, **asked})
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    schemas.BalancesModel(**answer.json())
    return answer.json()["assets"]


async def test_a_transfer_is_made_once_by_its_key() -> None:
    """201 with it, then 200 with the same; another amount, or other metadata, is a 409."""
    async with served(a_table()) as service:
        named = {
            "Idempotency_Key": "order-17",
            "Idempotency_Time": service.table.clock.now().isoformat(),
        }
        body = {"legs": SALE, "note": "order 17", "metadata": {"order": "17"}}
        first = await service.post(f"{SHOP}/transfers", body, **named)
        again = await service.post(f"{SHOP}/transfers", {**body, "legs": SALE[::-1]}, **named)
        assert (first.status_code, again.status_code) == (201, 200)
        made = schemas.EntryModel(**first.json()).to_value()
        assert made == schemas.EntryModel(**again.json()).to_value()
        assert not made.change
        assert made.note == "order 17"
        assert made.metadata == {"order": "17"}
        assert [tuple(leg) for leg in made.legs] == [
            ("cash", "EUR", Decimal("-12.5")),
            ("customer/alice", "EUR", Decimal("12.5")),
        ]
        other = legs(("cash", "EUR", "-12"), ("customer/alice", "EUR", "12"))
        for wrong in ({**body, "legs": other}, {**body, "metadata": {"order": "18"}}):
            answer = await service.post(f"{SHOP}/transfers", wrong, **named)
            assert (answer.status_code, answer.json()["type"]) == (409, "/problems/key-conflict")
            theirs = schemas.EntryModel(**answer.json()["theirs"]).to_value()
            assert (theirs.legs, theirs.metadata) == (made.legs, made.metadata)
        assert await assets(service) == {"EUR": {"cash": "-12.5", "customer/alice": "12.5"}}


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ({"legs": legs(("a", "EUR", "1"), ("b", "EUR", "-2"))}, "unbalanced", "got -1 in EUR"),
        ({"legs": legs(("a", "EUR", "1"), ("a", "EUR", "-1"))}, "invalid-entry", "twice"),
        ({"legs": legs(("a", "EUR", "0"), ("b", "EUR", "0"))}, "invalid-entry", "0 of EUR"),
        ({"legs": legs(("~a", "EUR", "1"), ("b", "EUR", "-1"))}, "invalid-entry", "'~'"),
        ({"legs": legs(("a", "E R", "1"), ("b", "E R", "-1"))}, "invalid-entry", "space"),
        ({"legs": legs(("é" * 128, "EUR", "1"), ("b", "EUR", "-1"))}, "invalid-entry", "255 bytes"),
        ({"legs": legs(("a" * 256, "EUR", "1"), ("b", "EUR", "-1"))}, "invalid-request", "255"),
        ({"legs": SALE[:1]}, "invalid-request", "legs: list should have at least 2"),
        ({"legs": SALE * 51}, "invalid-request", "legs: list should have at most 100"),
        ({"legs": [{**SALE[0], "amount": 1}, SALE[1]]}, "invalid-amount", "legs.0.amount: "),
        ({"legs": [{**SALE[0], "memo": "x"}, SALE[1]]}, "invalid-request", "legs.0.memo"),
        ({"legs": SALE, "change": "0"}, "invalid-request", "change"),
        ({"legs": SALE, "metadata": {"a": 1}}, "invalid-request", "metadata.a"),
        ({"legs": SALE, "metadata": {"a": "x" * 2_048}}, "invalid-entry", "2,048 bytes"),
        ({"legs": SALE, "metadata": {f"n{n}": "" for n in range(21)}}, "invalid-entry", "1 to 20"),
        ({"legs": SALE, "note": "x" * 66_000}, "too-large", "65,536"),
        ({}, "invalid-request", "legs: field required"),
    ],
)
async def test_a_transfer_that_breaks_a_rule_is_refused(
    body: dict[str, Any], kind: str, said: str
) -> None:
    """The problem names value and rule; nothing is written."""
    async with served(a_table()) as service:
        answer = await service.post(f"{SHOP}/transfers", body)
        assert answer.json()["type"] == f"/problems/{kind}", answer.text
        assert answer.json()["outcome"] == "not_applied"
        assert said in answer.json()["detail"]
        assert await assets(service) == {}


async def test_a_book_takes_transfers_alone_and_no_other_counter_any() -> None:
    """By the contract's patterns, on each path that writes, and that reads."""
    async with served(a_table()) as service:
        one = {"counter": "book/shop", "change": "1"}
        for path, body, said in (
            ("/v1/counters/book%2Fshop/entries", {"change": "1"}, "is a book"),
            ("/v1/counters/book%2Fshop/reconciliations", {"counted": "1"}, "is a book"),
            ("/v1/books/stock/transfers", {"legs": SALE}, "is no book"),
        ):
            answer = await service.post(path, body)
            assert (answer.status_code, answer.json()["type"]) == (400, "/problems/invalid-request")
            assert said in answer.json()["detail"]
        for entry, said in (
            (one, "is a book"),
            ({**one, "counter": "stock", "change": "0", "legs": SALE}, "is no book"),
            ({**one, "legs": SALE}, "must be 0"),
        ):
            answer = await service.post("/v1/entries", {"entries": [entry]})
            (result,) = answer.json()["results"]
            assert (result["status"], said in result["problem"]["detail"]) == (400, True), result
        for path in ("balances", "transfers"):
            answer = await service.http.get(f"/v1/books/stock/{path}")
            assert (answer.status_code, "is no book" in answer.text) == (400, True)


async def test_a_book_without_room_is_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accounts that it has go on."""
    monkeypatch.setattr(books, "ACCOUNTS_BYTES_OPEN", 60)
    table = a_table()
    async with served(table) as service:
        for number in range(20):
            moved = legs(("cash", "EUR", "-1"), (f"customer/{number}", "EUR", "1"))
            await service.post(f"{SHOP}/transfers", {"legs": moved})
    await table.merge()
    async with served(table) as service:
        opened = legs(("cash", "EUR", "-1"), ("customer/20", "EUR", "1"))
        answer = await service.post(f"{SHOP}/transfers", {"legs": opened})
        assert (answer.status_code, answer.json()["type"]) == (409, "/problems/book-full")
        assert "customer/20" in answer.json()["detail"]
        known = legs(("cash", "EUR", "-1"), ("customer/3", "EUR", "1"))
        assert (await service.post(f"{SHOP}/transfers", {"legs": known})).status_code == 201


async def test_balances_are_of_all_accounts_or_of_some() -> None:
    """By name, several at a time, by prefix, at a moment; each asset of all sums to 0."""
    async with served(a_table()) as service:
        await service.post(f"{SHOP}/transfers", {"legs": SALE})
        service.table.clock.pass_by(10)
        moment = service.table.clock.now()
        service.table.clock.pass_by(10)
        moved = legs(("fee", "USD", "0.05"), ("customer/bob", "USD", "-0.05"))
        await service.post(f"{SHOP}/transfers", {"legs": moved})
        found = await assets(service)
        for balances in found.values():
            assert total_wide(map(of_text, balances.values())) == 0
        assert await assets(service, prefix="customer/") == {
            "EUR": {"customer/alice": "12.5"},
            "USD": {"customer/bob": "-0.05"},
        }
        assert await assets(service, account=["cash", "fee", "nobody"]) == {
            "EUR": {"cash": "-12.5"},
            "USD": {"fee": "0.05"},
        }
        assert await assets(service, account="cash", prefix="customer/") == {}
        steady = await service.http.get(f"{SHOP}/balances", params={"steady": "true"})
        assert (steady.json()["assets"], steady.json()["steady"]) == (found, True)
        before = await service.http.get(f"{SHOP}/balances", params={"at": moment.isoformat()})
        assert set(before.json()["assets"]) == {"EUR"}
        assert before.json()["transfers"] == 1
        for path in ("balances", "transfers"):
            head = await service.http.head(f"{SHOP}/{path}")
            assert (head.status_code, head.content) == (200, b"")
            refused = await service.http.get(f"{SHOP}/{path}", params={"acount": "cash"})
            assert (refused.status_code, "acount" in refused.json()["detail"]) == (400, True)
            for name in ("~a", "a\x84", "", "a" * 256):
                refused = await service.http.get(f"{SHOP}/{path}", params={"account": ["b", name]})
                assert (refused.status_code, "account" in refused.json()["detail"]) == (400, True)
        refused = await service.http.get(f"{SHOP}/balances", params={"prefix": "~"})
        assert (refused.status_code, "must not begin" in refused.json()["detail"]) == (400, True)


async def test_the_history_of_an_account_comes_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a counter; a page that looked at many may be empty, and another follows it."""
    monkeypatch.setattr(answers, "LOOKED_MAX", 4)
    async with served(a_table()) as service:
        made = []
        for number in range(10):
            account = "customer/alice" if number in {5, 6, 9} else "customer/bob"
            moved = legs(("cash", "EUR", "-1"), (account, "EUR", "1"))
            answer = await service.post(
                f"{SHOP}/transfers", {"legs": moved, "metadata": {"number": str(number)}}
            )
            made.append(answer.json()["metadata"]["number"])
            service.table.clock.pass_by(1)
        assert await listed(service, 3) == [made[:3], made[3:6], made[6:9], made[9:]]
        assert await listed(service, 9, account="customer/alice") == [[], ["5", "6"], ["9"]]
        assert await listed(service, 1, account=["nobody", "customer/alice"]) == [
            *([], ["5"], ["6"], ["9"])
        ]
        page = (await service.http.get(f"{SHOP}/transfers", params={"limit": 1})).json()
        assert schemas.HistoryModel(**page).entries[0].legs[0].account == "cash"


async def listed(service: Served, limit: int, **asked: Any) -> list[list[str]]:
    """Return the numbers of transfers, page by page."""
    pages, after = list[list[str]](), None
    while True:
        given = {"limit": limit, **asked, **({"after": after} if after else {})}
        answer = await service.http.get(f"{SHOP}/transfers", params=given)
        assert answer.status_code == 200, answer.text
        pages.append([entry["metadata"]["number"] for entry in answer.json()["entries"]])
        if (after := answer.json()["next"]) is None:
            return pages


async def test_lists_take_transfers_and_metadata() -> None:
    """Each with its outcome; together with a counter all or none; not under a key of the list."""
    async with served(a_table()) as service:
        transfer = {"counter": "book/shop", "change": "0", "legs": SALE, "metadata": {"a": "b"}}
        stock = {"counter": "stock", "change": "-1", "metadata": {"order": "17"}}
        for together in (False, True):
            body = {"entries": [transfer, stock], "together": together}
            results = (await service.post("/v1/entries", body)).json()["results"]
            assert [result["status"] for result in results] == [201, 201]
            moved, sold = (schemas.EntryModel(**result["entry"]) for result in results)
            assert (len(moved.legs), moved.metadata) == (2, {"a": "b"})
            assert (sold.legs, sold.metadata) == ((), {"order": "17"})
        assert await assets(service) == {"EUR": {"cash": "-25", "customer/alice": "25"}}
        half = {**transfer, "legs": legs(("a", "EUR", "1"), ("b", "EUR", "1"))}
        answer = await service.post("/v1/entries", {"entries": [half, stock], "together": True})
        assert (answer.status_code, answer.json()["type"]) == (400, "/problems/unbalanced")
        assert await service.value("stock") == "-2"
        at = service.table.clock.now().isoformat()
        answer = await service.post("/v1/entries", {"entries": [transfer], "key": "k", "at": at})
        assert (answer.status_code, "an amount alone" in answer.text) == (400, True)
        page = (await service.http.get("/v1/counters/stock/entries")).json()["entries"]
        assert [entry["metadata"] for entry in page] == [{"order": "17"}] * 2
        assert all("legs" not in entry for entry in page)


async def test_of_many_a_conflict_shows_little_of_the_other_transfer() -> None:
    """So an answer is about as long as its request."""
    async with served(a_table()) as service:
        at = service.table.clock.now().isoformat()
        many = [(f"customer/{number}", "EUR", "1") for number in range(99)]
        long = {
            "legs": legs(("cash", "EUR", "-99"), *many),
            "metadata": {"text": "x" * 2_000},
        }
        named = {"Idempotency_Key": "k", "Idempotency_Time": at}
        assert (await service.post(f"{SHOP}/transfers", long, **named)).status_code == 201
        short = {"counter": "book/shop", "change": "0", "legs": SALE, "key": "k", "at": at}
        answer = await service.post("/v1/entries", {"entries": [short]})
        (result,) = answer.json()["results"]
        assert result["status"] == 409
        assert len(result["problem"]["ours"]["legs"]) == 2
        assert not {"legs", "metadata"} & result["problem"]["theirs"].keys()
        assert len(answer.content) < 2_000
        assert len(SALE) < entries.LEGS_SHOWN_MAX < len(many)


async def test_an_unknown_transfer_is_repeated_as_it_was() -> None:
    """`POST /v1/retries` takes its entry, with legs and metadata; another key proves nothing."""
    async with served(a_table()) as service:
        store = type(service.table.store())
        body = {"legs": SALE, "metadata": {"order": "17"}}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "write", AsyncMock(return_value=Unknown("lost")))
            answer = await service.post(f"{SHOP}/transfers", body, Prefer="wait=1")
        problem = answer.json()
        assert (answer.status_code, problem["type"]) == (503, "/problems/outcome-unknown")
        (entry,) = problem["entries"]
        forged = {**entry, "key": "0" * 32}
        refused = await service.post("/v1/retries", {"entries": [forged]})
        assert (refused.status_code, refused.json()["type"]) == (403, "/problems/not-proved")
        for status in (201, 200):
            answer = await service.post("/v1/retries", {"entries": [entry]})
            (result,) = answer.json()["results"]
            assert result["status"] == status, result
            written = schemas.EntryModel(**result["entry"]).to_value()
            assert (len(written.legs), written.metadata) == (2, {"order": "17"})
        uneven = [{**entry["legs"][0], "amount": "1"}, entry["legs"][1]]
        answer = await service.post("/v1/retries", {"entries": [{**entry, "legs": uneven}]})
        assert (answer.status_code, answer.json()["type"]) == (400, "/problems/unbalanced")
        other = [{**leg, "account": f"{leg['account']}2"} for leg in entry["legs"]]
        answer = await service.post("/v1/retries", {"entries": [{**entry, "legs": other}]})
        assert (answer.status_code, answer.json()["type"]) == (409, "/problems/key-conflict")
        plain = {name: entry[name] for name in entry if name != "legs"}
        answer = await service.post("/v1/retries", {"entries": [plain]})
        assert (answer.status_code, "is a book" in answer.text) == (400, True)
        assert await assets(service) == {"EUR": {"cash": "-12.5", "customer/alice": "12.5"}}


async def test_the_feed_has_legs_and_metadata() -> None:
    """A page ends once they have a megabyte; the next one goes on."""
    async with served(a_table()) as service:
        store = store_here(service.ledger)
        wide = [Leg(f"customer/{number:>0200}", "EUR", Decimal(1)) for number in range(99)]
        moved = books.ordered([*wide, Leg("cash", "EUR", Decimal(-99))])
        for number in range(50):
            id_ = f"2026-11-21T06:50:00.000000Z#{number:016x}"
            entry = Entry("book/shop", id_, Decimal(0), legs=moved, metadata={"a": str(number)})
            await store.write(Put(entry_item(entry)))
        seen, after = list[str](), None
        sizes = list[int]()
        while after is None or sizes[-1]:
            answer = await service.http.get("/v1/feed", params={"after": after} if after else {})
            page = schemas.FeedModel(**answer.json()).to_value()
            seen += [(entry.metadata or {})["a"] for entry in page.entries]
            assert all(entry.legs == moved for entry in page.entries)
            assert len(answer.content) < 1_100_000
            sizes.append(len(page.entries))
            after = page.cursor
        assert sorted(seen, key=int) == [str(number) for number in range(50)]
        assert len(sizes) > 2


async def test_a_transfer_is_reversed_by_its_opposite() -> None:
    """Once; who may not read learns nothing of its accounts."""
    table = a_table()
    async with served(table) as service:
        made = (await service.post(f"{SHOP}/transfers", {"legs": SALE})).json()
        table.replicate()
        path = f"/v1/entries/{made['id'].replace('#', '%23')}/reverse"
        for status in (201, 200):
            answer = await service.post(path, {"counter": "book/shop"})
            assert answer.status_code == status, answer.text
            assert [leg["amount"] for leg in answer.json()["legs"]] == ["12.5", "-12.5"]
        assert await assets(service) == {}


async def test_a_token_is_for_its_scopes_and_prefixes(tmp_path: Path) -> None:
    """A token that reads cannot write; one for other books can do neither."""
    table, path = a_table(), tmp_path / "tokens.json"
    token_header(path, table, "read", name="first")
    access = FileAccess(path, table.clock)
    async with served(table, access=access) as service:
        reader = token_header(path, table, "read", name="reader", prefixes=["book/"])
        writer = token_header(path, table, "write", name="shop-writer", prefixes=["book/"])
        other = token_header(path, table, "read", "write", name="other", prefixes=["shop/"])
        back = token_header(path, table, "reverse", name="reverser", prefixes=["book/"])
        await access.look_again()
        url, body = f"{SHOP}/transfers", {"legs": SALE}

        async def asked(method: str, path: str, token: dict[str, str], **of: Any) -> httpx.Response:
            return await service.http.request(method, path, headers=token, **of)

        for token in (reader, other, back):
            answer = await asked("POST", url, token, json=body)
            assert (answer.status_code, answer.json()["type"]) == (403, "/problems/forbidden")
        assert (await asked("POST", url, {}, json=body)).status_code == 401
        made = await asked("POST", url, writer, json=body)
        assert made.status_code == 201
        for part in ("transfers", "balances"):
            for token, status in ((reader, 200), (writer, 403), (other, 403), ({}, 401)):
                answer = await asked("GET", f"{SHOP}/{part}", token)
                assert answer.status_code == status, (part, answer.text)
        table.replicate()
        id_ = made.json()["id"].replace("#", "%23")
        counter = {"counter": "book/shop"}
        answer = await asked("POST", f"/v1/entries/{id_}/reverse", back, json=counter)
        assert answer.status_code == 201
        assert not {"legs", "metadata"} & answer.json().keys()


async def test_a_transfer_is_whole_in_the_other_region_while_it_spreads() -> None:
    """At each moment of the replication, and of a merge, each asset sums to 0 there."""
    table = a_table()
    async with served(table) as home, served(table, region=AWAY) as away:
        for turn in range(6):
            table.isolate(AWAY)
            moved = legs(
                ("cash", "EUR", "-7"),
                (f"customer/{turn}", "EUR", "7"),
                ("fee", "USD", "-1"),
                (f"customer/{turn}", "USD", "1"),
            )
            answer = await home.post(f"{SHOP}/transfers", {"legs": moved})
            assert answer.status_code == 201
            seen = [await assets(away)]
            assert f"customer/{turn}" not in seen[0].get("EUR", {})
            table.heal()
            table.replicate()
            seen.append(await assets(away))
            assert seen[1]["EUR"][f"customer/{turn}"] == "7"
            assert seen[1]["USD"][f"customer/{turn}"] == "1"
            if turn % 2:
                await table.pass_time(1_500)
                await table.compact()
                seen.append(await assets(away))
            for found in seen:
                for balances in found.values():
                    assert total_wide(map(of_text, balances.values())) == 0
        await table.merge()
        assert await assets(away) == await assets(home)


async def test_balances_of_very_many_accounts_hold_up_nobody() -> None:
    """They are rendered in turns of the event loop."""
    table = a_table()
    named = {f"customer/{number:06d}": Decimal(number + 1) for number in range(24_999)}
    accounts = {"EUR": {"bank": total_wide(named.values()).copy_negate(), **named}}
    packed = books.packed(accounts)
    assert len(packed) < books.ACCOUNTS_BYTES_MAX
    net = NetChange(
        Decimal(0), 30_000, (), version="1", until="", home=HOME,
        accounts=packed,
    )  # fmt: skip
    async with served(table) as service:
        item = net_item(net, keys.partition_key("book/shop", 0))
        await store_here(service.ledger).write(Put(item))
        (await service.http.get(f"{SHOP}/balances")).raise_for_status()
        turns = 0

        async def tick() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        ticking = asyncio.ensure_future(tick())
        found = await assets(service, max_age=3_600)
        ticking.cancel()
        assert len(found["EUR"]) == 25_000
        assert turns > 25_000 / ACCOUNTS_AT_ONCE / LOOKS_AT_ONCE

"""Changes that share an item, over HTTP: read, reversed and written again one by one."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from support.serving import HOME, Served, served
from support.shared_items import parts_of, put_shared

from ledger.core.values import Entry
from ledger.http.service.query_models import PARTS_CHARACTERS_MAX
from ledger.http.wire.schemas import EntryModel, FeedModel, HistoryModel, ProvedEntryModel
from ledger.store.writes import Outcome, Unknown
from ledger.testing import ManualClock, MemoryGlobalTable

FIVE = "5 -1 8 0.25 3"


async def shared(service: Served, amounts: str = FIVE, counter: str = "stock") -> list[Entry]:
    """Put an item, a moment after the one before, and return its changes."""
    service.table.clock.pass_by(1)
    table = service.table
    return await put_shared(table.store(HOME), counter, amounts, table.clock.now())


async def test_a_page_of_a_history_may_end_within_an_item() -> None:
    """`next` is the id of its last change, and the one after it begins the next page."""
    async with served() as service:
        made = [*await shared(service), *await shared(service, "2 3")]
        found = list[tuple[str, str]]()
        after: str | None = made[0].id
        while after is not None:
            asked: dict[str, Any] = {"after": after, "limit": 2, "before": made[-1].id}
            answer = await service.http.get("/v1/counters/stock/entries", params=asked)
            page = HistoryModel(**answer.json())
            found += [(entry.id, str(entry.change)) for entry in page.entries]
            after = page.next
            assert all(entry["count"] == 1 for entry in answer.json()["entries"])
            assert not any("parts" in entry for entry in answer.json()["entries"])
        assert found == [(entry.id, str(entry.change)) for entry in made[1:-1]]


async def test_a_page_of_the_feed_ends_between_items() -> None:
    """It has more than it was asked for by the rest of one, and the next one goes on after it."""
    async with served() as service:
        first, second = await shared(service), await shared(service, "2 3")
        after = dict[str, str]()
        for made in (first, second, []):
            answer = await service.http.get("/v1/feed", params={"limit": 1, **after})
            page = FeedModel(**answer.json())
            assert [entry.id for entry in page.entries] == [entry.id for entry in made]
            after = {"after": page.next}


async def test_a_change_is_reversed_alone() -> None:
    """Once; of the whole item it must be said which, and one that it has not is a conflict."""
    async with served(MemoryGlobalTable([HOME])) as service:
        made = await shared(service)
        item_id = made[0].id.removesuffix(".000")

        async def reverse(entry: str) -> Any:
            path = f"/v1/entries/{quote(entry)}/reverse"
            return await service.post(path, {"counter": "stock"})

        for status in (201, 200):
            answer = await reverse(made[2].id)
            assert (answer.status_code, answer.json()["change"]) == (status, "-8")
            assert answer.json()["reverses"] == made[2].id
        whole = await reverse(item_id)
        assert (whole.status_code, whole.json()["type"]) == (400, "/problems/invalid-entry")
        assert f"5 changes: name one, {made[0].id} to {made[4].id}" in whole.json()["detail"]
        assert (await reverse(f"{item_id}.005")).status_code == 409
        assert (await reverse(f"{item_id}.5")).status_code == 400
        assert await service.value("stock") == "7.25"


async def test_a_change_is_written_again_with_those_of_its_item() -> None:
    """As the problem had it, and once; the answer has the changes that were asked for."""
    async with served() as service:
        made = parts_of("stock", FIVE, service.table.clock.now(), region=HOME)
        body = {"entries": [ProvedEntryModel.fields_of(entry) for entry in made[1:3]]}
        for status in (201, 200):
            answer = await service.post("/v1/retries", body)
            results = answer.json()["results"]
            assert [result["status"] for result in results] == [status] * 2
            assert [result["entry"] for result in results] == [
                EntryModel.fields_of(replace(entry, parts="")) for entry in made[1:3]
            ]
        assert await service.value("stock") == "15.25"
        history = await service.http.get("/v1/counters/stock/entries")
        assert [entry["id"] for entry in history.json()["entries"]] == [one.id for one in made]


@contextmanager
def unanswered(table: MemoryGlobalTable, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let writes be stored, and their answers be lost."""
    store = type(table.store())

    async def write(self: Any, asked: Any) -> Outcome:
        await stored(self, asked)
        return Unknown("lost")

    stored = store.write
    with monkeypatch.context() as patch:
        patch.setattr(store, "write", write)
        yield


async def test_changes_that_were_combined_are_written_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By what the problem of each has: they share an item, which counts once."""
    clock = ManualClock(instant=True)
    async with served(MemoryGlobalTable([HOME], clock=clock, combine=["stock"])) as service:
        asked = {"entries": [{"counter": "stock", "change": change} for change in ("5", "-1")]}
        with unanswered(service.table, monkeypatch):
            told = (await service.post("/v1/entries", asked)).json()["results"]
        lost = [entry for result in told for entry in result["problem"]["entries"]]
        assert [(entry["change"], entry["parts"]) for entry in lost] == [
            ("5", "5 -1"),
            ("-1", "5 -1"),
        ]
        answer = await service.post("/v1/retries", {"entries": lost})
        found = [(result["status"], result["entry"]) for result in answer.json()["results"]]
        assert [(status, entry["id"]) for status, entry in found] == [
            (200, entry["id"]) for entry in lost
        ]
        assert await service.value("stock") == "4"


async def test_transfers_that_share_an_item_are_written_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the problem of each has them, once; with other legs, or other parts, none is."""
    clock = ManualClock(instant=True)
    table = MemoryGlobalTable([HOME], clock=clock, books=["book/*"], combine=["book/*"])
    async with served(table) as service:
        sales = [
            [
                {"account": "cash", "asset": "EUR", "amount": f"-{amount}"},
                {"account": "alice", "asset": "EUR", "amount": amount},
            ]
            for amount in ("5", "7.5")
        ]
        each = [{"counter": "book/1", "change": "0", "legs": legs} for legs in sales]
        with unanswered(service.table, monkeypatch):
            told = (await service.post("/v1/entries", {"entries": each})).json()["results"]
        lost = [entry for result in told for entry in result["problem"]["entries"]]
        assert len({entry["parts"] for entry in lost}) == 1
        assert lost[0]["parts"].startswith('[{"EUR":{"alice":5,"cash":-5}},')
        for wrong, status in (
            ({"legs": lost[1]["legs"]}, 400),
            ({"parts": lost[0]["parts"].replace("5", "6")}, 400),
            ({"parts": lost[0]["parts"].replace("7.5", "9")}, 403),
        ):
            refused = await service.post("/v1/retries", {"entries": [{**lost[0], **wrong}]})
            assert refused.status_code == status
        answer = await service.post("/v1/retries", {"entries": lost})
        found = [(result["status"], result["entry"]) for result in answer.json()["results"]]
        assert [(status, entry["id"]) for status, entry in found] == [
            (200, entry["id"]) for entry in lost
        ]
        assets = (await service.http.get("/v1/books/book%2F1/balances")).json()["assets"]
        assert assets == {"EUR": {"alice": "12.5", "cash": "-12.5"}}


FORGED: dict[str, tuple[dict[str, Any], int, str]] = {
    "acknowledged": ({"parts": ""}, 400, "was acknowledged, or read"),
    "another amount": ({"change": "9"}, 400, "must be change 1 of its parts"),
    "other amounts": ({"parts": "6 -1 8 0.25 3"}, 403, "has another key"),
    "another key": ({"key": "order-17"}, 403, "has another key"),
    "no amounts": ({"parts": "5 -1 x"}, 400, "must be change 1 of its parts"),
    "not as they are written": ({"parts": "5.0 -1"}, 400, "must be change 1 of its parts"),
    "too long": ({"parts": "1 " * PARTS_CHARACTERS_MAX}, 400, "characters"),
    "no text": ({"parts": ["5", "-1"]}, 400, "parts: "),
}


@pytest.mark.parametrize(("member", "status", "said"), FORGED.values(), ids=FORGED)
async def test_what_is_not_of_its_item_is_not_written(
    member: dict[str, Any], status: int, said: str
) -> None:
    """Nor is any other entry of the same request."""
    async with served() as service:
        made = parts_of("stock", FIVE, service.table.clock.now())
        good, forged = map(ProvedEntryModel.fields_of, made[:2])
        answer = await service.post("/v1/retries", {"entries": [good, forged | member]})
        assert (answer.status_code, await service.value("stock")) == (status, "0")
        assert answer.json()["outcome"] == "not_applied"
        assert said in answer.json()["detail"]

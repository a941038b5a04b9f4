"""The service's endpoints over a ledger in memory."""

import gc
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from threading import Thread, current_thread, main_thread
from typing import Any
from weakref import ref

import anyio
import anyio.lowlevel
import httpx
import pytest
from prometheus_client import CollectorRegistry
from starlette.requests import Request
from support.serving import AWAY, HOME, Served, served

from ledger.budgets.budget import Budget, Budgets
from ledger.core import ids, own_keys
from ledger.core.errors import (
    AccessDenied,
    ArchiveError,
    ContractConflict,
    ContractMissing,
    ContractStale,
    LedgerError,
    NotSent,
    OutcomeUnknown,
    StoreError,
    TableMissing,
    Throttled,
    Unreachable,
)
from ledger.core.values import Entry
from ledger.http.service import app, context
from ledger.http.service.access.access import OpenAccess
from ledger.http.service.api import entries
from ledger.http.service.context import CHANGES_AT_ONCE, UNDER_WAY, UNDER_WAY_IN_ALL
from ledger.http.service.metrics import ServiceMetrics
from ledger.http.service.openapi import add_models
from ledger.http.wire import schemas
from ledger.http.wire.problems import Problem
from ledger.runtime.call_deadlines import NEVER
from ledger.runtime.tasks import run_all
from ledger.session.book import Book
from ledger.session.ledger import Ledger
from ledger.testing import MemoryGlobalTable

JSON = "application/json"
ENTRY = {"counter": "stock", "change": "1"}
SET, COUNTED = {"attributes": {"name": "x"}}, (Ledger, "reconcile")


async def test_an_entry_is_created_once_by_its_key() -> None:
    """201 with it, then 200 with the same; another amount under the key is a 409."""
    async with served() as service:
        named = {
            "Idempotency_Key": "order-17",
            "Idempotency_Time": service.table.clock.now().isoformat(),
        }
        first = await service.record("stock", "-1.50", **named)
        again = await service.record("stock", "-1.5", **named)
        other = await service.record("stock", "-2", **named)
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json() == again.json()
        assert first.json()["change"] == "-1.5"
        assert other.status_code == 409
        assert other.headers["content-type"] == "application/problem+json"
        assert other.json()["theirs"]["change"] == "-1.5"
        assert await service.value("stock") == "-1.5"


async def test_a_repeat_is_answered_in_another_region_too() -> None:
    """Once replication has brought the entry there, merged meanwhile or not."""
    table = MemoryGlobalTable(["us-east-1", AWAY], compactor={"fold_min": 1, "scan_every": 0})
    named = {
        "Idempotency_Key": "order-17",
        "Idempotency_Time": table.clock.now().isoformat(),
    }
    async with served(table) as home:
        assert (await home.record("stock", "4", **named)).status_code == 201
    table.replicate()
    async with served(table, region=AWAY) as away:
        assert (await away.record("stock", "4", **named)).status_code == 200
        assert await away.value("stock") == "4"


async def test_past_the_retry_horizon_it_can_no_longer_be_told() -> None:
    """Without an archive that is a 410, and nothing is written."""
    async with served() as service:
        old = service.table.clock.now() - timedelta(hours=1)
        answer = await service.record(
            "stock", "1", Idempotency_Key="order-17", Idempotency_Time=old.isoformat()
        )
        assert (answer.status_code, answer.json()["type"]) == (
            410,
            "/problems/retry-horizon-passed",
        )
        assert await service.value("stock") == "0"


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({"Idempotency_Key": "order-17"}, "idempotency-key"),
        ({"Idempotency_Time": "2026-11-21T06:50:00Z"}, "invalid-request"),
        ({"Prefer": "wait=99"}, "invalid-request"),
        ({"Prefer": "wait=-1"}, "invalid-request"),
    ],
)
async def test_a_header_that_breaks_a_rule_is_a_400(headers: dict[str, str], kind: str) -> None:
    """And the problem's page says what to send."""
    async with served() as service:
        answer = await service.record("stock", "1", **headers)
        assert (answer.status_code, answer.json()["type"]) == (400, f"/problems/{kind}")
        page = await service.http.get(answer.json()["type"])
        assert page.status_code == 200
        assert answer.json()["title"] in page.text
        assert await service.value("stock") == "0"


async def test_a_key_beyond_ascii_comes_in_a_body() -> None:
    """As a header it would be read as another key; two headers are none."""
    async with served() as service:
        now = service.table.clock.now().isoformat()
        for headers in (
            [(b"Idempotency-Key", "größe".encode()), (b"Idempotency-Time", now.encode())],
            [(b"Idempotency-Key", b"a"), (b"Idempotency-Key", b"a")],
        ):
            answer = await service.http.post(
                "/v1/counters/stock/entries", json={"change": "1"}, headers=headers
            )
            assert (answer.status_code, "Idempotency-Key must be" in answer.text) == (400, True)
        entry = {"counter": "stock", "change": "1", "key": "größe", "at": now}
        for status in (201, 200):
            answer = await service.post("/v1/entries", {"entries": [entry]})
            assert answer.json()["results"][0]["status"] == status
        assert await service.value("stock") == "1"


async def test_a_counter_may_have_slashes() -> None:
    """Percent-encoded in a path; `a/entries` is not the entries of `a`."""
    async with served() as service:
        await service.record("a%2Fentries", "2")
        await service.record("a", "5")
        assert await service.value("a%2Fentries") == "2"
        assert await service.value("a") == "5"
        entries = (await service.http.get("/v1/counters/a/entries")).json()["entries"]
        assert [entry["change"] for entry in entries] == ["5"]


async def test_many_entries_have_an_outcome_each() -> None:
    """One that is refused leaves the others."""
    async with served() as service:
        answer = await service.post(
            "/v1/entries",
            {
                "entries": [
                    {"counter": "a", "change": "1"},
                    {"counter": "", "change": "1"},
                    {"counter": "b", "change": "2", "key": "untimed"},
                    {"counter": "b", "change": "3", "note": "n", "effective": "2026-11-20"},
                ]
            },
        )
        results = schemas.EntriesModel(**answer.json()).results
        assert [result.status for result in results] == [201, 400, 400, 201]
        assert results[1].problem is not None
        assert results[1].problem.type == "/problems/invalid-counter"
        assert results[2].problem is not None
        assert results[2].problem.type == "/problems/idempotency-key"
        assert await service.value("a") == "1"
        assert await service.value("b") == "3"
        registry = CollectorRegistry()
        for seen in service.seen:
            ServiceMetrics.of(registry).request(seen)
        for status in ("201", "400"):
            name, labels = "ledger_service_results_total", {"status": status}
            assert registry.get_sample_value(name, labels) == 2


async def test_entries_together_are_all_or_none() -> None:
    """One that breaks a rule is the problem of the request."""
    async with served() as service:
        bad = {"entries": [{"counter": "a", "change": "1"}, {"counter": "", "change": "1"}]}
        answer = await service.post("/v1/entries", bad | {"together": True})
        assert answer.status_code == 400
        assert await service.value("a") == "0"
        good = {"entries": [{"counter": "a", "change": "1"}, {"counter": "b", "change": "2"}]}
        answer = await service.post("/v1/entries", good | {"together": True})
        assert [result["status"] for result in answer.json()["results"]] == [201, 201]


async def test_an_unknown_outcome_is_a_503_whose_entries_can_be_retried() -> None:
    """Written or not by the first request, it counts once after the retry."""
    async with served() as service:
        written = await service.ledger.record("stock", Decimal(7))
        assert own_keys.is_proved(written)
        lost = OutcomeUnknown("no answer: Ledger.retry is safe", entries=[written])

        async def unanswered(*_: Any, **__: Any) -> Any:
            raise lost

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service.ledger, "record", unanswered)
            answer = await service.record("stock", "7")
        problem = answer.json()
        assert (answer.status_code, problem["outcome"]) == (503, "unknown")
        assert answer.headers["retry-after"] == "1"
        assert "POST /v1/retries counts its `entries` once" in problem["detail"]
        repeated = await service.post("/v1/retries", {"entries": problem["entries"]})
        assert repeated.status_code == 200
        assert [each["status"] for each in repeated.json()["results"]] == [200]
        assert await service.value("stock") == "7"


async def test_an_unknown_outcome_of_many_is_told_in_words_of_requests() -> None:
    """As that of one is."""
    async with served() as service:

        async def unanswered(*_: Any, **__: Any) -> Any:
            raise OutcomeUnknown("no answer: repeat the call", entries=[], retryable=True)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service.ledger, "record", unanswered)
            asked = {"entries": [{"counter": "stock", "change": "7"}]}
            (result,) = (await service.post("/v1/entries", asked)).json()["results"]
        assert "the same request counts it once" in result["problem"]["detail"]


def _proved(service: Served, counter: str, change: str, key: str = "order-17") -> dict[str, Any]:
    """Return an entry that is not written yet, as its writer repeats it."""
    id_ = ids.sort_key(service.table.clock.now(), ids.suffix_of(counter, key))
    return {"counter": counter, "id": id_, "key": key, "change": change}


@asynccontextmanager
async def _turns() -> AsyncIterator[Callable[[], int]]:
    """Count the turns of the event loop."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        yield lambda: turns
        tasks.cancel_scope.cancel()


async def test_changes_of_all_requests_are_made_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here each is refused, which costs more than one that is taken."""
    ahead = {"counter": "stock", "change": "1", "at": "2027-11-21T06:50:00Z"}
    refused = Counter[int]()
    async with served() as service, _turns() as turns:

        def problem_for(request: Request, error: LedgerError) -> Problem:
            refused[turns()] += 1
            return context.problem_for(request, error)

        monkeypatch.setattr(entries, "problem_for", problem_for)
        monkeypatch.setattr(entries, "ENTRIES_AT_ONCE", 500)
        body = {"entries": [{**ahead, "key": str(number)} for number in range(500)]}
        asked = [partial(service.post, "/v1/entries", body)] * 4
        answers = await run_all(asked, at_once=4)
    results = [result["status"] for answer in answers for result in answer.json()["results"]]
    assert results == [400] * 2_000
    # Those of this round, and those that the round before has let go on.
    assert max(refused.values()) <= 2 * CHANGES_AT_ONCE


NOW, EARLY, LATE = "2026-11-21T06:50:00Z", "2026-11-21T05:00:00Z", "2026-11-21T08:00:00Z"


def _changes(change: str = "1", at: str = NOW, before: str = "order-") -> dict[str, Any]:
    """Return a body of a hundred changes of one counter."""
    entry = {"counter": "stock", "change": change, "at": at}
    return {"entries": [{**entry, "key": f"{before}{number}"} for number in range(100)]}


MANY = "&".join(f"id=none{number}" for number in range(100))
LEGS = [
    {"account": name, "asset": "EUR", "amount": each} for name, each in (("a", "1"), ("b", "-1"))
]
HALF = {"counter": "book/shop", "change": "0", "legs": [LEGS[0], {**LEGS[1], "amount": "-2"}]}
REFUSED_EACH: dict[str, tuple[str, dict[str, Any] | None]] = {
    "other changes": ("/v1/entries", _changes("2")),
    "too late": ("/v1/entries", _changes(at=EARLY)),
    "ahead": ("/v1/entries", _changes(at=LATE)),
    "invisible": ("/v1/entries", _changes(before="\u200b")),
    "too large": ("/v1/entries", _changes("9" * 38, before="sum-")),
    "unbalanced": ("/v1/entries", {"entries": [HALF] * 100}),
    "no budgets": (f"/v1/budgets?{MANY}", None),
    "no counters": (f"/v1/totals?{MANY}", None),
    "fleet": (f"/v1/fleet/totals?{MANY}", None),
    "beyond 38 digits": (f"/v1/totals?max_age=0&{MANY.replace('none', 'full')}", None),
}
FULL = [{"counter": f"full{number}", "change": "9" * 38} for number in range(100)] * 2


@pytest.mark.parametrize(("path", "body"), REFUSED_EACH.values(), ids=REFUSED_EACH)
async def test_what_is_refused_is_freed_at_once(path: str, body: dict[str, Any] | None) -> None:
    """Were it cycles, the collector would free thousands in one piece, and hold up all others."""
    async with served(MemoryGlobalTable([HOME], books=["book/*"])) as service:

        async def ask() -> httpx.Response:
            return await (service.http.get(path) if body is None else service.post(path, body))

        await service.post("/v1/entries", _changes())
        await service.post("/v1/entries", {"entries": FULL})
        await ask()
        gc.collect()
        gc.disable()
        try:
            answer = await ask()
            assert gc.collect() < 100
        finally:
            gc.enable()
    assert answer.status_code == 200


async def test_what_was_served_is_freed() -> None:
    """FastAPI keeps each endpoint for ever, so no endpoint may hold its application."""
    async with served() as service:
        await service.http.get("/v1/session")
        ledger = ref(service.ledger)
    del service
    gc.collect()
    assert ledger() is None


async def test_proofs_are_checked_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a thousand entries of the longest keys take long."""
    checked = Counter[int]()
    async with served(body_max=1_000_000) as service, _turns() as turns:

        def is_proved(entry: Entry) -> bool:
            checked[turns()] += 1
            return own_keys.is_proved(entry)

        monkeypatch.setattr(entries, "is_proved", is_proved)
        proved = [_proved(service, "stock", "1", f"order-{number}") for number in range(999)]
        proved.append({**proved[0], "key": "another"})
        answer = await service.post("/v1/retries", {"entries": proved})
    assert answer.status_code == 403
    assert checked.total() == 1_000
    assert max(checked.values()) <= entries.PROOFS_AT_ONCE


async def test_an_entry_that_is_repeated_is_of_the_region_that_writes_it() -> None:
    """Whatever region it names."""
    async with served() as service:
        for region in (AWAY, None, "mars-north-1"):
            entry = _proved(service, "stock", "1", f"order-{region}") | {"region": region}
            (result,) = (await service.post("/v1/retries", {"entries": [entry]})).json()["results"]
            assert (result["status"], result["entry"]["region"]) == (201, HOME)


@pytest.mark.parametrize("key", [None, "0" * 32, "", "its id", "order-18"])
async def test_who_saw_an_entry_cannot_write_in_its_place(key: str | None) -> None:
    """Not in a region either that does not show it yet, where the last writer would win."""
    table = MemoryGlobalTable([HOME, AWAY])
    async with served(table) as home, served(table, region=AWAY) as away:
        named = {"Idempotency_Key": "order-17", "Idempotency_Time": table.clock.now().isoformat()}
        for headers in ({}, named):
            await home.record("stock", "500", **headers)
        seen = (await home.http.get("/v1/counters/stock/entries")).json()["entries"]
        for entry in seen:
            assert "key" not in entry
            forged = {"counter": "stock", "id": entry["id"], "change": "0"}
            if key is not None:
                forged["key"] = entry["id"] if key == "its id" else key
            asked = {"entries": [_proved(away, "other", "1"), forged]}
            for together in (False, True):
                answer = await away.post("/v1/retries", asked | {"together": together})
                assert answer.status_code == (403 if key else 400)
                assert answer.json()["outcome"] == "not_applied"
        table.replicate()
        values = [await service.value("stock") for service in (home, away)]
        assert [*values, await away.value("other")] == ["1000", "1000", "0"]


@pytest.mark.parametrize(
    "id_", ["x", "~", "2026-02-29T06:50:01.123456Z#4f1d2c3b5a697887", "2026-11-21T06:50:01Z#4F"]
)
async def test_an_entry_of_no_id_is_not_repeated(id_: str) -> None:
    """Whatever its key is."""
    async with served() as service:
        entry = {"counter": "stock", "id": id_, "key": "order-17", "change": "1"}
        answer = await service.post("/v1/retries", {"entries": [entry]})
        assert answer.status_code == 400
        assert "id must be the id of an entry" in answer.json()["detail"]


async def test_an_entry_with_another_key_says_so() -> None:
    """By a problem of its own, which names the entry."""
    async with served() as service:
        entry = _proved(service, "stock", "1") | {"key": "order-18"}
        answer = await service.post("/v1/retries", {"entries": [entry]})
        assert answer.json()["type"] == "/problems/not-proved"
        assert f"entry {entry['id']!r} of 'stock'" in answer.json()["detail"]


async def test_a_spent_or_held_amount_is_not_written_again_by_its_id() -> None:
    """Its entry has no key to show, and by any other it is not that entry."""
    table = MemoryGlobalTable([HOME, AWAY], budgets={"key/*": {}})
    async with served(table) as home, served(table, region=AWAY) as away:
        await home.http.put("/v1/budgets/key%2F42", json={"limit": "10"})
        table.replicate()
        for path, body in (("spends", {}), ("holds", {"expires": 60})):
            made = await home.post(f"/v1/budgets/key%2F42/{path}", {"amount": "3", **body})
            forged = {"counter": "key/42", "id": made.json()["id"], "key": "k", "change": "0"}
            answer = await away.post("/v1/retries", {"entries": [forged]})
            assert (made.status_code, answer.status_code) == (201, 403)
        table.replicate()
        assert await away.value("key%2F42") == "-6"


async def test_a_reversal_is_made_once_at_home() -> None:
    """201, then 200 with the same; elsewhere it is refused."""
    table = MemoryGlobalTable(["us-east-1", AWAY])
    async with served(table) as home, served(table, region=AWAY) as away:
        entry = (await home.record("stock", "5")).json()["id"].replace("#", "%23")
        table.replicate()
        path = f"/v1/entries/{entry}/reverse"
        first = await home.post(path, {"counter": "stock", "note": "typed wrong"})
        again = await home.post(path, {"counter": "stock"})
        other = await away.post(path, {"counter": "stock"})
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json() == again.json()
        assert first.json()["change"] == "-5"
        assert other.status_code == 400
        assert "home" in other.json()["detail"]
        assert await home.value("stock") == "0"


async def test_a_count_corrects_a_total_once() -> None:
    """By its token."""
    async with served() as service:
        await service.record("stock", "5")
        await service.table.clock.advance(3_600)
        path, body = "/v1/counters/stock/reconciliations", {"counted": "4", "token": "count-1"}
        first, again = await service.post(path, body), await service.post(path, body)
        assert (first.status_code, again.status_code) == (201, 200)
        assert schemas.ReconciledModel(**first.json()).change == -1
        assert await service.value("stock") == "4"


async def test_totals_say_how_old_they_are() -> None:
    """A cached one has its age; of one that nobody wrote nothing is known."""
    async with served() as service:
        await service.record("stock", "5")
        fresh = schemas.TotalModel(**(await service.http.get("/v1/counters/stock")).json())
        await service.table.clock.advance(1.0)
        kept = schemas.TotalModel(
            **(await service.http.get("/v1/counters/stock", params={"max_age": 5})).json()
        )
        assert (fresh.value, fresh.cached, fresh.age) == (Decimal(5), False, 0.0)
        assert (kept.value, kept.cached, kept.age) == (Decimal(5), True, 1.0)
        many = await service.http.get("/v1/totals", params={"id": ["stock", "none"]})
        found = schemas.TotalsModel(**many.json()).totals
        assert [(total.counter, total.known) for total in found] == [
            ("stock", True),
            ("none", False),
        ]


async def test_a_counter_that_cannot_be_read_takes_nothing_from_the_others() -> None:
    """Its problem stands beside their totals, by its id; steady totals are all or none."""
    async with served() as service:
        await service.record("stock", "5")
        await service.record("amt", "1e37")
        await service.record("amt", "1e-38")
        asked = {"id": ["stock", "amt", "none"]}
        answer = await service.http.get("/v1/totals", params=asked)
        found = schemas.TotalsModel(**answer.json())
        assert answer.status_code == 200
        assert [(total.counter, total.value) for total in found.totals] == [
            ("stock", Decimal(5)),
            ("none", Decimal(0)),
        ]
        problem = found.problems["amt"]
        assert (list(found.problems), problem.status) == (["amt"], 422)
        assert "'amt'" in problem.detail
        steady = await service.http.get("/v1/totals", params=asked | {"steady": True})
        assert (steady.status_code, steady.json()["type"]) == (422, "/problems/amount-overflow")
        service.context.is_brief = True
        events = (await service.http.get("/v1/live", params=asked)).text
        assert events.count("event: total") == 2
        assert events.count("event: problem") == 1
        assert '"counter":"amt"' in events


async def test_a_total_of_a_moment() -> None:
    """What was made later is not in it."""
    async with served() as service:
        await service.record("stock", "5")
        await service.table.clock.advance(10)
        then = service.table.clock.now().isoformat()
        await service.table.clock.advance(10)
        await service.record("stock", "2")
        answer = await service.http.get("/v1/counters/stock", params={"at": then})
        assert (answer.json()["value"], answer.json()["at"]) == ("5", then)


async def test_a_history_comes_in_pages() -> None:
    """The `next` of one is the `after` of the next; the last has none."""
    async with served() as service:
        for change in range(5):
            await service.record("stock", str(change))
            await service.table.clock.advance(0.001)
        found, after = [], None
        for _ in range(3):
            asked = {"limit": 2} | ({"after": after} if after else {})
            answer = await service.http.get("/v1/counters/stock/entries", params=asked)
            page = schemas.HistoryModel(**answer.json())
            found += [entry.change for entry in page.entries]
            after = page.next
        assert found == [0, 1, 2, 3, 4]
        assert after is None


CONTROLS = "\x01" * 50_000
"""A note that JSON shows by six times as many bytes."""


async def test_a_page_of_a_history_ends_after_a_megabyte() -> None:
    """Whatever its limit is; each entry is in one page."""
    async with served() as service:
        for _ in range(10):
            await service.ledger.record("stock", 1, note=CONTROLS)
            await service.table.clock.advance(0.001)
        sizes, ids_, after = list[int](), list[str](), None
        while after is not None or not sizes:
            asked = {"limit": 1000} | ({"after": after} if after else {})
            answer = await service.http.get("/v1/counters/stock/entries", params=asked)
            page = schemas.HistoryModel(**answer.json())
            ids_ += [entry.id for entry in page.entries]
            sizes.append(len(answer.content))
            after = page.next
        assert len(ids_) == len(set(ids_)) == 10
        assert len(sizes) == 3
        assert max(sizes) < 1_500_000


class Held:
    """A call of the library that waits until it may go on, and fails then."""

    def __init__(self) -> None:
        self.may_go_on, self.entered = anyio.Event(), 0

    async def __call__(self, *_: Any, **__: Any) -> Any:
        """Wait until it may go on."""
        self.entered += 1
        await self.may_go_on.wait()
        raise StoreError("not today")


@pytest.mark.parametrize(
    ("asked", "call"),
    [
        ("/v1/counters/stock/entries", (Ledger, "history")),
        ("/v1/counters/stock/periods?by=day", (Ledger, "periods")),
        ("/v1/counters?prefix=s", (Ledger, "counters")),
        ("/v1/top?prefix=s", (Ledger, "top")),
        ("/v1/totals?id=stock", (Ledger, "totals")),
        ("/v1/totals?id=stock&steady=true", (Ledger, "totals")),
        ("/v1/budgets?id=stock", (Budget, "state")),
        ("/v1/books/stock/balances", (Book, "balances")),
        ("/v1/feed?prefix=s", (Ledger, "feed_page")),
    ],
)
async def test_a_caller_has_a_few_pages_read_at_a_time(
    monkeypatch: pytest.MonkeyPatch, asked: str, call: tuple[type, str]
) -> None:
    """The others wait within their time: each takes megabytes, or many pieces of the loop."""
    held = Held()

    async def held_stream(*_: Any, **__: Any) -> AsyncIterator[Any]:
        yield await held()

    async with served() as service, anyio.create_task_group() as tasks:
        is_stream = inspect.isasyncgenfunction(getattr(*call))
        monkeypatch.setattr(*call, held_stream if is_stream else held)
        for _ in range(3 * UNDER_WAY["page"]):
            tasks.start_soon(service.http.get, asked)
        await anyio.wait_all_tasks_blocked()
        assert held.entered == UNDER_WAY["page"]
        held.may_go_on.set()
    assert held.entered == 3 * UNDER_WAY["page"]


@pytest.mark.parametrize("path", ["/v1/entries", "/v1/retries"])
async def test_a_few_lists_of_a_caller_are_made_at_a_time(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others wait within their time, unread; then nothing of them is sent."""
    held = Held()

    async with served() as service, anyio.create_task_group() as tasks:
        made = await service.ledger.record("stock", 1, key="k", at=service.table.clock.now())
        listed = schemas.ProvedEntryModel.fields_of(made) if path == "/v1/retries" else ENTRY
        post = partial(service.post, path, {"entries": [listed]}, Prefer="wait=60")
        monkeypatch.setattr(Ledger, "record", held)
        monkeypatch.setattr(Ledger, "retry", held)
        for _ in range(3 * UNDER_WAY["list"]):
            tasks.start_soon(post)
        await anyio.wait_all_tasks_blocked()
        assert held.entered == UNDER_WAY["list"]
        late = await service.post(path, {"entries": [listed]}, Prefer="wait=1")
        assert (late.status_code, late.json()["outcome"]) == (503, "not_applied")
        assert held.entered == UNDER_WAY["list"]
        held.may_go_on.set()
    assert held.entered == 3 * UNDER_WAY["list"]


@pytest.mark.parametrize(
    ("kind", "method", "path", "body", "call"),
    [
        ("change", "POST", "/v1/counters/stock/entries", {"change": "1"}, (Ledger, "record")),
        ("change", "PATCH", "/v1/counters/stock/description", SET, (Ledger, "describe")),
        ("change", "POST", "/v1/counters/stock/reconciliations", {"counted": "1"}, COUNTED),
        ("change", "PUT", "/v1/budgets/stock", {"limit": "1"}, (Budget, "create")),
        ("change", "POST", "/v1/books/stock/transfers", {"legs": LEGS}, (Book, "transfer")),
        ("spend", "POST", "/v1/budgets/stock/spends", {"amount": "1"}, (Budgets, "spend")),
    ],
)
async def test_changes_of_a_caller_are_made_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
    kind: context.Kind,
    method: str,
    path: str,
    body: dict[str, Any],
    call: tuple[type, str],
) -> None:
    """Those that wait for one answer of the table go on together; the rest wait in their time."""
    held = Held()

    monkeypatch.setattr(*call, held)
    async with served() as service, anyio.create_task_group() as tasks:
        ask = partial(service.http.request, method, path, json=body)
        for _ in range(UNDER_WAY[kind] + 3):
            tasks.start_soon(partial(ask, headers={"Prefer": "wait=60"}))
        await anyio.wait_all_tasks_blocked()
        assert held.entered == UNDER_WAY[kind]
        late = await ask(headers={"Prefer": "wait=1"})
        assert (late.status_code, late.json()["outcome"]) == (503, "not_applied")
        held.may_go_on.set()
    assert held.entered == UNDER_WAY[kind] + 3


@pytest.mark.parametrize(
    ("kind", "path", "body"),
    [
        ("list", "/v1/entries", {"entries": [ENTRY]}),
        ("change", "/v1/counters/stock/entries", {"change": "1"}),
    ],
)
async def test_changes_of_all_callers_are_bounded_too(
    kind: context.Kind, path: str, body: dict[str, Any]
) -> None:
    """Many callers would end together as one would."""
    async with served() as service:
        slots = service.context.slots_for(kind)
        for _ in range(UNDER_WAY_IN_ALL[kind]):
            await slots.enter(NEVER)
        late = await service.post(path, body, Prefer="wait=1")
        assert (late.status_code, late.json()["outcome"]) == (503, "not_applied")
        slots.leave()
        made = await service.post(path, body, Prefer="wait=60")
        assert made.status_code != 503


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/entries?together=true", {"entries": [ENTRY]}),
        ("POST", "/v1/counters/stock/entries?dry_run=true", {"change": "1"}),
        ("GET", "/v1/session?id=stock", None),
    ],
)
async def test_a_parameter_that_has_no_meaning_is_refused(
    method: str, path: str, body: dict[str, Any] | None
) -> None:
    """Its caller means something by it."""
    async with served() as service:
        answer = await service.http.request(method, path, json=body)
        assert (answer.status_code, await service.value("stock")) == (400, "0")
        assert "extra inputs are not permitted" in answer.json()["detail"]
        assert (await service.http.get("/healthz?by=prober")).status_code == 200


async def test_changes_that_were_not_begun_are_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of a request's time there may be thousands."""

    async def held(*_: Any, timeout: float, **__: Any) -> Any:
        await anyio.sleep(timeout)
        raise NotSent("the time ended")

    monkeypatch.setattr(Ledger, "record", held)
    monkeypatch.setattr(entries, "ENTRIES_AT_ONCE", 2)
    async with served() as service:
        answer = await service.post("/v1/entries", {"entries": [ENTRY] * 100}, Prefer="wait=1")
    assert [each["status"] for each in answer.json()["results"]] == [503] * 100
    assert len(caplog.records) == 3


async def test_a_page_of_counters_ends_after_a_megabyte() -> None:
    """Their descriptions may be as long as their limit allows, and are escaped in JSON."""
    table = MemoryGlobalTable(
        ["us-east-1"], index=["*"], compactor={"fold_min": 1, "scan_every": 0}
    )
    names = [f"{number:03}" for number in range(120)]
    async with served(table) as service:
        for name in names:
            await service.ledger.record(name, 1)
            await service.ledger.describe(name, {"a": "\x01" * 1_900})
        await table.merge()
        found, sizes, after = list[str](), list[int](), None
        while after is not None or not sizes:
            asked = {"limit": 1000, "described": True} | ({"after": after} if after else {})
            answer = await service.http.get("/v1/counters", params=asked)
            page = schemas.CountersModel(**answer.json())
            found += [counter.counter for counter in page.counters]
            sizes.append(len(answer.content))
            after = page.next
        assert found == names
        assert len(sizes) == 2
        assert max(sizes) < 1_200_000


async def test_results_are_no_longer_for_the_notes_of_others() -> None:
    """Of what stands under a key already, one of many results shows the note's beginning."""
    async with served(body_max=1_000_000) as service:
        at = service.table.clock.now()
        await service.ledger.record("stock", 1, note=CONTROLS, key="k", at=at)
        change = {"counter": "stock", "change": "2", "key": "k", "at": at.isoformat()}
        answer = await service.post("/v1/entries", {"entries": [change] * 100})
        results = schemas.EntriesModel(**answer.json()).results
        assert [result.status for result in results] == [409] * 100
        assert len(answer.content) < 1_000_000
        theirs = answer.json()["results"][0]["problem"]["theirs"]
        assert (theirs["change"], theirs["note"][:3]) == ("1", CONTROLS[:3])
        alone = await service.post(
            "/v1/counters/stock/entries",
            {"change": "2"},
            idempotency_key="k",
            idempotency_time=at.isoformat(),
        )
        assert alone.json()["theirs"]["note"] == CONTROLS


@pytest.mark.parametrize("is_archived", [False, True])
async def test_a_history_tells_what_it_cannot_list(tmp_path: Path, *, is_archived: bool) -> None:
    """How many entries are merged and kept nowhere one by one, and until when they were made."""
    table = MemoryGlobalTable(
        ["us-east-1"],
        archive=(tmp_path.as_uri(),) if is_archived else (),
        compactor={"fold_min": 1, "scan_every": 0},
    )
    async with served(table) as service:
        entries = "/v1/counters/stock/entries"
        assert (await service.http.get(entries)).json()["merged"] == 0
        await service.record("stock", "1")
        last = (await service.record("stock", "2")).json()["id"]
        await table.merge()
        await service.record("stock", "3")
        page = schemas.HistoryModel(**(await service.http.get(entries)).json())
        if is_archived:
            assert (len(page.entries), page.merged, page.until) == (3, 0, None)
        else:
            assert page.merged == 2
            assert page.until is not None
            assert page.until == ids.moment_of(last)


async def test_counters_are_listed_by_prefix_in_pages() -> None:
    """From the index that merging keeps."""
    table = MemoryGlobalTable(
        ["us-east-1"], index=["shop/*"], compactor={"fold_min": 1, "scan_every": 0}
    )
    async with served(table) as service:
        for name in ("a", "b", "c"):
            await service.record(f"shop%2F{name}", "1")
        await table.merge()
        asked: dict[str, str | int | None] = {"prefix": "shop/", "limit": 2}
        first = schemas.CountersModel(
            **(await service.http.get("/v1/counters", params=asked)).json()
        )
        rest = schemas.CountersModel(
            **(await service.http.get("/v1/counters", params=asked | {"after": first.next})).json()
        )
        assert [counter.counter for counter in first.counters] == ["shop/a", "shop/b"]
        assert [counter.counter for counter in rest.counters] == ["shop/c"]
        assert rest.next is None


async def test_sums_by_day() -> None:
    """Where the table keeps them."""
    table = MemoryGlobalTable(["us-east-1"], periods={"*": {"days": 62}})
    async with served(table) as service:
        await service.record("stock", "5")
        answer = await service.http.get("/v1/counters/stock/periods", params={"by": "day"})
        found = schemas.PeriodsModel(**answer.json())
        assert [period.value for period in found.periods][-1] == 5


@pytest.mark.parametrize(("days", "status"), [(1_000, 200), (1_001, 400)])
async def test_sums_by_period_are_so_few_that_others_are_answered_meanwhile(
    days: int, status: int
) -> None:
    """Also of a counter without entries, of which every period is 0; the 400 names the rule."""
    table = MemoryGlobalTable(["us-east-1"], periods={"*": {"days": 62}})
    async with served(table) as service:
        since = table.clock.now() - timedelta(days=days - 1)
        asked = {"by": "day", "since": since.isoformat()}
        answer = await service.http.get("/v1/counters/none/periods", params=asked)
        assert answer.status_code == status
        if status == 200:
            assert len(answer.json()["periods"]) == days
        else:
            assert "at most 1,000 periods" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/counters/stock?max_age=-1", 400),
        ("GET", "/v1/counters/stock?max_age=soon", 400),
        ("GET", "/v1/counters/stock?colour=red", 400),
        ("GET", "/v1/counters/stock?at=soon", 400),
        ("GET", "/v1/counters/%00", 400),
        ("GET", "/v1/counters/%FF", 400),
        ("GET", "/v1/counters/%zz", 400),
        ("GET", "/v1/totals", 400),
        ("GET", "/v1/counters/stock/entries?limit=0", 400),
        ("GET", "/v1/counters/stock/periods", 400),
        ("GET", "/v1/counters/stock/periods?by=week", 400),
        ("GET", "/v1/counters?prefix=none", 409),
        ("GET", "/nothing", 404),
        ("GET", "/problems/none", 404),
        ("DELETE", "/v1/counters/stock", 405),
    ],
)
async def test_a_request_that_breaks_a_rule_is_a_problem(
    method: str, path: str, status: int
) -> None:
    """Of the form of RFC 9457, whoever found it."""
    async with served() as service:
        answer = await service.http.request(method, path)
        assert (answer.status_code, answer.headers["content-type"]) == (
            status,
            "application/problem+json",
        )
        assert schemas.ProblemModel(**answer.json()).status == status


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": JSON, "content-encoding": "gzip"},
        {"content-type": ""},
        {"content-type": f"{JSON}; charset=utf-16"},
        {"content-type": f'{JSON};a=b; Charset="latin-1"'},
    ],
)
async def test_a_body_of_another_type_is_a_415(headers: dict[str, str]) -> None:
    """So no form of another site can write."""
    async with served() as service:
        answer = await service.http.post(
            "/v1/counters/stock/entries", content=b'{"change": "1"}', headers=headers
        )
        assert answer.status_code == 415
        assert headers.get("content-encoding", "") in answer.json()["detail"]
        assert await service.value("stock") == "0"


@pytest.mark.parametrize("said", ["; charset=utf-8", ';charset="UTF-8"', "; a=b"])
async def test_a_body_may_be_said_to_be_utf8(said: str) -> None:
    """As JSON always is."""
    async with served() as service:
        answer = await service.http.post(
            "/v1/counters/stock/entries",
            content=b'{"change": "1"}',
            headers={"content-type": JSON + said},
        )
        assert answer.status_code == 201


def not_ready(answer: httpx.Response) -> str:
    """Return why an instance says that it takes no requests."""
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["type"] == "/problems/not-ready"
    detail: str = answer.json()["detail"]
    return detail


async def test_the_openapi_document_is_made_once_and_never_on_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes a second of a processor, and anybody may ask for it."""
    threads = list[Thread]()

    def noted(document: dict[str, Any]) -> dict[str, Any]:
        threads.append(current_thread())
        return add_models(document)

    monkeypatch.setattr(app, "add_models", noted)
    async with served() as service:
        for _ in range(2):
            answer = await service.http.get("/openapi.json")
            assert (answer.status_code, answer.json()["info"]["title"]) == (200, "Ledger")
    assert len(threads) == 1
    assert main_thread() not in threads


async def test_a_table_that_does_not_answer_is_a_503_and_not_ready() -> None:
    """The health of the process is another matter."""
    async with served() as service:

        async def unreachable(*_: Any, **__: Any) -> Any:
            raise Unreachable("no connection")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service.ledger, "total", unreachable)
            assert (await service.http.get("/v1/counters/stock")).status_code == 503
            ready = await service.http.get("/readyz")
            assert not_ready(ready) == "the table does not answer"
            assert (await service.http.get("/healthz")).status_code == 200
        assert (await service.http.get("/readyz")).status_code == 200


async def test_why_an_instance_is_not_ready_is_in_its_log(caplog: pytest.LogCaptureFixture) -> None:
    """Anybody may ask: what AWS says, with accounts and tables, is for the operator alone."""
    async with served() as service:

        async def denied(*_: Any, **__: Any) -> Any:
            raise AccessDenied("no access to arn:aws:dynamodb:us-east-1:111122223333:table/ledger")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service.ledger, "total", denied)
            ready = await service.http.get("/readyz")
    assert not_ready(ready) == "the table does not answer"
    (record,) = (one for one in caplog.records if "arn:aws" in one.message)
    assert vars(record)["request"] == ready.headers["x-request-id"]


SAID = (
    "user arn:aws:sts::111122223333:x may not, at https://dynamodb.eu-west-1.example, table ledger"
)
OF_AWS: list[LedgerError] = [
    *[kind(SAID) for kind in (Unreachable, Throttled, AccessDenied, TableMissing, ContractStale)],
    *[kind(SAID) for kind in (StoreError, ContractMissing, ContractConflict, NotSent, LedgerError)],
    ArchiveError(SAID, reason="denied"),
    OutcomeUnknown(SAID, entries=[]),
    OutcomeUnknown(SAID, entries=[], retryable=True),
]


@pytest.mark.parametrize("error", OF_AWS, ids=lambda error: type(error).__name__)
async def test_what_aws_said_is_in_the_log_and_in_no_answer(
    caplog: pytest.LogCaptureFixture, error: LedgerError
) -> None:
    """By any way that an answer shows an error; the log has it under the request's id."""
    async with served() as service:

        async def failing(*_: Any, **__: Any) -> Any:
            raise error

        with pytest.MonkeyPatch.context() as patch:
            for name in ("record", "total", "totals", "reconcile", "top"):
                patch.setattr(service.ledger, name, failing)
            one = {"counter": "a", "change": "1"}
            answers = [
                await service.record("a", "1"),
                await service.post("/v1/entries", {"entries": [one]}),
                await service.post("/v1/counters/a/reconciliations", {"counted": "1"}),
                await service.http.get("/v1/counters/a"),
                await service.http.get("/v1/totals?id=a&id=b"),
                await service.http.get("/v1/top"),
                await service.http.get("/readyz"),
            ]
    for answer in answers:
        told = f"{answer.text} {answer.headers}"
        assert not [part for part in ("arn", "1111", "https", "table ledger") if part in told]
        assert answer.headers["x-request-id"] in {
            vars(record).get("request") for record in caplog.records if SAID in record.message
        }


async def test_a_throttled_request_is_told_nothing_of_others() -> None:
    """Requests share requests to the table: whose counters are hot is not a caller's to know."""
    error = Throttled("a partition is at its limit")
    error.counters = ("of-another",)
    async with served() as service:

        async def throttled(*_: Any, **__: Any) -> Any:
            raise error

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service.ledger, "record", throttled)
            answer = await service.record("a", "1")
    assert answer.json()["counters"] == []


async def test_a_count_without_a_name_is_repeated_by_the_one_that_its_problem_gives() -> None:
    """Its caller has no other to name it by."""
    async with served() as service:

        async def unanswered(*_: Any, **__: Any) -> Any:
            raise OutcomeUnknown("no answer", entries=[], retryable=True)

        path = "/v1/counters/stock/reconciliations"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service.ledger, "reconcile", unanswered)
            answer = await service.post(path, {"counted": "5"})
        token = answer.headers["x-request-id"]
        assert f"`token` {token!r}" in answer.json()["detail"]
        for status in (201, 200):
            again = await service.post(path, {"counted": "5", "token": token})
            assert again.status_code == status
        assert await service.value("stock") == "5"


async def test_an_instance_whose_tokens_cannot_be_read_is_not_ready() -> None:
    """Its load balancer sends it nothing: a token of what it has read may be revoked."""

    class Stale(OpenAccess):
        def is_stale(self) -> bool:
            return True

    async with served(access=Stale()) as service:
        ready = await service.http.get("/readyz")
    assert not_ready(ready) == "the tokens cannot be read"


async def test_a_defect_is_a_500_that_says_nothing_of_its_cause() -> None:
    """The log has the request's id; with a key it may be repeated."""
    async with served() as service:

        async def broken(*_: Any, **__: Any) -> Any:
            raise RuntimeError("a secret of the process")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service.ledger, "record", broken)
            answer = await service.record("stock", "1")
        assert answer.status_code == 500
        assert "secret" not in answer.text
        assert answer.json()["outcome"] == "unknown"
        assert service.seen[-1].id in answer.json()["detail"]


async def test_totals_come_as_events_when_they_change() -> None:
    """One of each at first; the stream ends when the instance leaves."""
    async with served() as service:
        await service.record("stock", "5")
        service.context.leave()  # one look, since the stream ends with the next pause
        answer = await service.http.get("/v1/live", params={"id": ["stock"]})
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.text.startswith("retry: 1000\n\n")


async def test_the_schemas_of_the_document_are_all_there() -> None:
    """Each reference leads to a schema."""
    async with served() as service:
        document = (await service.http.get("/openapi.json")).text
        schemas_there = (await service.http.get("/openapi.json")).json()["components"]["schemas"]
        named = {part.split('"')[0] for part in document.split("#/components/schemas/")[1:]}
        assert named <= set(schemas_there)
        assert "HTTPValidationError" not in named


async def test_proofs_of_many_requests_are_checked_one_portion_in_a_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And within the time of their request: nothing is sent of one whose time is over."""
    rounds = list[int]()
    number = 0

    def endless(_entries: Any) -> Iterator[None]:
        while True:
            rounds.append(number)
            yield

    async def count_rounds() -> None:
        nonlocal number
        while True:
            await anyio.lowlevel.checkpoint()
            number += 1

    monkeypatch.setattr(entries, "_all_proved", endless)
    entry = {"counter": "a", "id": "2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887", "change": "1"}
    answers = list[httpx.Response]()
    async with served() as service, anyio.create_task_group() as tasks:
        tasks.start_soon(count_rounds)

        async def ask() -> None:
            body = {"entries": [{**entry, "key": "k"}]}
            answers.append(await service.post("/v1/retries", body, prefer="wait=1"))

        async with anyio.create_task_group() as asking:
            for _ in range(3):
                asking.start_soon(ask)
        tasks.cancel_scope.cancel()
    assert [answer.json()["type"] for answer in answers] == ["/problems/not-sent"] * 3
    assert max(Counter(rounds).values()) == 1

"""Budgets over HTTP: what is granted, refused, repeated and kept aside, and by whom."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from proof.simulator.loop import run
from support.serving import AWAY, HOME, Served, served

from ledger.budgets.budget import Budget, Budgets, Hold
from ledger.budgets.spend_request import Refused, SpendRequest
from ledger.core.errors import OutcomeUnknown, StateConflict
from ledger.http.service.access.access import Access, OpenAccess
from ledger.http.service.access.tokens import Scope, TokenGrant
from ledger.http.wire import schemas
from ledger.session.ledger import budget_parts
from ledger.testing import MemoryGlobalTable

SPENDS = "/v1/budgets/key%2F42/spends"
HOLDS = "/v1/budgets/key%2F42/holds"
KEY = {"Idempotency_Key": "call-17"}


class OneGrant(OpenAccess):
    """Lets everybody in with the same grant."""

    def __init__(self, *scopes: Scope, prefixes: tuple[str, ...] = ("",)) -> None:
        self._grant = TokenGrant("caller", frozenset(scopes), prefixes)

    def grant(self, authorization: str | None) -> TokenGrant:
        """Return it."""
        del authorization
        return self._grant


def limited(**settings: Any) -> MemoryGlobalTable:
    """Return a table of two regions whose counters may have budgets."""
    return MemoryGlobalTable([HOME, AWAY], budgets={"key/*": {}, "team/*": {}}, **settings)


@asynccontextmanager
async def spending(limit: str = "10", **options: Any) -> AsyncIterator[Served]:
    """Run the service at home, with a budget `key/42` of this limit."""
    async with served(limited(), **options) as service:
        made = await put(service, "key%2F42", limit)
        assert made.status_code == 201, made.text
        yield service


async def put(service: Served, counter: str, limit: str) -> httpx.Response:
    """Give a counter its limit."""
    return await service.http.put(f"/v1/budgets/{counter}", json={"limit": limit})


def now(service: Served) -> dict[str, str]:
    """Return the headers of a key whose time is now."""
    return {**KEY, "Idempotency_Time": service.table.clock.now().isoformat()}


async def test_a_limit_that_is_given_by_an_id_is_given_once() -> None:
    """201, then 200 whatever the limit is by then; another id is a 409, and nothing is a limit."""
    async with served(limited()) as service:
        path, first = "/v1/budgets/key%2F42", {"limit": "10", "id": "delivery-1"}
        made = [(await service.http.put(path, json=first)).status_code for _ in range(2)]
        async with service.table.table(HOME) as table:
            await table.budget("key/42").raise_limit(5, id="delivery-2")
        made.append((await service.http.put(path, json=first)).status_code)
        other = await service.http.put(path, json={"limit": "15", "id": "delivery-3"})
        assert [*made, other.status_code] == [201, 200, 200, 409]
        assert (await service.http.get(path)).json()["limit"] == "15"
        assert (await put(service, "key%2Fempty", "0")).status_code == 201


async def test_a_budget_is_spent_once_by_its_key_and_refuses_the_rest() -> None:
    """201, then 200 with the same entry; what is too much is a 409 that says what is left."""
    async with spending() as service:
        named = now(service)
        first = await service.post(SPENDS, {"amount": "6.50", "note": "call"}, **named)
        again = await service.post(SPENDS, {"amount": "6.5", "note": "call"}, **named)
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json() == again.json()
        entry = schemas.EntryModel(**first.json())
        assert (entry.counter, entry.change, entry.note) == ("key/42", Decimal("-6.5"), "call")
        assert entry.spending is not None
        assert (len(entry.spending.grants), entry.spending.hold) == (1, None)
        refused = await service.post(SPENDS, {"amount": "4"})
        assert refused.status_code == 409
        problem = refused.json()
        assert problem["type"] == "/problems/budget-exceeded"
        assert {name: problem[name] for name in ("budget", "wanted", "here", "crowded")} == {
            "budget": "key/42",
            "wanted": "4",
            "here": "3.5",
            "crowded": False,
        }
        assert (problem["outcome"], problem["retryable"]) == ("not_applied", False)
        assert problem["title"] in (await service.http.get(problem["type"])).text
        assert await service.value("key%2F42") == "-6.5"


async def test_a_budget_is_credited_once_by_its_key() -> None:
    """201, then 200 with the same entry; `spendable` once every region shows it."""
    credits_, rules = "/v1/budgets/stock%2F7/credits", {"stock/*": {"credits": "on"}, "key/*": {}}
    async with served(MemoryGlobalTable([HOME, AWAY], budgets=rules)) as service:
        assert (await put(service, "stock%2F7", "0")).status_code == 201
        named = now(service)
        first = await service.post(credits_, {"amount": "6.50", "note": "delivery"}, **named)
        again = await service.post(credits_, {"amount": "6.5", "note": "delivery"}, **named)
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json() == again.json()
        assert (first.json()["change"], first.json()["spendable"]) == ("6.5", False)
        state = (await service.http.get("/v1/budgets/stock%2F7")).json()
        assert (state["waiting"], state["free"]) == ("6.5", "0")
        service.table.replicate()
        await service.table.pass_time(5)
        in_body = {"key": KEY["Idempotency_Key"], "at": named["Idempotency_Time"]}
        later = await service.post(credits_, {"amount": "6.5", "note": "delivery", **in_body})
        assert (later.status_code, later.json()["spendable"]) == (200, True)
        spent = await service.post("/v1/budgets/stock%2F7/spends", {"amount": "6.5"})
        assert spent.status_code == 201
        other = await service.post(credits_, {"amount": "7", "note": "delivery"}, **named)
        assert (other.status_code, other.json()["type"]) == (409, "/problems/key-conflict")
        assert (await put(service, "key%2F42", "1")).status_code == 201
        without = await service.post("/v1/budgets/key%2F42/credits", {"amount": "1"})
        assert without.status_code == 400
        assert "credits:on" in without.json()["detail"]
        nothing = await service.post(credits_, {"amount": "0"})
        assert "hold or credit must be above 0" in nothing.json()["detail"]
        reader = OneGrant("read")
    async with served(MemoryGlobalTable([HOME], budgets=rules), access=reader) as service:
        assert (await service.post(credits_, {"amount": "1"})).status_code == 403


async def test_a_credit_whose_outcome_is_unknown_is_repeated_by_its_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a key a repeat would be another credit."""
    async with spending() as service:

        async def lost(*_: Any, **__: Any) -> None:
            raise OutcomeUnknown("no answer: Ledger.retry is safe", entries=[], retryable=True)

        monkeypatch.setattr(budget_parts(service.ledger).creditor, "credit", lost)
        for named, is_safe in ((now(service), True), ({}, False)):
            answer = await service.post(
                "/v1/budgets/key%2F42/credits", {"amount": "1", "wait": 1}, **named
            )
            problem = answer.json()
            assert (answer.status_code, problem["retryable"]) == (503, is_safe)
            assert "credit" in problem["detail"]
            assert "retries" not in problem["detail"]


async def test_a_key_for_another_amount_is_a_conflict() -> None:
    """In headers or in the body, where it is the same key."""
    async with spending() as service:
        named = now(service)
        in_body = {"key": KEY["Idempotency_Key"], "at": named["Idempotency_Time"]}
        assert (await service.post(SPENDS, {"amount": "2"}, **named)).status_code == 201
        assert (await service.post(SPENDS, {"amount": "2", **in_body})).status_code == 200
        other = await service.post(SPENDS, {"amount": "3", **in_body})
        assert (other.status_code, other.json()["type"]) == (409, "/problems/key-conflict")
        for one in (in_body, {"key": in_body["key"]}, {"at": in_body["at"]}):
            both = await service.post(SPENDS, {"amount": "2", **one}, **named)
            assert (both.status_code, "send one" in both.json()["detail"]) == (400, True)
        assert await service.value("key%2F42") == "-2"


async def test_wider_budgets_are_spent_from_too_or_none() -> None:
    """The problem names the one that has too little."""
    async with spending() as service:
        assert (await put(service, "team%2F7", "5")).status_code == 201
        body = {"amount": "4", "also": ["team/7"]}
        granted = await service.post(SPENDS, body)
        assert (granted.status_code, len(granted.json()["spending"]["grants"])) == (201, 2)
        refused = await service.post(SPENDS, body)
        assert (refused.status_code, refused.json()["budget"]) == (409, "team/7")
        assert await service.value("key%2F42") == "-4"


async def test_a_hold_is_settled_once_and_gives_back_the_rest() -> None:
    """By its counter and its id, in any region, before its entry has arrived there, too."""
    table = limited()
    async with served(table) as home, served(table, region=AWAY) as away:
        await put(home, "key%2F42", "10")
        made = await home.post(HOLDS, {"amount": "8", "expires": 600})
        assert made.status_code == 201
        held = schemas.EntryModel(**made.json())
        assert made.json()["spending"]["hold"] == "2026-11-21T07:00:00+00:00"
        assert (await home.post(SPENDS, {"amount": "3"})).status_code == 409
        path = f"/v1/holds/{held.id.replace('#', '%23')}/settle"
        body = {"counter": "key/42", "actual": "2.25"}
        early = await away.post(path, body)
        assert (early.status_code, early.json()["type"]) == (409, "/problems/state-conflict")
        for status in (201, 200):
            settled = await away.post(path, body | {"region": HOME})
            assert (settled.status_code, settled.json()["change"]) == (status, "-2.25")
            assert settled.json()["spending"]["resolved"] == "settled"
        other = await home.post(path, body | {"actual": "3"})
        assert (other.status_code, "resolved before" in other.json()["detail"]) == (409, True)
        nowhere = await home.post(path, body | {"region": "mars"})
        assert (nowhere.status_code, "mars" in nowhere.json()["detail"]) == (400, True)


async def test_a_hold_is_extended_and_voided() -> None:
    """All of it is free again."""
    async with spending() as service:
        made = (await service.post(HOLDS, {"amount": "8", "expires": 600})).json()
        path = f"/v1/holds/{made['id'].replace('#', '%23')}"
        until = "2026-11-21T09:00:00+00:00"
        body = {"counter": "key/42"}
        extended = await service.post(f"{path}/extend", {**body, "expires": until})
        assert (extended.status_code, extended.json()["spending"]["hold"]) == (200, until)
        voided = await service.post(f"{path}/void", body)
        assert (voided.status_code, voided.json()["spending"]["resolved"]) == (201, "void")
        assert (await service.post(SPENDS, {"amount": "10"})).status_code == 201


async def test_a_hold_that_came_to_more_than_there_is_is_refused() -> None:
    """Unless it is charged all the same."""
    async with spending() as service:
        made = (await service.post(HOLDS, {"amount": "8", "expires": 600})).json()
        path = f"/v1/holds/{made['id'].replace('#', '%23')}/settle"
        body = {"counter": "key/42", "actual": "12"}
        refused = await service.post(path, body)
        assert (refused.status_code, refused.json()["type"]) == (409, "/problems/budget-exceeded")
        assert (await service.post(path, {**body, "over": True})).status_code == 201
        assert await service.value("key%2F42") == "-12"


async def test_a_limit_is_made_once() -> None:
    """200 for the same, 409 for another, 404 where the contract has no pattern."""
    async with spending() as service:
        assert (await put(service, "key%2F42", "10.0")).status_code == 200
        other = await put(service, "key%2F42", "11")
        assert (other.status_code, "a limit of 10 already" in other.json()["detail"]) == (409, True)
        for missing in (
            await put(service, "stock", "1"),
            await service.http.get("/v1/budgets/key%2F43"),
            await service.post("/v1/budgets/key%2F43/spends", {"amount": "1"}),
        ):
            assert (missing.status_code, missing.json()["type"]) == (
                404,
                "/problems/budget-missing",
            )


async def test_the_state_says_where_the_amount_is() -> None:
    """By region and open grant; each part is what the schema says."""
    async with spending("100") as service:
        await service.post(SPENDS, {"amount": "1"})
        answer = await service.http.get("/v1/budgets/key%2F42")
        shown = schemas.BudgetModel(**answer.json())
        assert (shown.limit, shown.target, shown.charged) == (
            Decimal(100),
            Decimal(100),
            Decimal(0),
        )
        assert [(region.region, region.granted) for region in shown.regions] == [
            (HOME, shown.granted)
        ]
        assert [grant.amount for grant in shown.grants] == [shown.granted]


@pytest.mark.parametrize(
    ("wait", "prefer", "waited"),
    [(None, None, 0), (5, None, 5), (None, 10, 9), (5, 10, 5), (60, 10, 9), (0, 10, 0)],
)
def test_rights_are_waited_for_within_the_requests_time(
    wait: float | None,
    prefer: int | None,
    waited: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By `wait`, or else `Prefer: wait=N`, of which a part is kept for the answer."""
    seen = []

    async def refuse(asked: SpendRequest, *, end: float) -> Refused:
        del end
        seen.append(asked.wait)
        return Refused("key/42", Decimal(2), Decimal(1), Decimal(0))

    async def main() -> None:
        async with spending() as service:
            monkeypatch.setattr(budget_parts(service.ledger).spender, "spend", refuse)
            body = {"amount": "2"} | ({} if wait is None else {"wait": wait})
            headers = {} if prefer is None else {"Prefer": f"wait={prefer}"}
            for path, more in ((SPENDS, {}), (HOLDS, {"expires": 60})):
                answer = await service.post(path, {**body, **more}, **headers)
                assert (answer.status_code, seen.pop()) == (409, waited)

    run(main)


AT = "2026-11-21T06:50:00+00:00"
OF_HOLD = {"counter": "key/42"}
WEIGHTS = {HOME: 2, AWAY: 1}


@pytest.mark.parametrize(
    ("method", "path", "body", "called", "passed"),
    [
        ("POST", SPENDS, {"amount": "1", "note": "call"}, (Budgets, "spend"), {"note": "call"}),
        (
            "POST",
            HOLDS,
            {"amount": "1", "note": "call", "expires": 60},
            (Budgets, "hold"),
            {"note": "call", "expires": 60},
        ),
        (
            "POST",
            "/v1/holds/{}/settle",
            {**OF_HOLD, "actual": "1", "over": True},
            (Hold, "settle"),
            {"over": True},
        ),
        ("POST", "/v1/holds/{}/void", OF_HOLD, (Hold, "void"), {}),
        ("POST", "/v1/holds/{}/extend", {**OF_HOLD, "expires": 90}, (Hold, "extend"), {}),
        (
            "PUT",
            "/v1/budgets/key%2F42",
            {"limit": "10", "weights": WEIGHTS, "id": "order-1"},
            (Budget, "create"),
            {"weights": WEIGHTS, "id": "order-1"},
        ),
        (
            "GET",
            f"/v1/budgets/key%2F42?at={quote(AT)}",
            None,
            (Budget, "state"),
            {"at": datetime.fromisoformat(AT)},
        ),
        (
            "GET",
            f"/v1/budgets?id=key%2F42&at={quote(AT)}",
            None,
            (Budget, "state"),
            {"at": datetime.fromisoformat(AT)},
        ),
    ],
    ids=lambda one: one[1] if isinstance(one, tuple) else "",
)
async def test_what_a_request_asks_for_reaches_the_library(
    method: str,
    path: str,
    body: dict[str, Any] | None,
    called: tuple[type, str],
    passed: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the time that it may take, of `Prefer: wait=N`."""
    seen: list[dict[str, Any]] = []

    async def refuse(*_: object, **given: Any) -> None:
        seen.append(given)
        raise StateConflict("it was called")

    async with spending() as service:
        held = (await service.post(HOLDS, {"amount": "1", "expires": 60})).json()
        monkeypatch.setattr(*called, refuse)
        answer = await service.http.request(
            method,
            path.format(held["id"].replace("#", "%23")),
            json=body,
            headers={"Prefer": "wait=7"},
        )
    assert (answer.status_code, answer.json()["detail"]) == (409, "it was called")
    [given] = seen
    assert {name: given[name] for name in passed} == passed
    assert 0 < (given["timeout"] or 7) <= 7  # a page ends from outside (`test_wait`)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"amount": 4}, "an amount must be a string"),
        ({"amount": "-4"}, "above 0"),
        ({"amount": "4", "also": ["key/42"]}, "different counters"),
        ({"amount": "4", "wait": 61}, "wait"),
        ({"amount": "4", "limit": "1"}, "limit"),
    ],
)
async def test_a_spend_that_breaks_a_rule_is_a_400(body: dict[str, Any], said: str) -> None:
    """Nothing is spent."""
    async with spending() as service:
        answer = await service.post(SPENDS, body)
        assert answer.status_code == 400, answer.text
        assert said in answer.json()["detail"]
        assert await service.value("key%2F42") == "0"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/holds/{}/extend", {**OF_HOLD, "expires": 0}),
        ("POST", "/v1/holds/{}/extend", {**OF_HOLD, "expires": -0.0}),
        ("POST", "/v1/holds/{}/settle", {**OF_HOLD, "actual": "-1"}),
        ("POST", SPENDS, {"amount": "0"}),
        ("PUT", "/v1/budgets/none%2Fx", {"limit": "-1"}),
        ("PUT", "/v1/budgets/none%2Fx", {"limit": "1", "id": "é" * 26}),
    ],
)
async def test_the_form_of_a_value_is_judged_before_any_state(
    method: str, path: str, body: dict[str, Any]
) -> None:
    """Whether there is such a hold or budget, or none."""
    async with spending() as service:
        named = path.format("2026-11-21T06:50:01.123456Z%234f1d2c3b5a697887")
        answer = await service.http.request(method, named, json=body)
        assert answer.status_code == 400, answer.text


@pytest.mark.parametrize("expires", [0, -1, True, None, "soon", "2020-01-01T00:00:00Z", 1e300])
async def test_a_hold_expires_in_the_future(expires: object) -> None:
    """By seconds or an aware time."""
    async with spending() as service:
        answer = await service.post(HOLDS, {"amount": "1", "expires": expires})
        assert (answer.status_code, "expires" in answer.json()["detail"]) == (400, True)


@pytest.mark.parametrize(
    ("access", "method", "path", "body", "lack"),
    [
        (OneGrant("read"), "POST", SPENDS, {"amount": "1"}, "scope 'write'"),
        (OneGrant("read"), "POST", HOLDS, {"amount": "1", "expires": 9}, "scope 'write'"),
        (OneGrant("write", "read"), "PUT", "/v1/budgets/key", {"limit": "1"}, "scope 'admin'"),
        (OneGrant("write"), "GET", "/v1/budgets/key", None, "scope 'read'"),
        (
            OneGrant("write", prefixes=("key/",)),
            "POST",
            SPENDS,
            {"amount": "1", "also": ["team/7"]},
            "'team/7'",
        ),
        (
            OneGrant("write", prefixes=("key/",)),
            "POST",
            "/v1/holds/x/void",
            {"counter": "team/7"},
            "'team/7'",
        ),
    ],
)
async def test_a_token_needs_the_scope_and_each_counters_prefix(
    access: Access, method: str, path: str, body: dict[str, Any] | None, lack: str
) -> None:
    """Else it is a 403, and nothing was asked of the table."""
    async with served(limited(), access=access) as service:
        answer = await service.http.request(method, path, json=body)
        assert (answer.status_code, lack in answer.json()["detail"]) == (403, True)


@pytest.mark.parametrize(
    ("what", "more"), [("settle", {"actual": "1"}), ("void", {}), ("extend", {"expires": 900})]
)
async def test_a_token_needs_the_prefix_of_each_budget_of_a_hold(
    what: str, more: dict[str, Any]
) -> None:
    """Not only of the one that its entry is in."""
    table, access = limited(), OneGrant("write", prefixes=("key/",))
    async with served(table) as anyone, served(table, access=access) as one:
        await put(anyone, "key%2F42", "10")
        await put(anyone, "team%2F7", "10")
        made = await anyone.post(HOLDS, {"amount": "2", "expires": 600, "also": ["team/7"]})
        path = f"/v1/holds/{made.json()['id'].replace('#', '%23')}/{what}"
        refused = await one.post(path, {"counter": "key/42", **more})
        assert (refused.status_code, "'team/7'" in refused.json()["detail"]) == (403, True)
        assert (await anyone.post(path, {"counter": "key/42", **more})).status_code in {200, 201}


async def test_a_spend_whose_outcome_is_unknown_is_repeated_by_its_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No entry is sent to /v1/retries: only the same request knows until when it may be made."""
    async with spending() as service:
        spender = budget_parts(service.ledger).spender

        async def lost(*_: Any, **__: Any) -> None:
            raise OutcomeUnknown("no answer: Ledger.retry is safe", entries=[], retryable=True)

        monkeypatch.setattr(spender, "spend", lost)
        for named, is_safe in ((now(service), True), ({}, False)):
            for path, body in ((SPENDS, {}), (HOLDS, {"expires": 60})):
                answer = await service.post(path, {"amount": "1", **body}, **named)
                problem = answer.json()
                assert (answer.status_code, problem["retryable"]) == (503, is_safe)
                assert problem["outcome"] == "unknown"
                assert "retries" not in problem["detail"]


@pytest.mark.parametrize("id_", ["a", "a" * 1_025, "~net%230", "~x", "%00", "é%23"])
@pytest.mark.parametrize(
    ("what", "more"),
    [
        ("holds/{}/settle", {"actual": "1"}),
        ("holds/{}/void", {}),
        ("holds/{}/extend", {"expires": 900}),
        ("entries/{}/reverse", {}),
    ],
)
async def test_an_id_that_no_entry_has_is_refused(
    id_: str, what: str, more: dict[str, Any]
) -> None:
    """Before DynamoDB is asked, which would refuse a long one."""
    async with spending() as service:
        path = f"/v1/{what.format(id_)}"
        answer = await service.post(path, {"counter": "key/42", **more})
        assert (answer.status_code, answer.json()["type"]) == (400, "/problems/invalid-entry")
        assert len(answer.content) < 1_000


async def test_an_entry_that_was_spent_is_not_retried() -> None:
    """It is refused, since nobody knows until when its grant may be named."""
    async with spending() as service:
        entry = (await service.post(SPENDS, {"amount": "1"}, **now(service))).json()
        answer = await service.post("/v1/retries", {"entries": [entry | {"key": "k"}]})
        assert (answer.status_code, "spending" in answer.json()["detail"]) == (400, True)


async def test_many_budgets_are_shown_beside_what_is_none() -> None:
    """In the order asked, each once; what has no limit, or cannot have one, is named with why."""
    async with spending("10") as service:
        await put(service, "team%2F7", "100")
        await service.post(SPENDS, {"amount": "4"})
        asked = ["team/7", "key/42", "key/none", "other", "key/42"]
        answer = await service.http.get("/v1/budgets", params=[("id", one) for one in asked])
        schemas.BudgetsModel.model_validate(answer.json())
        found = answer.json()
        assert [one["budget"] for one in found["budgets"]] == ["team/7", "key/42"]
        assert found["budgets"][1] == (await service.http.get("/v1/budgets/key%2F42")).json()
        assert {name: one["status"] for name, one in found["problems"].items()} == {
            "key/none": 404,
            "other": 404,
        }


async def test_many_budgets_are_shown_to_who_may_read_each() -> None:
    """A prefix that does not cover one is a refusal of all, and names it."""
    access = OneGrant("read", prefixes=("key/",))
    async with served(limited(), access=access) as service:
        answer = await service.http.get("/v1/budgets", params=[("id", "key/1"), ("id", "team/7")])
        assert answer.status_code == 403
        assert "team/7" in answer.json()["detail"]

"""How long a request may take, on virtual time: one end covers all that it does."""

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from fastapi import Request
from proof.simulator.loop import run
from starlette.types import Receive, Scope, Send
from support.ledgers import HOME, make_settings, seeded
from support.serving import SERVICE, Served, served
from support.silent import SilentStore

from ledger.core.contract_item import Contract, contract_item
from ledger.core.errors import ReadTooSlow
from ledger.core.ids import sort_key, suffix_of
from ledger.http.service.access.tokens import TokenGrant
from ledger.http.service.context import ARRIVED, GRANT_NOW, PAGES_AT_ONCE, UNDER_WAY_IN_ALL
from ledger.http.service.wait import FLEET_SECONDS_MAX, read_page, read_until
from ledger.reads.reader import READ_SECONDS_MIN
from ledger.runtime.call_deadlines import LATE_AT_ONCE
from ledger.runtime.services import Services
from ledger.runtime.tasks import Turns
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.store.writes import Put
from ledger.testing import MemoryGlobalTable
from ledger.testing.clock import ManualClock

TOTAL = "/v1/counters/c"
READS = [
    TOTAL,
    f"{TOTAL}?steady=true",
    f"{TOTAL}/entries",
    f"{TOTAL}/description",
    "/v1/totals?id=a&id=b",
    "/v1/counters",
    "/v1/top",
    "/v1/feed",
    "/v1/feed?wait=60",
    "/v1/budgets/b",
    "/v1/budgets?id=a&id=b",
]


def answered(
    path: str,
    *,
    prefer: str | None = None,
    method: str = "GET",
    body: Any = None,
    turn_after: float = 0.0,
) -> tuple[int, float]:
    """Return status and seconds of a request while the table gives no answer, contract included.

    Its turn comes some seconds after it has come.
    """

    async def main() -> tuple[int, float]:
        store, clock = SilentStore(), ManualClock()
        settings = make_settings(index=("*",), budgets={"*": {}})
        await store.write(Put(contract_item(Contract(terms=settings.terms))))
        ledger = Ledger(
            settings,
            region=HOME,
            given=GivenConnections(store=store, contract=True),
            services=Services.of(clock=clock, randomness=seeded()),
        )
        async with served(ledger=ledger) as service:
            clock.pass_by(61.0)
            store.is_silent = True
            began = anyio.current_time()

            async def in_turn(scope: Scope, receive: Receive, send: Send) -> None:
                await anyio.sleep(turn_after)
                await service.app({**scope, "state": {ARRIVED: began}}, receive, send)

            headers = {} if prefer is None else {"prefer": prefer}
            transport = httpx.ASGITransport(in_turn, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=SERVICE) as http:
                answer = await http.request(method, path, json=body, headers=headers)
            seconds = anyio.current_time() - began
            store.is_silent = False
            return answer.status_code, seconds

    return run(main)


@pytest.mark.parametrize("path", READS)
def test_a_read_ends_when_its_caller_prefers(path: str) -> None:
    """However many parts it has: the contract, pages, counters."""
    assert answered(path, prefer="wait=3") == (504, 3.0)


@pytest.mark.parametrize("path", [TOTAL, "/v1/totals?id=a&id=b", "/v1/budgets?id=a&id=b"])
def test_a_read_of_totals_ends_in_the_time_that_is_promised(path: str) -> None:
    """With what the contract took."""
    assert answered(path) == (504, READ_SECONDS_MIN)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{TOTAL}/entries", {"change": "1"}),
        (f"{TOTAL}/reconciliations", {"counted": "1"}),
        ("/v1/budgets/b/spends", {"amount": "1"}),
    ],
)
def test_a_change_ends_in_the_time_that_is_promised(path: str, body: dict[str, str]) -> None:
    """With what the contract took: nothing was sent."""
    found = answered(path, method="POST", body=body)
    assert found == (503, make_settings().write_deadline)


@pytest.mark.parametrize("path", ["/v1/fleet", "/v1/fleet/probe"])
def test_a_look_at_the_fleet_goes_on_when_its_caller_waits_no_longer(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """It is shared by all who ask; the next request has what it found."""

    async def asked(service: Served, method: str, path: str, wait: int) -> httpx.Response:
        return await service.http.request(method, path, headers={"prefer": f"wait={wait}"})

    async def main() -> None:
        async with served() as service:
            fleet, looks = service.context.fleet, list[float]()
            method = "POST" if path.endswith("probe") else "GET"
            begun = fleet._probe_now if method == "POST" else fleet._look_now

            async def slow() -> None:
                looks.append(anyio.current_time())
                await anyio.sleep(20)

            monkeypatch.setattr(fleet, begun.__name__, slow)
            began = anyio.current_time()
            first = await asked(service, method, path, 3)
            second = await asked(service, method, path, 5)
            assert (first.status_code, second.status_code) == (504, 504)
            assert anyio.current_time() - began == 8.0
            assert len(looks) == 1
            await fleet.__aexit__()

    run(main)
    assert FLEET_SECONDS_MAX > 20


@pytest.mark.parametrize(
    ("method", "path", "body", "statuses"),
    [
        ("GET", TOTAL, None, 504),
        ("GET", "/v1/counters", None, 504),
        ("GET", "/v1/feed?wait=60", None, 504),
        ("GET", "/v1/budgets/b", None, 504),
        ("POST", f"{TOTAL}/entries", {"change": "1"}, 503),
        ("POST", "/v1/entries", {"entries": [{"counter": "c", "change": "1"}] * 2}, (200, 503)),
        ("POST", "/v1/budgets/b/spends", {"amount": "1"}, 503),
    ],
)
@pytest.mark.parametrize(("turn_after", "seconds"), [(2.0, 3.0), (4.0, 4.0)])
def test_the_time_of_a_request_begins_when_it_has_come(
    method: str, path: str, body: Any, statuses: Any, turn_after: float, seconds: float
) -> None:
    """Not when it is its turn: a caller waits from there on. Once it is over nothing is begun."""
    found = answered(path, prefer="wait=3", method=method, body=body, turn_after=turn_after)
    status = statuses if isinstance(statuses, int) else statuses[seconds > 3.0]
    assert found == (status, seconds)


MANY = [{"counter": f"c{n}", "change": "1"} for n in range(1000)]


@pytest.mark.parametrize(("prefer", "seconds"), [("wait=2", 2.0), (None, 30.0)])
@pytest.mark.parametrize("path", ["/v1/entries", "/v1/retries"])
def test_many_changes_end_together(path: str, prefer: str | None, seconds: float) -> None:
    """In the time of one: those that were never sent say so, each in its place."""

    async def main() -> None:
        store, clock = SilentStore(), ManualClock()
        ledger = Ledger(
            make_settings(),
            region=HOME,
            given=GivenConnections(store=store),
            services=Services.of(clock=clock, randomness=seeded()),
        )
        async with served(ledger=ledger) as service:
            answers = await _beside(service, store, clock, path, prefer)
            for answer, took in answers:
                assert took == seconds
                assert answer.status_code in {200, 503}
            results = answers[0][0].json().get("results", [])
            kinds = Counter(result["problem"]["type"] for result in results)
            if path == "/v1/entries":
                assert kinds.keys() == {"/problems/outcome-unknown", "/problems/not-sent"}
                assert kinds.total() == len(MANY)

    run(main)


async def _beside(
    service: Served, store: SilentStore, clock: ManualClock, path: str, prefer: str | None
) -> list[tuple[httpx.Response, float]]:
    """Return answer and seconds of many changes, and of one that comes beside them."""
    answers: list[tuple[httpx.Response, float]] = []
    headers = {} if prefer is None else {"prefer": prefer}
    ids = [sort_key(clock.now(), suffix_of(one["counter"], "k")) for one in MANY]
    written = [one | {"id": id_, "key": "k"} for one, id_ in zip(MANY, ids, strict=True)]

    async def ask(path: str, body: Any) -> None:
        began = anyio.current_time()
        answer = await service.http.post(path, json=body, headers=headers)
        answers.append((answer, anyio.current_time() - began))

    store.is_silent = True
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, path, {"entries": MANY if path == "/v1/entries" else written})
        tasks.start_soon(ask, "/v1/counters/c/entries", {"change": "1"})
    store.is_silent = False
    return sorted(answers, key=lambda one: len(one[0].content), reverse=True)


@pytest.mark.parametrize("kind", ["read", "pause"])
async def test_of_waits_that_end_together_a_few_end_in_each_round(kind: str) -> None:
    """Each tells its caller, or looks again: thousands in one round would hold up all others."""
    ended, turn = Counter[int](), 0
    async with served() as service:
        context = service.context

        async def wait() -> None:
            if kind == "pause":
                await context.pause(0.05)
            else:
                with pytest.raises(ReadTooSlow):
                    await read_until(context.time() + 0.05, anyio.sleep_forever(), context.ends)
            ended[turn] += 1

        waits = [asyncio.create_task(wait()) for _ in range(5 * LATE_AT_ONCE)]
        while not all(one.done() for one in waits):
            await asyncio.sleep(0)
            turn += 1
    assert sum(ended.values()) == 5 * LATE_AT_ONCE
    assert max(ended.values()) <= LATE_AT_ONCE


async def test_of_pages_that_end_together_a_few_end_in_each_round() -> None:
    """Each lets go of megabytes; those that wait for their turn to be read end apart from them."""
    begun, ended, turn = 0, Counter[int](), 0

    async def read() -> None:
        nonlocal begun
        begun += 1
        try:
            await anyio.sleep_forever()
        finally:
            ended[turn] += 1

    async with served() as service:
        app = SimpleNamespace(state=SimpleNamespace(context=service.context))

        async def ask(caller: int) -> None:
            scope = {
                "type": "http",
                "app": app,
                GRANT_NOW: lambda: TokenGrant(f"c{caller}", frozenset()),
            }
            with pytest.raises(ReadTooSlow):
                await read_page(Request(scope), 0.05, read)

        asks = [asyncio.create_task(ask(number % 12)) for number in range(48)]
        while not all(one.done() for one in asks):
            await asyncio.sleep(0)
            turn += 1
    assert begun == ended.total() >= UNDER_WAY_IN_ALL["page"]
    assert max(ended.values()) <= PAGES_AT_ONCE


@pytest.mark.parametrize("path", ["/metrics", "/v1/counters/stock/periods?by=hour", "/v1/fleet"])
async def test_of_pages_that_are_read_together_a_few_are_rendered_in_each_round(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """A long one takes some milliseconds: those of many callers would hold up all others."""
    turns = list[str]()

    async def turn(_self: Turns, row: str) -> None:
        turns.append(row)

    async with served(MemoryGlobalTable(periods={"*": {"zone": "UTC"}})) as service:
        monkeypatch.setattr(Turns, "turn", turn)
        assert (await service.http.get(path)).status_code == 200
    assert len(turns) == 1

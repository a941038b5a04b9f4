"""The gate: tokens, limits, bodies that are too long, and an instance that shuts down."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from anyio import Event, create_task_group, fail_after
from anyio.lowlevel import checkpoint
from pydantic import TypeAdapter
from starlette import datastructures
from starlette.types import Message
from support.ledgers import seeded
from support.serving import Served, served

from ledger.core.errors import KeyConflict
from ledger.core.values import Entry
from ledger.http.service import gate
from ledger.http.service.access.access import FileAccess
from ledger.http.service.access.proxies import ProxyHeader
from ledger.http.service.access.token_file import create_token, revoke_tokens, set_proxy
from ledger.http.service.access.tokens import Scope, TokenGrant, checked_grant
from ledger.http.service.api import bodies
from ledger.http.service.gate import NOBODY, GateStatus
from ledger.http.service.heads import QUERY_PARTS_MAX
from ledger.http.service.json_bodies import read_body
from ledger.http.service.metrics import log_request
from ledger.http.service.options import BODY_OF_ONE_MAX
from ledger.http.wire.problems import error_of
from ledger.http.wire.schemas import ProblemModel
from ledger.runtime.logs import TEXT_FORMAT, JsonFormatter, TextFormatter
from ledger.testing import MemoryGlobalTable


def token_of(
    path: Path, table: MemoryGlobalTable, *scopes: Scope, name: str = "shop", **limits: float
) -> dict[str, str]:
    """Return the header of a new token for counters that begin with `shop/`."""
    grant = checked_grant(
        name,
        scopes,
        ["shop/"],
        rate=limits.get("rate"),
        at_once=int(limits["at_once"]) if "at_once" in limits else None,
    )
    now = table.clock.now()
    token = create_token(
        path, grant, now=now, randomness=seeded(len(name)), expires=now + timedelta(days=1)
    )
    return {"Authorization": f"Bearer {token}"}


ENTRY_ID = "2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887"
ENTRY = {"change": "1"}
TWO = [{"counter": "shop/a", "change": "1"}, {"counter": "other", "change": "1"}]
SHOP = "/v1/counters/shop%2Fa"
JSON = {"content-type": "application/json"}


async def test_without_a_valid_token_nothing_of_the_table_is_answered(tmp_path: Path) -> None:
    """The challenge says what is wanted; probes and problems' pages need none."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    token_of(path, table, "read")
    async with served(table, access=FileAccess(path, table.clock)) as service:
        for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic eDp5"}):
            for url in (SHOP, "/v1/totals", "/metrics", "/nothing"):
                answer = await service.http.get(url, headers=headers)
                assert (answer.status_code, answer.json()["outcome"]) == (401, "not_applied")
                assert answer.headers["www-authenticate"] == 'Bearer realm="ledger"'
        for url in ("/healthz", "/readyz", "/openapi.json", "/problems/unauthorized"):
            assert (await service.http.get(url)).status_code == 200


@pytest.mark.parametrize(
    ("scopes", "method", "path", "body"),
    [
        (["write"], "GET", SHOP, None),
        (["read"], "POST", f"{SHOP}/entries", ENTRY),
        (["read", "write"], "POST", "/v1/entries/x/reverse", {"counter": "shop/a"}),
        (["read", "write"], "POST", f"{SHOP}/reconciliations", {"counted": "1"}),
        (["read", "write", "reverse"], "GET", "/metrics", None),
        (["read"], "GET", "/v1/counters/other", None),
        (["read"], "GET", "/v1/counters/other/entries", None),
        (["read"], "GET", "/v1/counters/other/periods?by=day", None),
        (["read"], "GET", "/v1/counters", None),
        (["read"], "GET", "/v1/counters?prefix=sho", None),
        (["read"], "GET", "/v1/totals?id=shop/a&id=other", None),
        (["read"], "GET", "/v1/live?id=shop/a&id=other", None),
        (["write"], "POST", "/v1/counters/other/entries", ENTRY),
        (["write"], "POST", "/v1/entries", {"entries": [{"counter": "other", "change": "1"}]}),
        (
            ["write"],
            "POST",
            "/v1/retries",
            {"entries": [{"counter": "other", "id": ENTRY_ID, "key": "k", "change": "1"}]},
        ),
        (["reverse"], "POST", "/v1/entries/x/reverse", {"counter": "other"}),
        *[
            (["write"], "POST", "/v1/entries", {"entries": two, "together": together})
            for two in (TWO, TWO[::-1])
            for together in (False, True)
        ],
        *[
            (
                ["write"],
                "POST",
                "/v1/retries",
                {"entries": [entry | {"id": ENTRY_ID, "key": "k"} for entry in two]},
            )
            for two in (TWO, TWO[::-1])
        ],
        (["read"], "GET", "/v1/live?id=other&id=shop/a", None),
    ],
)
async def test_a_token_allows_its_scopes_and_prefixes_alone(
    tmp_path: Path, scopes: list[Scope], method: str, path: str, body: object
) -> None:
    """The problem names what is missing, and nothing is read or written."""
    table, file = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    headers = token_of(file, table, *scopes)
    async with served(table, access=FileAccess(file, table.clock)) as service:
        answer = await service.http.request(method, path, json=body, headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (403, "/problems/forbidden")
        assert (answer.json()["outcome"], answer.json()["retryable"]) == ("not_applied", False)
        assert "'shop'" in answer.json()["detail"]
        assert (await service.ledger.total("other")).changes == 0


async def test_a_caller_beyond_its_rate_is_told_when_to_come_again(tmp_path: Path) -> None:
    """A 429 with Retry-After; another caller is not held up."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    slow = token_of(path, table, "read", rate=0.5)
    other = token_of(path, table, "read", name="other")
    async with served(table, access=FileAccess(path, table.clock)) as service:
        assert (await service.http.get(SHOP, headers=slow)).status_code == 200
        refused = await service.http.get(SHOP, headers=slow)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "2")
        assert (await service.http.get(SHOP, headers=other)).status_code == 200
        await table.clock.advance(2.0)
        assert (await service.http.get(SHOP, headers=slow)).status_code == 200


PROXY = ProxyHeader.of("X-Caller", ["10.0.7.0/24"])


async def test_a_proxy_names_who_asks_and_a_token_of_that_name_says_what_it_may(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """While it is valid, within its rate; the audit log has the name and the proxy."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    token = token_of(path, table, "write", rate=2)
    set_proxy(path, PROXY)
    access = FileAccess(path, table.clock)
    async with served(table, access=access, peer="10.0.7.9") as service:
        named = {"X-Caller": "shop"}
        assert (await _post(service, named)).status_code == 201
        with caplog.at_level(logging.INFO):
            log_request(service.seen[-1])
        assert {"caller": "shop", "proxy": "10.0.7.9"}.items() <= vars(caplog.records[0]).items()
        assert (await service.http.get(SHOP, headers=named)).status_code == 403
        assert (await _post(service, token)).status_code == 429  # one name, one rate
        await table.clock.advance(2.0)
        assert (await _post(service, token)).status_code == 201
        assert service.seen[-1].proxy is None
        for name in ("other", "Shop", "shop, other", ""):
            assert (await _post(service, {"X-Caller": name})).status_code == 401
        for sent in (b"\xa0shop", b"shop\xa0", b"\xc2\xa0shop", b"shop\x85", b"shop\x1c"):
            answer = await service.http.get(SHOP, headers=[(b"X-Caller", sent)])
            assert answer.status_code == 401, (
                name
            )  # what looks like a space is none (RFC 9110, 5.5)
        revoke_tokens(path, "shop", now=table.clock.now())
        await access.look_again()
        assert (await _post(service, named)).status_code == 401


@pytest.mark.parametrize("peer", ["10.0.8.1", "127.0.0.1"])
async def test_a_proxys_header_from_whoever_else_is_refused(tmp_path: Path, peer: str) -> None:
    """With a token beside it, too; so is what a caller slips through the proxy."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    token = token_of(path, table, "write")
    set_proxy(path, PROXY)
    access = FileAccess(path, table.clock)
    async with served(table, access=access, peer=peer) as service:
        for headers in ({"X-Caller": "shop"}, {**token, "X-Caller": "shop"}):
            answer = await _post(service, headers)
            assert (answer.status_code, answer.json()["outcome"]) == (401, "not_applied")
            assert "taken from the proxy alone" in answer.json()["detail"]
        assert (await _post(service, token)).status_code == 201
    async with served(table, access=access, peer="10.0.7.9") as service:
        twice = [("X-Caller", "shop"), ("x-caller", "shop")]
        answer = await service.http.post(f"{SHOP}/entries", json=ENTRY, headers=twice)
        assert (answer.status_code, "2 times" in answer.json()["detail"]) == (401, True)
        answer = await _post(service, {**token, "X-Caller": "other"})
        assert (answer.status_code, "a token beside" in answer.json()["detail"]) == (401, True)
        set_proxy(path, None)
        await access.look_again()
        assert (await _post(service, {"X-Caller": "shop"})).status_code == 401


async def test_a_share_is_given_back_however_a_request_ends(tmp_path: Path) -> None:
    """After errors, too."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    headers = token_of(path, table, "read", "write", at_once=1)
    async with served(table, access=FileAccess(path, table.clock)) as service:
        for url in (SHOP, "/v1/counters/other", "/nothing", f"{SHOP}?max_age=-1"):
            assert (await service.http.get(url, headers=headers)).status_code != 429
        long = await service.http.post(f"{SHOP}/entries", content=_long(), headers=headers | JSON)
        assert long.status_code == 413
        assert (await service.http.get(SHOP, headers=headers)).status_code == 200


@pytest.mark.parametrize(("before", "after"), [(None, 1), (1, None), (1, 2), (2, 1)])
async def test_a_share_is_given_back_when_it_was_changed_meanwhile(
    tmp_path: Path, before: int | None, after: int | None
) -> None:
    """What a request took is given back, whatever its name is allowed once it ends."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    token_of(path, table, "read")
    access = FileAccess(path, table.clock)
    grants = [TokenGrant("shop", frozenset({"read"}), at_once=most) for most in (before, after)]
    for grant in [each for each in grants if access.enter(each) == 0]:
        access.leave(grant)
    one = TokenGrant("shop", frozenset({"read"}), at_once=1)
    assert [access.enter(one) > 0 for _ in range(2)] == [False, True]


async def _long() -> AsyncIterator[bytes]:
    for _ in range(20):
        yield b" " * 10_000


@pytest.mark.parametrize("length", ["100001", "1e3", "-5", "9" * 30, "9" * 5_000, "\xb2", ""])
async def test_a_body_that_says_it_is_too_long_is_refused(length: str) -> None:
    """Before any of it is read."""
    async with served() as service:
        request = service.http.build_request(
            "POST", f"{SHOP}/entries", headers={"content-type": "application/json"}
        )
        request.headers["content-length"] = length
        assert (await service.http.send(request)).status_code == 413


@pytest.mark.parametrize(("more", "status"), [(0, 201), (1, 413)])
@pytest.mark.parametrize("parts", [None, 2, 3])
async def test_a_body_may_be_as_long_as_is_allowed(
    more: int, status: int, parts: int | None
) -> None:
    """To the byte, with its length said, or counted while it comes."""
    body = b'{"change": "1"}'.ljust(1_000 + more)
    content = body if parts is None else _in_parts(body, parts)
    async with served(body_max=1_000) as service:
        answer = await service.http.post(f"{SHOP}/entries", content=content, headers=JSON)
        assert answer.status_code == status
        assert await service.value("shop%2Fa") == ("0" if more else "1")


async def _in_parts(body: bytes, parts: int) -> AsyncIterator[bytes]:
    size = -(-len(body) // parts)
    for start in range(0, len(body), size):
        yield body[start : start + size]


async def test_a_body_without_a_length_is_counted() -> None:
    """One that grows beyond the limit is cut off."""
    async with served() as service:
        answer = await service.http.post(f"{SHOP}/entries", content=_long(), headers=JSON)
        assert (answer.status_code, answer.json()["type"]) == (413, "/problems/too-large")


async def test_an_instance_that_leaves_is_not_ready_and_serves_on() -> None:
    """Each answer ends its connection; once it drains, requests are safe to repeat elsewhere."""
    async with served() as service:
        assert "connection" not in (await service.http.get("/readyz")).headers
        service.context.leave()
        ready = await service.http.get("/readyz")
        assert (ready.status_code, ready.json()["type"]) == (503, "/problems/shutting-down")
        assert (ready.headers["retry-after"], ready.json()["retryable"]) == ("1", True)
        answer = await service.record("shop%2Fa", "1")
        assert (answer.status_code, answer.headers["connection"]) == (201, "close")
        service.context.drain()
        answer = await service.record("shop%2Fa", "1")
        assert (answer.status_code, answer.json()["type"]) == (503, "/problems/shutting-down")
        assert answer.headers.get_list("connection") == ["close"]
        assert (answer.json()["outcome"], answer.json()["retryable"]) == ("not_applied", True)
        assert (await service.http.get("/healthz")).status_code == 200
        for public in ("/", "/openapi.json", "/problems/unauthorized"):
            assert (await service.http.get(public)).status_code == 503


@pytest.mark.parametrize("is_revoked", [True, False])
async def test_a_stream_ends_once_its_token_does_not_allow_it(
    tmp_path: Path, *, is_revoked: bool
) -> None:
    """At its next look, revoked or not for one of its counters: what comes later is not shown."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    headers = token_of(path, table, "read")
    access = FileAccess(path, table.clock)
    async with served(table, access=access) as service:
        with fail_after(5):  # only a stream that does not end takes so long
            async with create_task_group() as tasks:

                async def change() -> None:
                    if is_revoked:
                        revoke_tokens(path, "shop", now=table.clock.now())
                    else:
                        path.write_text(path.read_text().replace('"shop/"', '"shop/a"'))
                    await access.look_again()
                    await service.ledger.record("shop/b", 4711)

                tasks.start_soon(change)
                answer = await service.http.get(
                    "/v1/live", params={"id": ["shop/a", "shop/b"], "every": 0.1}, headers=headers
                )
        assert answer.status_code == 200
        assert "4711" not in answer.text
        assert (await service.http.get("/v1/counters/shop%2Fb", headers=headers)).is_client_error


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8080", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8080", 200),
        ("[::1]", 200),
        ("attacker.test", 421),
        ("localhost.attacker.test", 421),
        ("127.0.0.1.attacker.test:8080", 421),
        ("localhost:", 421),
    ],
)
async def test_without_tokens_the_host_must_be_this_machine(host: str, status: int) -> None:
    """A page of another site whose name leads here is refused, whatever it asks for."""
    async with served(loopback_only=True) as service:
        for path in ("/v1/counters/stock", "/openapi.json"):
            answer = await service.http.get(path, headers={"host": host})
            assert answer.status_code == status
    async with served() as service:
        assert (await service.http.get("/healthz", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    ("path", "headers", "named"),
    [
        ("/healthz", [("Host", "localhost"), ("Host", "attacker.test")], "Host"),
        ("/v1/session", [("Origin", "http://localhost"), ("Origin", "null")], "Origin"),
        (SHOP, [("Authorization", "Bearer a"), ("Authorization", "Bearer b")], "Authorization"),
        (SHOP, [("Prefer", "wait=5"), ("Prefer", "wait=9")], "Prefer: wait"),
        ("/", [("If-None-Match", "a"), ("If-None-Match", "b")], "If-None-Match"),
        (f"{SHOP}?max_age=0&max_age=60", [], "'max_age'"),
        ("/v1/live?id=a&every=1&every=2", [("Last-Event-ID", "1")], "'every'"),
    ],
)
async def test_what_stands_twice_is_a_400_that_names_it(
    path: str, headers: list[tuple[str, str]], named: str
) -> None:
    """Before anything is read by it: the host, the token, a bound."""
    async with served(loopback_only=True) as service:
        host = [] if headers[:1] == [("Host", "localhost")] else [("Host", "localhost")]
        answer = await service.http.get(path, headers=[*host, *headers])
        assert (answer.status_code, answer.json()["type"]) == (400, "/problems/invalid-request")
        assert f"{named} must be there once, got 2 of them" in answer.json()["detail"]


async def test_no_cache_keeps_an_answer() -> None:
    """Of the table, of the process, or of what is refused; a browser may keep the page's files."""
    async with served(loopback_only=True) as service:
        service.context.is_brief = True
        for path in (
            SHOP, "/v1/totals", "/v1/live?id=a", "/v1/session", "/metrics", "/healthz", "/readyz",
            "/openapi.json", "/problems/store", "/problems/none", "/nothing", "/page/none",
        ):  # fmt: skip
            answer = await service.http.get(path, headers={"host": "localhost"})
            assert answer.headers.get_list("cache-control") == ["no-store"], path
        written = await service.record("a", "1", host="localhost")
        refused = await service.http.get(SHOP, headers={"host": "attacker.test"})
        for answer in (written, refused):
            assert answer.headers.get_list("cache-control") == ["no-store"]
        for path in ("/", "/page/main.js"):
            answer = await service.http.get(path, headers={"host": "localhost"})
            assert answer.headers.get_list("cache-control") == ["no-cache"]


ASKED = {"id": "a", "by": "day", "prefix": ""}
"""What some paths need in their query."""


async def test_a_head_is_answered_as_its_get_is() -> None:
    """By the same status and headers, without a body, on every path that has a GET."""
    table = MemoryGlobalTable(["us-east-1"], index=["*"], periods={"*": {"days": 62}})
    async with served(table) as service:
        service.context.is_brief = True
        paths = (await service.http.get("/openapi.json")).json()["paths"]
        gets = [(path, said["get"]) for path, said in paths.items() if "get" in said]
        for path, said in [*gets, ("/", {}), ("/page/main.js", {}), ("/nothing", {})]:
            names = {one["name"] for one in said.get("parameters", ()) if one["in"] == "query"}
            query = {name: value for name, value in ASKED.items() if name in names}
            url = path.replace("{counter}", "a").replace("{name}", "store")
            get = await service.http.get(url, params=query)
            head = await service.http.head(url, params=query)
            assert head.status_code == get.status_code, path
            assert head.content == b""
            same = set(get.headers) - {"x-request-id", "content-length"}
            assert {head.headers[name] for name in same} == {get.headers[name] for name in same}
            assert ("content-length" in head.headers) == ("content-length" in get.headers)
            assert (service.seen[-1].method, service.seen[-2].method) == ("HEAD", "GET")
        refused = await service.http.head("/v1/entries")
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
        refused = await service.http.delete("/v1/counters/a")
        assert refused.headers["allow"] == "GET, HEAD"


async def test_a_head_of_a_stream_ends() -> None:
    """Once its headers are sent."""
    async with served() as service:
        with fail_after(30):
            answer = await service.http.head("/v1/live?id=a")
        assert answer.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize("path", ["/v1/totals/", "/v1/counters/a/", "/healthz/", "//healthz"])
async def test_a_path_with_another_slash_is_none(path: str) -> None:
    """A redirect would lead to the Host that was sent, and by http."""
    async with served() as service:
        for method in ("GET", "POST"):
            answer = await service.http.request(method, f"http://ledger.test{path}?id=a")
            assert (answer.status_code, answer.json()["type"]) == (404, "/problems/not-found")
            assert answer.json()["detail"] == f"there is no path {path!r}"
            assert "location" not in answer.headers


ORIGINS = {
    "http://localhost": 200,
    "HTTPS://LOCALHOST:3000": 200,
    "http://127.0.0.1:8080": 200,
    "http://[::1]:8080": 200,
    "https://attacker.test": 421,
    "http://localhost.attacker.test": 421,
    "http://attacker.test/http://localhost": 421,
    "file://localhost": 421,
    "localhost": 421,
    "null": 421,
    "": 421,
}


async def test_without_tokens_no_page_of_another_site_acts() -> None:
    """A form is sent without asking first; the Origin tells where the page is from."""
    async with served(loopback_only=True) as service, served() as other:
        for origin, status in ORIGINS.items():
            sent = {"host": "localhost", "origin": origin, "content-type": "text/plain"}
            answer = await service.http.get("/v1/session", headers=sent)
            assert answer.status_code == status, origin
            assert (await other.http.get("/healthz", headers=sent)).status_code == 200
        sent = {"host": "localhost", "origin": "null", "content-type": "text/plain"}
        assert (await service.http.post("/v1/fleet/probe", headers=sent)).status_code == 421


class _HeldUp:
    """A body of which the end comes once something was done."""

    def __init__(self, body: bytes, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._body = body
        self._meanwhile = meanwhile

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body[:1]
        await self._meanwhile()
        yield self._body[1:]


BODIES: dict[str, Any] = {
    "/v1/counters/{counter}/entries": ENTRY,
    "/v1/entries": {"entries": [{"counter": "shop/a", "change": "1"}]},
    "/v1/retries": {"entries": [{"counter": "shop/a", "id": ENTRY_ID, "key": "k", "change": "1"}]},
    "/v1/entries/{entry}/reverse": {"counter": "shop/a"},
    "/v1/counters/{counter}/reconciliations": {"counted": "4"},
    "/v1/counters/{counter}/description": {"attributes": {"a": "b"}},
    "/v1/budgets/{counter}": {"limit": "10"},
    "/v1/budgets/{counter}/spends": {"amount": "1"},
    "/v1/budgets/{counter}/credits": {"amount": "1"},
    "/v1/budgets/{counter}/holds": {"amount": "1", "expires": 60},
    "/v1/books/{book}/transfers": {
        "legs": [
            {"account": account, "asset": "EUR", "amount": amount}
            for account, amount in (("a", "1"), ("b", "-1"))
        ]
    },
    "/v1/holds/{hold}/settle": {"counter": "shop/a", "actual": "1"},
    "/v1/holds/{hold}/void": {"counter": "shop/a"},
    "/v1/holds/{hold}/extend": {"counter": "shop/a", "expires": 60},
}


@pytest.mark.parametrize("ends", ["revoked", "expired"])
async def test_nothing_is_done_for_a_token_that_ended_while_the_body_came(
    tmp_path: Path, ends: str
) -> None:
    """Whatever takes a body: the caller is asked for again once all of it is there."""
    table, path = MemoryGlobalTable(["us-east-1"], budgets={"*": {}}), tmp_path / "tokens.json"
    token_of(path, table, "read", name="other")
    access = FileAccess(path, table.clock)
    async with served(table, access=access) as service:
        paths = (await service.http.get("/openapi.json")).json()["paths"]
        taking = {
            (verb, path)
            for path, verbs in paths.items()
            for verb, said in verbs.items()
            if "requestBody" in said
        }
        assert {path for _, path in taking} == BODIES.keys()

        async def end() -> None:
            if ends == "revoked":
                revoke_tokens(path, "shop", now=table.clock.now())
                await access.look_again()
            else:
                table.clock.pass_by(86_401.0)

        for verb, template in sorted(taking):
            headers = token_of(path, table, "read", "write", "reverse", "admin")
            await access.look_again()
            id_ = "2026-11-21T06:50:00.000000Z%23" + "0" * 16
            url = template.format(counter="shop%2Fa", book="shop%2Fa", entry=id_, hold=id_)
            content = _HeldUp(orjson.dumps(BODIES[template]), end)
            answer = await service.http.request(
                verb, url, content=content, headers={**headers, **JSON}
            )
            assert (answer.status_code, template) == (401, template)
            assert answer.json()["outcome"] == "not_applied"
            assert answer.headers["www-authenticate"] == 'Bearer realm="ledger"'
        async with table.ledger() as ledger:
            assert not [entry async for entry in ledger.history("shop/a")]


async def test_of_many_changes_none_begins_once_the_token_ended(tmp_path: Path) -> None:
    """Each is asked for when its turn comes; the others say what became of them."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    headers = token_of(path, table, "write")
    async with served(table, access=FileAccess(path, table.clock)) as service:
        record, turns = service.ledger.record, count()

        async def recorded(*asked: Any, **named: Any) -> Entry:
            if next(turns) == 2:
                table.clock.pass_by(86_401.0)
            return await record(*asked, **named)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service.ledger, "record", recorded)
            body = {"entries": [{"counter": "shop/a", "change": "1"}] * 300}
            answer = await service.http.post("/v1/entries", json=body, headers=headers)
    statuses = [result["status"] for result in answer.json()["results"]]
    assert statuses == [201] * 3 + [401] * 297
    assert answer.json()["results"][-1]["problem"]["type"] == "/problems/unauthorized"


async def test_a_spend_waits_for_rights_no_longer_than_its_token_holds(tmp_path: Path) -> None:
    """Nothing is spent then, however long it was to wait."""
    table, path = MemoryGlobalTable(["us-east-1"], budgets={"*": {}}), tmp_path / "tokens.json"
    headers = token_of(path, table, "write", "admin")
    access = FileAccess(path, table.clock)
    async with served(table, access=access) as service:
        await service.http.put("/v1/budgets/shop%2Fa", json={"limit": "1"}, headers=headers)
        answers = list[httpx.Response]()

        async def spend(what: str, more: dict[str, Any]) -> None:
            body = {"amount": "2", "wait": 50, **more}
            url = f"/v1/budgets/shop%2Fa/{what}"
            answers.append(await service.http.post(url, json=body, headers=headers))

        async with create_task_group() as tasks:
            tasks.start_soon(spend, "spends", {})
            tasks.start_soon(spend, "holds", {"expires": 60})
            await table.clock.advance(5)
            assert not answers
            revoke_tokens(path, "shop", now=table.clock.now())
            await access.look_again()
            await table.clock.advance(2)
        assert [answer.status_code for answer in answers] == [401, 401]


async def test_who_may_only_write_reads_no_description(tmp_path: Path) -> None:
    """The answer of a change of one shows what the request set, and nothing else."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    one, both = (
        token_of(path, table, "write"),
        token_of(path, table, "read", "write", name="reader"),
    )
    url = f"{SHOP}/description"
    async with served(table, access=FileAccess(path, table.clock)) as service:

        async def patched(attributes: dict[str, Any], headers: dict[str, str]) -> Any:
            body = {"attributes": attributes}
            return (await service.http.patch(url, json=body, headers=headers)).json()["attributes"]

        assert await patched({"owner": "team 7", "open": True}, both) == {
            "owner": "team 7",
            "open": True,
        }
        assert await patched({"zz": None}, one) == {}
        assert await patched({"open": False}, one) == {"open": False}
        assert await patched({"zz": None}, both) == {"owner": "team 7", "open": False}


async def test_who_may_only_write_learns_nothing_of_the_change_under_a_key(tmp_path: Path) -> None:
    """But that there is one: alone, among many, together, and of a spend."""
    table, path = MemoryGlobalTable(["us-east-1"], budgets={"*": {}}), tmp_path / "tokens.json"
    one, both = (
        token_of(path, table, "write"),
        token_of(path, table, "read", "write", name="reader"),
    )
    admin = token_of(path, table, "admin", name="admin")
    named = {"key": "order-17", "at": table.clock.now().isoformat()}
    async with served(table, access=FileAccess(path, table.clock)) as service:
        limit = await service.http.put("/v1/budgets/shop%2Fa", json={"limit": "10"}, headers=admin)
        assert limit.is_success

        async def conflicts(headers: dict[str, str]) -> list[Any]:
            change = {"counter": "shop/a", "change": "2", **named}
            alone = {"Idempotency-Key": named["key"], "Idempotency-Time": named["at"], **headers}
            post = partial(service.http.post, headers=headers)
            many = (await post("/v1/entries", json={"entries": [change]})).json()["results"]
            together = {"entries": [change], "together": True}
            spend = {"amount": "2", **named}
            return [
                (await service.http.post(f"{SHOP}/entries", json=ENTRY, headers=alone)).json(),
                (await post("/v1/entries", json=together)).json(),
                (await post("/v1/budgets/shop%2Fa/spends", json=spend)).json(),
                many[0]["problem"],
            ]

        written = {"counter": "shop/a", "change": "4711", "note": "secret", **named}
        await service.http.post("/v1/entries", json={"entries": [written]}, headers=both)
        for problem in await conflicts(one):
            assert (problem["type"], problem["theirs"]) == ("/problems/key-conflict", None)
            assert "4711" not in str(problem)
            assert "secret" not in str(problem)
            error = error_of(ProblemModel(**problem))
            assert isinstance(error, KeyConflict)
            assert error.theirs is None
        for problem in await conflicts(both):
            assert problem["theirs"]["note"] == "secret"


async def test_who_may_only_reverse_learns_nothing_of_an_earlier_reversal(tmp_path: Path) -> None:
    """But its change: a repeat shows the note and date that it has, a conflict only that it is."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    one = token_of(path, table, "reverse")
    both = token_of(path, table, "read", "write", "reverse", name="reader")
    said = {"note": "secret", "effective": "2026-01-02"}
    async with served(table, access=FileAccess(path, table.clock)) as service:
        entry = (await service.http.post(f"{SHOP}/entries", json=ENTRY, headers=both)).json()["id"]
        url = f"/v1/entries/{entry.replace('#', '%23')}/reverse"

        async def reversed_(headers: dict[str, str], **more: str) -> Any:
            body = {"counter": "shop/a", **more}
            return (await service.http.post(url, json=body, headers=headers)).json()

        whole = await reversed_(both, **said)
        shown = await reversed_(one)
        assert shown == whole | {"note": None, "effective": None}
        assert await reversed_(one, note="secret") == whole | {"effective": None}
        assert await reversed_(both) == whole
        for more in ({"note": "x"}, {"effective": "2026-01-03"}):
            problem = await reversed_(one, **more)
            assert problem["type"] == "/problems/state-conflict"
            assert not any(value in str(problem) for value in said.values())
            known = str(await reversed_(both, **more))
            assert any(value in known for value in said.values())


async def test_who_may_only_reverse_learns_nothing_of_an_earlier_count(tmp_path: Path) -> None:
    """Neither its reason nor, of another one, what was counted."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    one = token_of(path, table, "reverse")
    both = token_of(path, table, "read", "reverse", name="reader")
    async with served(table, access=FileAccess(path, table.clock)) as service:

        async def counted(headers: dict[str, str], count: str, reason: str) -> Any:
            body = {"counted": count, "reason": reason, "token": "count-1"}
            url = f"{SHOP}/reconciliations"
            return (await service.http.post(url, json=body, headers=headers)).json()

        assert (await counted(both, "4711", "secret"))["reason"] == "secret"
        assert (await counted(one, "4711", "x"))["reason"] == "x"
        assert (await counted(both, "4711", "x"))["reason"] == "secret"
        assert "4711" in (await counted(both, "5", "x"))["detail"]
        problem = await counted(one, "5", "x")
        assert problem["type"] == "/problems/invalid-request"
        assert "4711" not in str(problem)


async def test_who_may_only_write_learns_nothing_of_how_a_hold_was_resolved(tmp_path: Path) -> None:
    """Nor its note: that it was resolved otherwise."""
    table, path = MemoryGlobalTable(["us-east-1"], budgets={"*": {}}), tmp_path / "tokens.json"
    one = token_of(path, table, "write")
    both = token_of(path, table, "read", "write", "admin", name="reader")
    async with served(table, access=FileAccess(path, table.clock)) as service:

        async def post(url: str, headers: dict[str, str], **body: Any) -> Any:
            return (await service.http.post(url, json=body, headers=headers)).json()

        await service.http.put("/v1/budgets/shop%2Fa", json={"limit": "9000"}, headers=both)
        url = "/v1/budgets/shop%2Fa/holds"
        hold = await post(url, both, amount="5000", expires=60, note="secret")
        held = f"/v1/holds/{hold['id'].replace('#', '%23')}"
        assert (await post(f"{held}/extend", one, counter="shop/a", expires=90))["note"] is None
        settled = await post(f"{held}/settle", both, counter="shop/a", actual="4711")
        assert settled["note"] == "secret"
        again = await post(f"{held}/settle", one, counter="shop/a", actual="4711")
        assert again == settled | {"note": None}
        problem = await post(f"{held}/settle", one, counter="shop/a", actual="1")
        assert problem["type"] == "/problems/state-conflict"
        assert "4711" not in str(problem)
        known = await post(f"{held}/settle", both, counter="shop/a", actual="1")
        assert "4711" in known["detail"]


async def test_every_request_is_seen_with_its_id(tmp_path: Path) -> None:
    """Whatever became of it; the route has no counter in it."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    headers = token_of(path, table, "write")
    async with served(table, access=FileAccess(path, table.clock)) as service:
        answer = await _post(service, headers)
        await _post(service, {})
        await service.http.get("/nothing", headers=headers)
    created, refused, missing = service.seen
    assert answer.headers["x-request-id"] == created.id
    assert (created.caller, created.status, created.route) == (
        "shop",
        201,
        "/v1/counters/{counter}/entries",
    )
    assert (refused.caller, refused.status, refused.problem) == ("-", 401, "unauthorized")
    assert (missing.caller, missing.status, missing.route) == ("shop", 404, "-")


@pytest.mark.parametrize(
    ("status", "request_"),
    [
        (400, {"url": "/v1/totals?id=shop/a&max_age=1&max_age=2"}),
        (400, {"url": "/v1/totals?id=shop/a", "headers": {"Prefer": "wait=99"}}),
        (403, {"url": "/v1/totals?id=other"}),
        (404, {"url": "/nothing"}),
        (405, {"url": SHOP, "method": "DELETE"}),
        (413, {"url": f"{SHOP}/entries", "method": "POST", "content": bytes(BODY_OF_ONE_MAX + 1)}),
        (415, {"url": f"{SHOP}/entries", "method": "POST", "content": b"{}"}),
        (429, {"url": "/v1/totals?id=shop/a"}),
        (503, {"url": "/v1/totals?id=shop/a"}),
    ],
)
async def test_the_caller_of_every_refusal_is_named(
    tmp_path: Path, status: int, request_: dict[str, Any]
) -> None:
    """Whatever the request is refused for, once its token is known."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    token = token_of(path, table, "read", "write", rate=1)
    async with served(table, access=FileAccess(path, table.clock)) as service:
        for _ in range(10 if status == 429 else 0):
            await service.http.get(SHOP, headers=token)
        if status == 503:
            service.context.drain()
        headers = token | request_.get("headers", {})
        asked = {"method": "GET"} | request_ | {"headers": headers}
        assert (await service.http.request(**asked)).status_code == status
    assert (service.seen[-1].status, service.seen[-1].caller) == (status, "shop")


async def test_the_time_of_a_request_ends_when_its_answer_is_there() -> None:
    """However long its caller takes for it: an alert on slow requests is not for slow callers."""
    async with served() as service:

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.body":
                await service.table.clock.advance(10)

        scope = {
            "type": "http", "method": "GET", "scheme": "http", "http_version": "1.1",
            "path": "/healthz", "raw_path": b"/healthz", "query_string": b"",
            "headers": [(b"host", b"ledger.test")],
        }  # fmt: skip
        await service.app(scope, receive, send)
    assert [seen.seconds for seen in service.seen] == [0.0]


@pytest.mark.parametrize(
    ("path", "status"),
    [("/healthz", 200), ("/openapi.json", 200), ("/problems/never-applied", 200),
     ("/", 200), ("/page/none.js", 404), ("/v1/session", 401), ("/v1/totals", 401), ("/none", 401)],
)  # fmt: skip
@pytest.mark.parametrize("query", ["%41" * 10_000, "a=b&" * 7_000, "a=%zz", "a=1&a=2"])
async def test_nobody_reads_the_query_of_a_stranger(
    path: str, status: int, query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no meaning before a token, and each look at it would take time from all others."""
    read = list[str]()

    def parse_qsl(text: str, **_: Any) -> list[tuple[str, str]]:
        read.append(text)
        return []

    def check_query(text: bytes) -> None:
        read.append(text.decode())

    table = MemoryGlobalTable(["us-east-1"])
    token_of(tmp_path / "tokens.json", table, "read")
    access = FileAccess(tmp_path / "tokens.json", table.clock)
    async with served(table, access=access) as service:
        monkeypatch.setattr(datastructures, "parse_qsl", parse_qsl)
        monkeypatch.setattr(gate, "check_query", check_query)
        answer = await service.http.get(f"{path}?{query}")
    assert (answer.status_code, set(read) - {""}) == (status, set())


async def test_the_audit_log_says_who_did_what(caplog: pytest.LogCaptureFixture) -> None:
    """As text, too: logger, caller, request and status; the path once, whole."""
    route, path = "/v1/counters/{counter_id}/entries", f"/v1/counters/{'%C3%A9' * 512}/entries"
    seen = GateStatus("request-1", "POST", route, path, "shop", 201, 0.25, None)
    with caplog.at_level(logging.INFO):
        log_request(seen)
    line = TextFormatter(TEXT_FORMAT).format(caplog.records[0])
    assert line.endswith(
        f"INFO ledger.http.service.audit POST {route} request=request-1 caller=shop method=POST"
        f" path={path} status=201 seconds=0.25"
    )


@pytest.mark.parametrize(
    "token", ["ldg_0123456789ab_", "ldg%5F0123456789ab%5f", "%6cdg_0123456789ab_"]
)
@pytest.mark.parametrize("caller", ["shop", NOBODY])
def test_a_token_that_was_sent_in_a_path_is_logged_without_its_secret(
    caplog: pytest.LogCaptureFixture, caller: str, token: str
) -> None:
    """More people read a log than have tokens."""
    secret = "s" * 43
    path = f"/v1/{token}{secret}/entries"
    with caplog.at_level(logging.INFO):
        log_request(GateStatus("request-1", "POST", "-", path, caller, 401, 0.25, None))
    line = TextFormatter(TEXT_FORMAT).format(caplog.records[0])
    assert "path=/v1/ldg_0123456789ab_.../entries" in line
    assert secret not in line


@pytest.mark.parametrize("formatter", [TextFormatter(TEXT_FORMAT), JsonFormatter()])
@pytest.mark.parametrize("path", ["/v1/counters/" + "a" * 3_000, "/problems/" + "%41" * 1_000])
async def test_a_stranger_writes_no_long_lines(
    caplog: pytest.LogCaptureFixture, formatter: logging.Formatter, path: str, tmp_path: Path
) -> None:
    """Of what anybody may send a line has the beginning, once, and the length; so has an answer."""
    table = MemoryGlobalTable(["us-east-1"])
    token_of(tmp_path / "tokens.json", table, "read")
    access = FileAccess(tmp_path / "tokens.json", table.clock)
    async with served(table, access=access) as service:
        answer = await service.http.post(path)
        read = await service.http.get(path)
    with caplog.at_level(logging.DEBUG):
        for seen in service.seen:
            log_request(seen)
    for record in caplog.records:
        line = formatter.format(record)
        assert len(line) < 500
        assert f"{path[:200]}... ({len(path):,} characters)" in line
    assert max(len(answer.content), len(read.content)) < 500


@pytest.mark.parametrize("status", [401, 403, 429])
def test_a_read_that_is_refused_for_who_asks_is_in_the_audit_log(
    caplog: pytest.LogCaptureFixture, status: int
) -> None:
    """Any other read is in the access log alone."""
    with caplog.at_level(logging.INFO):
        for each in (status, 200):
            log_request(
                GateStatus("request-1", "GET", "/v1/totals", "/v1/totals", "shop", each, 0, None)
            )
    assert [record.name for record in caplog.records] == ["ledger.http.service.audit"]


async def _post(service: Served, headers: dict[str, str]) -> httpx.Response:
    return await service.http.post(f"{SHOP}/entries", json=ENTRY, headers=headers)


async def test_a_client_that_leaves_within_its_body_is_no_defect() -> None:
    """An alert on answers of 500 and more is not for clients that give up."""
    async with served() as service:
        scope = {
            "type": "http", "method": "POST", "scheme": "http", "http_version": "1.1",
            "path": "/v1/entries", "raw_path": b"/v1/entries", "query_string": b"",
            "headers": [
                (b"host", b"ledger.test"),
                (b"content-type", b"application/json"),
                (b"content-length", b"20"),
            ],
        }  # fmt: skip

        async def left() -> Message:
            return {"type": "http.disconnect"}

        async def unsent(_message: Message) -> None:
            return

        await service.app(scope, left, unsent)
    assert [(seen.route, seen.status) for seen in service.seen] == [("/v1/entries", 400)]


@pytest.mark.parametrize(
    ("path", "most"),
    [("/v1/entries", 100_000), ("/v1/retries", 100_000), (f"{SHOP}/entries", BODY_OF_ONE_MAX)],
)
async def test_a_body_of_one_thing_is_short(path: str, most: int) -> None:
    """One of many entries may be as long as any; the rest is refused before it is parsed."""
    async with served(body_max=100_000) as service:
        for length, is_taken in ((most, True), (most + 1, False)):
            body = b"{" + b" " * (length - 1)
            answer = await service.http.post(path, content=body, headers=JSON)
            assert (answer.status_code == 400) is is_taken
            assert (answer.status_code == 413) is not is_taken


async def test_a_query_of_too_many_parameters_is_refused() -> None:
    """Each could be an error of its own; 100 ids are taken."""
    async with served() as service:
        for number, status in ((100, 200), (QUERY_PARTS_MAX + 1, 400)):
            ids = "&".join(f"id={each}" for each in range(number))
            answer = await service.http.get(f"/v1/totals?{ids}")
            assert answer.status_code == status
        assert answer.json()["detail"] == f"a query may have up to {QUERY_PARTS_MAX} parameters"


@pytest.mark.parametrize("path", ["/v1/live?id=a", "/v1/session", "/healthz", "/v1/counters/a"])
@pytest.mark.parametrize("prefer", ["wait=0", "wait=2, wait=3", "wait=61", "wait=x"])
async def test_a_wait_that_breaks_the_rule_is_refused_everywhere(path: str, prefer: str) -> None:
    """By one rule, also where nothing is waited for."""
    async with served() as service:
        answer = await service.http.get(path, headers={"prefer": prefer})
        assert (answer.status_code, "Prefer: wait" in answer.text) == (400, True)


async def test_only_what_waits_is_said_to_heed_a_wait() -> None:
    """A stream of events goes on, and a session is answered at once."""
    async with served() as service:
        paths = (await service.http.get("/openapi.json")).json()["paths"]
    for path, heeds in (("/v1/live", False), ("/v1/session", False), ("/v1/totals", True)):
        names = {parameter["name"] for parameter in paths[path]["get"]["parameters"]}
        assert ("Prefer" in names) == heeds


async def test_a_body_is_not_looked_at_for_who_may_not_write(tmp_path: Path) -> None:
    """The scope is asked for first: what breaks a rule would be told, and takes its time."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    headers = token_of(path, table, "read") | JSON
    async with served(table, access=FileAccess(path, table.clock)) as service:
        for content in (b"{", b'{"entries":[]}'):
            answer = await service.http.post("/v1/entries", content=content, headers=headers)
            assert answer.status_code == 403


async def test_bodies_that_come_together_are_looked_at_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One in each round of the event loop: others, and probes, go on in between.

    But for short ones, as most are.
    """
    long = {**ENTRY, "note": "n" * bodies.SHORT_BYTES}
    rounds, looked, is_over = count(), list[int](), Event()
    now = next(rounds)

    def read(kind: TypeAdapter[Any], body: bytes) -> Any:
        looked.append(now)
        return read_body(kind, body)

    async def turn() -> None:
        nonlocal now
        while not is_over.is_set():
            now = next(rounds)
            await checkpoint()

    monkeypatch.setattr(bodies, "read_body", read)
    async with served() as service, create_task_group() as turning:
        turning.start_soon(turn)
        async with create_task_group() as asking:
            for _ in range(20):
                asking.start_soon(partial(service.http.post, f"{SHOP}/entries", json=long))
        is_over.set()
    assert len(looked) == 20
    assert looked == sorted(set(looked))

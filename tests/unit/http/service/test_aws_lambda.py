"""The service as a function of Lambda: events of a function URL over a local global table."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from anyio.from_thread import start_blocking_portal

from ledger.core.errors import LedgerError, SettingsError
from ledger.http.service import aws_lambda
from ledger.http.service.access.access import FileAccess, OpenAccess
from ledger.http.service.access.token_file import create_token
from ledger.http.service.access.tokens import checked_grant
from ledger.http.service.aws_lambda import Environment, handler
from ledger.local import LocalGlobalTable
from ledger.runtime.clock import SystemClock, system_random
from ledger.settings import Settings


def event(method: str, path: str, query: str = "", body: Any = None, **headers: str) -> Any:
    """Return an event of payload format 2.0 (Lambda Developer Guide, "Invoking function URLs")."""
    sent = {"host": "id.lambda-url.us-east-1.on.aws", "x-forwarded-proto": "https", **headers}
    found: dict[str, Any] = {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": query,
        "headers": sent,
        "requestContext": {
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "203.0.113.7",
                "userAgent": "test",
            }
        },
        "isBase64Encoded": body is not None,
    }
    if body is not None:
        sent["content-type"] = "application/json"
        found["body"] = base64.b64encode(json.dumps(body).encode()).decode()
    return found


@pytest.fixture(scope="module")
def settings() -> Iterator[Settings]:
    """Run a local global table in a loop of its own."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(LocalGlobalTable.start(regions=["us-east-1"])) as world,
    ):
        yield world.settings()


@pytest.fixture(scope="module")
def environment(settings: Settings) -> Iterator[Environment]:
    """Open one environment, as all invocations that Lambda sends to it share."""
    opened = Environment(settings, None, OpenAccess())
    yield opened
    opened.close()


def ask(environment: Environment, *args: Any, **more: Any) -> tuple[int, Any]:
    """Return status and body of an answer."""
    answer = environment.handle(event(*args, **more), object())
    body = answer["body"]
    return answer["statusCode"], json.loads(body) if body.startswith(("{", "[")) else body


def test_what_an_invocation_writes_the_next_one_reads(environment: Environment) -> None:
    """The loop stands still in between; a slash in an id stays encoded in the path."""
    path = "/v1/counters/shop%2Fa/entries"
    status, entry = ask(environment, "POST", path, body={"change": "12.50"})
    assert (status, entry["counter"]) == (201, "shop/a")
    status, total = ask(environment, "GET", "/v1/counters/shop%2Fa", "max_age=0")
    assert (status, total["value"]) == (200, "12.5")
    status, found = ask(environment, "GET", "/v1/counters/shop%2Fa/entries")
    assert (status, [one["change"] for one in found["entries"]]) == (200, ["12.5"])


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        ("/v1/counters/a%2Fb", "/v1/counters/a"),
        ("", "/v1/counters/a b"),
        (None, "/v1/counters/a b"),
        ("/v1/counters/\u65e5\u672c", "/"),
        ("/v1/counters/caf\u00e9", "/"),
    ],
)
def test_a_path_is_taken_as_it_was_sent(
    environment: Environment, sent: str | None, path: str
) -> None:
    """Else the path that was decoded; what is not ASCII is encoded."""
    asked = event("GET", path)
    asked["rawPath"] = sent
    answers = [environment.handle(asked, object())]
    if sent is None:
        del asked["rawPath"]
        answers.append(environment.handle(asked, object()))
    named = unquote((sent or path).removeprefix("/v1/counters/"))
    for answer in answers:
        assert (answer["statusCode"], json.loads(answer["body"])["counter"]) == (200, named)


@pytest.mark.parametrize(
    "changed",
    [
        {"requestContext": None},
        {"requestContext": {}},
        {"requestContext": {"http": {"method": "GET", "path": "/healthz"}}},
        {"version": None, "requestContext": None},
        {"headers": None},
        {"headers": {"host": "a:b:c"}},
        {"headers": {"host": 7}},
        {"isBase64Encoded": True, "body": "A"},
        {"body": {"a": 1}},
        {"rawQueryString": 7},
    ],
)
def test_an_event_of_another_form_is_a_400(
    environment: Environment, changed: dict[str, Any]
) -> None:
    """Whoever may invoke the function can send any; the next request is answered."""
    answer = environment.handle({**event("GET", "/healthz"), **changed}, object())
    problem = json.loads(answer["body"])
    assert (answer["statusCode"], problem["outcome"]) == (400, "not_applied")
    assert "none of a function URL" in problem["detail"]
    assert environment.handle({}, object()) == answer
    assert ask(environment, "GET", "/healthz")[0] == 200


def test_a_key_counts_once_over_invocations(environment: Environment) -> None:
    """201, then 200."""
    now = SystemClock().now().isoformat()
    keyed: dict[str, Any] = {"idempotency-key": "order-1", "idempotency-time": now}
    path = "/v1/counters/keyed/entries"
    asked = [ask(environment, "POST", path, body={"change": "1"}, **keyed) for _ in range(2)]
    assert [status for status, _ in asked] == [201, 200]
    assert asked[0][1]["id"] == asked[1][1]["id"]


def test_problems_and_probes_are_answered(environment: Environment) -> None:
    """As `ledger serve` answers them."""
    status, problem = ask(environment, "POST", "/v1/counters/a/entries", body={"change": 1})
    assert (status, problem["status"]) == (400, 400)
    assert ask(environment, "GET", "/readyz")[0] == 200


def test_a_stream_shows_totals_once(environment: Environment) -> None:
    """Lambda sends an answer when it is whole, so it has to end."""
    ask(environment, "POST", "/v1/counters/live/entries", body={"change": "3"})
    status, text = ask(environment, "GET", "/v1/live", "id=live&every=1")
    assert status == 200
    assert text.count("event: total") == 1
    assert text.startswith("retry: 1000")


def test_a_token_is_asked_for(settings: Settings, tmp_path: Path) -> None:
    """The URL itself is open to all."""
    tokens = tmp_path / "tokens.json"
    grant, now = checked_grant("some", ["read"]), SystemClock().now()
    token = create_token(tokens, grant, now=now, randomness=system_random(), expires=None)
    environment = Environment(settings, None, FileAccess(tokens, SystemClock()))
    try:
        assert ask(environment, "GET", "/v1/counters/a")[0] == 401
        known: dict[str, Any] = {"authorization": f"Bearer {token}"}
        assert ask(environment, "GET", "/v1/counters/a", **known)[0] == 200
        body = {"change": "1"}
        assert ask(environment, "POST", "/v1/counters/a/entries", body=body, **known)[0] == 403
    finally:
        environment.close()


def test_a_region_that_is_none_of_the_tables_is_refused(settings: Settings) -> None:
    """A function deployed elsewhere would answer from afar, and say nothing of it."""
    with pytest.raises(LedgerError, match="ap-south-1"):
        Environment(settings, "ap-south-1", OpenAccess())


def test_without_a_file_of_tokens_nothing_is_served(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The handler says which variable is missing."""
    config = tmp_path / "regions.yaml"
    config.write_text("home: us-east-1\nregions:\n  us-east-1:\n", encoding="utf-8")
    monkeypatch.setenv("LEDGER_CONFIG", str(config))
    monkeypatch.delenv("LEDGER_TOKENS", raising=False)
    aws_lambda._environment.cache_clear()
    with pytest.raises(SettingsError, match="LEDGER_TOKENS must name a file of tokens"):
        handler(event("GET", "/healthz"), object())

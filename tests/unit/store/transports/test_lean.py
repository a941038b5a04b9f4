"""The lean transport: what goes through it, with which credentials, and what it does with them."""

import asyncio
import json
import shlex
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from aiobotocore.credentials import AioCredentials
from anyio.lowlevel import checkpoint
from support.ledgers import HOME, make_settings
from support.scripted import Scripted, done, drip, hang, ok, scripted
from support.wire import ITEM, PUTS, READS, WRITES, Wire, open_wire

from ledger.core.errors import AccessDenied, RequestRefused
from ledger.runtime.aws_answers import LARGE_AT_ONCE, LARGE_BYTES
from ledger.store.conditions import Absent
from ledger.store.connections import CONNECTIONS_MAX, open_store, open_transport
from ledger.store.dynamodb.transport import NeverSent
from ledger.store.reads import Query
from ledger.store.transports import lean
from ledger.store.transports.lean import OPERATIONS
from ledger.store.transports.lean_connection import HttpAnswer
from ledger.store.transports.lean_pool import open_http
from ledger.store.transports.lean_routes import Route, RoutePlace, Routes
from ledger.store.transports.lean_signing import Signer
from ledger.store.writes import Applied, Put, Unknown
from ledger.testing.clock import ManualClock

PAGE = done()
HEADERS = {"Host": "dynamodb", "X-Amz-Target": "DynamoDB_20120810.Query"}


@pytest.fixture(scope="module")
async def lean_wire() -> AsyncIterator[Wire]:
    """Open one store over the lean transport."""
    async with open_wire("lean") as wire:
        yield wire


async def test_every_operation_of_the_port_goes_through_it(lean_wire: Wire) -> None:
    """None is sent by the SDK, whose first request takes as long as hundreds of ours."""
    lean_wire.server.play(otherwise=PAGE)
    for call in (*WRITES.values(), *READS.values()):
        await call(lean_wire.store)
    items = [{"pk": {"S": "c"}, "sk": {"S": name}} for name in ("a", "b")]
    await lean_wire.store.write_each([Put(item, Absent()) for item in items])
    await lean_wire.store.transact([Put(items[0], Absent(), as_statement=True)])
    await lean_wire.store.replicas()

    assert {*lean_wire.server.operations} == {*OPERATIONS.values()}
    assert not any(_is_by_sdk(headers) for headers in lean_wire.server.headers)


async def test_the_rest_goes_through_the_sdk(lean_wire: Wire) -> None:
    """What `OPERATIONS` does not name is sent by the SDK, which says so in its User-Agent."""
    lean_wire.server.play(otherwise=ok({"AccountMaxReadCapacityUnits": 1}))
    settings = make_settings(regions={HOME: {"endpoint": lean_wire.server.endpoint}})

    async with open_transport(settings, HOME, clock=ManualClock()) as transport:
        await transport.send("describe_limits", {})

    assert lean_wire.server.operations == ["DescribeLimits"]
    assert _is_by_sdk(lean_wire.server.headers[0])


def _is_by_sdk(headers: Any) -> bool:
    return "cfg/retry-mode" in headers["User-Agent"]


async def test_what_no_json_can_hold_is_refused(lean_wire: Wire) -> None:
    """Half a surrogate pair cannot be sent, and nothing is."""
    lean_wire.server.play()

    with pytest.raises(RequestRefused, match="surrogates"):
        await lean_wire.store.write(Put({**ITEM, "note": {"S": "\ud800"}}))
    assert lean_wire.server.requests == []


async def test_redirect_is_not_followed(lean_wire: Wire) -> None:
    """A signed write is sent where it was meant to go, and nowhere else."""

    async def elsewhere(request: Any, _body: object) -> Any:
        answer = await ok(status=307)(request, {})
        answer.headers["Location"] = "/"
        return answer

    lean_wire.server.play(elsewhere, done())
    assert isinstance(await lean_wire.store.write(PUTS[0]), Unknown)
    assert len(lean_wire.server.requests) == 1


class AtOnce:
    """A server of which all answers come in one round, each of so many bytes."""

    def __init__(self, size: int) -> None:
        self._answer = HttpAnswer(200, {}, bytes(size))

    def head(self, _headers: object) -> bytes:
        """Return nothing: nobody reads it."""
        return b""

    async def post(self, _head: bytes, _body: bytes) -> HttpAnswer:
        """Return the answer."""
        await checkpoint()
        return self._answer


@pytest.mark.parametrize(("size", "at_once"), [(LARGE_BYTES - 1, 20), (LARGE_BYTES, LARGE_AT_ONCE)])
async def test_of_large_answers_a_few_are_read_in_each_round(
    monkeypatch: pytest.MonkeyPatch, size: int, at_once: int
) -> None:
    """One takes milliseconds: dozens that come together would hold up all others."""
    reads, turn = Counter[int](), 0

    def read(_answer: object, _name: str) -> Any:
        reads[turn] += 1
        return {"ConsumedCapacity": {"TableName": "t", "CapacityUnits": 1}, "Items": [], "Count": 0}

    monkeypatch.setattr(lean, "read_answer", read)
    http, place = cast("Any", AtOnce(size)), RoutePlace("http://db.test", HOME)

    async def find() -> RoutePlace:
        return place

    async def make(_place: RoutePlace) -> Route:
        return Route(http, Signer(url=place.url, region=HOME))

    transport = lean.LeanTransport(
        Routes(find, make),
        credentials=AioCredentials("example", "example"),
        user_agent="test",
        now=ManualClock().now,
        otherwise=cast("Any", None),
    )
    await transport.send("query", {"TableName": "t"})  # the route is known from now on
    reads.clear()
    sends = [asyncio.create_task(transport.send("query", {"TableName": "t"})) for _ in range(20)]
    while not all(one.done() for one in sends):
        await asyncio.sleep(0)
        turn += 1
    assert reads.total() == len(sends)
    assert max(reads.values()) == at_once


# Connections


async def test_cancelled_requests_leave_the_pool_whole(lean_wire: Wire) -> None:
    """The connection of a cancelled caller is closed, and its place in the pool is free again."""
    lean_wire.server.play(otherwise=hang())
    async with anyio.create_task_group() as tasks:
        for number in range(CONNECTIONS_MAX):
            tasks.start_soon(lean_wire.store.query, Query(f"c{number}"))
        with anyio.fail_after(20):
            while len(lean_wire.server.requests) < CONNECTIONS_MAX:
                await checkpoint()
        tasks.cancel_scope.cancel()
    cancelled = set(lean_wire.server.connections)
    with anyio.fail_after(20):
        while not all(connection.is_closing() for connection in cancelled):
            await checkpoint()

    lean_wire.server.play(done())
    with anyio.fail_after(20):
        assert await lean_wire.store.write(PUTS[0]) == Applied()
    assert len(cancelled) == CONNECTIONS_MAX
    assert not cancelled & lean_wire.server.connections


async def test_connections_are_kept_and_closed_at_the_end() -> None:
    """One after the other requests share a connection, which ends with the store."""
    async with open_wire("lean") as wire:
        wire.server.play(otherwise=PAGE)
        for _ in range(3):
            await wire.store.query(Query("c"))
        (connection,) = wire.server.connections
        assert not connection.is_closing()
        await wire.store.close()
        with anyio.fail_after(20):
            while not connection.is_closing():
                await checkpoint()


async def test_waiting_for_a_free_connection_is_not_sending() -> None:
    """A request that found no connection in its time was never sent, so it may be repeated."""
    async with scripted() as server:
        server.play(otherwise=drip())
        opening = open_http(server.endpoint, ca_bundle=None, request_timeout=0.1, connections_max=1)
        async with opening as http, anyio.create_task_group() as tasks:
            tasks.start_soon(http.post, http.head(HEADERS), b"{}")
            with anyio.fail_after(20):
                while not server.requests:
                    await checkpoint()
            with pytest.raises(NeverSent):
                await http.post(http.head(HEADERS), b"{}")
            tasks.cancel_scope.cancel()
        assert len(server.requests) == 1


# Credentials


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return what writes the profile `mine`, the only place where credentials are."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))

    def write(lines: str) -> None:
        (tmp_path / "config").write_text(f"[profile mine]\n{lines}\n")

    return write


def open_as_mine(server: Scripted, *, transport: str = "lean") -> Any:
    """Open a store with the credentials of the profile `mine`."""
    region = {"endpoint": server.endpoint, "profile": "mine"}
    settings = make_settings(regions={HOME: region}, transport=transport)
    return open_store(settings, HOME, clock=ManualClock(instant=True))


async def test_session_token_is_sent_and_signed(profile: Callable[[str], None]) -> None:
    """The token of temporary credentials is a header, and a signed one."""
    profile(
        "aws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = s\naws_session_token = to/k+n"
    )
    async with scripted() as server:
        server.play(done())
        async with open_as_mine(server) as store:
            await store.write(PUTS[0])

    headers = server.headers[0]
    assert headers["X-Amz-Security-Token"] == "to/k+n"
    assert "Credential=AKIDEXAMPLE/20261121/us-east-1/dynamodb/" in headers["Authorization"]
    assert "x-amz-date;x-amz-security-token;x-amz-target" in headers["Authorization"]


async def test_each_second_has_signatures_of_its_own() -> None:
    """What the requests of a second share is made anew in the next; each signs its own body."""
    clock = ManualClock(instant=True)
    async with scripted() as server:
        server.play(otherwise=PAGE)
        settings = make_settings(regions={HOME: {"endpoint": server.endpoint}}, transport="lean")
        async with open_store(settings, HOME, clock=clock) as store:
            for pause, partition in ((0, "c"), (0.5, "c"), (0, "d"), (0.5, "d"), (-1, "c")):
                clock.wall += timedelta(seconds=pause)
                await store.query(Query(partition))

    sent = [(header["X-Amz-Date"], header["Authorization"]) for header in server.headers]
    seconds = [date[-3:] for date, _ in sent]
    assert seconds == ["00Z", "00Z", "00Z", "01Z", "00Z"]
    assert sent[0] == sent[1] == sent[4]
    assert len({authorization for _, authorization in sent}) == 3


def refreshing(folder: Path, then: str) -> str:
    """Return a profile whose program gives a new token each time, soon to expire; then this."""
    expires = datetime.now(UTC) + timedelta(minutes=1)
    answer = {"Version": 1, "AccessKeyId": "key", "SecretAccessKey": "secret"}
    told = json.dumps({**answer, "SessionToken": "token-N", "Expiration": expires.isoformat()})
    script = folder / "credentials.sh"
    script.write_text(
        f"cd {shlex.quote(str(folder))}; echo >> asked; n=$(wc -l < asked); {then}\n"
        f"echo {shlex.quote(told)} | sed s/N/$n/\n"
    )
    return f"credential_process = sh {shlex.quote(str(script))}"


async def test_credentials_are_refreshed(profile: Callable[[str], None], tmp_path: Path) -> None:
    """Each request carries credentials that are valid now: those about to expire are replaced."""
    profile(refreshing(tmp_path, then=""))
    async with scripted() as server:
        server.play(otherwise=done())
        async with open_as_mine(server) as store:
            for put in PUTS[:3]:
                assert await store.write(put) == Applied()

    tokens = [headers["X-Amz-Security-Token"] for headers in server.headers]
    assert len(set(tokens)) == 3
    assert tokens == sorted(tokens)


async def test_credentials_that_cannot_be_refreshed_send_nothing(
    profile: Callable[[str], None], tmp_path: Path
) -> None:
    """Where new credentials are not to be had, the error says so, and no request is made."""
    profile(refreshing(tmp_path, then="test $n -lt 2 || exit 1"))
    async with scripted() as server:
        async with open_as_mine(server) as store:
            with pytest.raises(AccessDenied, match="AWS_PROFILE"):
                await store.write(PUTS[0])
        assert server.requests == []


NO_JSON = "test $n -lt 2 || { echo no JSON; exit 0; }"
NO_MEMBERS = "test $n -lt 2 || { echo '[]'; exit 0; }"


@pytest.mark.parametrize("transport", ["lean", "aiobotocore"])
@pytest.mark.parametrize("then", [NO_JSON, NO_MEMBERS])
async def test_new_credentials_that_cannot_be_read_send_nothing(
    profile: Callable[[str], None], tmp_path: Path, transport: str, then: str
) -> None:
    """The SDK raises a plain error for them, whichever transport asks."""
    profile(refreshing(tmp_path, then=then))
    async with scripted() as server:
        async with open_as_mine(server, transport=transport) as store:
            with pytest.raises(AccessDenied, match="no usable AWS credentials"):
                await store.write(PUTS[0])
            with pytest.raises(AccessDenied, match="no usable AWS credentials"):
                await store.query(Query("c"))
        assert server.requests == []


async def test_without_credentials_nothing_is_sent(profile: Callable[[str], None]) -> None:
    """A profile without credentials is an error that says what to do."""
    profile("region = us-east-1")
    async with scripted() as server:
        async with open_as_mine(server) as store:
            with pytest.raises(AccessDenied, match="AWS_PROFILE"):
                await store.query(Query("c"))
        assert server.requests == []

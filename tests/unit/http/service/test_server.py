"""One process of the service: how it listens."""

import gc
import logging
import socket
import ssl
import weakref
from asyncio.sslproto import SSLProtocol
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import httpx
import pytest
import trustme
from prometheus_client import CollectorRegistry
from support.ledgers import seeded
from support.sharing import turns
from support.tokens import token_header

from ledger.core.errors import LedgerError
from ledger.http.client.ledger import IDLE_SECONDS_MAX
from ledger.http.service import server
from ledger.http.service.access.access import Access, FileAccess, OpenAccess
from ledger.http.service.options import ServiceOptions, Tls
from ledger.http.service.protocol import BoundedProtocol
from ledger.http.service.server import KEEP_ALIVE_SECONDS, Running, ServerInstance
from ledger.http.service.transports import CERTIFICATE_BYTES_MAX, DECRYPTED_BYTES, HelloSize
from ledger.runtime.connections import PLACES_KEPT
from ledger.runtime.loops import run_on_loop
from ledger.runtime.tasks import Turns, background_tasks
from ledger.testing import MemoryGlobalTable


def test_clients_close_idle_connections_before_the_service_does() -> None:
    """So do load balancers, after a minute: no request is on its way when one is closed."""
    load_balancers = 60.0
    assert IDLE_SECONDS_MAX < load_balancers < KEEP_ALIVE_SECONDS


async def test_a_port_that_is_taken_is_one_error(caplog: pytest.LogCaptureFixture) -> None:
    """It is raised, and nothing is logged beside it."""
    table = MemoryGlobalTable(["us-east-1"])
    with socket.create_server(("127.0.0.1", 0)) as taken, caplog.at_level(logging.DEBUG, "uvicorn"):
        options = ServiceOptions(port=taken.getsockname()[1])
        instance = ServerInstance(table.ledger(), options, CollectorRegistry(), lambda _: None)
        running = Running(instance, OpenAccess(), table.clock, seeded())
        with pytest.raises(LedgerError, match=r"cannot listen on 127.0.0.1 port \d+: it is taken"):
            await running.run()
    assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []


async def test_what_serving_is_made_of_is_collected_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the collector is tuned: each client that is opened later begins a collection."""
    tuned = list[int]()
    monkeypatch.setattr(server, "tune_gc", lambda: tuned.append(1))
    monkeypatch.setattr(server, "is_gc_tuned", lambda: True)
    async with listening(ServiceOptions(port=0, drain_seconds=0)):
        assert tuned == [1]
    monkeypatch.setattr(server, "is_gc_tuned", lambda: False)
    async with listening(ServiceOptions(port=0, drain_seconds=0)):
        assert tuned == [1]


@pytest.fixture
def authority() -> trustme.CA:
    """Issue certificates for this test."""
    return trustme.CA()


@pytest.fixture
def tls(authority: trustme.CA, tmp_path: Path) -> Tls:
    """Return the files of a certificate of this machine."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(str(key))
    for part in issued.cert_chain_pems:
        part.write_to_path(str(certificate), append=True)
    return Tls(certificate, key)


@pytest.fixture
def trusted(authority: trustme.CA) -> ssl.SSLContext:
    """Return what trusts the certificate."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@asynccontextmanager
async def listening(
    options: ServiceOptions,
    table: MemoryGlobalTable | None = None,
    access: Access | None = None,
) -> AsyncIterator[int]:
    """Run a service, and give its port."""
    async with running(options, table, access) as (port, _):
        yield port


@asynccontextmanager
async def running(
    options: ServiceOptions,
    table: MemoryGlobalTable | None = None,
    access: Access | None = None,
) -> AsyncIterator[tuple[int, Callable[[], Awaitable[None]]]]:
    """Run a service, and give its port, and how to stop it."""
    table, ports = table or MemoryGlobalTable(["us-east-1"]), list[int]()
    is_listening, has_stopped = anyio.Event(), anyio.Event()

    def on_listening(port: int) -> None:
        ports.append(port)
        is_listening.set()

    instance = ServerInstance(table.ledger(), options, CollectorRegistry(), on_listening)
    service = Running(instance, access or OpenAccess(), table.clock, seeded())

    async def run() -> None:
        await service.run()
        has_stopped.set()

    async def stop() -> None:
        service.context.leave()
        await has_stopped.wait()

    async with background_tasks() as tasks:
        tasks.start_soon(run)
        await is_listening.wait()
        yield ports[0], stop


async def test_an_unfinished_handshake_gives_way_as_an_idle_connection_does(
    tls: Tls, trusted: ssl.SSLContext
) -> None:
    """TLS begins once a connection is counted, so that nobody is locked out before it."""
    async with listening(ServiceOptions(port=0, drain_seconds=0, of_address=1, tls=tls)) as port:
        silent = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(PLACES_KEPT + 1)]
        async with httpx.AsyncClient(verify=trusted) as http:
            for _ in range(2):
                answer = await http.get(f"https://127.0.0.1:{port}/healthz")
                assert answer.status_code == 200
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await silent[0].receive()
        for connection in silent:
            await connection.aclose()


class Eager:
    """A connection whose first bytes of TLS are there before the service takes it."""

    def __init__(self, port: int, trusted: ssl.SSLContext) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._came, self._goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = trusted.wrap_bio(self._came, self._goes, server_hostname="127.0.0.1")
        with suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        self._socket.sendall(self._goes.read())

    def ask(self) -> bytes:
        """Return how an answer begins."""
        with self._socket:
            self._ends(self._tls.do_handshake)
            self._tls.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self._socket.sendall(self._goes.read())
            return cast("bytes", self._ends(partial(self._tls.read, 12)))

    def _ends(self, step: Callable[[], Any]) -> Any:
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                self._socket.sendall(self._goes.read())
                if not (data := self._socket.recv(65_536)):
                    raise ConnectionResetError from None
                self._came.write(data)


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_handshake_that_begins_with_its_connection_ends(
    tls: Tls, trusted: ssl.SSLContext, loop: str
) -> None:
    """Whatever comes before the service has begun TLS is a part of the handshake."""

    async def ask_all() -> list[bytes]:
        async with listening(ServiceOptions(port=0, drain_seconds=0, tls=tls)) as port:
            eager = [Eager(port, trusted) for _ in range(30)]
            return [await anyio.to_thread.run_sync(one.ask) for one in eager]

    assert run_on_loop(ask_all(), loop=loop) == [b"HTTP/1.1 200"] * 30


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_each_step_of_a_handshake_waits_for_its_turn(
    tls: Tls, trusted: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, loop: str
) -> None:
    """An operation with the private key holds up all others, so many at once begin one by one."""
    waiting = deque[Callable[[], None]]()

    class Held(Turns):
        def enter(self, address: str | None, begin: Callable[[], None]) -> None:  # noqa: ARG002 (as its base has it)
            waiting.append(begin)

    async def begun(connections: int) -> tuple[list[bytes], int]:
        answers, turns = list[bytes](), 0
        async with listening(ServiceOptions(port=0, drain_seconds=0, tls=tls)) as port:
            eager = [Eager(port, trusted) for _ in range(connections)]
            while len(waiting) < connections:  # of each the first bytes have come, and no more
                await anyio.lowlevel.checkpoint()

            async def ask(one: Eager) -> None:
                answers.append(await anyio.to_thread.run_sync(one.ask))

            async with background_tasks() as tasks:
                for one in eager:
                    tasks.start_soon(ask, one)
                while len(answers) < connections:
                    if waiting:
                        waiting.popleft()()
                        turns += 1
                    await anyio.lowlevel.checkpoint()
        return answers, turns

    monkeypatch.setattr("ledger.http.service.turns.Turns", Held)
    answers, turns = run_on_loop(begun(10), loop=loop)
    assert answers == [b"HTTP/1.1 200"] * 10
    assert turns >= 40  # two for each handshake, one to parse and one to begin a request


HELLO = b"\x01\x00\x01\xf0" + b"h" * 496


def _records(payload: bytes, size: int, kind: int = 22) -> bytes:
    parts = (payload[start : start + size] for start in range(0, len(payload), size))
    return b"".join(
        b"%c\x03\x01%b%b" % (kind, len(part).to_bytes(2, "big"), part) for part in parts
    )


@pytest.mark.parametrize("step", [1, 7, 100_000])
@pytest.mark.parametrize(
    ("data", "is_long"),
    [
        (_records(HELLO * 16, 16_384), False),
        (_records(HELLO * 16, 4_000), False),
        (_records(HELLO * 20, 16_384)[:5], True),  # it is announced
        (_records(HELLO * 20, 500), True),
        (_records(HELLO, 50) + _records(b"x" * 2_000, 1), True),  # headers count
        (_records(HELLO, 50) + b"\x16\x03\x01\x00\x00" * 1_700, True),
        (_records(HELLO, 3), True),  # its length is cut
        (_records(b"\x01\x00\x20\x01" + HELLO, 50), True),  # longer than it may be
        (_records(HELLO, 2_000) + _records(b"y" * 99_000, 16_384, kind=23), False),
        (_records(b"y" * 99_000, 16_384, kind=23), False),
        (b"GET / HTTP/1.1\r\n" * 1_000, False),
    ],
)
def test_only_the_beginning_of_a_handshake_is_bounded(
    data: bytes,
    is_long: bool,  # noqa: FBT001
    step: int,
) -> None:
    """However its bytes are divided, into records and into what is read at once."""
    size = HelloSize()
    found = [size.exceeds(data[place : place + step]) for place in range(0, len(data), step)]
    assert any(found) == is_long


def test_a_certificate_may_be_longer_than_a_hello() -> None:
    """Up to TLS 1.2 it comes before a caller encrypts."""
    first = _records(HELLO, 16_384) + _records(b"\x0b\x00\x60\x00" + b"c" * 24_576, 16_384)
    assert HelloSize().exceeds(first)
    assert not HelloSize(CERTIFICATE_BYTES_MAX).exceeds(first)
    assert HelloSize(CERTIFICATE_BYTES_MAX).exceeds(first * 3)
    assert HelloSize(CERTIFICATE_BYTES_MAX).exceeds(_records(b"\x01\x00\x60\x00", 16_384))


def test_a_handshake_that_begins_with_too_much_is_not_read(
    tls: Tls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL would look for the group of each share of a key among all groups of a long list."""
    read = list[int]()
    get_buffer = SSLProtocol.get_buffer

    def counted(layer: SSLProtocol, size: int) -> Any:
        read.append(size)
        return get_buffer(layer, size)

    monkeypatch.setattr(SSLProtocol, "get_buffer", counted)

    async def refused() -> bytes:
        async with listening(ServiceOptions(port=0, drain_seconds=0, tls=tls)) as port:
            async with await anyio.connect_tcp("127.0.0.1", port) as connection:
                await connection.send(_records(b"\x01\x00\xfd\x00" + bytes(0xFD00), 16_384))
                with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                    return await connection.receive()
            return b""

    assert run_on_loop(refused(), loop="asyncio") == b""
    assert read == []


def test_what_comes_to_tls_is_read_in_turns(
    tls: Tls, trusted: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the handshake as well: few bytes may be many records, or many changes of keys."""
    waiting, given = deque[Callable[[], None]](), list[int]()
    buffer_updated = SSLProtocol.buffer_updated

    class Held(Turns):
        def enter(self, address: str | None, begin: Callable[[], None]) -> None:  # noqa: ARG002 (as its base has it)
            waiting.append(begin)

    def counted(layer: SSLProtocol, size: int) -> None:
        given[-1] += size
        buffer_updated(layer, size)

    monkeypatch.setattr("ledger.http.service.turns.Turns", Held)
    monkeypatch.setattr(SSLProtocol, "buffer_updated", counted)

    async def posted(port: int) -> httpx.Response:
        async with httpx.AsyncClient(verify=trusted) as http:
            url, json = f"https://127.0.0.1:{port}/v1/entries", {"Content-Type": "application/json"}
            return await http.post(url, content=b"[" * 60_000, headers=json)

    async def ask() -> int:
        async with listening(ServiceOptions(port=0, drain_seconds=0, tls=tls)) as port:
            answers = list[httpx.Response]()

            async def ask_one() -> None:
                answers.append(await posted(port))

            async with background_tasks() as tasks:
                tasks.start_soon(ask_one)
                while not answers:
                    if waiting:
                        given.append(0)
                        waiting.popleft()()
                    await turns()
        return answers[0].status_code

    assert run_on_loop(ask(), loop="asyncio") == 400
    assert sum(given) > 60_000
    assert max(given) <= DECRYPTED_BYTES


def _connected(port: int, trusted: ssl.SSLContext | None) -> socket.socket:
    plain = socket.create_connection(("127.0.0.1", port), timeout=60)
    return trusted.wrap_socket(plain, server_hostname="127.0.0.1") if trusted else plain


@pytest.mark.parametrize("rest", [0, 300_000])
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_an_answer_before_the_end_of_a_body_comes_whole_and_ends_its_connection(
    tls: Tls, trusted: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, loop: str, rest: int
) -> None:
    """Whoever reads to the end of the connection need not wait, nor lose the answer."""
    monkeypatch.setattr("ledger.http.service.protocol.STALL_SECONDS_MAX", 3_600.0)

    def asked(port: int) -> bytes:
        with _connected(port, trusted) as caller:
            head = b"POST /v1/unknown HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
            caller.sendall(head + b"%d\r\n\r\n" % (400_000 + rest))
            caller.sendall(b"x" * 400_000)
            first = caller.recv(12)
            caller.sendall(b"x" * rest)
            return first + b"".join(iter(partial(caller.recv, 65_536), b""))

    async def ask() -> bytes:
        async with listening(ServiceOptions(port=0, drain_seconds=0, tls=tls)) as port:
            return await anyio.to_thread.run_sync(asked, port)

    answer = run_on_loop(ask(), loop=loop)
    assert answer.startswith(b"HTTP/1.1 413")
    assert answer.endswith(b"}")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"HTTP/1.1 200"),
        (
            b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n{",
            b"HTTP/1.1 413",
        ),
    ],
)
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_stopping_waits_for_no_caller_who_asks_nothing(
    tls: Tls,
    trusted: ssl.SSLContext,
    monkeypatch: pytest.MonkeyPatch,
    request_: bytes,
    status: bytes,
    *,
    is_encrypted: bool,
) -> None:
    """Pools reply to the farewell of TLS late; others send the rest of what was refused never."""
    monkeypatch.setattr(server, "STOP_SECONDS_MAX", 3_600)
    monkeypatch.setattr("asyncio.constants.SSL_SHUTDOWN_TIMEOUT", 3_600.0)

    monkeypatch.setattr("ledger.http.service.protocol.STALL_SECONDS_MAX", 3_600.0)

    def asked(caller: socket.socket) -> bytes:
        caller.sendall(request_)
        return caller.recv(12)

    async def ask() -> bytes:
        options = ServiceOptions(port=0, drain_seconds=0, tls=tls if is_encrypted else None)
        async with running(options) as (port, stop):
            trust = trusted if is_encrypted else None
            caller = await anyio.to_thread.run_sync(_connected, port, trust)
            with caller:
                first = await anyio.to_thread.run_sync(asked, caller)
                with anyio.fail_after(60):
                    await stop()
        return first

    assert run_on_loop(ask(), loop="asyncio") == status


def _asked(port: int, trusted: ssl.SSLContext | None) -> None:
    """Ask by a connection of its own, and leave."""
    if trusted is not None:
        assert Eager(port, trusted).ask() == b"HTTP/1.1 200"
        return
    with socket.create_connection(("127.0.0.1", port), timeout=60) as caller:
        caller.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert caller.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize("kind", ["plain", "TLS", "never comes to TLS"])
def test_a_connection_leaves_nothing_behind(
    tls: Tls,
    trusted: ssl.SSLContext,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: str,
) -> None:
    """A tuned process collects cycles late: whoever connects again and again would fill it."""
    left = list[weakref.ref[BoundedProtocol]]()
    is_clear = anyio.Event()

    def gone(one: weakref.ref[BoundedProtocol]) -> None:
        left.remove(one)
        if not left:
            is_clear.set()

    class Noted(BoundedProtocol):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            left.append(weakref.ref(self, gone))

    async def come_and_go(port: int) -> None:
        if kind != "never comes to TLS":
            await anyio.to_thread.run_sync(_asked, port, trusted if kind == "TLS" else None)
            return
        async with await anyio.connect_tcp("127.0.0.1", port) as connection:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                await connection.send(b"GET / HTTP/1.1\r\n\r\n")
                while True:
                    await connection.receive()

    async def all_go() -> None:
        options = ServiceOptions(port=0, drain_seconds=0, tls=None if kind == "plain" else tls)
        async with listening(options) as port:
            async with anyio.create_task_group() as tasks:
                for _ in range(30):
                    tasks.start_soon(come_and_go, port)
            if left:
                with anyio.move_on_after(20):  # only one that is left takes so long
                    await is_clear.wait()
            assert left == []

    monkeypatch.setattr(server, "BoundedProtocol", Noted)
    gc.disable()
    try:
        run_on_loop(all_go(), loop="uvloop")
    finally:
        gc.enable()
    assert "never retrieved" not in caplog.text


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_caller_who_shuts_its_writing_side_is_answered(loop: str) -> None:
    """All that it has sent, in order; then the connection ends."""

    def ask(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as caller:
            for path in (b"healthz", b"openapi.json", b"readyz"):
                head = b"GET /" + path + b" HTTP/1.1\r\nHost: localhost\r\n"
                caller.sendall(head + b"Content-Length: 2\r\n\r\n{}")
            caller.shutdown(socket.SHUT_WR)
            return b"".join(iter(partial(caller.recv, 65_536), b""))

    async def ask_all() -> list[bytes]:
        async with listening(ServiceOptions(port=0, drain_seconds=0)) as port:
            return [await anyio.to_thread.run_sync(ask, port) for _ in range(10)]

    assert [answers.count(b"HTTP/1.1 200") for answers in run_on_loop(ask_all(), loop=loop)] == (
        [3] * 10
    )


@pytest.mark.parametrize("is_encrypted", [False, True])
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_place_is_held_until_the_answer_is_taken(
    tls: Tls, trusted: ssl.SSLContext, tmp_path: Path, loop: str, *, is_encrypted: bool
) -> None:
    """So a caller's number of requests at a time bounds what the service keeps for it."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    header = token_header(path, table, "read", at_once=1) | {"Accept-Encoding": "identity"}
    options = ServiceOptions(port=0, drain_seconds=0, tls=tls if is_encrypted else None)
    scheme, verify = ("https", trusted) if is_encrypted else ("http", False)

    async def ask() -> list[int]:
        ledger = table.ledger()
        async with ledger:
            for _ in range(120):
                await ledger.record("stock", 1, note="x" * 80_000)
        access = FileAccess(path, table.clock)
        async with (
            listening(options, table, access) as port,
            httpx.AsyncClient(verify=verify, headers=header) as http,
        ):
            url = f"{scheme}://127.0.0.1:{port}/v1/counters/stock"
            async with AsyncExitStack() as untaken:
                answers = [
                    await untaken.enter_async_context(
                        http.stream("GET", f"{url}/entries?limit=1000")
                    )
                ]
                answers.append(await http.get(url))
                await answers[0].aread()
            answers.append(await http.get(url))
            return [answer.status_code for answer in answers]

    assert run_on_loop(ask(), loop=loop) == [200, 429, 200]

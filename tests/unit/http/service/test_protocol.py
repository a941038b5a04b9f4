"""A connection to the service: bounds of what may come, and of its time."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import pytest
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from support.serving import served
from uvicorn.server import ServerState

from ledger.http.service.context import ARRIVED
from ledger.http.service.heads import PATH_BYTES_MAX
from ledger.http.service.protocol import SHORT_BYTES, BoundedProtocol
from ledger.http.service.request_sizes import PIECE_BYTES
from ledger.http.service.transports import (
    BODY_SECONDS_MAX,
    HELD_BYTES_MAX,
    PORTION_BYTES,
    TURN_BYTES,
)
from ledger.http.service.turns import BEGUN_AT_ONCE, PARSED_AT_ONCE, ConnectionTurns
from ledger.http.wire import schemas
from ledger.runtime.connections import (
    HEAD_BYTES_MAX,
    HEAD_SECONDS_MAX,
    HEADERS_MAX,
    PLACES_KEPT,
    STALL_SECONDS_MAX,
    Bounds,
    Connections,
)
from ledger.runtime.tasks import Turns

HEAD = b"POST /v1/x HTTP/1.1\r\nHost: x\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
GET = b"GET /v1/x HTTP/1.1\r\nHost: x\r\n\r\n"
WHOLE = HEAD + b"Content-Length: 2\r\n\r\n{}"


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self, address: str = "10.0.0.1") -> None:
        super().__init__({"peername": (address, 1)})
        self.sent = b""
        self.is_aborted = self.is_paused = self.is_ended = self._is_closing = False
        self.on_write: Callable[[], None] = lambda: None
        self.high: int | None = None

    def write(self, data: Any) -> None:
        """Keep what is written."""
        if not self._is_closing:
            self.sent += data
            self.on_write()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:  # noqa: ARG002 (as asyncio has it)
        """Note when writing is to pause."""
        self.high = high

    def is_over(self) -> bool:
        """Return whether nothing more is sent: it closes, or waits for the caller to leave."""
        return self._is_closing or self.is_ended

    def is_closing(self) -> bool:
        """Return whether it was closed."""
        return self._is_closing

    def close(self) -> None:
        """Close it."""
        self._is_closing = True

    def abort(self) -> None:
        """Cut it off."""
        self._is_closing = self.is_aborted = True

    def can_write_eof(self) -> bool:
        """Return whether it can be ended while more is read."""
        return True

    def write_eof(self) -> None:
        """Note that nothing more is written."""
        self.is_ended = True

    def pause_reading(self) -> None:
        """Note that nothing is to be read."""
        self.is_paused = True

    def resume_reading(self) -> None:
        """Note that reading goes on."""
        self.is_paused = False

    @property
    def statuses(self) -> list[int]:
        """The statuses that were answered."""
        return [int(part[:3]) for part in self.sent.split(b"HTTP/1.1 ")[1:]]


class Answers:
    """An application that answers once it may, and notes what it read."""

    def __init__(self) -> None:
        self.read: list[bytes] = []
        self.heads: list[list[bytes]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with 200."""
        try:
            self.read.append(await Request(scope, receive).body())
        except ClientDisconnect:
            self.read.append(b"(left)")
        self.heads.append([name for name, _ in scope["headers"]])
        await self.may_answer.wait()
        await PlainTextResponse("ok")(scope, receive, send)


class Caller:
    """One connection, as its caller has it."""

    def __init__(
        self,
        app: Any,
        connections: Connections[BoundedProtocol] | None = None,
        address: str = "10.0.0.1",
        turns: ConnectionTurns | None = None,
    ) -> None:
        call_soon = asyncio.get_running_loop().call_soon
        self.wire, self.refused = Wire(address), list[str]()
        config = uvicorn.Config(app, lifespan="off", http="httptools", log_config=None)
        config.load()
        self.protocol = BoundedProtocol(
            config,
            ServerState(),
            connections=connections or Connections(Bounds(100, 100)),
            turns=turns or ConnectionTurns.of(call_soon),
            on_refused=lambda kind: self.refused.append(kind.name),
        )
        self.protocol.connection_made(self.wire)

    async def send(self, *pieces: bytes) -> None:
        """Send pieces, and let what they begin go on."""
        for piece in pieces:
            self.protocol.data_received(piece)
            await settled()

    def later(self, seconds: float) -> None:
        """Look at the connection so many seconds from now."""
        self.protocol.end_if_late(asyncio.get_running_loop().time() + seconds)


def stopped(rounds: list[Callable[[], None]]) -> ConnectionTurns:
    """Return turns of which those of requests begin in rounds that the test calls."""
    turns = ConnectionTurns.of(asyncio.get_running_loop().call_soon)
    return replace(turns, requests=Turns(rounds.append, BEGUN_AT_ONCE))


async def settled() -> None:
    """Let tasks run until they wait."""
    for _ in range(100):
        await asyncio.sleep(0)


def in_steps(data: bytes, size: int = 1_000) -> list[bytes]:
    """Return data in pieces."""
    return [data[start : start + size] for start in range(0, len(data), size)]


LONG = b"a" * (HEAD_BYTES_MAX + 2 * PIECE_BYTES)
LONG_HEADS = [
    b"GET /" + LONG,
    HEAD + b"A: " + LONG,
    HEAD + LONG + b": a\r\n\r\n",
    HEAD + b"".join(b"a%d: b\r\n" % number for number in range(HEADERS_MAX)) + b"\r\n",
    CHUNKED + b"2\r\n{}\r\n0\r\nA: " + LONG,
    CHUNKED + b"2\r\n{}\r\n0\r\n" + b"a: b\r\n" * (HEADERS_MAX + 1) + b"\r\n",
    CHUNKED + b"2;" + LONG + b"\r\n{}\r\n0\r\n\r\n",
    CHUNKED + b"1\r\n \r\n" * 10_000 + b"0\r\n\r\n",
]


@pytest.mark.parametrize("cut", [lambda data: [data], in_steps])
@pytest.mark.parametrize("sent", LONG_HEADS, ids=range(len(LONG_HEADS)))
async def test_a_head_that_is_too_long_is_refused(
    sent: bytes, cut: Callable[[bytes], list[bytes]]
) -> None:
    """Whatever of it is long, at once or in pieces; what follows is not parsed."""
    app = Answers()
    caller = Caller(app)
    await caller.send(*cut(sent), *[LONG] * 10, b"\r\n\r\n" + WHOLE)
    assert caller.wire.statuses == [431]
    assert b'"outcome":"not_applied"' in caller.wire.sent
    assert caller.wire.is_over()
    assert caller.refused == ["head-too-large"]
    assert app.read in ([], [b"(left)"])


@pytest.mark.parametrize("before", [b"", b"http://x"])
@pytest.mark.parametrize("code", [b"%41", b"%C3", b"a", b"/"])
async def test_a_path_is_no_longer_than_an_id_needs(code: bytes, before: bytes) -> None:
    """A path of many codes would be decoded, one by one, before anybody is asked for a token."""
    app = Answers()
    longest = (b"/" + code * PATH_BYTES_MAX)[: PATH_BYTES_MAX - len(before) - 2]
    for path, status in ((longest, 200), (longest + b"abc", 431)):
        caller = Caller(app)
        await caller.send(
            b"GET " + before + path + b"?" + b"%41" * 5_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"
        )
        assert caller.wire.statuses == [status]
    assert b"a path may have up to 3,584 bytes" in caller.wire.sent
    assert len(app.read) == 1


async def test_the_rest_of_what_is_refused_is_dropped() -> None:
    """Reset with bytes unread, the connection would lose its answer; who leaves ends it."""
    caller = Caller(Answers())
    head = (
        b"POST /"
        + b"a" * PATH_BYTES_MAX
        + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n"
    )
    await caller.send(head, b" " * 30_000)
    assert (caller.wire.statuses, caller.wire.is_ended) == ([431], True)
    assert (caller.wire.is_closing(), caller.wire.is_aborted) == (False, False)
    assert not caller.protocol.eof_received()


async def test_a_head_within_the_bounds_is_taken() -> None:
    """As long as it may be, with as many headers as there may be, and a long body beside it."""
    caller = Caller(Answers())
    rest = HEADERS_MAX - 2  # Host and Content-Length are two
    filler = b"".join(b"a%d: b\r\n" % number for number in range(rest - 1))
    room = HEAD_BYTES_MAX - 2_000
    head = HEAD + filler + b"Z: " + b"z" * room + b"\r\nContent-Length: 300000\r\n\r\n"
    await caller.send(head + b" " * 300_000)
    await caller.send(CHUNKED + b"1\r\n \r\n" * 8_000 + b"0\r\n\r\n")
    await caller.send(CHUNKED + b"5\r\n12345\r\n" * 40_000 + b"0\r\n\r\n")
    assert (caller.wire.statuses, caller.wire.is_closing()) == ([200, 200, 200], False)


@pytest.mark.parametrize(
    "cut",
    [
        lambda head, rest: [head + rest],
        lambda head, rest: [head, rest],
        lambda head, rest: in_steps(head + rest, 1),
    ],
    ids=["at once", "in two", "by byte"],
)
@pytest.mark.parametrize(
    "name",
    [
        b"Authorization", b"X-Caller", b"Host", b"Idempotency-Key", b"Expect", b"Content-Type",
        b"Content-Encoding", b"Prefer", b"Of-A-Later-Time",
    ],
)  # fmt: skip
async def test_a_trailer_is_no_header(
    name: bytes, cut: Callable[[bytes, bytes], list[bytes]]
) -> None:
    """Neither of its request nor of the next one, whatever arrives together."""
    app = Answers()
    caller = Caller(app)
    head, rest = CHUNKED + b"2\r\n{}\r\n0\r\n", name + b": close\r\n\r\n" + WHOLE
    await caller.send(*cut(head, rest))
    await settled()
    assert caller.wire.statuses == [200, 200]
    assert app.heads == [[b"host", b"transfer-encoding"], [b"host", b"content-length"]]
    assert app.read == [b"{}", b"{}"]


@pytest.mark.parametrize("size", [1, 1_000])
@pytest.mark.parametrize(
    "trailer",
    [
        b"Content-Length: 5", b"Transfer-Encoding: chunked", b"Connection: close",
        b"Connection: keep-alive", b"Proxy-Connection: close",
    ],
)  # fmt: skip
async def test_a_trailer_that_would_frame_is_refused(trailer: bytes, size: int) -> None:
    """It ends the connection: nothing that follows is taken for a body, or left unanswered."""
    app = Answers()
    caller = Caller(app)
    sent = CHUNKED + b"2\r\n{}\r\n0\r\n" + trailer + b"\r\n\r\n" + WHOLE
    await caller.send(*in_steps(sent, size))
    await settled()
    assert (caller.wire.statuses, caller.wire.is_over()) == ([400], True)
    assert len(app.heads) == 1


@pytest.mark.parametrize(
    ("sent", "status", "name"),
    [
        (b"no request\r\n\r\n", 400, "invalid-request"),
        (b"GET /v1/x HTTP/1.1\r\nHost : x\r\n\r\n", 400, "invalid-request"),
        (HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n", 400, "invalid-request"),
        (b"GET http://y/v1/x HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid-request"),
        (b"GET /v1/x#y HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid-request"),
        (LONG_HEADS[0], 431, "head-too-large"),
        (HEAD + b"Content-Length: 2\r\n\r\n{", 408, "request-too-slow"),
    ],
)
async def test_what_is_refused_before_the_service_sees_it_is_a_problem(
    sent: bytes, status: int, name: str
) -> None:
    """Its answer has the form of all others, and no cache keeps it."""
    caller = Caller(Answers())
    await caller.send(sent)
    caller.later(BODY_SECONDS_MAX)
    head, _, body = caller.wire.sent.partition(b"\r\n\r\n")
    problem, headers = schemas.ProblemModel(**orjson.loads(body)), head.lower().split(b"\r\n")[1:]
    assert (caller.wire.statuses, problem.status) == ([status], status)
    assert (problem.type, problem.outcome) == (f"/problems/{name}", "not_applied")
    assert f"content-length: {len(body)}".encode() in headers
    for header in (b"content-type: application/problem+json", b"cache-control: no-store"):
        assert header in headers


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"GET / HT", HEAD])
async def test_a_head_ends_in_its_time(sent: bytes) -> None:
    """However much of it came; a byte now and then gives it no more time."""
    caller = Caller(Answers())
    caller.later(HEAD_SECONDS_MAX - 1)
    await caller.send(sent)
    assert not caller.wire.is_closing()
    caller.later(HEAD_SECONDS_MAX)
    assert caller.wire.is_aborted


@pytest.mark.parametrize("sent", [b"\r\n", b"GET / HT"])
async def test_the_head_of_a_later_request_ends_in_its_time(sent: bytes) -> None:
    """It begins with the first byte after the answer before."""
    caller = Caller(Answers())
    await caller.send(WHOLE)
    caller.later(HEAD_SECONDS_MAX)
    assert not caller.wire.is_closing()
    await caller.send(sent, b"\r\n" if sent == b"\r\n" else b"T")
    caller.later(HEAD_SECONDS_MAX)
    assert caller.wire.is_aborted


async def test_a_body_ends_in_its_time() -> None:
    """The caller is told; the endpoint sees that the body came to no end."""
    app = Answers()
    caller = Caller(app)
    await caller.send(HEAD + b"Content-Length: 10\r\n\r\n{")
    caller.later(BODY_SECONDS_MAX - 1)
    assert caller.wire.statuses == []
    caller.later(BODY_SECONDS_MAX)
    await settled()
    assert (caller.wire.statuses, app.read) == ([408], [b"(left)"])
    assert caller.wire.is_over()


async def test_a_body_that_nobody_reads_ends_in_its_time() -> None:
    """A request that was refused at once holds no connection for ever."""
    caller = Caller(PlainTextResponse("no", 401))
    await caller.send(CHUNKED + b"1\r\n \r\n", b"1\r\n \r\n")
    assert caller.wire.statuses == [401]
    caller.later(BODY_SECONDS_MAX)
    assert caller.wire.is_aborted


class Counted:
    """What a parser is given, and what it finds; it stands before the parser of a connection."""

    def __init__(self, protocol: BoundedProtocol) -> None:
        self._parser, protocol.parser = protocol.parser, self  # type: ignore[assignment]
        self.taken = 0

    def feed_data(self, data: bytes) -> None:
        """Count what is parsed."""
        self.taken += len(data)
        self._parser.feed_data(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)


CHUNKS = b"1\r\n \r\n" * 5_000
BODIES = [(CHUNKED, CHUNKS), (HEAD + b"Content-Length: 900000\r\n\r\n", b" " * 30_000)]


@pytest.mark.parametrize(("head", "part"), BODIES, ids=["in chunks", "of a length"])
async def test_after_an_answer_the_rest_of_a_body_is_dropped(head: bytes, part: bytes) -> None:
    """The answer ends its connection; the rest is not parsed, and comes to an end itself."""
    caller = Caller(PlainTextResponse("no", 401))
    counted = Counted(caller.protocol)
    await caller.send(head + part)
    assert b"connection: close" in caller.wire.sent
    assert (caller.wire.is_ended, caller.wire.is_closing()) == (True, False)
    for _ in range(HELD_BYTES_MAX // len(part)):
        await caller.send(part)
    assert (caller.wire.statuses, caller.wire.is_aborted) == ([401], False)
    await caller.send(part)
    assert caller.wire.is_aborted
    assert counted.taken <= len(head) + TURN_BYTES + PIECE_BYTES


async def test_a_caller_who_leaves_at_the_first_byte_of_an_answer_is_no_error() -> None:
    """The system may say so before the event loop does; nobody writes to the log that way."""
    ended = list[int]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("no", 401)(scope, receive, send)
        ended.append(401)

    def left() -> None:
        raise OSError("Transport endpoint is not connected")

    caller = Caller(app)
    caller.wire.write_eof = left  # type: ignore[method-assign]
    await caller.send(CHUNKED)
    assert (caller.wire.statuses, ended) == ([401], [401])


@pytest.mark.parametrize(("head", "part"), BODIES, ids=["in chunks", "of a length"])
async def test_a_body_is_parsed_as_it_is_taken(head: bytes, part: bytes) -> None:
    """One turn before the endpoint asks for more, whatever has come; until then none is read."""
    may_take = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await may_take.wait()
        await Request(scope, receive).body()
        await PlainTextResponse("ok")(scope, receive, send)

    caller = Caller(app)
    counted = Counted(caller.protocol)
    await caller.send(head, part)
    assert counted.taken <= len(head) + TURN_BYTES + PIECE_BYTES
    assert caller.wire.is_paused
    may_take.set()
    await settled()
    assert counted.taken == len(head + part)
    assert not caller.wire.is_paused


async def test_a_body_is_parsed_in_turns() -> None:
    """Others go on between two turns, although the endpoint takes at once what has come."""
    caller = Caller(Answers())
    counted = Counted(caller.protocol)
    await caller.send(CHUNKED)
    caller.protocol.data_received(b"5\r\n12345\r\n" * 20_000)
    before = 0
    for _ in range(200):
        assert counted.taken - before <= TURN_BYTES + PIECE_BYTES
        before = counted.taken
        await asyncio.sleep(0)
    assert counted.taken == len(CHUNKED) + 200_000


LONG_PART = HEAD + b"A: " + b"a" * SHORT_BYTES


@pytest.mark.parametrize(("part", "at_once"), [(HEAD, BEGUN_AT_ONCE), (LONG_PART, PARSED_AT_ONCE)])
async def test_what_many_send_is_parsed_in_turns(part: bytes, at_once: int) -> None:
    """Few bytes may be many chunks, or empty lines: a round of the loop takes those of a few."""
    round_of_loop, parsed = 0, Counter[int]()
    turns = ConnectionTurns.of(asyncio.get_running_loop().call_soon)
    callers = [Caller(Answers(), address=f"10.0.0.{n % 2}", turns=turns) for n in range(40)]
    for caller in callers:
        feed = caller.protocol._feed

        def counted(piece: bytes, feed: Callable[[bytes], int] = feed) -> int:
            parsed[round_of_loop] += 1
            return feed(piece)

        caller.protocol._feed = counted  # type: ignore[method-assign]
    for caller in callers:
        caller.protocol.data_received(part)
    while parsed.total() < len(callers):
        round_of_loop += 1
        await asyncio.sleep(0)
    assert max(parsed.values()) <= at_once
    for caller in callers:
        await caller.send(b"\r\nContent-Length: 2\r\n\r\n{}"[2 * part.endswith(b"\n") :])
        await settled()
    assert [caller.wire.statuses for caller in callers] == [[200]] * len(callers)


@pytest.mark.parametrize("is_read", [True, False])
async def test_a_caller_whose_body_was_refused_leaves_nothing(*, is_read: bool) -> None:
    """Its leaving is seen, although nobody took what had come of the body; else it is cut off."""
    app = Answers()
    if not is_read:
        app.may_answer.clear()

    async def unread(scope: Scope, receive: Receive, send: Send) -> None:
        await app.may_answer.wait()
        await app(scope, receive, send)

    caller = Caller(unread)
    for piece in in_steps(CHUNKED + b"1\r\n \r\n" * 9_000, size=20_000):
        caller.protocol.data_received(piece)
    await settled()
    caller.later(BODY_SECONDS_MAX if not is_read else 0)
    assert (caller.wire.statuses, caller.wire.is_paused) == ([431 if is_read else 408], False)
    caller.later(STALL_SECONDS_MAX)
    assert caller.wire.is_aborted


async def test_what_is_short_waits_for_nothing_that_is_long() -> None:
    """A probe is answered, from however many addresses others send more."""
    turns = ConnectionTurns.of(asyncio.get_running_loop().call_soon)
    flood = [Caller(Answers(), address=f"10.0.0.{n}", turns=turns) for n in range(200)]
    for caller in flood:
        caller.protocol.data_received(LONG_PART)
    probe = Caller(Answers(), address="10.0.1.1", turns=turns)
    probe.protocol.data_received(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    for _ in range(10):
        await asyncio.sleep(0)
    assert probe.wire.statuses == [200]
    assert sum(caller.protocol._held == b"" for caller in flood) < len(flood)


@pytest.mark.parametrize("before", [b"", GET])
async def test_empty_lines_are_parsed_as_one_piece(before: bytes) -> None:
    """A parser is called once for many of them, and they begin nothing (RFC 9112, 2.2)."""
    caller, pieces = Caller(Answers()), list[int]()
    feed = caller.protocol._feed

    def counted(piece: bytes) -> int:
        pieces.append(len(piece))
        return feed(piece)

    caller.protocol._feed = counted  # type: ignore[method-assign]
    await caller.send(before + b"\r\n" * 4_000 + WHOLE)
    await settled()
    assert len(pieces) < 5
    assert caller.wire.statuses == [200] * (2 if before else 1)


@pytest.mark.parametrize(("version", "told"), [(b"1.1", True), (b"1.0", False)])
async def test_a_caller_of_http_1_0_is_told_nothing_before_its_answer(
    version: bytes, *, told: bool
) -> None:
    """It knows no answer but the one (RFC 9110, 10.1.1 and 15.2)."""
    caller = Caller(Answers())
    head = HEAD.replace(b"1.1", version) + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    await caller.send(head, b"{}")
    assert (b"100 Continue" in caller.wire.sent) == told
    assert caller.wire.statuses[-1] == 200


async def test_a_request_under_way_has_the_time_that_it_takes() -> None:
    """Its own deadline ends it."""
    app = Answers()
    app.may_answer.clear()
    caller = Caller(app)
    await caller.send(WHOLE)
    caller.later(1_000_000)
    app.may_answer.set()
    await settled()
    assert caller.wire.statuses == [200]


@pytest.mark.parametrize(
    ("follows", "status"),
    [(b"no request\r\n\r\n", 400), (HEAD + b"A: " + LONG, 431), (b"GET / HT", 408)],
)
async def test_no_later_request_takes_the_answer_of_one_before(follows: bytes, status: int) -> None:
    """What is no HTTP, too long or late is answered after it, and ends the connection."""
    app = Answers()
    app.may_answer.clear()
    caller = Caller(app)
    await caller.send(WHOLE, follows)
    caller.later(HEAD_SECONDS_MAX)
    assert caller.wire.sent == b""
    app.may_answer.set()
    await settled()
    assert (caller.wire.statuses, caller.wire.is_over()) == ([200, status], True)
    assert caller.wire.sent.lower().count(b"connection: close") == 1


IN_CHUNKS = CHUNKED + b"2\r\n{}\r\n0\r\n\r\n"
LATER = HEAD + b"Content-Length: 40000\r\n\r\n" + b" " * 40_000
TOGETHER = [[GET, WHOLE], [GET, IN_CHUNKS], [WHOLE, WHOLE], [GET, LATER, GET], [IN_CHUNKS, GET]]


UPGRADES = [
    b"Connection: upgrade\r\nUpgrade: websocket\r\n",
    b"upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQ\r\n",
    b"Upgrade: foo\r\nA: b\r\nConnection: keep-alive, upgrade \r\n",
]


@pytest.mark.parametrize("cut", [lambda data: [data], partial(in_steps, size=1), in_steps])
@pytest.mark.parametrize("framed", ["length", "length padded", "chunks"])
@pytest.mark.parametrize("upgrade", UPGRADES)
async def test_no_body_is_a_request_though_its_head_asks_for_an_upgrade(
    upgrade: bytes, framed: str, cut: Callable[[bytes], list[bytes]]
) -> None:
    """The upgrade is not taken (RFC 9110, 7.8), so the body is what its head declares."""
    app = Answers()
    caller = Caller(app)
    frames = {
        "length": b"Content-Length: %d\r\n\r\n%b" % (len(GET), GET),
        "length padded": b"Content-Length: %d \r\n\r\n%b" % (len(GET), GET),
        "chunks": b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(GET), GET),
    }
    await caller.send(*cut(HEAD + upgrade + frames[framed] + WHOLE))
    await settled()
    assert app.read == [GET, b"{}"]
    assert caller.wire.statuses == [200, 200]


async def test_an_upgrade_behind_another_request_waits_for_its_turn() -> None:
    """As any request does; without a body it has none."""
    app = Answers()
    caller = Caller(app)
    await caller.send(GET + GET[:-2] + UPGRADES[0] + b"\r\n" + WHOLE)
    await settled()
    assert (app.read, caller.wire.statuses) == ([b"", b"", b"{}"], [200] * 3)


@pytest.mark.parametrize("target", [b"/v1/x", b"x:443"])
async def test_no_connection_becomes_a_tunnel(target: bytes) -> None:
    """What follows the head of CONNECT is another protocol."""
    app = Answers()
    caller = Caller(app)
    await caller.send(b"CONNECT %b HTTP/1.1\r\nHost: x\r\n\r\n" % target + WHOLE)
    await settled()
    assert (app.read, caller.wire.statuses, caller.wire.is_over()) == ([], [400], True)


async def test_spaces_around_the_value_of_a_header_are_none_of_it() -> None:
    """RFC 9110, 5.5: a proxy on the way takes them off, and a key is one key on each way."""
    found = list[tuple[bytes, bytes]]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.extend(scope["headers"])
        await PlainTextResponse("ok")(scope, receive, send)

    caller = Caller(app)
    await caller.send(GET[:-2] + b"a: \t b c \t \r\nb: \r\n\r\n")
    assert found == [(b"host", b"x"), (b"a", b"b c"), (b"b", b"")]


@pytest.mark.parametrize("status", [200, 401, 404])
@pytest.mark.parametrize("sent", TOGETHER)
async def test_requests_that_come_together_are_answered_in_order(
    sent: list[bytes], status: int
) -> None:
    """Each once, with a body or without, whatever is answered to the ones before."""
    read = list[bytes]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        read.append(await Request(scope, receive).body())
        await PlainTextResponse(str(len(read)), status)(scope, receive, send)

    caller = Caller(app)
    await caller.send(b"".join(sent))
    await settled()
    assert caller.wire.statuses == [status] * len(sent)
    assert [answer[-1:] for answer in caller.wire.sent.split(b"HTTP/1.1 ")[1:]] == [
        b"%d" % number for number in range(1, len(sent) + 1)
    ]
    assert [len(body) for body in read] == [
        {GET: 0, LATER: 40_000}.get(request, 2) for request in sent
    ]
    assert not caller.wire.is_ended
    assert not caller.wire.is_closing()
    caller.later(HEAD_SECONDS_MAX)
    assert not caller.wire.is_closing()


async def test_a_body_that_has_come_is_there_when_its_request_begins() -> None:
    """Behind another request as well: an endpoint that reads no body ends no connection."""
    caller = Caller(PlainTextResponse("no", 401))
    await caller.send((WHOLE + IN_CHUNKS) * 3)
    await settled()
    assert (caller.wire.statuses, caller.wire.is_ended) == ([401] * 6, False)
    assert b"connection: close" not in caller.wire.sent


async def test_the_time_of_a_body_begins_with_the_turn_of_its_request() -> None:
    """Its caller has sent it, and waits for the answer before."""
    app = Answers()
    app.may_answer.clear()
    caller = Caller(app)
    await caller.send(GET + HEAD + b"Content-Length: 2\r\n\r\n{")
    caller.later(BODY_SECONDS_MAX)
    app.may_answer.set()
    await settled()
    caller.later(BODY_SECONDS_MAX - 1)
    assert caller.wire.statuses == [200]
    caller.later(BODY_SECONDS_MAX)
    assert caller.wire.statuses == [200, 408]


async def test_behind_an_answer_that_ends_its_connection_no_request_begins() -> None:
    """Whose caller knows by that answer that the next one may be sent again."""
    app = Answers()
    caller = Caller(app)
    last = HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"
    await caller.send(WHOLE + last + WHOLE)
    await settled()
    assert (caller.wire.statuses, caller.wire.is_over()) == ([200, 200], True)
    assert caller.wire.sent.count(b"connection: close") == 1
    assert app.read == [b"{}", b"{}"]


@pytest.mark.parametrize("sent", [[GET], [WHOLE], [IN_CHUNKS], *TOGETHER])
async def test_a_caller_who_sends_nothing_more_is_answered(sent: list[bytes]) -> None:
    """A client may shut its writing side after the last request; then the connection ends."""
    app = Answers()
    app.may_answer.clear()
    caller = Caller(app)
    caller.protocol.data_received(b"".join(sent))
    assert caller.protocol.eof_received()
    await settled()
    assert (caller.wire.statuses, caller.wire.is_closing()) == ([], False)
    app.may_answer.set()
    await settled()
    assert (caller.wire.statuses, caller.wire.is_over()) == ([200] * len(sent), True)


@pytest.mark.parametrize("sent", [b"", b"GET / HT", HEAD + b"Content-Length: 2\r\n\r\n{", GET])
async def test_a_caller_who_ends_with_nothing_to_answer_has_left(sent: bytes) -> None:
    """What has come in part comes to no end; asyncio closes the connection then."""
    caller = Caller(Answers())
    await caller.send(sent)
    assert not caller.protocol.eof_received()


async def test_half_a_request_behind_another_ends_with_the_answer_of_that() -> None:
    """Nobody sends the rest."""
    app = Answers()
    app.may_answer.clear()
    caller = Caller(app)
    await caller.send(GET + HEAD + b"Content-Length: 2\r\n\r\n{")
    assert caller.protocol.eof_received()
    app.may_answer.set()
    await settled()
    assert (caller.wire.statuses, caller.wire.is_over()) == ([200], True)


@pytest.mark.parametrize("is_whole", [True, False])
async def test_a_stream_ends_with_its_caller(
    caplog: pytest.LogCaptureFixture, *, is_whole: bool
) -> None:
    """Nobody can tell whether a caller who sends nothing more has left; nothing went wrong."""
    ended = list[str]()

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while (await receive())["type"] != "http.disconnect":
            pass
        ended.append("stream")
        if is_whole:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    caller = Caller(app)
    await caller.send(WHOLE)
    assert caller.protocol.eof_received()
    await settled()
    assert (ended, caller.wire.is_closing()) == (["stream"], True)
    assert caplog.text == ""


@pytest.mark.parametrize(
    "asked",
    [GET, WHOLE, IN_CHUNKS],
    ids=["without a body", "of a length", "in chunks"],
)
async def test_what_follows_a_request_that_waits_is_not_parsed(asked: bytes) -> None:
    """Each has its turn once the answers before it are taken, however many come together."""
    app = Answers()
    app.may_answer.clear()
    caller = Caller(app)
    await caller.send(asked * 200)
    assert len(caller.protocol.pipeline) == 1
    app.may_answer.set()
    for _ in range(200):
        await settled()
    assert caller.wire.statuses == [200] * 200
    await caller.send(asked)
    assert len(caller.wire.statuses) == 201


async def test_what_may_come_behind_a_request_that_waits_is_bounded() -> None:
    """Beyond it the connection ends: by a problem, after the answer under way."""
    app = Answers()
    app.may_answer.clear()
    caller = Caller(app)
    await caller.send(WHOLE * (HELD_BYTES_MAX // len(WHOLE)))
    assert caller.refused == []
    await caller.send(WHOLE * 10)
    assert caller.refused == ["invalid-request"]
    app.may_answer.set()
    await settled()
    assert (caller.wire.statuses, caller.wire.is_over()) == ([200, 400], True)


@pytest.mark.parametrize("framed", [WHOLE, CHUNKED + b"2\r\n{}\r\n0\r\n\r\n"])
async def test_a_body_that_has_ends_of_heads_in_it_is_one_body(framed: bytes) -> None:
    """It is parsed in larger pieces than heads, and comes whole."""
    body = b"\r\n\r\n" * 20_000
    app = Answers()
    caller = Caller(app)
    await caller.send(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body + framed)
    chunk = b"%x\r\n" % len(body) + body
    await caller.send(CHUNKED + chunk + b"\r\n0\r\n\r\n" + framed)
    await settled()
    assert app.read == [body, b"{}", body, b"{}"]


class Slow(Caller):
    """A caller that takes a portion of an answer when it is told to."""

    def __init__(self, app: Any) -> None:
        super().__init__(app)
        self.is_full = False
        self.wire.on_write = self._fill

    def _fill(self) -> None:
        if not self.is_full and len(self.wire.sent) >= PORTION_BYTES:
            self.is_full = True
            self.protocol.pause_writing()

    async def take(self) -> None:
        """Take what was written."""
        self.wire.sent, self.is_full = b"", False
        self.protocol.resume_writing()
        await settled()


async def test_a_long_answer_is_under_way_until_it_is_taken() -> None:
    """It is handed over in portions, so that its caller holds a place for as long as memory."""
    ended, taken = list[str](), 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("x" * 10 * PORTION_BYTES)(scope, receive, send)
        ended.append(scope["path"])

    caller = Slow(app)
    await caller.send(WHOLE)
    assert ended == []
    while not ended:
        assert PORTION_BYTES <= len(caller.wire.sent) < 2 * PORTION_BYTES
        taken += caller.wire.sent.count(b"x")
        await caller.take()
    assert taken + caller.wire.sent.count(b"x") >= 10 * PORTION_BYTES


async def test_a_request_waits_until_the_answer_before_is_taken() -> None:
    """Whoever sends many requests and takes no answer has one request worked on."""
    begun = list[int]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(len(begun))
        await PlainTextResponse("x" * 3 * PORTION_BYTES)(scope, receive, send)

    caller = Slow(app)
    await caller.send(WHOLE * 5)
    assert begun == [0]
    for _ in range(3):
        await caller.take()
    assert begun == [0, 1]


async def test_requests_begin_in_turn_and_probes_beside_them() -> None:
    """However many have come from one address, a probe, and another address, wait for a few."""
    rounds = list[Callable[[], None]]()
    turns, connections = stopped(rounds), Connections[BoundedProtocol](Bounds(1_000, 1_000))
    flood = [Caller(Answers(), connections, turns=turns) for _ in range(10 * BEGUN_AT_ONCE)]
    for caller in flood:
        await caller.send(WHOLE)
    probe = Caller(Answers(), connections, turns=turns)
    await probe.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    other = Caller(Answers(), connections, "10.0.0.2", turns=turns)
    await other.send(WHOLE)
    assert sum(caller.wire.statuses == [200] for caller in flood) == BEGUN_AT_ONCE
    assert (probe.wire.statuses, other.wire.statuses) == ([200], [])
    rounds.pop()()
    await settled()
    assert sum(caller.wire.statuses == [200] for caller in flood) == 2 * BEGUN_AT_ONCE - 1
    assert other.wire.statuses == [200]


async def test_a_request_whose_caller_has_left_before_its_turn_is_dropped() -> None:
    """Nobody would take its answer."""
    rounds = list[Callable[[], None]]()
    turns, app = stopped(rounds), Answers()
    callers = [Caller(app, turns=turns) for _ in range(BEGUN_AT_ONCE + 1)]
    for caller in callers:
        await caller.send(WHOLE)
    callers[-1].protocol.connection_lost(None)
    while rounds:
        rounds.pop()()
        await settled()
    assert len(app.read) == BEGUN_AT_ONCE


async def test_tls_holds_no_more_than_a_portion() -> None:
    """Its own bound is eight times as much; it is told the one of all connections."""
    assert Caller(Answers()).wire.high == PORTION_BYTES


async def test_who_does_not_take_the_answer_is_cut_off() -> None:
    """Unless they go on in time."""
    caller = Caller(Answers())
    await caller.send(WHOLE)
    caller.protocol.pause_writing()
    caller.protocol.resume_writing()
    caller.later(STALL_SECONDS_MAX)
    assert not caller.wire.is_aborted
    caller.protocol.pause_writing()
    caller.later(STALL_SECONDS_MAX)
    assert caller.wire.is_aborted


async def test_an_answer_that_is_never_taken_does_not_keep_a_connection() -> None:
    """Closing waits for what is not sent yet: it is cut off in the end."""
    caller = Caller(PlainTextResponse("no", headers={"Connection": "close"}))
    await caller.send(WHOLE)
    assert (caller.wire.is_closing(), caller.wire.is_aborted) == (True, False)
    caller.later(STALL_SECONDS_MAX)
    assert caller.wire.is_aborted


async def test_whoever_leaves_is_known_to_have_left() -> None:
    """To the request that is answered, also where another waits behind it."""
    left = asyncio.Event()

    async def waits(_scope: Scope, receive: Receive, _send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        left.set()

    caller = Caller(waits)
    await caller.send(WHOLE + WHOLE)
    caller.protocol.connection_lost(None)
    await settled()
    assert left.is_set()


async def test_what_came_in_time_is_not_late_while_it_waits_for_its_turn() -> None:
    """However long others are parsed: a head that is whole is its caller's no more."""
    rounds = list[Callable[[], None]]()
    turns = ConnectionTurns.of(asyncio.get_running_loop().call_soon)
    waiting = Turns(rounds.append, 1)
    turns = replace(turns, short_parsing=waiting)
    waiting.enter(None, lambda: None)  # somebody else's turn
    caller = Caller(Answers(), turns=turns)
    await caller.send(WHOLE)
    caller.later(HEAD_SECONDS_MAX + 1)
    assert not caller.wire.is_aborted
    rounds.pop(0)()
    await settled()
    assert caller.wire.statuses == [200]


async def test_a_request_has_come_with_its_last_byte_not_when_it_is_its_turn() -> None:
    """One behind another comes with the end of the other's answer."""
    came, clock, rounds = list[float](), [10.0], list[Callable[[], None]]()

    async def answers(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()
        came.append(scope["state"][ARRIVED])
        clock[0] += 1
        await PlainTextResponse("ok")(scope, receive, send)

    turns = stopped(rounds)
    for _ in range(BEGUN_AT_ONCE):
        turns.requests.enter(None, lambda: None)  # somebody else's turns
    caller = Caller(answers, turns=turns)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(caller.protocol.loop, "time", lambda: clock[0])
        await caller.send(WHOLE[:-2])
        clock[0] = 12.0
        await caller.send(WHOLE[-2:] + WHOLE)
        clock[0] = 15.0
        while rounds:
            rounds.pop(0)()
            await settled()
    assert caller.wire.statuses == [200, 200]
    assert came == [12.0, 16.0]


async def test_of_callers_who_leave_together_a_few_requests_end_in_each_round() -> None:
    """Each ends with an error, or closes what it opened: thousands would hold up all others."""
    ended, rounds = list[str](), list[Callable[[], None]]()

    async def waits(scope: Scope, receive: Receive, _send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        ended.append(scope["path"])

    turns = ConnectionTurns.of(asyncio.get_running_loop().call_soon)
    turns = replace(turns, leaving=Turns(rounds.append, 2))
    callers = [Caller(waits, turns=turns) for _ in range(5)]
    for caller in callers:
        await caller.send(WHOLE)
    for caller in callers:
        caller.protocol.connection_lost(None)
    for expected in (2, 4, 5):
        await settled()
        assert len(ended) == expected
        rounds.pop(0)()


async def test_a_new_connection_takes_the_place_of_one_that_asks_nothing() -> None:
    """So nobody is locked out by connections that are opened and left alone."""
    connections = Connections[BoundedProtocol](Bounds(100, 1))
    idle = [Caller(Answers(), connections) for _ in range(PLACES_KEPT + 2)]
    caller = Caller(Answers(), connections)
    await caller.send(WHOLE)
    assert caller.wire.statuses == [200]
    assert [one.wire.is_aborted for one in idle] == [True] * 2 + [False] * PLACES_KEPT


async def test_while_the_service_is_full_probes_are_answered() -> None:
    """All else is refused, with when to come again."""
    connections = Connections[BoundedProtocol](Bounds(1, 100))
    app = Answers()
    app.may_answer.clear()
    async with served() as service:
        busy = Caller(app, connections)
        await busy.send(WHOLE)
        caller = Caller(service.app, connections, "10.0.0.2")
        await caller.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        await caller.send(b"GET /v1/session HTTP/1.1\r\nHost: x\r\n\r\n")
    assert caller.wire.statuses == [200, 503]
    assert b"retry-after: 1\r\n" in caller.wire.sent
    assert b"/problems/overloaded" in caller.wire.sent
    app.may_answer.set()
    await settled()

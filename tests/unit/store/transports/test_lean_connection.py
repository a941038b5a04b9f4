"""HTTP as it comes over the lean transport's connections, on each event loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import pytest
from anyio import CancelScope
from anyio.lowlevel import checkpoint
from botocore.exceptions import ConnectionClosedError, ParamValidationError, ReadTimeoutError
from support.bytes_server import CLOSE, OK, BytesServer, answering_bytes
from support.loops import LOOPS

from ledger.store.dynamodb.transport import NeverSent
from ledger.store.transports import lean_connection, lean_pool
from ledger.store.transports.lean_connection import Connection
from ledger.store.transports.lean_pool import Http, open_http

HEADERS = {"Host": "dynamodb", "X-Amz-Target": "DynamoDB_20120810.Query"}
LENGTH_AND_CHUNKS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
)
"""Two ends, of which a server between may have taken the other one."""
LARGE_BYTES = 64 * 1024 * 1024
"""More than the buffers of two sockets hold."""


@pytest.fixture(params=LOOPS)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    """Run each test on asyncio's own loop and on uvloop."""
    return request.param


def opened(server: BytesServer, wait: float = 20) -> AbstractAsyncContextManager[Http]:
    """Open the way to a server."""
    return open_http(server.endpoint, ca_bundle=None, request_timeout=wait, connections_max=4)


async def test_answer_has_status_headers_and_body() -> None:
    """What is looked at of an answer is there, names in small letters."""
    odd = b"HTTP/1.1 400 No\r\nX-AMZ-CRC32: 7\r\nOther: x\r\ncontent-length: 3\r\n\r\nabc"
    async with answering_bytes([odd]) as server, opened(server) as http:
        answer = await http.post(http.head(HEADERS), b"{}")

    assert (answer.status, answer.headers, answer.body) == (400, {"x-amz-crc32": "7"}, b"abc")


async def test_answer_in_chunks_and_after_a_notice_is_whole() -> None:
    """Chunks are put together, and a 100 before the answer is none."""
    chunked = (
        b"HTTP/1.1 100 Continue\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n3\r\nabc\r\n0\r\n\r\n"
    )
    async with answering_bytes([chunked, OK]) as server, opened(server) as http:
        first = await http.post(http.head(HEADERS), b"{}")
        second = await http.post(http.head(HEADERS), b"{}")

    assert (first.status, first.body, second.body) == (200, b"{}abc", b"{}")
    assert server.asked == [1, 1]


@pytest.mark.parametrize(
    "answer",
    [
        CLOSE,
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        LENGTH_AND_CHUNKS,
        LENGTH_AND_CHUNKS.replace(b"Content-Length: 2\r\n", b"").replace(
            b"chunked\r\n", b"chunked\r\nContent-Length: 2\r\n", 1
        ),
        OK.replace(b"\r\n\r\n", b"\r\nContent-Length: 40\r\n\r\n"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}}}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Type: a\r\n b\r\nContent-Length\x00: 2\r\n\r\n{}",
    ],
    ids=[
        "nothing",
        "half a head",
        "half a body",
        "no length",
        "no HTTP",
        "no number",
        "length and chunks",
        "chunks and length",
        "two lengths",
        "negative chunk",
        "chunk too long",
        "blank before the colon",
        "folded, with a zero byte",
    ],
)
async def test_what_is_no_whole_answer_is_an_error(answer: bytes) -> None:
    """An answer that ends early, or is no HTTP, is none, and its connection is not used again."""
    async with answering_bytes([answer]) as server, opened(server) as http:
        with pytest.raises(ConnectionClosedError):
            await http.post(http.head(HEADERS), b"{}")
        assert http._idle == []

    assert server.asked == [1]


async def test_too_long_an_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer is read up to its bound and not further."""
    monkeypatch.setattr(lean_connection, "ANSWER_BYTES_MAX", 90)
    fits = b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n" + b"{" * 50
    endless = b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 99
    notices = b"HTTP/1.1 100 Continue\r\n\r\n" * 99
    # The last answer is never asked for: the server keeps the connection open.
    async with answering_bytes([OK, fits, endless, notices, OK]) as server, opened(server) as http:
        assert (await http.post(http.head(HEADERS), b"{}")).body == b"{}"
        assert (await http.post(http.head(HEADERS), b"{}")).body == b"{" * 50
        for _ in range(2):
            with pytest.raises(ConnectionClosedError):
                await http.post(http.head(HEADERS), b"{}")

    assert server.asked == [1, 1, 1, 2]


@pytest.mark.parametrize(
    "first",
    [
        OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
        OK.replace(b"1.1", b"1.0"),
        OK + OK,
    ],
    ids=["close", "old", "two answers"],
)
async def test_connection_that_ends_or_says_too_much_is_replaced(first: bytes) -> None:
    """A second answer to one request is never taken for the answer to the next."""
    async with answering_bytes([first, OK]) as server, opened(server) as http:
        await http.post(http.head(HEADERS), b"{}")
        await http.post(http.head(HEADERS), b"{}")

    assert server.asked == [1, 2]


async def test_connection_whose_request_is_not_all_sent_is_replaced() -> None:
    """Answered before it was sent, the rest of a request would stand before the next one."""
    async with answering_bytes([OK, OK]) as server, opened(server, wait=5) as http:
        server.early_until = asyncio.Event()
        await http.post(http.head(HEADERS), bytes(LARGE_BYTES))
        await http.post(http.head(HEADERS), b"{}")
        server.early_until.set()

    assert server.asked == [1, 2]


async def test_word_out_of_turn_ends_an_idle_connection() -> None:
    """What a server says unasked ends the connection before the next request."""
    async with answering_bytes([OK, OK]) as server, opened(server) as http:
        await http.post(http.head(HEADERS), b"{}")
        (kept,) = http._idle
        kept.data_received(OK)
        assert (await http.post(http.head(HEADERS), b"{}")).body == b"{}"

    assert server.asked == [1, 2]


async def test_connection_kept_too_long_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection not used for so long may be half dead: it is not used again."""
    async with answering_bytes([OK, OK]) as server, opened(server) as http:
        await http.post(http.head(HEADERS), b"{}")
        monkeypatch.setattr(lean_pool, "KEPT_SECONDS", 0.0)
        await http.post(http.head(HEADERS), b"{}")

    assert server.asked == [1, 2]


async def test_silence_is_bounded_for_each_request_anew() -> None:
    """One timer serves a connection: it ends a request that waits too long, and no other."""
    answers = [OK, OK, b"HTTP/1.1 200 OK\r\n", OK]  # the last keeps the connection open
    async with answering_bytes(answers) as server, opened(server, wait=0.1) as http:
        await http.post(http.head(HEADERS), b"{}")
        await anyio.sleep(0.15)  # the timer fires while no one waits
        await http.post(http.head(HEADERS), b"{}")
        with pytest.raises(ReadTimeoutError):
            await http.post(http.head(HEADERS), b"{}")

    assert server.asked == [1, 1, 1]


async def test_header_cannot_bring_a_line_of_its_own() -> None:
    """A token with the end of a line in it is refused, and nothing is sent."""
    async with answering_bytes([OK]) as server, opened(server) as http:
        with pytest.raises(ParamValidationError, match="a line break"):
            await http.post(
                http.head({**HEADERS, "X-Amz-Security-Token": "a\r\nX-Other: b"}), b"{}"
            )

    assert server.connections == 0


async def test_closing_ends_what_is_under_way_and_lets_nothing_begin() -> None:
    """After `close` a request under way is lost half-way, and a new one was never sent."""
    async with answering_bytes([b"HTTP/1.1 200 OK\r\n"]) as server, opened(server) as http:

        async def post() -> None:
            with pytest.raises(ConnectionClosedError):
                await http.post(http.head(HEADERS), b"{}")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(post)
            with anyio.fail_after(20):
                while not server.asked:
                    await checkpoint()
            await http.close()
        with pytest.raises(NeverSent, match="closed"):
            await http.post(http.head(HEADERS), b"{}")

    assert server.asked == [1]


@asynccontextmanager
async def asking(http: Http, errors: list[str]) -> AsyncIterator[tuple[CancelScope, Connection]]:
    """Begin a request on the kept connection; the block begins in the same turn of the loop."""
    (kept,) = http._idle
    begun = CancelScope()

    async def post() -> None:
        with begun:
            try:
                await http.post(http.head(HEADERS), b"{}")
            except NeverSent as error:
                errors.append(str(error))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(post)
        while kept not in http._busy:
            await checkpoint()
        yield begun, kept


async def test_request_given_up_in_its_turn_is_not_sent() -> None:
    """Requests are sent at the end of the loop's turn: one cancelled before that never arrives."""
    async with answering_bytes([OK, OK]) as server, opened(server) as http:
        await http.post(http.head(HEADERS), b"{}")
        async with asking(http, []) as (begun, _):
            begun.cancel()
        await http.post(http.head(HEADERS), b"{}")

    assert server.asked == [1, 2]


async def test_request_of_a_connection_that_ends_in_its_turn_was_never_sent() -> None:
    """What was not handed to the kernel cannot have arrived; other requests of the turn do."""
    errors: list[str] = []
    async with answering_bytes([OK, OK]) as server, opened(server) as http:
        await http.post(http.head(HEADERS), b"{}")
        async with asking(http, errors) as (_, kept):
            kept.abort()
            await http.post(http.head(HEADERS), b"{}")

    assert ["before the request was sent" in error for error in errors] == [True]
    assert server.asked == [1, 2]


async def test_word_before_the_request_is_sent_is_no_answer() -> None:
    """What a server says before it was asked ends the connection, also in the turn of the ask."""
    errors: list[str] = []
    async with answering_bytes([OK, OK]) as server, opened(server) as http:
        await http.post(http.head(HEADERS), b"{}")
        async with asking(http, errors) as (_, kept):
            kept.data_received(OK)

    assert ["before the request was sent" in error for error in errors] == [True]
    assert server.asked == [1]

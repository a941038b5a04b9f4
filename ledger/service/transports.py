"""Around the transport of a connection: its flow, the first bytes of TLS, answers in portions.

And the problems that end a connection before the application sees a request.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from ledger.runtime.connections import HEAD_BYTES_MAX, HEAD_SECONDS_MAX, HEADERS_MAX
from ledger.service.answers import NOT_APPLIED
from ledger.service.heads import PATH_BYTES_MAX
from ledger.wire.problems import HEAD_TOO_LARGE, INVALID, MEDIA_TYPE, TOO_SLOW, Problem

PORTION_BYTES = 64 * 1024
"""How much of an answer is handed over at once: as much as a connection may hold that waits."""
BODY_SECONDS_MAX = 30.0
"""How long a body may take, from the end of the head on."""
BAD_HTTP = Problem(INVALID, "the request is not valid HTTP/1.1", NOT_APPLIED)
LONG_HEAD = Problem(
    HEAD_TOO_LARGE,
    f"a head may have up to {HEAD_BYTES_MAX:,} bytes and {HEADERS_MAX} headers, and the frames of"
    f" chunks {HEAD_BYTES_MAX:,} bytes more than what is in them",
    NOT_APPLIED,
)
LONG_PATH = Problem(HEAD_TOO_LARGE, f"a path may have up to {PATH_BYTES_MAX:,} bytes", NOT_APPLIED)
LATE = Problem(
    TOO_SLOW,
    f"a head may take {HEAD_SECONDS_MAX:g} s, a body {BODY_SECONDS_MAX:g} s",
    {"outcome": "not_applied", "retryable": True},
)


class Flow(FlowControl):
    """The flow of a connection, where who asks for more gets first what has come already."""

    def __init__(self, transport: asyncio.Transport, parse_held: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._parse_held = parse_held

    def resume_reading(self) -> None:
        """Go on with what is held, or else read."""
        if not self._parse_held():
            super().resume_reading()


async def hand_over(
    transport: asyncio.Transport, own: asyncio.BaseProtocol, take_early: Callable[[], bytes]
) -> None:
    """Give TLS what came before it was there, as soon as it is.

    A loop may read between `connection_made` and the first step of `start_tls`; uvloop does,
    and begins to read after `connection_made` whatever that has paused. The first of the two
    turns of the loop puts the protocol of TLS at the transport, which is paused until the
    second tells that protocol of the connection: so nothing comes in between.
    """
    for _ in range(2):
        await asyncio.sleep(0)
    layer: Any = transport.get_protocol()  # an asyncio.BufferedProtocol
    early = memoryview(take_early())
    if layer is own or layer is None:  # it closes already
        return
    while early:
        buffer = layer.get_buffer(len(early))
        size = min(len(early), len(buffer))
        buffer[:size] = early[:size]
        layer.buffer_updated(size)
        early = early[size:]


def portions(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a part of an answer in several, none of them long."""
    body = message.get("body", b"")
    last = max(0, len(body) - 1) // PORTION_BYTES * PORTION_BYTES
    for start in range(0, last, PORTION_BYTES):
        yield {**message, "body": body[start : start + PORTION_BYTES], "more_body": True}
    yield {**message, "body": body[last:]} if last else message


def answer_of(problem: Problem, headers: Iterable[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """Yield an answer that ends its connection."""
    body = orjson.dumps(problem.fields())
    yield STATUS_LINE[problem.kind.status]
    for name, value in (
        *headers,
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
    ):
        yield b"%b: %b\r\n" % (name, value)
    yield b"\r\n" + body

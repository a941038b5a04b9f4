"""Around the transport of a connection: its flow, the first bytes of TLS, answers in portions.

And the problems that end a connection before the application sees a request.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

import orjson
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from ledger.core.errors import InvalidInput
from ledger.http.service.answers import NOT_APPLIED
from ledger.http.service.heads import PATH_BYTES_MAX, check_target
from ledger.http.wire.problems import HEAD_TOO_LARGE, INVALID, MEDIA_TYPE, TOO_SLOW, Problem
from ledger.runtime.connections import HEAD_BYTES_MAX, HEAD_SECONDS_MAX, HEADERS_MAX

PORTION_BYTES = 16 * 1024
"""How much of an answer is handed over at once: as much as a connection may hold that waits."""
HELD_BYTES_MAX = 1024 * 1024
"""How much may come, unparsed, behind a request that waits, or an answer that ends its connection.
"""
BODY_SECONDS_MAX = 30.0
"""How long a body may take, from the end of the head on."""
TURN_BYTES = 16 * 1024
"""How much is parsed in one round of the event loop: a byte may be a chunk, with its own call."""
DECRYPTED_BYTES = 4 * 1024
"""How much TLS reads in one round: 27 bytes may be a change of keys."""
EnterTurn = Callable[[int, Callable[[], None]], None]
"""Calls once it is the turn of so many bytes of the connection."""
HELLO_BYTES_MAX = 8 * 1024
"""Bytes of records with which a caller begins TLS."""
CERTIFICATE_BYTES_MAX = 64 * 1024
"""Of a caller who has to send a certificate, and those that vouch for it."""
_RECORD_HEADER_BYTES, _MESSAGE_HEADER_BYTES = 5, 4
_FIRST_BYTES = _RECORD_HEADER_BYTES + _MESSAGE_HEADER_BYTES
_HANDSHAKE = 22
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


def _nothing_held() -> bool:
    return True


def _no_more() -> None:
    """Read nothing: the connection is lost."""


class Flow(FlowControl):
    """The flow of a connection, where who asks for more gets first what has come already."""

    def __init__(
        self,
        transport: asyncio.Transport,
        parse_held: Callable[[], bool],
        read_on: Callable[[], None],
    ) -> None:
        super().__init__(transport)
        self._parse_held = parse_held
        self._read_on = read_on

    def resume_reading(self) -> None:
        """Go on with what is held, or else read."""
        if not self._parse_held():
            super().resume_reading()
            self._read_on()

    def end(self) -> None:
        """Let go of the connection, which holds this: a cycle is collected late."""
        self._parse_held, self._read_on = _nothing_held, _no_more


class HelloSize:
    """How many bytes of a handshake come from a caller before they are encrypted.

    The time in which TLS reads them is no multiple of their number: OpenSSL looks for the group of
    each share of a key among all groups that the caller lists. A caller needs less than 4 KB, with
    the longest keys and a session's ticket. Records and messages announce their lengths (RFC 8446,
    4 and 5.1), so what is too long is refused before the end of it has come.

    A caller with a certificate sends it before it encrypts, up to TLS 1.2: `most` is for all that.
    """

    def __init__(self, most: int = HELLO_BYTES_MAX) -> None:
        self._most = most
        self._first = self._header = b""
        self._left = 0
        self._size = 0
        self._has_ended = False

    def exceeds(self, data: bytes) -> bool:
        """Take what comes next; return whether it is more than a caller needs."""
        place = 0
        self._first += data[: _FIRST_BYTES - len(self._first)]
        while place < len(data) and not self._has_ended and self._size <= self._most:
            if self._left:
                step = min(self._left, len(data) - place)
                self._left -= step
            else:
                step = min(_RECORD_HEADER_BYTES - len(self._header), len(data) - place)
                self._header += data[place : place + step]
                if len(self._header) == _RECORD_HEADER_BYTES:
                    self._has_ended = self._header[0] != _HANDSHAKE
                    self._left = int.from_bytes(self._header[3:], "big")
                    self._size += _RECORD_HEADER_BYTES + self._left
                    self._header = b""
            place += step
        return (self._size > self._most and not self._has_ended) or self._is_hello_long

    @property
    def _is_hello_long(self) -> bool:
        """Return whether the first message is too long, or begins with too short a record."""
        record, message = self._first[:_RECORD_HEADER_BYTES], self._first[_RECORD_HEADER_BYTES:]
        if record[:1] != bytes([_HANDSHAKE]) or len(record) < _RECORD_HEADER_BYTES:
            return False
        is_cut = int.from_bytes(record[3:], "big") < _MESSAGE_HEADER_BYTES
        return is_cut or int.from_bytes(message[1:], "big") > HELLO_BYTES_MAX


class TlsTurns(asyncio.Protocol):
    """Stands before TLS, and hands over what comes in turns of `DECRYPTED_BYTES`.

    An operation with a private key takes a millisecond, and few bytes may be many records, or many
    changes of keys, that bring the application nothing: many at once would hold up all others. A
    connection that announces more than a caller needs to begin TLS ends before any of that is read.

    Once the application has closed the connection, what comes is dropped, not decrypted. TLS would
    take the rest of a body for an error and reset the connection, and the answer would be lost.
    """

    def __init__(
        self, transport: asyncio.Transport, layer: Any, enter: EnterTurn, hello: HelloSize
    ) -> None:
        """Take the place of TLS (`layer`, an asyncio.BufferedProtocol) at a transport."""
        self._transport, self._layer, self._enter = transport, layer, enter
        self._encrypted: asyncio.Transport | None = None
        self._came = b""
        self.came_at = 0.0
        self._dropped = 0
        self._is_due = False
        self._hello = hello
        transport.pause_reading()  # it reads for the two in different ways
        transport.set_protocol(self)
        transport.resume_reading()

    def begun(self, encrypted: asyncio.Transport) -> None:
        """Go on for the application, once the handshake has ended."""
        self._encrypted = encrypted

    def data_received(self, data: bytes) -> None:
        """Keep what comes until its turn; nothing more is read."""
        if self._is_closing:
            self._dropped += len(data)
            if self._dropped > HELD_BYTES_MAX:
                self._transport.abort()
        elif self._hello.exceeds(data):
            self._came = b""
            self._transport.abort()
        elif data:
            self._came += data
            self.came_at = asyncio.get_running_loop().time()
            self._transport.pause_reading()
            self.go_on()

    def go_on(self) -> None:
        """Hand over what has come in its turn, unless the application takes nothing now."""
        if self._came and not self._is_due and self._is_taken:
            self._is_due = True
            self._enter(len(self._came), self._turn)

    @property
    def _is_taken(self) -> bool:
        encrypted = self._encrypted
        return encrypted is None or self._is_closing or encrypted.is_reading()

    @property
    def _is_closing(self) -> bool:
        return self._encrypted is not None and self._encrypted.is_closing()

    def close_if_sent(self) -> None:
        """Close for a caller who was told that the connection ends, and need not reply.

        RFC 8446, 6.1. asyncio would wait for the reply, which a pool of idle connections sends
        never.
        """
        if self._is_closing and not self._transport.get_write_buffer_size():
            self._transport.close()

    def _turn(self) -> None:
        # Not at once: an error of TLS would hold the frames of all that called this.
        asyncio.get_running_loop().call_soon(self._hand_over)

    def _hand_over(self) -> None:
        self._is_due = False
        if self._is_closing:
            self._came = b""
        came, self._came = self._came[:DECRYPTED_BYTES], self._came[DECRYPTED_BYTES:]
        while came and not self._transport.is_closing():
            buffer = self._layer.get_buffer(len(came))
            size = min(len(came), len(buffer))
            buffer[:size] = came[:size]
            self._layer.buffer_updated(size)
            came = came[size:]
        if self._came:
            self.go_on()
        elif not self._transport.is_closing():
            self._transport.resume_reading()

    def eof_received(self) -> Any:
        """Tell TLS that nothing more comes."""
        return self._layer.eof_received()

    def pause_writing(self) -> None:
        """Tell TLS that nothing is taken."""
        self._layer.pause_writing()

    def resume_writing(self) -> None:
        """Tell TLS that it is."""
        self._layer.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell TLS that its caller has left."""
        self._came = b""
        self._layer.connection_lost(exc)


async def begin_tls(
    transport: asyncio.Transport,
    own: asyncio.Protocol,
    context: ssl.SSLContext,
    take_early: Callable[[], bytes],
    enter: EnterTurn,
) -> tuple[asyncio.Transport, TlsTurns] | None:
    """Return a transport with TLS and what stands before it, or None if the caller comes to none.

    A loop may read between `connection_made` and the first step of `start_tls`; uvloop does,
    and begins to read after `connection_made` whatever that has paused. The first of the two
    turns of the loop puts the protocol of TLS at the transport, which is paused until the
    second tells that protocol of the connection: so nothing comes in between.
    """
    loop = asyncio.get_running_loop()
    handshake = loop.create_task(
        loop.start_tls(
            transport, own, context, server_side=True, ssl_handshake_timeout=HEAD_SECONDS_MAX
        )
    )
    for _ in range(2):
        await asyncio.sleep(0)
    layer = transport.get_protocol()
    if layer is own or layer is None:  # it closes already
        taking = None
    else:
        asks = context.verify_mode is ssl.CERT_REQUIRED
        hello = HelloSize(CERTIFICATE_BYTES_MAX if asks else HELLO_BYTES_MAX)
        taking = TlsTurns(transport, layer, enter, hello)
        taking.data_received(take_early())
    try:
        encrypted = await handshake
    except (OSError, RuntimeError, asyncio.CancelledError) as error:  # it closes already
        encrypted = None
        error.__traceback__ = None  # else it and its frames hold each other, and all of this
    finally:
        handshake.cancel()  # of one that a caller left nothing may be heard any more
    if taking is None or encrypted is None or transport.is_closing():
        return None
    taking.begun(encrypted)
    return encrypted, taking


def refused_target(url: bytes, host: bytes | None) -> Problem | None:
    """Return why a request's target, which the application gets in parts, is refused."""
    if len(url.partition(b"?")[0]) > PATH_BYTES_MAX:  # uvicorn decodes each code of it
        return LONG_PATH
    try:
        check_target(url.decode("latin-1"), None if host is None else host.decode("latin-1"))
    except InvalidInput as error:
        return Problem(INVALID, str(error), NOT_APPLIED)
    return None


def received_until(
    has_ended: Callable[[], bool], receive: Callable[[], Awaitable[Any]]
) -> Callable[[], Awaitable[Any]]:
    """Return what receives a request's body, and then that its caller sends nothing more."""
    is_whole = False

    async def receive_until_end() -> Any:
        nonlocal is_whole
        if not (is_whole and has_ended()):
            message: Any = await receive()
        if is_whole and has_ended():
            return {"type": "http.disconnect"}
        is_whole = not message.get("more_body", False)
        return message

    return receive_until_end


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

"""A connection to the service: how much, how long and how often it may ask.

uvicorn's fast parser (`httptools`) bounds neither the head of a request nor its time, so this is
uvicorn's protocol with bounds:

::

    made ── TLS, head: 10 s ── body: 30 s ── answer ── idle: 75 s ──┐
                 ^                                                  │
                 └───────────────── a byte comes ───────────────────┘

- A request whose head, or frames, are too long ends with a 431 (`request_sizes`).
- What came is parsed in turns of 16 KB, each once the endpoint has taken the body so far. Until
  then nothing more is read.
- An answer that begins before the body has come ends its connection (`Connection: close`). The rest
  of the body is dropped, not parsed; after 1 MB or 30 s of that the connection is cut off.
- A head that is late ends its connection, a body with a 408.
- An answer is handed over in portions, the next one once its caller has taken the one before; who
  takes 30 s for one is cut off. The request is under way until then: so its caller has no place for
  another, and the next request of the connection waits. `ledger.runtime.connections` bounds what
  waits in all.
- Connections of one address, and all, are bounded: `ledger.runtime.connections` says which gives
  way. An unfinished handshake is a connection, too.
- What follows a request that waits for the answer before is not parsed, nor read on: whoever asks
  and takes no answer costs one request.
- Requests begin in turn (`ledger.http.service.turns`), probes in a row of their own; one whose
  caller has left before its turn is dropped. What comes is decrypted and parsed in turn as well.
- Requests that come together are answered in order; each body has its time from its turn on.
- No upgrade is taken (RFC 9110, 7.8): a body is that which its head declares. CONNECT is refused.
- An error behind a request is answered after that request, and ends the connection.
- A caller who shuts its writing side gets its answers; a stream ends. TLS ends both directions.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, NoReturn

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn import Config
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.server import ServerState

from ledger.http.service.context import ARRIVED, IS_FULL
from ledger.http.service.gate import OPEN_PATHS
from ledger.http.service.heads import head_of
from ledger.http.service.request_sizes import RequestSizes
from ledger.http.service.transports import (
    BAD_HTTP,
    BODY_SECONDS_MAX,
    HELD_BYTES_MAX,
    LATE,
    LONG_HEAD,
    PORTION_BYTES,
    TURN_BYTES,
    Flow,
    TlsTurns,
    answer_of,
    begin_tls,
    portions,
    received_until,
    refused_target,
)
from ledger.http.service.turns import ConnectionTurns
from ledger.http.wire.problems import Kind, Problem
from ledger.runtime.connections import HEAD_SECONDS_MAX, STALL_SECONDS_MAX, Connections

SHORT_BYTES = 1024
"""What is as short as a request of a probe, and waits for nothing that is longer."""
_OF_CONNECTION = frozenset({b"connection", b"proxy-connection"})


class BoundedProtocol(HttpToolsProtocol):
    """One connection; who runs the server calls `end_if_late` each second."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        *,
        connections: "Connections[BoundedProtocol]",
        turns: ConnectionTurns,
        on_refused: Callable[[Kind], None],
    ) -> None:
        super().__init__(config, server_state, {})
        self._connections = connections
        self._turns = turns
        self._on_refused = on_refused
        self._problem = BAD_HTTP
        self._answered: RequestResponseCycle | None = None
        self._last: Problem | None = None
        self._early = self._held = b""
        self._handshake: asyncio.Task[None] | None = None
        self._tls: TlsTurns | None = None
        self._late_at = self._stalled_at = inf
        self._came_at = 0.0
        self._is_open = self._is_resting = self._is_deaf = self._is_due = self._has_ended = False
        self._sizes, self._dropped = RequestSizes(), 0
        self._is_stopping = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, and begin TLS, or take requests."""
        self.transport = transport
        self._wait(HEAD_SECONDS_MAX)
        peer = get_remote_addr(transport)
        leaving = self._connections.enter(self, peer[0] if peer else None)
        for connection in leaving:
            connection.end()
        if self in leaving:
            return
        if self.config.ssl is None:
            self._open(transport)
        else:
            self._handshake = self.loop.create_task(self._encrypt(transport, self.config.ssl))

    def _open(self, transport: asyncio.Transport) -> None:
        self._is_open = True
        # TLS would hold eight times as much before it says that nothing is taken.
        transport.set_write_buffer_limits(high=PORTION_BYTES)
        super().connection_made(transport)
        self.flow = Flow(transport, self._parse_held, self._decrypt)

    async def _encrypt(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        """Begin TLS; what came with the end of the handshake is parsed after it."""
        begun = await begin_tls(transport, self, context, self._take_early, self._enter_turn)
        if begun is None or self.transport.is_closing():
            self.end()
            return
        encrypted, self._tls = begun
        self._open(encrypted)
        if self._early:
            self.data_received(self._early)

    def _decrypt(self) -> None:
        """Go on with what TLS has not read yet."""
        if self._tls is not None:
            self._tls.go_on()

    def _enter_turn(self, size: int, begin: Callable[[], None]) -> None:
        """Let bytes that came wait for the turn of their address."""
        turns = self._turns.short_parsing if size <= SHORT_BYTES else self._turns.parsing
        if not self._is_open:
            turns = self._turns.handshakes
        turns.enter(self._connections.address_of(self), begin)

    def _take_early(self) -> bytes:
        early, self._early = self._early, b""
        return early

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection in its turn; a request that is answered then learns of it."""
        for asked in filter(None, (self._answered, self.cycle)):
            asked.disconnected = True
        self._turns.leaving.enter(None, partial(self._forget, exc))

    def _forget(self, exc: Exception | None) -> None:
        self._leave()
        if self._answered is not None:
            self._answered.message_event.set()
        self._tls = None
        super().connection_lost(exc)
        if isinstance(self.flow, Flow):
            self.flow.end()
        self._unset_keepalive_if_required()  # else the timer holds the connection while it runs

    def end(self) -> None:
        """Cut the connection off."""
        self._leave()
        self._tls = None
        self.transport.abort()
        if not self._is_open:
            self.parser = None  # type: ignore[assignment]  # as uvicorn does, once it is open

    def shutdown(self) -> None:
        """Close once what is under way is answered; nobody waits for the rest of a body."""
        self._is_stopping = True
        super().shutdown()

    def _leave(self) -> None:
        """Count the connection no more, and end what waits for it: a cycle is collected late."""
        self._connections.leave(self)
        if self._handshake is not None:
            self._handshake.cancel()
            self._handshake = None

    def end_if_late(self, now: float) -> None:
        """End the connection if its caller has let it wait for too long."""
        if self._tls is not None and (self._is_stopping or not self._is_deaf):
            self._tls.close_if_sent()
        if now < self._stalled_at and self._is_due:
            return  # what came waits for its turn, which is not its caller's fault
        if now >= self._stalled_at or (now >= self._late_at and not self._is_answering):
            self.end()
        elif now >= self._late_at:
            self._refuse(LATE)

    @property
    def _is_answering(self) -> bool:
        answered = self._answered
        return answered is not None and not (answered.response_complete or answered.disconnected)

    def data_received(self, data: bytes) -> None:
        """Parse what came; it comes while a request waits only where one looks for its caller."""
        if not self._is_open:
            self._early += data
            return
        if self._is_deaf:
            self._dropped += len(data)
            if self._dropped > HELD_BYTES_MAX and not self._is_answering:
                self.end()
            return
        if self._is_resting:
            self._is_resting = False
            self._wait(HEAD_SECONDS_MAX)
        self._held += data
        now = self.loop.time() if self._tls is None else self._tls.came_at
        self._came_at = max(self._came_at, now)
        if not self._is_due:
            self._is_due = True
            self._enter_parsing()
        if self._is_due:
            self.flow.pause_reading()
        if len(self._held) > HELD_BYTES_MAX:
            self._refuse(BAD_HTTP)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Return whether to go on: a caller who sends nothing more still gets its answers."""
        self._has_ended = self.scheme == "http"
        if self._answered is not None:
            self._turns.leaving.enter(None, self._answered.message_event.set)
        return self._has_ended and self._is_unanswered

    @property
    def _is_unanswered(self) -> bool:
        """Return whether there is a whole request to answer; half a body comes to no end."""
        if self._held or self._is_due:
            return True
        answered = self._answered
        return self._is_answering and (self._is_deaf or answered is None or not answered.more_body)

    def _close_if_answered(self) -> None:
        """Close after the last answer of a caller who sends nothing more."""
        if self._has_ended and not self._is_unanswered:
            self.transport.close()

    def _parse_held(self) -> bool:
        """Parse what is held in the next round; return whether there is any that may be parsed."""
        if not self._held or self.pipeline:
            return False
        if not self._is_due:
            self._is_due = True
            self.loop.call_soon(self._enter_parsing)
        return True

    def _enter_parsing(self) -> None:
        self._enter_turn(len(self._held), self._parse)

    def _parse(self) -> None:
        """Parse for one turn, and go on once the endpoint has taken what came of a body."""
        self._is_due = False
        if not self._is_untaken:
            self._parse_turn()
        if self._held:
            self.flow.pause_reading()
        if not self._is_untaken and not self.pipeline:
            self.flow.resume_reading()
        self._close_if_answered()

    @property
    def _is_untaken(self) -> bool:
        """Return whether the endpoint will ask for more of a body, but has not yet."""
        return self.cycle is not None and self.cycle.more_body and bool(self.cycle.body)

    def _parse_turn(self) -> None:
        """Parse in pieces, so that nothing is parsed after what is refused, or after what waits."""
        data, self._held, start = self._held, b"", 0
        while start < min(len(data), TURN_BYTES) and not self.pipeline:
            if self._is_deaf or self.transport.is_closing():
                return
            piece = self._sizes.next_piece(data, start)
            start += self._feed(piece)
            if self._sizes.is_overhead_long:
                self._refuse(LONG_HEAD)
        if not self._is_deaf:
            self._held = data[start:]

    def _feed(self, piece: bytes) -> int:
        """Parse a piece; return how many bytes of it were parsed."""
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(piece)
        except HttpParserUpgrade as upgrade:
            head = head_of(
                self.parser.get_method(), self.url, self.parser.get_http_version(), self.headers
            )
            self.parser = HttpRequestParser(self)
            self._feed(head)
            return int(upgrade.args[0])
        except HttpParserError:
            self._refuse(self._problem)
        return len(piece)

    def on_message_begin(self) -> None:
        """Begin a request, whose head may begin while the one before it is answered."""
        self._sizes.begin()
        if self._late_at == inf:
            self._wait(HEAD_SECONDS_MAX)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        if self._sizes.take_target(len(url)):
            self._stop(LONG_HEAD)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer: these count, and are nothing else.

        A trailer is no part of the head that was checked (RFC 9110, 6.5.1), and a proxy on the way
        checks and replaces headers alone.
        """
        if self._sizes.take_header(name, value):
            self._stop(LONG_HEAD)
        if self._sizes.is_in_head:
            super().on_header(name, value.rstrip(b" \t"))  # RFC 9110, 5.5
        elif name.lower() in _OF_CONNECTION:  # the parser takes it, and refuses the others
            raise ValueError("a trailer says nothing of the connection (RFC 9110, 6.5.1)")

    def _stop(self, problem: Problem) -> NoReturn:
        """Stop the parser, so that `_feed` refuses the request."""
        self._problem = problem
        raise ValueError(problem.detail)

    def on_headers_complete(self) -> None:
        """Begin to answer, or to wait for the answers before; raise ValueError if it is refused."""
        if self.parser.get_method() == b"CONNECT":
            raise ValueError("this is no proxy (RFC 9110, 9.3.6)")
        if self.parser.should_upgrade():
            return  # `_feed` gives the head to a parser anew
        headers = dict(self.headers)
        if (problem := refused_target(self.url, headers.get(b"host"))) is not None:
            self._stop(problem)
        self._sizes.end_head(headers.get(b"content-length", b"0"))
        self._wait(BODY_SECONDS_MAX)
        if self.parser.get_http_version() == "1.0":
            self.expect_100_continue = False  # RFC 9110, 10.1.1
        self.scope["state"][IS_FULL] = self._connections.work(self)
        super().on_headers_complete()
        if self.pipeline:
            self._late_at = inf  # nothing more is parsed until its turn

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._sizes.take_body(len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the request is whole: from now on its caller waits."""
        if self.parser.should_upgrade():
            return
        self._sizes.end()
        self._late_at = inf
        self.scope["state"][ARRIVED] = self._came_at
        super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answered = cycle
        cycle.scope["state"][ARRIVED] = self._came_at
        is_probe = cycle.scope["path"] in OPEN_PATHS
        turns = self._turns.probes if is_probe else self._turns.requests
        turns.enter(self._connections.address_of(self), partial(self._begin, cycle, app))

    def _begin(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        if not cycle.disconnected:
            super()._start_asgi_task(cycle, partial(self._run, cycle, app))

    async def _run(
        self,
        cycle: RequestResponseCycle,
        app: ASGI3Application,
        scope: Any,
        receive: Any,
        send: Any,
    ) -> None:
        """Answer a request; it is under way until its answer is taken."""

        async def hand_over(message: Any) -> None:
            is_early = cycle.more_body and not cycle.response_started
            if is_early:
                self._is_deaf, self._held = True, b""
                cycle.keep_alive = False  # the answer says so
            size = len(message.get("body", b""))
            is_long = size > PORTION_BYTES
            for connection in self._connections.owe(self, size) if is_long else ():
                connection.end()
            for portion in portions(message):
                await send(portion)  # once the one before is taken
            if is_early:
                cycle.keep_alive = True  # it is `_drop_rest` that ends the connection
            await self.flow.drain()
            if is_long:
                self._connections.take(self, size)

        await app(scope, received_until(lambda: self._has_ended, receive), hand_over)
        if self._has_ended and cycle.response_started and not cycle.response_complete:
            cycle.disconnected = True  # a stream ends with its caller, which is no error
            self.transport.close()

    def on_response_complete(self) -> None:
        """Go on with the next request, wait for one, or end the connection."""
        answered, is_last = self._answered, not self.pipeline
        self._came_at = self.loop.time()  # what came behind it is under way from now on
        super().on_response_complete()  # which begins the next one
        if self.transport.is_closing():
            self._wait(STALL_SECONDS_MAX)
        elif self._last is not None:
            self._end_by(self._last)
        elif answered is not None and answered.more_body:
            self._drop_rest()
        elif not is_last:
            if self.cycle.more_body:
                self._wait(BODY_SECONDS_MAX)
            self._parse()  # what came of its body is there before it begins
        else:
            self._connections.wait(self)
            if self._late_at == inf:  # else a part of a request has come already
                self._is_resting = True
                # uvicorn closes it before, but waits for what was not taken.
                self._wait(self.timeout_keep_alive + STALL_SECONDS_MAX)
        self._parse_held()
        self._close_if_answered()

    def _drop_rest(self) -> None:
        """End the answer, and drop the rest of the body until the caller has left.

        Closed at once, with bytes unread, the connection would be reset, and the answer lost
        (RFC 9112, 9.6).
        """
        self._connections.wait(self)
        self._wait(STALL_SECONDS_MAX)
        self._held = b""
        self.flow.resume_reading()  # else its leaving would not be seen
        # TLS tells the caller, and hands over nothing more.
        if self._is_stopping or not self.transport.can_write_eof():
            self.transport.close()
            return
        with suppress(OSError):  # the caller has left meanwhile
            self.transport.write_eof()

    def pause_writing(self) -> None:
        """Note that the caller does not take the answer."""
        self._stalled_at = self.loop.time() + STALL_SECONDS_MAX
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that it does again."""
        self._stalled_at = inf
        super().resume_writing()

    def _refuse(self, problem: Problem) -> None:
        """End the connection by a problem, after the answer that is under way, if there is one."""
        if self._is_deaf:
            return
        self._is_deaf = True
        self._on_refused(problem.kind)
        answered = self._answered
        if answered is not None and self._is_answering:
            if answered is not self.cycle or not answered.more_body:
                self._last = problem
                self.pipeline.clear()
                self._late_at = inf
                return
            answered.disconnected = True
            answered.message_event.set()
            if answered.response_started:
                self.end()
                return
        self._end_by(problem)

    def _end_by(self, problem: Problem) -> None:
        self.transport.write(b"".join(answer_of(problem, self.server_state.default_headers)))
        if self._has_ended:
            self.transport.close()
            self._wait(STALL_SECONDS_MAX)
        else:
            self._drop_rest()

    def _wait(self, seconds: float) -> None:
        self._late_at = self.loop.time() + seconds

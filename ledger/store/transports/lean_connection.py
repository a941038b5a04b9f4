"""One persistent HTTP/1.1 connection: one request at a time, its answer parsed by httptools.

    made -> idle -> waiting -> idle ...       a complete answer that keeps the connection
                       |
                       +-----> lost           closed, reset, too slow, too long, not HTTP, cancelled

A connection on which anything went wrong with a request is closed and never used again, so late
data can never be taken for the answer to another request.
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, cast

from botocore.exceptions import ConnectionClosedError, ReadTimeoutError
from httptools import HttpParserError, HttpResponseParser

from ledger.runtime.aws_answers import CHECKSUM_HEADER, REQUEST_ID_HEADER
from ledger.store.dynamodb.transport import NeverSent
from ledger.store.retry import RETRY_AFTER_HEADER

ANSWER_BYTES_MAX = 32 * 1024 * 1024
"""Limit of one answer; DynamoDB's largest has 16 MB of items."""
_KEPT_HEADERS = {
    name.encode(): name
    for name in ("content-type", "date", CHECKSUM_HEADER, REQUEST_ID_HEADER, RETRY_AFTER_HEADER)
}
_FINAL_STATUS_MIN = 200


class HttpAnswer(NamedTuple):
    """A complete answer; of its headers, the relevant ones, in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connection(asyncio.Protocol):
    """One connection to `where`, made by an event loop's `create_connection`.

    `wait_seconds` is the longest time without a byte of the answer. With `head_only` an answer ends
    with its head, as answers to CONNECT do.
    """

    def __init__(self, where: str, *, wait_seconds: float, head_only: bool = False) -> None:
        self.idle_since = 0.0
        self._where = where
        self._wait_seconds = wait_seconds
        self._head_only = head_only
        self._loop = asyncio.get_running_loop()
        self._lost = self._loop.create_future()
        self._waiting: asyncio.Future[HttpAnswer] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._heard = 0.0
        self._begin()

    def _begin(self) -> None:
        self._parser = HttpResponseParser(self)
        self._clear()

    def _clear(self) -> None:
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._size_bytes = 0

    # Used by the pool

    @property
    def usable(self) -> bool:
        """Whether the next request may be sent here."""
        return self._waiting is None and not self.transport.is_closing()

    def ask(self, request: bytes) -> "asyncio.Future[HttpAnswer]":
        """Send one request; the caller aborts the connection if waiting for the answer fails.

        Raises, from the wait:
            NeverSent: the connection was closed before.
            ConnectionClosedError, ReadTimeoutError: it may or may not have arrived.
        """
        waiting: asyncio.Future[HttpAnswer] = self._loop.create_future()
        self.send(request, waiting)
        return waiting

    def send(self, request: bytes, waiting: "asyncio.Future[HttpAnswer]") -> None:
        """Send one request for which someone waits already; if they gave up, it is not sent."""
        if waiting.done():
            return
        if self.transport.is_closing():
            reason = "closed before the request was sent"
            waiting.set_exception(NeverSent(endpoint_url=self._where, error=reason))
            return
        self._waiting = waiting
        self._heard = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_at(self._heard + self._wait_seconds, self._look)
        self.transport.write(request)

    def abort(self) -> None:
        """Close the connection immediately, whatever is under way."""
        self.transport.abort()

    async def close(self) -> None:
        """Close the connection and wait until it is closed."""
        self.transport.close()
        await asyncio.shield(self._lost)

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        # uvloop's transports do not inherit from asyncio's classes.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parse received data."""
        self._heard = self._loop.time()
        self._size_bytes += len(data)
        if self._waiting is None or self._size_bytes > ANSWER_BYTES_MAX:
            self._fail(self._closed(f"{self._size_bytes} bytes that are not an answer"))
            return
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._fail(self._closed(f"not HTTP: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake the waiters."""
        self._tell(self._closed(str(exc or "by the other side")))
        if self._timer is not None:
            self._timer.cancel()
        if not self._lost.done():
            self._lost.set_result(None)

    # Called by the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a relevant header."""
        kept = _KEPT_HEADERS.get(name.lower())
        if kept is not None:
            self._headers[kept] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """End an answer that has only a head."""
        if self._head_only:
            self._done()

    def on_body(self, body: bytes) -> None:
        """Append a part of the body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """End the answer, unless it is an interim one."""
        if self._parser.get_status_code() >= _FINAL_STATUS_MIN and not self._head_only:
            self._done()

    def _done(self) -> None:
        waiting, self._waiting = self._waiting, None
        status = self._parser.get_status_code()
        answer = HttpAnswer(status, self._headers, b"".join(self._body))
        self._clear()
        self.idle_since = self._heard
        # Data still being sent, or arriving later, belongs to no other request.
        kept = self._parser.should_keep_alive() and not self.transport.get_write_buffer_size()
        if not (kept or self._head_only):
            self.transport.close()
        if waiting is None:
            self.abort()
        elif not waiting.done():
            waiting.set_result(answer)

    def _look(self) -> None:
        """Check whether the answer is overdue; one timer serves many requests."""
        self._timer = None
        if self._waiting is None:
            return
        due = self._heard + self._wait_seconds
        if self._loop.time() < due:
            self._timer = self._loop.call_at(due, self._look)
        else:
            self._fail(ReadTimeoutError(endpoint_url=self._where))

    def _closed(self, reason: str) -> ConnectionClosedError:
        return ConnectionClosedError(endpoint_url=self._where, error=reason)

    def _fail(self, error: Exception) -> None:
        self._tell(error)
        self.abort()

    def _tell(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)

"""POSTs to one endpoint over a pool of persistent connections.

Built on asyncio's protocols with httptools, chosen by measurement: a request takes a third of the
CPU time that it takes on aiohttp. Errors are botocore's, with one distinction made exact:
`NeverSent` if no connection was available, so nothing can have arrived.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from botocore.exceptions import ConnectionError as BotoConnectionError
from botocore.exceptions import ParamValidationError

from ledger.store.dynamodb.transport import NeverSent
from ledger.store.transports.lean_connection import Answer, Connection
from ledger.store.transports.lean_dial import Dialer, make_dialer

KEPT_SECONDS = 12.0
"""How long an idle connection is kept, as aiobotocore does."""
CLOSE_SECONDS_MAX = 2.0


class Http:
    """One endpoint; made by `open_http`."""

    def __init__(self, dialer: Dialer, *, wait_seconds: float, connections_max: int) -> None:
        self._loop = asyncio.get_running_loop()  # looking it up each time is a system call
        self._dialer = dialer
        self._first_line = f"POST {dialer.target} HTTP/1.1"
        self._wait_seconds = wait_seconds
        self._places = asyncio.Semaphore(connections_max)
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._unsent: list[tuple[Connection, bytes, asyncio.Future[Answer]]] = []
        self._closed = False

    def head(self, headers: Mapping[str, str]) -> bytes:
        """Return the head of a request, without its length and its end.

        Raises:
            ParamValidationError: a header contains a line break.
        """
        given = [f"{name}: {value}" for name, value in headers.items()]
        lines = [self._first_line, *self._dialer.headers, *given]
        head = "\r\n".join(lines)
        if head.count("\n") != len(lines) - 1:
            raise ParamValidationError(report="a header contains a line break")
        return head.encode("latin-1")

    async def post(self, head: bytes, body: bytes) -> Answer:
        """Send one request, once, and read its answer; redirects are answers.

        Raises:
            NeverSent: no connection was available.
            ConnectionClosedError, ReadTimeoutError: it was lost half-way, or not answered in time.
        """
        if self._places.locked():
            await self._place()
        else:
            await self._places.acquire()  # at once
        try:
            connection = self._kept() or await self._dial()
            self._busy.add(connection)
            try:
                answer = await self._asked(
                    connection, b"%b\r\nContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
                )
            except BaseException:
                connection.abort()
                raise
            finally:
                self._busy.discard(connection)
            if connection.usable and not self._closed:
                self._idle.append(connection)
            return answer
        finally:
            self._places.release()

    async def close(self) -> None:
        """Close every connection; requests under way are lost."""
        self._closed = True
        for connection in self._busy:
            connection.abort()
        idle, self._idle = self._idle, []
        if idle:
            closing = [asyncio.create_task(connection.close()) for connection in idle]
            _, late = await asyncio.wait(closing, timeout=CLOSE_SECONDS_MAX)
            for task in late:
                task.cancel()
            for connection in idle:
                connection.abort()

    def _asked(self, connection: Connection, request: bytes) -> "asyncio.Future[Answer]":
        """Return the wait for an answer; the request is sent at the end of the loop's turn.

        All requests of a turn are sent together: each enters the kernel, after which Python finds
        the processor's caches cold.
        """
        if not self._unsent:
            self._loop.call_soon(self._send)
        waiting: asyncio.Future[Answer] = self._loop.create_future()
        self._unsent.append((connection, request, waiting))
        return waiting

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, []
        for connection, request, waiting in unsent:
            connection.send(request, waiting)

    async def _place(self) -> None:
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._places.acquire()
        except TimeoutError:
            raise self._never("no connection was free in time") from None

    def _kept(self) -> Connection | None:
        """Take the most recently used connection that can be used again."""
        now = self._loop.time()
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and now - connection.idle_since < KEPT_SECONDS:
                return connection
            connection.abort()
        return None

    async def _dial(self) -> Connection:
        if self._closed:
            raise self._never("it was closed")
        try:
            async with asyncio.timeout(self._wait_seconds):
                return await self._dialer.dial()
        except (OSError, RuntimeError, BotoConnectionError) as error:
            raise self._never(str(error) or type(error).__name__) from error

    def _never(self, reason: str) -> NeverSent:
        return NeverSent(endpoint_url=self._dialer.url, error=reason)


@asynccontextmanager
async def open_http(
    url: str, *, ca_bundle: str | None, request_timeout: float, connections_max: int
) -> AsyncIterator[Http]:
    """Open the route to one endpoint.

    `request_timeout` bounds the wait for a connection, free or made, and each wait for data.

    Raises:
        SettingsError: the bundle of certificates cannot be read.
    """
    dialer = await make_dialer(url, ca_bundle=ca_bundle, wait_seconds=request_timeout)
    http = Http(dialer, wait_seconds=request_timeout, connections_max=connections_max)
    try:
        yield http
    finally:
        await http.close()

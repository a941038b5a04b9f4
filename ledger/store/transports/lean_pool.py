"""POSTs to one endpoint over a pool of persistent connections, straight or through a proxy.

The pool finds certificates and proxies where botocore does, and sets TLS up as it does. If an
address of a host does not answer at once, the next one is tried in parallel, so that a network
without working IPv6 costs a moment and not the whole time-out (RFC 8305; aiobotocore has it from
aiohttp).

Built on asyncio's protocols with httptools, chosen by measurement: a request takes a third of the
CPU time that it takes on aiohttp. Errors are botocore's, with one distinction made exact:
`NeverSent` if no connection was available, so nothing can have arrived.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast
from urllib.parse import SplitResult, urlsplit

from aiohappyeyeballs import AddrInfoType, start_connection
from botocore.exceptions import ConnectionError as BotoConnectionError
from botocore.exceptions import ParamValidationError
from botocore.httpsession import ProxyConfiguration
from botocore.utils import get_environ_proxies

from ledger.core.errors import SettingsError
from ledger.core.urls import without_passwords
from ledger.settings.groups import is_url
from ledger.store.dynamodb.transport import NeverSent
from ledger.store.transports.lean_connection import Connection, HttpAnswer
from ledger.store.transports.trust import trusting

NEXT_ADDRESS_SECONDS = 0.25
"""The wait after which the next address is tried in parallel."""
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Dialer:
    """The route to one endpoint; `headers` go with every request, as plain proxies require."""

    url: str
    wait_seconds: float
    trust: ssl.SSLContext | None
    proxy: SplitResult | None
    credentials: Sequence[str]

    @property
    def headers(self) -> Sequence[str]:
        """The credentials in every request to a proxy that forwards it."""
        return () if self._tunnels else self.credentials

    @property
    def target(self) -> str:
        """The target in the first line of a request."""
        there = urlsplit(self.url)
        path = there.path or "/"
        forwarded = self.proxy is not None and not self._tunnels
        return f"{there.scheme}://{there.netloc}{path}" if forwarded else path

    @property
    def _tunnels(self) -> bool:
        return self.url.startswith("https:")

    async def dial(self) -> Connection:
        """Make a connection.

        Raises:
            OSError: it was refused, not trusted, or the proxy did not make it.
        """
        there = urlsplit(self.url)
        if self.proxy is None:
            return await self._connect(there)
        first = await self._connect(self.proxy, head_only=self._tunnels)
        return await self._tunnel(first, there) if self._tunnels else first

    async def _connect(self, to: SplitResult, *, head_only: bool = False) -> Connection:
        context = self.trust if to.scheme == "https" else None
        connected = await _connected(to.hostname or "", to.port or _PORTS[to.scheme])
        try:
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: Connection(self.url, wait_seconds=self.wait_seconds, head_only=head_only),
                sock=connected,
                ssl=context,
                server_hostname=to.hostname if context else None,
            )
        except BaseException:
            connected.close()
            raise
        return connection

    async def _tunnel(self, first: Connection, there: SplitResult) -> Connection:
        """Ask a proxy for a tunnel, and start TLS through it."""
        to = f"{there.hostname}:{there.port or _PORTS[there.scheme]}"
        lines = (f"CONNECT {to} HTTP/1.1", f"Host: {to}", *self.credentials, "", "")
        try:
            answer = await first.ask("\r\n".join(lines).encode("latin-1"))
        except BaseException:
            first.abort()
            raise
        if answer.status != HTTPStatus.OK:
            first.abort()
            raise ConnectionRefusedError(f"the proxy answered {answer.status} to CONNECT {to}")
        try:
            connection = Connection(self.url, wait_seconds=self.wait_seconds)
            transport = await asyncio.get_running_loop().start_tls(
                first.transport,
                connection,
                cast("ssl.SSLContext", self.trust),
                server_hostname=there.hostname,
            )
        except BaseException:
            first.abort()
            raise
        if transport is None:
            raise ConnectionResetError("the proxy closed the tunnel")
        connection.connection_made(transport)
        return connection


async def _connected(host: str, port: int) -> socket.socket:
    found = await addresses(host, port)
    connected = await start_connection(found, happy_eyeballs_delay=NEXT_ADDRESS_SECONDS)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


async def addresses(host: str, port: int) -> Sequence[AddrInfoType]:
    """Return the addresses of a host, in the order in which to try them.

    Raises:
        OSError: it has none.
    """
    loop = asyncio.get_running_loop()
    return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def make_dialer(url: str, *, ca_bundle: str | None, wait_seconds: float) -> Dialer:
    """Look up the route to an endpoint as botocore does.

    Raises:
        SettingsError: the bundle of certificates cannot be read, or the proxy is not a URL.
    """
    proxies = ProxyConfiguration(proxies=get_environ_proxies(url))
    proxy = proxies.proxy_url_for(url)
    if proxy and not is_url(proxy):
        raise SettingsError(
            f"the proxy {without_passwords(proxy)!r} (HTTP_PROXY, HTTPS_PROXY or ALL_PROXY) is not"
            " an http or https URL"
        )
    given = proxies.proxy_headers_for(proxy) if proxy else {}
    uses_tls = url.startswith("https:") or (proxy or "").startswith("https:")
    return Dialer(
        url=url,
        wait_seconds=wait_seconds,
        trust=await trusting(ca_bundle) if uses_tls else None,
        proxy=urlsplit(proxy) if proxy else None,
        credentials=[f"{name}: {value}" for name, value in given.items()],
    )


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
        self._unsent: list[tuple[Connection, bytes, asyncio.Future[HttpAnswer]]] = []
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

    async def post(self, head: bytes, body: bytes) -> HttpAnswer:
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

    def _asked(self, connection: Connection, request: bytes) -> "asyncio.Future[HttpAnswer]":
        """Return the wait for an answer; the request is sent at the end of the loop's turn.

        All requests of a turn are sent together: each enters the kernel, after which Python finds
        the processor's caches cold.
        """
        if not self._unsent:
            self._loop.call_soon(self._send)
        waiting: asyncio.Future[HttpAnswer] = self._loop.create_future()
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

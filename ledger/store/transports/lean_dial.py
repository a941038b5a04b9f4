"""Making connections to one endpoint: straight, or through a proxy; with TLS or without.

Certificates and proxies are found where botocore finds them, and TLS is set up as it does. If an
address of a host does not answer at once, the next one is tried in parallel, so that a network
without working IPv6 costs a moment and not the whole time-out (RFC 8305; aiobotocore has it from
aiohttp).
"""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast
from urllib.parse import SplitResult, urlsplit

from aiohappyeyeballs import AddrInfoType, start_connection
from botocore.httpsession import ProxyConfiguration
from botocore.utils import get_environ_proxies

from ledger.core.errors import SettingsError
from ledger.core.redaction import without_passwords
from ledger.settings.groups import is_url
from ledger.store.transports.lean_connection import Connection
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

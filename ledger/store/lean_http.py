"""POSTs to one endpoint over kept connections, on aiohttp.

Certificates and proxies are found where botocore finds them. Errors come out as botocore's, with
one distinction made exact: `NeverSent` where no connection was made, so that nothing can have
arrived. A connection whose caller is cancelled in the middle is closed, never used again.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp
from botocore.exceptions import ConnectionClosedError, HTTPClientError, ReadTimeoutError
from botocore.httpsession import ProxyConfiguration, get_cert_path
from botocore.utils import get_environ_proxies
from yarl import URL

from ledger.store.transport import NeverSent

KEPT_SECONDS = 12.0
"""How long a connection is kept without use, as aiobotocore keeps its own."""
READ_BYTES = 256 * 1024
"""Of an answer, taken from the socket before the sender is told to wait; pages are up to 1 MB."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Http:
    """One endpoint; made by `open_http`."""

    def __init__(self, session: aiohttp.ClientSession, url: str, proxy: str | None) -> None:
        self._session = session
        self._url = URL(url if urlsplit(url).path else f"{url}/", encoded=True)
        self._proxy = proxy

    async def post(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send one request, once, and read its answer; redirects are answers.

        Raises:
            NeverSent: no connection was made.
            HTTPClientError: it was lost half-way, or not answered in time.
        """
        where = str(self._url)
        try:
            async with self._session.post(
                self._url, data=body, headers=headers, allow_redirects=False, proxy=self._proxy
            ) as response:
                return Answer(response.status, response.headers, await response.read())
        except _NEVER_SENT as error:
            raise NeverSent(endpoint_url=where, error=_told(error)) from error
        except TimeoutError as error:
            raise ReadTimeoutError(endpoint_url=where, error=error) from error
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError) as error:
            raise ConnectionClosedError(endpoint_url=where, error=error) from error
        except (aiohttp.ClientError, OSError) as error:
            raise HTTPClientError(error=_told(error)) from error

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()


# A connector's errors, a certificate that is not trusted among them, come before a request.
_NEVER_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
)


def _told(error: Exception) -> str:
    return str(error) or type(error).__name__


@asynccontextmanager
async def open_http(
    url: str, *, ca_bundle: str | None, request_timeout: float, connections_max: int
) -> AsyncIterator[Http]:
    """Open the connections to one endpoint.

    `request_timeout` bounds the wait for a connection, free or made, and each wait for data.

    Raises:
        OSError: the CA bundle cannot be read.
    """
    proxy = ProxyConfiguration(proxies=get_environ_proxies(url)).proxy_url_for(url)
    # Reading a bundle of certificates takes longer than an event loop should stand still.
    trust = await asyncio.to_thread(_trust, ca_bundle) if _uses_tls(url, proxy) else True
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=connections_max, keepalive_timeout=KEPT_SECONDS, ssl=trust
        ),
        timeout=aiohttp.ClientTimeout(
            total=None, connect=request_timeout, sock_read=request_timeout
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        read_bufsize=READ_BYTES,
        skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
    )
    async with session:
        yield Http(session, url, proxy)


def _uses_tls(url: str, proxy: str | None) -> bool:
    return url.startswith("https:") or (proxy or "").startswith("https:")


def _trust(ca_bundle: str | None) -> ssl.SSLContext:
    """Trust the given bundle, else the one of REQUESTS_CA_BUNDLE, else botocore's."""
    bundle = ca_bundle or os.environ.get("REQUESTS_CA_BUNDLE") or get_cert_path(verify=True)
    return ssl.create_default_context(cafile=bundle)

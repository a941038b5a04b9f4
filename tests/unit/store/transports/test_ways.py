"""The way to the endpoint by each transport: certificates, proxies, and what was never sent."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
import trustme
from support import proxy
from support.bytes_server import OK, answering_bytes
from support.ledgers import HOME, make_settings
from support.loops import LOOPS
from support.scripted import done, scripted
from support.wire import PUTS, TRANSPORTS

from ledger.core.errors import SettingsError, Unreachable
from ledger.store.connections import open_store
from ledger.store.transports import lean_pool
from ledger.store.transports.lean_pool import open_http
from ledger.store.writes import Applied
from ledger.testing.clock import ManualClock

AUTHORITY = trustme.CA()


@pytest.fixture(params=LOOPS)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    """Run each test on asyncio's own loop and on uvloop."""
    return request.param


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without proxies and bundles in the environment."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the AWS SDK, and us, trust a certificate authority of our own."""
    bundle = tmp_path / "authority.pem"
    AUTHORITY.cert_pem.write_to_path(bundle)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(bundle))


def tls(host: str = "127.0.0.1", **more: Any) -> ssl.SSLContext:
    """Return a server's side of TLS, with a certificate for this host."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue_cert(host, **more).configure_cert(context)
    return context


Opening = Callable[[str], Any]


@pytest.fixture(params=TRANSPORTS)
def opening(request: pytest.FixtureRequest) -> Opening:
    """Return what opens a store over each transport to an endpoint."""

    def open_to(endpoint: str) -> Any:
        regions = {HOME: {"endpoint": endpoint}}
        settings = make_settings(regions=regions, transport=request.param, request_timeout=20)
        return open_store(settings, HOME, clock=ManualClock(instant=True))

    return open_to


# TLS


@pytest.mark.usefixtures("trusted")
async def test_bundle_of_certificates_is_taken_from_the_sdks_configuration(
    opening: Opening,
) -> None:
    """A server whose certificate AWS_CA_BUNDLE vouches for is spoken to."""
    async with scripted(tls=tls()) as server, opening(server.endpoint) as store:
        server.play(done())
        assert await store.write(PUTS[0]) == Applied()


async def test_certificate_of_a_stranger_is_not_trusted(opening: Opening) -> None:
    """By default nothing is sent to a server that no known authority vouches for."""
    async with scripted(tls=tls()) as server, opening(server.endpoint) as store:
        with pytest.raises(Unreachable, match="certificate verify failed"):
            await store.write(PUTS[0])
        assert server.requests == []


@pytest.mark.usefixtures("trusted")
async def test_certificate_of_another_host_is_not_trusted(opening: Opening) -> None:
    """A certificate that names another host is none, and nothing is sent."""
    async with scripted(tls=tls("example.com")) as server, opening(server.endpoint) as store:
        with pytest.raises(Unreachable, match="certificate verify failed"):
            await store.write(PUTS[0])
        assert server.requests == []


@pytest.mark.usefixtures("trusted")
async def test_certificate_that_has_expired_is_not_trusted(opening: Opening) -> None:
    """A certificate of yesterday is none, and nothing is sent."""
    old = tls(
        not_before=datetime(2020, 1, 1, tzinfo=UTC), not_after=datetime(2021, 1, 1, tzinfo=UTC)
    )
    async with scripted(tls=old) as server, opening(server.endpoint) as store:
        with pytest.raises(Unreachable, match="certificate has expired"):
            await store.write(PUTS[0])
        assert server.requests == []


async def test_server_without_tls_is_not_spoken_to(opening: Opening) -> None:
    """A server that answers a greeting of TLS by something else gets no request."""
    async with scripted() as server, opening(server.endpoint.replace("http", "https")) as store:
        with pytest.raises(Unreachable):
            await store.write(PUTS[0])
        assert server.requests == []


@pytest.mark.parametrize(
    "bundle", ["missing.pem", "", "empty.pem"], ids=["missing", "folder", "empty"]
)
@pytest.mark.parametrize("variable", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
async def test_bundle_that_cannot_be_read_is_named(
    opening: Opening, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, bundle: str
) -> None:
    """It is an error when the store is opened, not an unknown outcome of each write."""
    (tmp_path / "empty.pem").touch()
    monkeypatch.setenv(variable, str(tmp_path / bundle))
    with pytest.raises(SettingsError, match=f"{tmp_path / bundle}.*cannot be read"):
        await opening("https://127.0.0.1:9").__aenter__()


# Proxies


@pytest.mark.usefixtures("trusted")
async def test_tls_goes_through_the_tunnel_of_a_proxy(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTTPS_PROXY is asked for a tunnel, with the credentials in its URL; the server sees TLS."""
    async with scripted(tls=tls()) as server, proxy.running() as between:
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:word@127.0.0.1:{between.port}")
        server.play(otherwise=done())
        async with opening(server.endpoint) as store:
            assert await store.write(PUTS[0]) == Applied()
            assert await store.write(PUTS[1]) == Applied()

    host = server.endpoint.removeprefix("https://")
    assert between.asked == [f"CONNECT {host} HTTP/1.1"]
    assert between.credentials == ["Proxy-Authorization: Basic dXNlcjp3b3Jk"]
    assert len(server.requests) == 2


async def test_plain_requests_are_forwarded_by_a_proxy(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTTP_PROXY is given the whole URL of an endpoint without TLS."""
    async with scripted() as server, proxy.running() as between:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{between.port}")
        server.play(otherwise=done())
        async with opening(server.endpoint) as store:
            assert await store.write(PUTS[0]) == Applied()

    assert between.asked == [f"POST {server.endpoint}/ HTTP/1.1"]
    assert len(server.requests) == 1


async def test_no_proxy_names_what_goes_straight(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endpoint that NO_PROXY names is reached without the proxy."""
    async with scripted() as server, proxy.running() as between:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{between.port}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        server.play(otherwise=done())
        async with opening(server.endpoint) as store:
            assert await store.write(PUTS[0]) == Applied()

    assert between.asked == []


@pytest.mark.usefixtures("trusted")
async def test_proxy_may_be_spoken_to_by_tls_itself(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy whose URL begins with https is reached by TLS, and the tunnel through it as well."""
    async with scripted(tls=tls()) as server, proxy.running(tls=tls()) as between:
        monkeypatch.setenv("HTTPS_PROXY", f"https://127.0.0.1:{between.port}")
        server.play(otherwise=done())
        async with opening(server.endpoint) as store:
            assert await store.write(PUTS[0]) == Applied()

    assert between.asked == [f"CONNECT {server.endpoint.removeprefix('https://')} HTTP/1.1"]


async def test_proxy_that_refuses_the_tunnel_passes_nothing_on(
    opening: Opening,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a tunnel nothing was sent: it is tried again, then an error, and no doubt."""
    async with scripted(tls=tls()) as server, proxy.running(refuses=True) as between:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{between.port}")
        async with opening(server.endpoint) as store:
            with pytest.raises(Unreachable, match=r"407|Failed to connect to proxy"):
                await store.write(PUTS[0])

    assert len(between.asked) > 1
    assert server.requests == []


# Addresses


@contextmanager
def silent_address() -> Iterator[tuple[str, int]]:
    """Hold a port whose queue of connections is full: it answers no further one, nor refuses it."""
    with ExitStack() as held:
        listening = held.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        address = listening.getsockname()
        for _ in range(2):
            waiting = held.enter_context(socket.socket())
            waiting.settimeout(0)
            waiting.connect_ex(address)
        yield address


async def test_an_address_that_is_silent_does_not_hold_up_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where IPv6 leads nowhere, IPv4 is tried beside it, long before the time-out."""
    async with answering_bytes([OK]) as server:
        with silent_address() as silent:

            async def addresses(_host: str, _port: int) -> Any:
                tcp = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
                return [(*tcp, silent), (*tcp, ("127.0.0.1", server.port))]

            monkeypatch.setattr(lean_pool, "addresses", addresses)
            monkeypatch.setattr(lean_pool, "NEXT_ADDRESS_SECONDS", 0.01)
            opening = open_http(
                "http://dynamodb.example", ca_bundle=None, request_timeout=60, connections_max=1
            )
            with anyio.fail_after(20):
                async with opening as http:
                    assert (
                        await http.post(http.head({"Host": "dynamodb.example"}), b"{}")
                    ).status == 200


@pytest.mark.parametrize("wrong", ["http://u:secret@[", "http://u:secret@h:99999"])
async def test_a_proxy_that_is_no_url_is_named_without_its_password(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the lean transport it is an error of the settings, before anything is sent."""
    monkeypatch.setenv("HTTP_PROXY", wrong)
    with pytest.raises(SettingsError, match=r"the proxy 'http.*HTTP_PROXY") as raised:
        await lean_pool.make_dialer("http://127.0.0.1:1", ca_bundle=None, wait_seconds=1.0)
    assert "secret" not in str(raised.value)

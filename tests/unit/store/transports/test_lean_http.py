"""The lean transport's way to the endpoint: certificates, proxies, and what was never sent."""

import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from support import proxy
from support.clock import FakeClock
from support.ledgers import HOME, make_settings
from support.loops import LOOPS
from support.scripted import ok, scripted
from support.wire import PUTS

from ledger.core.errors import Unreachable
from ledger.store.opening import open_store
from ledger.store.writes import Applied

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


def tls(host: str = "127.0.0.1") -> ssl.SSLContext:
    """Return a server's side of TLS, with a certificate for this host."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue_cert(host).configure_cert(context)
    return context


def open_lean(endpoint: str) -> Any:
    """Open a store over the lean transport to this endpoint."""
    settings = make_settings(regions={HOME: {"endpoint": endpoint}}, transport="lean")
    return open_store(settings, HOME, clock=FakeClock(instant=True))


# TLS


@pytest.mark.usefixtures("trusted")
async def test_bundle_of_certificates_is_taken_from_the_sdks_configuration() -> None:
    """A server whose certificate AWS_CA_BUNDLE vouches for is spoken to."""
    async with scripted(tls=tls()) as server, open_lean(server.endpoint) as store:
        server.play(ok())
        assert await store.write(PUTS[0]) == Applied()


async def test_certificate_of_a_stranger_is_not_trusted() -> None:
    """By default nothing is sent to a server that no known authority vouches for."""
    async with scripted(tls=tls()) as server, open_lean(server.endpoint) as store:
        with pytest.raises(Unreachable, match="certificate verify failed"):
            await store.write(PUTS[0])
        assert server.requests == []


@pytest.mark.usefixtures("trusted")
async def test_certificate_of_another_host_is_not_trusted() -> None:
    """A certificate that names another host is none, and nothing is sent."""
    async with scripted(tls=tls("example.com")) as server, open_lean(server.endpoint) as store:
        with pytest.raises(Unreachable, match="certificate verify failed"):
            await store.write(PUTS[0])
        assert server.requests == []


# Proxies


@pytest.mark.usefixtures("trusted")
async def test_tls_goes_through_the_tunnel_of_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTPS_PROXY is asked for a tunnel, with the credentials in its URL; the server sees TLS."""
    async with scripted(tls=tls()) as server, proxy.running() as between:
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:word@127.0.0.1:{between.port}")
        server.play(otherwise=ok())
        async with open_lean(server.endpoint) as store:
            assert await store.write(PUTS[0]) == Applied()
            assert await store.write(PUTS[1]) == Applied()

    host = server.endpoint.removeprefix("https://")
    assert between.asked == [f"CONNECT {host} HTTP/1.1"]
    assert between.credentials == ["Proxy-Authorization: Basic dXNlcjp3b3Jk"]
    assert len(server.requests) == 2


async def test_plain_requests_are_forwarded_by_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP_PROXY is given the whole URL of an endpoint without TLS."""
    async with scripted() as server, proxy.running() as between:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{between.port}")
        server.play(otherwise=ok())
        async with open_lean(server.endpoint) as store:
            assert await store.write(PUTS[0]) == Applied()

    assert between.asked == [f"POST {server.endpoint}/ HTTP/1.1"]
    assert len(server.requests) == 1


async def test_no_proxy_names_what_goes_straight(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint that NO_PROXY names is reached without the proxy."""
    async with scripted() as server, proxy.running() as between:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{between.port}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        server.play(otherwise=ok())
        async with open_lean(server.endpoint) as store:
            assert await store.write(PUTS[0]) == Applied()

    assert between.asked == []


@pytest.mark.usefixtures("trusted")
async def test_proxy_may_be_spoken_to_by_tls_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy whose URL begins with https is reached by TLS, and the tunnel through it as well."""
    async with scripted(tls=tls()) as server, proxy.running(tls=tls()) as between:
        monkeypatch.setenv("HTTPS_PROXY", f"https://127.0.0.1:{between.port}")
        server.play(otherwise=ok())
        async with open_lean(server.endpoint) as store:
            assert await store.write(PUTS[0]) == Applied()

    assert between.asked == [f"CONNECT {server.endpoint.removeprefix('https://')} HTTP/1.1"]


async def test_proxy_that_refuses_the_tunnel_passes_nothing_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a tunnel nothing was sent: it is tried again, then an error, and no doubt."""
    async with scripted(tls=tls()) as server, proxy.running(refuses=True) as between:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{between.port}")
        async with open_lean(server.endpoint) as store:
            with pytest.raises(Unreachable, match="407"):
                await store.write(PUTS[0])

    assert len(between.asked) > 1
    assert server.requests == []

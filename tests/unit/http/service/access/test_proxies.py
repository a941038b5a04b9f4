"""Whom a proxy's header names, and whose header is taken."""

from collections.abc import Sequence

import pytest

from ledger.core.errors import InvalidInput
from ledger.http.service.access.proxies import ProxyHeader

PROXY = ProxyHeader.of("X-Caller", ["10.0.7.0/24", "2001:db8::1"])


@pytest.mark.parametrize("peer", ["10.0.7.1", "::ffff:10.0.7.1", "2001:db8::1"])
def test_the_proxy_names_who_asks(peer: str) -> None:
    """From each of its addresses, in whatever form a socket shows it; or nobody."""
    assert PROXY.caller(["shop"], peer) == "shop"
    assert PROXY.caller([], peer) is None


@pytest.mark.parametrize(
    ("values", "peer"),
    [
        (["shop"], "10.0.8.1"),
        (["shop"], "127.0.0.1"),
        (["shop"], "::ffff:10.0.8.1"),
        (["shop"], "2001:db8::2"),
        (["shop"], None),
        (["shop"], "/run/socket"),
        (["shop"], ""),
        ([""], "10.0.8.1"),
        (["shop", "shop"], "10.0.7.1"),
    ],
)
def test_whoever_else_sends_the_header_is_refused(values: Sequence[str], peer: str | None) -> None:
    """And so is the proxy, if a caller's own header comes through it beside its own."""
    with pytest.raises(ValueError, match="header"):
        PROXY.caller(values, peer)


@pytest.mark.parametrize(
    ("name", "addresses", "message"),
    [
        ("X-Caller", [], "needs 1 to 100 addresses"),
        ("X-Caller", ["10.0.0.1"] * 101, "got 101"),
        ("X-Caller", ["0.0.0.0/0"], "must not be every address"),
        ("X-Caller", ["::/0"], "must not be every address"),
        ("X-Caller", ["proxy.example"], "IP address or a network, as 10.0.7.0/24, got 'proxy"),
        ("X-Caller", ["10.0.7.1/24"], "got '10.0.7.1/24'"),
        ("X Caller", ["10.0.7.1"], "got 'X Caller'"),
        ("X_Caller", ["10.0.7.1"], "got 'X_Caller'"),
        ("", ["10.0.7.1"], "got ''"),
        ("Authorization", ["10.0.7.1"], "got 'Authorization'"),
        ("X-Forwarded-For", ["10.0.7.1"], "got 'X-Forwarded-For'"),
        ("Idempotency-Key", ["10.0.7.1"], "got 'Idempotency-Key'"),
    ],
)
def test_what_would_let_others_in_is_refused(
    name: str, addresses: Sequence[str], message: str
) -> None:
    """No address, every address, and headers that whoever asks may choose."""
    with pytest.raises(InvalidInput, match=message):
        ProxyHeader.of(name, addresses)

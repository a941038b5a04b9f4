"""An event goes to a receiver that shows the certificate of its name, at each try."""

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx
import pytest
import trustme
from prometheus_client import CollectorRegistry
from support.bytes_server import BytesServer, answering_bytes
from support.hooks import hook_of
from support.ledgers import make_services

from ledger.http.webhooks.events import Ended, HookEvent
from ledger.http.webhooks.metrics import WebhookMetrics
from ledger.http.webhooks.sender import EventSender, Sent
from ledger.http.webhooks.worker import senders
from ledger.testing import ManualClock

AUTHORITY, STRANGER = trustme.CA(), trustme.CA()
TAKEN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
EVENT = HookEvent("msg_1", b'{"type":"test"}')


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio."""
    return "asyncio"


@asynccontextmanager
async def receiving(*names: str, by: trustme.CA = AUTHORITY) -> AsyncIterator[BytesServer]:
    """Run a receiver on this machine, with a certificate of these names."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    by.issue_cert(*names).configure_cert(context)
    async with answering_bytes([TAKEN] * 10, context) as receiver:
        yield receiver


async def _here(_host: str, _port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@asynccontextmanager
async def sending() -> AsyncIterator[EventSender]:
    """Open what sends events, as a worker does; every name is this machine's."""
    trusted = ssl.create_default_context()
    AUTHORITY.configure_trust(trusted)
    metrics = WebhookMetrics.of(CollectorRegistry())
    clock = ManualClock(instant=True)
    async with senders(services=make_services(clock), metrics=metrics, tls=trusted) as sender:
        sender._resolve = _here
        yield sender


async def sent(sender: EventSender, host: str, receiver: BytesServer) -> Sent:
    """Send an event once."""
    hook = hook_of(url=f"https://{host}:{receiver.port}/", private=True)
    return await sender.send(hook, EVENT, tries_max=1)


@pytest.mark.parametrize(
    ("host", "names", "by"),
    [
        ("erp.example", ["other.example"], AUTHORITY),
        ("erp.example", ["127.0.0.1"], AUTHORITY),
        ("127.0.0.1", ["erp.example"], AUTHORITY),
        ("erp.example", ["erp.example"], STRANGER),
    ],
)
async def test_a_receiver_shows_the_certificate_of_its_name(
    host: str, names: list[str], by: trustme.CA
) -> None:
    """Not of another name, nor of the address that it was looked up at, nor by a stranger."""
    async with receiving(*names, by=by) as receiver, sending() as sender:
        refused = await sent(sender, host, receiver)
        assert (refused.ended, receiver.asked) == (Ended.FAILED, [])
        assert "CERTIFICATE_VERIFY_FAILED" in refused.said


@pytest.mark.parametrize("is_read", [False, True])
async def test_two_names_at_one_address_are_checked_apart(
    monkeypatch: pytest.MonkeyPatch, *, is_read: bool
) -> None:
    """A connection of the one is not the other's, not even one that could be used again."""
    close = httpx.Response.aclose

    async def read_and_close(answer: httpx.Response) -> None:
        monkeypatch.setattr(httpx.Response, "aclose", close)
        await answer.aread()
        monkeypatch.setattr(httpx.Response, "aclose", read_and_close)

    if is_read:
        monkeypatch.setattr(httpx.Response, "aclose", read_and_close)
    async with receiving("erp.example") as receiver, sending() as sender:
        assert (await sent(sender, "erp.example", receiver)).ended is Ended.DELIVERED
        refused = await sent(sender, "other.example", receiver)
        assert (refused.ended, receiver.asked) == (Ended.FAILED, [1])
        assert "CERTIFICATE_VERIFY_FAILED" in refused.said
        assert (await sent(sender, "erp.example", receiver)).ended is Ended.DELIVERED

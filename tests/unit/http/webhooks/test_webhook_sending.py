"""Events are signed, sent to addresses that were checked, and tried again."""

import base64
import hmac
import os
from datetime import timedelta
from email.utils import format_datetime
from hashlib import sha256
from pathlib import Path
from threading import Thread, current_thread, main_thread

import pytest
from support.hooks import PUBLIC, SECRET, Receiver, Sending, hook_of

from ledger.core.errors import SettingsError
from ledger.http.webhooks.events import TRIES_MAX, WAIT_SECONDS_MAX, Ended, HookEvent, wait_after
from ledger.http.webhooks.hooks import Hook
from ledger.http.webhooks.sender import is_public
from ledger.http.webhooks.signatures import headers_of, secrets_of

EVENT = HookEvent("msg_1", b'{"type":"test"}')


def test_the_signature_is_that_of_the_specification() -> None:
    """Its own example; two secrets make two signatures."""
    body = b'{"event_type":"ping","data":{"success":true}}'
    (key,) = secrets_of("whsec_" + base64.b64encode(b"k" * 24).decode())
    known = base64.b64decode("plJ3nmyCDGBKInavdOK15jsl")
    headers = headers_of([known, key], "msg_loFOjxBNrRLzqYUf", 1731705121, body)
    first, second = headers["webhook-signature"].split(" ")
    assert first == "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0="
    assert second != first
    assert headers["webhook-timestamp"] == "1731705121"


@pytest.mark.parametrize("text", ["", "x", "whsec_", "whsec_MTIz", "whsec_" + "A" * 200, "whsec_é"])
def test_a_secret_has_its_form(text: str) -> None:
    """A short one could be guessed."""
    with pytest.raises(ValueError, match=r"secret|empty"):
        secrets_of(text)


async def test_an_event_is_posted_signed_to_the_address_that_was_looked_up() -> None:
    """Under the host's name, for TLS and the receiver."""
    receiver = Receiver([204])
    sent = await Sending(receiver).sender().send(hook_of(), EVENT)
    assert (sent.ended, sent.tries) == (Ended.DELIVERED, 1)
    (request,) = receiver.requests
    assert (request.url.host, request.url.path) == (PUBLIC, "/hook")
    assert request.headers["host"] == "erp.example"
    assert request.extensions["sni_hostname"] == "erp.example"
    signed = f"msg_1.{request.headers['webhook-timestamp']}.".encode() + EVENT.body
    mark = base64.b64encode(hmac.new(secrets_of(SECRET)[0], signed, sha256).digest()).decode()
    assert request.headers["webhook-signature"] == f"v1,{mark}"
    assert request.content == EVENT.body


async def test_it_is_tried_again_with_waits_and_a_new_time_each() -> None:
    """Whatever the answer, or none; under one id."""
    receiver = Receiver([500, 0, 301, 404, 200])
    sending = Sending(receiver)
    start = sending.clock.now()
    sent = await sending.sender().send(hook_of(), EVENT)
    assert (sent.ended, sent.tries) == (Ended.DELIVERED, 5)
    assert set(receiver.ids) == {"msg_1"}
    times = [int(request.headers["webhook-timestamp"]) for request in receiver.requests]
    assert times == sorted(times)
    assert len({*times}) > 2
    assert timedelta(seconds=7) <= sending.clock.now() - start <= timedelta(seconds=15)
    count = sending.registry.get_sample_value
    assert count("ledger_webhook_tries_total", {"webhook": "erp", "outcome": "301"}) == 1


async def test_a_url_that_cannot_be_asked_is_no_answer() -> None:
    """And stops no other webhook."""
    hook = hook_of().model_copy(update={"url": "https://0177.0.0.1/"})
    sent = await Sending(Receiver()).sender().send(hook, EVENT, tries_max=1)
    assert sent.ended is Ended.FAILED


async def test_it_keeps_no_cookies() -> None:
    """What a receiver sets is not sent back."""
    receiver = Receiver([500, 200], {"set-cookie": "a=b"})
    await Sending(receiver).sender().send(hook_of(), EVENT)
    assert "cookie" not in receiver.requests[1].headers


async def test_a_receiver_that_asks_for_little_time_gets_the_usual_wait() -> None:
    """Retry-After can only lengthen it."""
    receiver = Receiver([*[503] * 5, 200], {"retry-after": "1"})
    sending = Sending(receiver)
    start = sending.clock.now()
    await sending.sender().send(hook_of(), EVENT)
    assert sending.clock.now() - start > timedelta(seconds=14)


async def test_it_is_given_up_in_the_end() -> None:
    """A redirect is not followed, since it could lead inside."""
    receiver = Receiver([302], {"location": "http://169.254.169.254/"})
    sent = await Sending(receiver).sender().send(hook_of(), EVENT)
    assert (sent.ended, sent.said, sent.tries) == (Ended.FAILED, "302", TRIES_MAX)
    assert {request.url.host for request in receiver.requests} == {PUBLIC}


async def test_a_receiver_may_ask_for_time_or_for_no_more() -> None:
    """Retry-After is heeded, up to a bound; 410 ends it."""
    receiver = Receiver([503, 410], {"retry-after": "120"})
    sending = Sending(receiver)
    start = sending.clock.now()
    sent = await sending.sender().send(hook_of(), EVENT)
    assert (sent.ended, sent.tries) == (Ended.GONE, 2)
    assert sending.clock.now() - start == timedelta(seconds=120)


@pytest.mark.parametrize(("ahead", "waited"), [(20, 20), (3_600, WAIT_SECONDS_MAX), (-3_600, 1)])
async def test_a_receiver_may_name_the_time(ahead: float, waited: float) -> None:
    """Retry-After as a date is heeded as seconds are: up to a bound, and never to be earlier."""
    sending = Sending(receiver := Receiver([503, 200]))
    start = sending.clock.now()
    at = format_datetime(start + timedelta(seconds=ahead), usegmt=True)
    receiver.headers = {"retry-after": at}
    await sending.sender().send(hook_of(), EVENT)
    took = (sending.clock.now() - start).total_seconds()
    assert took == waited if ahead > 0 else took <= waited


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.0.0.7", "192.168.1.1", "172.16.0.1", "169.254.169.254", "0.1.2.3"),
        *("100.64.0.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1%eth0", "fd00::1"),
        *("::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "ff02::1", "fd00:ec2::254", "x"),
        *("fec0::1", "64:ff9b:1::7f00:1", "::ffff:0:7f00:1", "::7f00:1", "168.63.129.16"),
        *("192.0.0.192", "192.0.0.9", "192.88.99.1", "192.0.2.1", "198.18.0.1", "203.0.113.1"),
        *("5f00::1", "3fff::1", "3fff:fff:ffff::1", "100::1", "100:0:0:1::1", "2001:db8::1"),
        *("2001::1", "2001:1::1", "2001:2::1", "2001:20::1", "4000::1", "::ffff:192.0.0.192"),
    ],
)
async def test_what_is_not_public_is_refused(address: str) -> None:
    """Unless the webhook says that it is a receiver of one's own."""
    receiver = Receiver(address=address)
    sending = Sending(receiver)
    sent = await sending.sender().send(hook_of(), EVENT, tries_max=1)
    assert not receiver.requests
    assert "not public" in sent.said


@pytest.mark.parametrize(
    "address",
    [
        *("93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "192.0.1.1", "2001:200::1"),
        *("3ffe::1", "2003::1", "::ffff:93.184.216.34"),
    ],
)
def test_what_is_public_is_not(address: str) -> None:
    """Of both versions."""
    assert is_public(address)


async def test_a_private_receiver_may_be_allowed() -> None:
    """By the file."""
    receiver = Receiver(address="10.0.0.7")
    sent = await Sending(receiver).sender().send(hook_of(private=True), EVENT)
    assert sent.ended is Ended.DELIVERED


def test_waits_double_with_chance_and_a_bound() -> None:
    """Half of each is drawn."""
    assert [wait_after(tries, 1.0) for tries in (1, 2, 3, 4)] == [1, 2, 4, 8]
    assert wait_after(3, 0.0) == 2
    assert wait_after(50, 1.0) == WAIT_SECONDS_MAX


async def test_a_secret_is_read_on_a_thread_that_may_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is kept meanwhile; a pipe is refused at once."""
    path, threads = tmp_path / "secret", list[Thread]()
    path.write_text(SECRET)
    read = Hook.secrets

    def noted(hook: Hook) -> tuple[bytes, ...]:
        threads.append(current_thread())
        return read(hook)

    monkeypatch.setattr(Hook, "secrets", noted)
    hook, sender = hook_of(secret=None, secret_file=path), Sending(Receiver([204])).sender()
    assert (await sender.send(hook, EVENT)).ended is Ended.DELIVERED
    assert threads
    assert main_thread() not in threads
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(SettingsError, match=r"its secret cannot be used: .* it is no regular file"):
        await sender.send(hook, EVENT)

"""Tests of the look at the time in a request's signature."""

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from lab.bench.stub_pages import answer
from support.bytes_server import answering_bytes
from support.scripted import done
from support.wire import TRANSPORTS, open_wire

from ledger.core.errors import SignedTooLate
from ledger.settings import Settings
from ledger.settings.fields import TransportName
from ledger.store.conditions import Absent
from ledger.store.connections import open_store
from ledger.store.dynamodb import signature_age
from ledger.store.dynamodb.transport import Transport
from ledger.store.transports.lean import LeanTransport
from ledger.store.transports.lean_pool import open_http
from ledger.store.transports.lean_routes import Route, RoutePlace, Routes
from ledger.store.transports.lean_signing import Signer
from ledger.store.writes import Applied, Put, signed_by
from ledger.testing.clock import START, ManualClock

SIGNED = datetime(2026, 11, 21, 6, 50, 1, tzinfo=UTC)
HOME = "us-east-1"
OTHER = {"pk": {"S": "counter"}, "sk": {"S": "other"}, "change": {"N": "1"}}
ITEM = {"pk": {"S": "counter"}, "sk": {"S": "entry"}, "change": {"N": "1"}}


def request() -> AWSRequest:
    """Return a request as botocore signs it."""
    return AWSRequest(headers={"X-Amz-Date": "20261121T065001Z"})


def test_request_signed_in_time_is_sent() -> None:
    """A signature up to the limit passes, and any does without a limit."""
    signature_age.refuse_late(request())
    with signature_age.not_after(SIGNED):
        signature_age.refuse_late(request())


def test_request_signed_too_late_is_not_sent() -> None:
    """A signature a second past the limit is refused before sending, inside the block only."""
    limit = SIGNED - timedelta(seconds=1)
    with (
        signature_age.not_after(limit),
        pytest.raises(SignedTooLate, match=r"06:50:01.*not sent"),
    ):
        signature_age.refuse_late(request())
    signature_age.refuse_late(request())


def test_earliest_limit_of_a_request_counts() -> None:
    """Of several writes in one request the one that may be signed least late decides."""
    early = Put(ITEM, not_after=SIGNED)
    late = Put(ITEM, not_after=SIGNED + timedelta(hours=1))
    assert signed_by([late, early, Put(ITEM)]) == SIGNED
    assert signed_by([Put(ITEM)]) is None


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_transport_looks_before_it_sends(
    transport: TransportName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No transport even connects for a write whose time is over: no one listens there."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "example")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")
    settings = Settings(
        home=HOME, regions={HOME: {"endpoint": "http://127.0.0.1:9"}}, transport=transport
    )
    late = Put(ITEM, Absent(), not_after=SIGNED - timedelta(days=9999))
    async with open_store(settings, HOME) as store:
        for write in (
            store.write(late),
            store.write_batch([Put(ITEM, not_after=late.not_after)]),
            store.transact([Put(OTHER, Absent()), late]),
        ):
            with pytest.raises(SignedTooLate, match="not sent"):
                await write
        each = (await store.write_each([Put(OTHER, Absent()), late])).outcomes
    assert [type(outcome) for outcome in each] == [SignedTooLate, SignedTooLate]


async def test_lean_transport_signs_by_the_clock_that_it_is_given() -> None:
    """The lean transport sends what is signed at the limit, and not a moment later."""
    async with open_wire("lean") as wire:
        wire.server.play(otherwise=done())
        in_time = await wire.store.write(Put(ITEM, not_after=START))
        with pytest.raises(SignedTooLate):
            await wire.store.write(Put(ITEM, not_after=START - timedelta(microseconds=1)))

        assert in_time == Applied()
        assert len(wire.server.requests) == 1
        assert wire.server.headers[0]["X-Amz-Date"] == "20261121T065000Z"


class SlowCredentials:
    """Credentials whose refreshing takes a minute."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock

    async def get_frozen_credentials(self) -> ReadOnlyCredentials:
        """Return them a minute later."""
        self.clock.pass_by(60)
        return ReadOnlyCredentials("example", "example", None)


PUT_DONE = answer(b'{"ConsumedCapacity":{"TableName":"ledger","CapacityUnits":1}}')


@pytest.mark.parametrize(("allowed", "sent"), [(59, 0), (60, 1)])
async def test_lean_transport_looks_once_it_has_its_credentials(allowed: int, sent: int) -> None:
    """A refresh takes time, and what it delays past the limit is not sent."""
    clock = ManualClock()
    async with (
        answering_bytes([PUT_DONE]) as server,
        open_http(server.endpoint, ca_bundle=None, request_timeout=5, connections_max=1) as http,
    ):
        route = Route(http, Signer(url=server.endpoint, region=HOME))

        async def make(_place: RoutePlace) -> Route:
            return route

        async def find() -> RoutePlace:
            return RoutePlace(server.endpoint, HOME)

        lean = LeanTransport(
            Routes(find, make),
            credentials=SlowCredentials(clock),
            user_agent="test",
            now=clock.now,
            otherwise=cast("Transport", None),
        )
        with (
            nullcontext() if sent else pytest.raises(SignedTooLate),
            signature_age.not_after(clock.now() + timedelta(seconds=allowed)),
        ):
            await lean.send("put_item", {"TableName": "ledger", "Item": ITEM})
    assert len(server.asked) == sent

"""The store over the real SDK: what it makes of every kind of answer, and of none.

A server on 127.0.0.1 counts the requests: the SDK must never repeat one by itself.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

import aiohttp
import anyio
import anyio.lowlevel
import pytest
from aiohttp.client_reqrep import ConnectionKey
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    ProxyConnectionError,
    ReadTimeoutError,
    SSLError,
)
from support.ledgers import AWAY, HOME, InstantClock, make_settings, sample, seeded
from support.scripted import (
    Scripted,
    Step,
    close_connection,
    fault,
    half_an_answer,
    hang,
    leave_unprocessed,
    nobody,
    ok,
    page_of_a_proxy,
    reset_connection,
    scripted,
)

from ledger.core.entry import Item
from ledger.core.errors import (
    AccessDenied,
    KeyConflict,
    RequestRefused,
    SettingsError,
    StoreError,
    TableMissing,
    Throttled,
    Unreachable,
)
from ledger.ledger import Ledger
from ledger.metrics import Metrics
from ledger.store.dynamodb import DynamoStore, open_store
from ledger.store.port import (
    Absent,
    Applied,
    BatchOutcome,
    Check,
    Delete,
    Equals,
    Put,
    Rejected,
    Store,
    Unknown,
    Update,
)
from ledger.store.retry import Backoff

TRIES_MAX = Backoff().tries_max
ITEM: Item = {"pk": {"S": "c"}, "sk": {"S": "s"}, "change": {"N": "1"}}
PUTS = [Put({**ITEM, "sk": {"S": f"s{n}"}}) for n in range(6)]
EMPTY_PAGE = ok({"Items": [], "Count": 0})

Call = Callable[[Store], Awaitable[object]]
SINGLE: dict[str, Call] = {
    "put": lambda store: store.write(Put(ITEM, Absent())),
    "delete": lambda store: store.write(Delete(("c", "s"))),
    "update": lambda store: store.write(Update(("c", "s"), add={"n": {"N": "1"}})),
    "transaction": lambda store: store.transact(PUTS, token="t"),
}
WRITES: dict[str, Call] = {**SINGLE, "batch": lambda store: store.write_batch(PUTS)}
READS: dict[str, Call] = {
    "get": lambda store: store.get(("c", "s")),
    "query": lambda store: store.query("c"),
    "scan": lambda store: store.scan(),
}
NO_ANSWER: dict[str, Step] = {
    "500": fault("InternalServerError", status=500),
    "503": fault("ServiceUnavailable", status=503),
    "500 without a body": ok(status=500),
    "502 of a proxy": page_of_a_proxy(502),
    "200 of a proxy": page_of_a_proxy(200),
    "closed": close_connection(),
    "reset": reset_connection(),
    "half": half_an_answer(),
}
SLOW_DOWN: dict[str, Step] = {
    "throughput": fault("ProvisionedThroughputExceededException"),
    "throttling": fault("ThrottlingException"),
    "limit": fault("RequestLimitExceeded"),
    "conflict": fault("TransactionConflictException"),
    "in progress": fault("TransactionInProgressException"),
    "replicated": fault("ReplicatedWriteConflictException"),
}
REFUSED: dict[str, tuple[Step, type[StoreError]]] = {
    "denied": (fault("AccessDeniedException"), AccessDenied),
    "expired": (fault("ExpiredTokenException"), AccessDenied),
    "missing": (fault("ResourceNotFoundException"), TableMissing),
    "invalid": (fault("ValidationException"), RequestRefused),
    "token": (fault("IdempotentParameterMismatchException"), RequestRefused),
    "unknown": (fault("SomethingNewException"), RequestRefused),
    "proxy": (page_of_a_proxy(403), RequestRefused),
}


@dataclass
class Wire:
    """An open store and the server that it talks to."""

    server: Scripted
    store: Store
    metrics: Metrics
    before: float = 0.0

    def retries(self) -> float:
        """Return how often something was tried again in this test."""
        return sample(self.metrics, "ledger_retries_total", region=HOME) - self.before


@asynccontextmanager
async def open_wire(request_timeout: float) -> AsyncIterator[Wire]:
    """Open a store as entry points do, in an environment that asks the SDK for retries."""
    metrics = Metrics()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_MAX_ATTEMPTS", "5")
        patch.setenv("AWS_RETRY_MODE", "standard")
        async with scripted() as server:
            settings = make_settings(
                regions={HOME: {"endpoint": server.endpoint}}, request_timeout=request_timeout
            )
            opening = open_store(
                settings, HOME, metrics=metrics, clock=InstantClock(), randomness=seeded()
            )
            async with opening as store:
                yield Wire(server, store, metrics)


@pytest.fixture(scope="module")
async def module_wire() -> AsyncIterator[Wire]:
    """Open one store for all tests: to build a client takes longer than any of them."""
    async with open_wire(request_timeout=30) as wire:
        yield wire


@pytest.fixture
def wire(module_wire: Wire) -> Wire:
    """Return the store with a server that was asked nothing yet."""
    module_wire.server.play()
    module_wire.before = 0.0
    module_wire.before = module_wire.retries()
    return module_wire


def calls(cases: Mapping[str, Call]) -> pytest.MarkDecorator:
    """Run a test for each of these calls."""
    return pytest.mark.parametrize("call", cases.values(), ids=cases.keys())


def steps(cases: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Run a test for each of these answers."""
    return pytest.mark.parametrize("step", cases.values(), ids=cases.keys())


# No answer


@steps(NO_ANSWER)
@calls(WRITES)
async def test_unanswered_write_is_unknown_and_not_repeated(
    wire: Wire, call: Call, step: Step
) -> None:
    """A write without an answer that can be trusted is unknown after a single request."""
    wire.server.play(step)

    outcome = await call(wire.store)

    if isinstance(outcome, BatchOutcome):
        assert outcome.unknown == tuple(range(len(PUTS)))
        assert outcome.unprocessed == ()
        assert outcome.cause
    else:
        assert isinstance(outcome, Unknown)
        assert "us-east-1, table ledger" in outcome.cause
        assert "\n" not in outcome.cause
    assert len(wire.server.requests) == 1
    assert wire.retries() == 0


@calls(WRITES)
async def test_hanging_write_is_unknown_after_its_time(call: Call) -> None:
    """A write that is never answered is unknown once `request_timeout` is over, asked once."""
    async with open_wire(request_timeout=0.2) as wire:
        wire.server.play(hang())
        outcome = await call(wire.store)

        assert isinstance(outcome, Unknown) or outcome.unknown == tuple(range(6))  # type: ignore[attr-defined]
        assert len(wire.server.requests) == 1


@calls(READS)
async def test_hanging_read_is_repeated_after_its_time(call: Call) -> None:
    """A read that is never answered is asked again once `request_timeout` is over."""
    async with open_wire(request_timeout=1) as wire:
        wire.server.play(hang(), otherwise=EMPTY_PAGE)
        await call(wire.store)

        assert len(wire.server.requests) == 2


@pytest.mark.parametrize("step", [close_connection(), reset_connection()], ids=["closed", "reset"])
async def test_kept_connection_that_breaks_is_not_tried_anew(wire: Wire, step: Step) -> None:
    """A connection used before, lost while a write waits on it, is not replaced in silence."""
    wire.server.play(ok(), step)
    assert await SINGLE["update"](wire.store) == Applied()

    assert isinstance(await SINGLE["update"](wire.store), Unknown)

    assert len(wire.server.requests) == 2
    assert len(wire.server.connections) == 1


@steps(NO_ANSWER)
@calls(READS)
async def test_unanswered_read_is_repeated(wire: Wire, call: Call, step: Step) -> None:
    """A read without an answer is asked again, by us, and counted."""
    wire.server.play(step, otherwise=EMPTY_PAGE)

    await call(wire.store)

    assert len(wire.server.requests) == 2
    assert wire.retries() == 1


@pytest.mark.parametrize("case", ["500", "closed", "200 of a proxy"])
@calls(READS)
async def test_read_gives_up_within_its_bound(wire: Wire, call: Call, case: str) -> None:
    """A read that is never answered ends as unreachable after so many requests."""
    wire.server.play(otherwise=NO_ANSWER[case])

    with pytest.raises(Unreachable, match="us-east-1, table ledger"):
        await call(wire.store)

    assert len(wire.server.requests) == TRIES_MAX
    assert wire.retries() == TRIES_MAX - 1


@calls({**WRITES, **READS})
async def test_connection_never_made_is_retried_then_unreachable(call: Call) -> None:
    """Where nobody listens nothing can have been written: tried again, then an error, no doubt."""
    metrics, clock = Metrics(), InstantClock()
    with nobody() as endpoint:
        settings = make_settings(regions={HOME: {"endpoint": endpoint}})
        async with open_store(settings, HOME, metrics=metrics, clock=clock) as store:
            with pytest.raises(Unreachable, match="check network and endpoint"):
                await call(store)

    assert sample(metrics, "ledger_retries_total", cause="unreachable") == TRIES_MAX - 1
    assert clock.elapsed > 0


# Throttled, refused, rejected


@steps(SLOW_DOWN)
@calls({**WRITES, **READS})
async def test_what_did_nothing_is_tried_again(wire: Wire, call: Call, step: Step) -> None:
    """Throttling and conflicts are tried again, by us: nothing was written."""
    wire.server.play(step, step, otherwise=EMPTY_PAGE)

    outcome = await call(wire.store)

    assert not isinstance(outcome, Unknown | Rejected)
    assert not isinstance(outcome, BatchOutcome) or outcome == BatchOutcome()
    assert len(wire.server.requests) == 3
    assert wire.retries() == 2


@calls({**WRITES, **READS})
async def test_throttling_without_end_is_an_error(wire: Wire, call: Call) -> None:
    """Still throttled after every try, a call ends in an error, and nothing was written."""
    wire.server.play(otherwise=SLOW_DOWN["throughput"])

    with pytest.raises(Throttled, match="slower rate"):
        await call(wire.store)

    assert len(wire.server.requests) == TRIES_MAX


@calls(WRITES)
async def test_throttled_then_unanswered_is_unknown(wire: Wire, call: Call) -> None:
    """The last try decides: a write that passed the throttle and lost its answer is unknown."""
    wire.server.play(SLOW_DOWN["throughput"], close_connection())

    outcome = await call(wire.store)

    assert isinstance(outcome, Unknown) or outcome.unknown == tuple(range(6))  # type: ignore[attr-defined]
    assert len(wire.server.requests) == 2


@steps(REFUSED)
@calls({**WRITES, **READS})
async def test_refusal_is_raised_at_once(
    wire: Wire, call: Call, step: tuple[Step, type[StoreError]]
) -> None:
    """What DynamoDB refuses is an error of its kind after one request."""
    answer, error = step
    wire.server.play(answer)

    with pytest.raises(StoreError) as caught:
        await call(wire.store)

    assert type(caught.value) is error
    assert "\n" not in str(caught.value)
    assert len(wire.server.requests) == 1


@pytest.mark.parametrize("found", [ITEM, None], ids=["item", "nothing"])
async def test_failed_condition_is_rejected_with_what_was_there(
    wire: Wire, found: Item | None
) -> None:
    """A false condition is a value, not an error; it holds the item that was there."""
    more: dict[str, Any] = {"Item": found} if found else {}
    wire.server.play(fault("ConditionalCheckFailedException", **more))

    outcome = await wire.store.write(Put(ITEM, Equals("version", {"S": "v1"})))

    assert outcome == Rejected({0: found})
    assert len(wire.server.requests) == 1


def cancelled(*reasons: Mapping[str, Any]) -> Step:
    """Answer that a transaction was cancelled for these reasons."""
    return fault("TransactionCanceledException", CancellationReasons=list(reasons))


NONE = {"Code": "None"}
FAILED = {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"}
CONFLICT = {"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"}
THROTTLED = {"Code": "ThrottlingError", "Message": "Throughput exceeds the current capacity"}


@pytest.mark.parametrize(
    ("reasons", "found"),
    [
        ([NONE, {**FAILED, "Item": ITEM}, FAILED], {1: ITEM, 2: None}),
        ([{**FAILED, "Item": ITEM}, CONFLICT, THROTTLED], {0: ITEM}),
    ],
)
async def test_cancelled_transaction_names_what_failed(
    wire: Wire, reasons: list[Mapping[str, Any]], found: dict[int, Item | None]
) -> None:
    """A transaction whose conditions were false says which, with the items that were there."""
    wire.server.play(cancelled(*reasons))
    check = Check(("c", "lease"), Equals("epoch", {"N": "1"}))

    assert await wire.store.transact([*PUTS[:2], check]) == Rejected(found)
    assert len(wire.server.requests) == 1


@pytest.mark.parametrize("reasons", [[NONE, CONFLICT], [THROTTLED, NONE], [CONFLICT, THROTTLED]])
async def test_transaction_in_anothers_way_is_tried_again(
    wire: Wire, reasons: list[Mapping[str, Any]]
) -> None:
    """A transaction cancelled only for conflicts or throttling did nothing and is tried again."""
    wire.server.play(cancelled(*reasons), ok())

    assert await wire.store.transact(PUTS[:2]) == Applied()
    assert wire.server.operations == ["TransactWriteItems"] * 2
    assert wire.retries() == 1


async def test_transaction_that_is_wrong_itself_is_refused(wire: Wire) -> None:
    """A transaction cancelled because an action is invalid is not tried again."""
    wire.server.play(cancelled(NONE, {"Code": "ValidationError"}, CONFLICT))

    with pytest.raises(RequestRefused):
        await wire.store.transact(PUTS[:3])
    assert len(wire.server.requests) == 1


# Batches


async def test_unprocessed_part_of_a_batch_is_sent_again(wire: Wire) -> None:
    """What DynamoDB did not get to is sent again, and only that, until nothing is left."""
    wire.server.play(
        leave_unprocessed(lambda place: place % 2 == 1),
        leave_unprocessed(lambda place: place == 2),
        leave_unprocessed(lambda _: False),
    )

    assert await wire.store.write_batch(PUTS) == BatchOutcome()

    sent = [body["RequestItems"]["ledger"] for _, body in wire.server.requests]
    keys = [[part["PutRequest"]["Item"]["sk"]["S"] for part in parts] for parts in sent]
    assert keys == [["s0", "s1", "s2", "s3", "s4", "s5"], ["s1", "s3", "s5"], ["s5"]]
    assert wire.retries() == 2


@pytest.mark.parametrize(
    ("second", "outcome"),
    [
        (close_connection(), {"unknown": (1, 4)}),
        (fault("InternalServerError", status=500), {"unknown": (1, 4)}),
        (fault("AccessDeniedException"), {"unprocessed": (1, 4)}),
    ],
)
async def test_batch_that_fails_half_way_tells_positions(
    wire: Wire, second: Step, outcome: dict[str, tuple[int, ...]]
) -> None:
    """What was written stays written: only the rest is unknown, or known not to be written."""
    wire.server.play(leave_unprocessed(lambda place: place in {1, 4}), second)

    answer = await wire.store.write_batch(PUTS)

    assert (answer.unknown, answer.unprocessed) == (
        outcome.get("unknown", ()),
        outcome.get("unprocessed", ()),
    )
    assert answer.cause
    assert len(wire.server.requests) == 2


async def test_batch_left_for_good_is_bounded(wire: Wire) -> None:
    """A part that DynamoDB never gets to is told as unprocessed after so many requests."""
    wire.server.play(otherwise=leave_unprocessed(lambda place: place == 0))

    answer = await wire.store.write_batch(PUTS)

    assert (answer.unprocessed, answer.unknown) == ((0,), ())
    assert len(wire.server.requests) == TRIES_MAX


@pytest.mark.parametrize("count", [0, 26])
async def test_batch_of_a_wrong_size_is_not_sent(wire: Wire, count: int) -> None:
    """A batch holds 1 to 25 writes of different items; another is refused unsent."""
    puts = [Put({**ITEM, "sk": {"S": f"{n}"}}) for n in range(count)]

    with pytest.raises(RequestRefused):
        await wire.store.write_batch(puts)
    with pytest.raises(RequestRefused, match="same item"):
        await wire.store.write_batch([PUTS[0], PUTS[0]])
    with pytest.raises(RequestRefused):
        await wire.store.transact([*puts, *[PUTS[0]] * 75])
    assert wire.server.requests == []


# Answers


async def test_items_come_and_go_as_they_are(wire: Wire) -> None:
    """Numbers stay text, bytes stay bytes, on the way to the table and back."""
    item: Item = {**ITEM, "change": {"N": "1" * 38}, "merged": {"B": b"\x00\xff"}}
    stored = {**item, "merged": {"B": "AP8="}}
    wire.server.play(ok(), ok({"Item": stored}), ok(), ok({"Attributes": stored}))

    await wire.store.write(Put(item))
    assert await wire.store.get(("c", "s"), consistent=False) == item
    assert await wire.store.get(("c", "nothing")) is None
    updated = await wire.store.write(Update(("c", "s"), add={"change": {"N": "1"}}))

    assert updated == Applied(item)
    assert wire.server.requests[0][1]["Item"] == stored
    assert [body.get("ConsistentRead") for _, body in wire.server.requests[1:3]] == [False, True]


async def test_pages_follow_each_other(wire: Wire) -> None:
    """A page says where the next begins, and a call hands that on."""
    key = {"pk": {"S": "c"}, "sk": {"S": "s"}}
    wire.server.play(ok({"Items": [ITEM], "LastEvaluatedKey": key}), EMPTY_PAGE)

    first = await wire.store.query("c", limit=1)
    last = await wire.store.query("c", after=first.after)

    assert (first.items, first.after) == ([ITEM], ("c", "s"))
    assert (last.items, last.after) == ([], None)
    assert wire.server.requests[1][1]["ExclusiveStartKey"] == key


async def test_scan_with_a_projection_tells_dynamodbs_own_units(wire: Wire) -> None:
    """Where what comes back does not tell what was read, DynamoDB's count is taken."""
    wire.server.play(ok({"Items": [], "ConsumedCapacity": {"CapacityUnits": 12.5}}))

    page = await wire.store.scan(segment=1, segments=2, attributes=("pk",))

    assert page.read_units == 12.5


async def test_a_caller_that_is_cancelled_stops_waiting(wire: Wire) -> None:
    """Cancelling a call ends it at once, and the store is good for the next one."""
    wire.server.play(hang(), ok())

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wire.store.write, PUTS[0])
            while not wire.server.requests:
                await anyio.lowlevel.checkpoint()
            scope.cancel()

    assert scope.cancelled_caught
    assert await SINGLE["put"](wire.store) == Applied()


# Errors that no server can cause: a client that raises what the SDK would

HOST = ConnectionKey("nowhere", 443, False, True, None, None, None)  # noqa: FBT003
REFUSED_BY_HOST = aiohttp.ClientConnectorError(HOST, OSError(111, "refused"))
NO_SUCH_HOST = aiohttp.ClientConnectorDNSError(HOST, OSError(-2, "no such name"))
URL = "https://dynamodb"


class FakeClient:
    """A low-level client whose every operation raises, or gives, what it was told, in order."""

    def __init__(self, *answers: Mapping[str, Any] | Exception) -> None:
        self.answers = list(answers)
        self.calls = 0
        self.closed = False

    def __getattr__(self, operation: str) -> Callable[..., Awaitable[Mapping[str, Any]]]:
        """Return any operation."""

        async def call(**request: Any) -> Mapping[str, Any]:
            assert "TableName" in request or "RequestItems" in request or "TransactItems" in request
            self.calls += 1
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    async def close(self) -> None:
        """Note that it was closed."""
        self.closed = True


def store_of(client: FakeClient, *, attempt_seconds: float = 60.0) -> DynamoStore:
    """Return a store over a fake client."""
    return DynamoStore(
        client,
        region=HOME,
        table="ledger",
        backoff=Backoff(),
        clock=InstantClock(),
        randomness=Random(7),  # noqa: S311
        attempt_seconds=attempt_seconds,
    )


@pytest.mark.parametrize(
    "error",
    [
        ConnectTimeoutError(endpoint_url=URL),
        ProxyConnectionError(proxy_url=URL),
        EndpointConnectionError(endpoint_url=URL, error=REFUSED_BY_HOST),
        EndpointConnectionError(endpoint_url=URL, error=NO_SUCH_HOST),
    ],
    ids=["time-out", "proxy", "refused", "name"],
)
async def test_what_was_never_sent_is_sent_again(error: BotoCoreError) -> None:
    """Without a connection nothing was sent, so a write is tried again and then raised."""
    client = FakeClient(error, error, {})

    assert await store_of(client).write(Put(ITEM)) == Applied()
    assert client.calls == 3
    with pytest.raises(Unreachable):
        await store_of(FakeClient(*[error] * TRIES_MAX)).write(Put(ITEM))


@pytest.mark.parametrize(
    "error",
    [
        ReadTimeoutError(endpoint_url=URL),
        ConnectionClosedError(endpoint_url=URL),
        EndpointConnectionError(endpoint_url=URL, error=aiohttp.ClientOSError(104, "reset")),
        EndpointConnectionError(endpoint_url=URL),
        HTTPClientError(error=ValueError("who knows")),
        SSLError(endpoint_url=URL, error=OSError("bad record")),
    ],
    ids=["time-out", "closed", "reset", "no cause", "other", "tls"],
)
async def test_what_may_have_been_sent_is_unknown(error: BotoCoreError) -> None:
    """Wherever it cannot be excluded that a write arrived it is unknown, and not repeated."""
    client = FakeClient(error)

    assert isinstance(await store_of(client).write(Put(ITEM)), Unknown)
    assert client.calls == 1


async def test_without_credentials_nothing_is_sent() -> None:
    """Missing credentials are an error that says what to do, for reads and writes, at once."""
    client = FakeClient(NoCredentialsError(), NoCredentialsError())
    store = store_of(client)

    with pytest.raises(AccessDenied, match="AWS_PROFILE"):
        await store.write(Put(ITEM))
    with pytest.raises(AccessDenied, match="AWS_PROFILE"):
        await store.get(("c", "s"))
    assert client.calls == 2


async def test_error_without_a_code_or_status_is_refused() -> None:
    """A shapeless error of the SDK is still one of ours."""
    client = FakeClient(ClientError({}, "PutItem"))

    with pytest.raises(RequestRefused):
        await store_of(client).write(Put(ITEM))


async def test_closing_closes_the_client() -> None:
    """The connections are given back."""
    client = FakeClient()
    await store_of(client).close()

    assert client.closed


async def test_opening_wrongly_is_an_error_of_ours() -> None:
    """A region or a profile that does not exist is named when the store is opened."""
    with pytest.raises(SettingsError, match="us-west-9"):
        await open_store(make_settings(), "us-west-9").__aenter__()
    settings = make_settings(regions={HOME: {"profile": "no-such-profile"}})
    with pytest.raises(AccessDenied, match="no-such-profile"):
        await open_store(settings, HOME).__aenter__()


# The whole way: ledger, writer, store, SDK, wire


class FakeTable:
    """A server-side table that obeys `attribute_not_exists` and loses its first answers."""

    def __init__(self, lost: int) -> None:
        self.lost = lost
        self.items: dict[str, Any] = {}
        self.ids: list[str] = []

    async def __call__(self, request: Any, body: Mapping[str, Any]) -> Any:
        """Put, then lose the answer or give it."""
        item = body["Item"]
        self.ids.append(item["sk"]["S"])
        there = self.items.setdefault(item["sk"]["S"], item)
        if len(self.ids) <= self.lost:
            return await close_connection()(request, body)
        if there is item:
            return await ok()(request, body)
        return await fault("ConditionalCheckFailedException", Item=there)(request, body)


@pytest.mark.parametrize("lost", [0, 1, 3])
async def test_ledger_over_the_wire_counts_once(lost: int) -> None:
    """Of a change whose answers are lost on the wire one item is there, put under one id."""
    table = FakeTable(lost)
    async with scripted() as server:
        server.play(otherwise=table)
        settings = make_settings(
            home=AWAY, regions={AWAY: {"endpoint": server.endpoint}}, request_timeout=2
        )
        # The SDK signs by the machine's clock.
        now = datetime.now(UTC)
        book = Ledger(settings, region=AWAY, clock=InstantClock(now))
        async with book:
            entry = await book.record("c", 5)
            await book.record("c", 1, key="k", at=now)
            with pytest.raises(KeyConflict):
                await book.record("c", 2, key="k", at=now)

    assert len(table.items) == 2
    assert table.ids[: lost + 1] == [entry.id] * (lost + 1)
    assert sample(book.metrics, "ledger_writes_total", outcome="unknown") == lost
    assert sample(book.metrics, "ledger_errors_total", kind="KeyConflict") == 1


async def test_an_answer_that_never_ends_is_unknown() -> None:
    """An answer that drips keeps every time-out of the SDK happy; the attempt ends all the same."""

    class Dripping(FakeClient):
        async def put_item(self, **_request: Any) -> Mapping[str, Any]:
            self.calls += 1
            await anyio.sleep_forever()
            raise AssertionError("nobody wakes it")

    client = Dripping()
    store = store_of(client, attempt_seconds=0.01)

    assert isinstance(await store.write(Put(ITEM)), Unknown)
    assert client.calls == 1

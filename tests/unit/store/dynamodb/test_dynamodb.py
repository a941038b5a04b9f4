"""The store on the wire: batches, items and pages, and the whole way of a change."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from support.ledgers import AWAY, make_settings, sample
from support.scripted import (
    Step,
    close_connection,
    done,
    fault,
    hang,
    leave_unprocessed,
    scripted,
)
from support.wire import EMPTY_PAGE, ITEM, PUTS, SINGLE, THROTTLED_TRIES_MAX, Wire

from ledger.core.contract_item import Contract, contract_item
from ledger.core.entry import Item
from ledger.core.errors import KeyConflict, RequestRefused
from ledger.runtime.services import Services
from ledger.session.ledger import Ledger
from ledger.store.reads import Get, Query, Scan
from ledger.store.writes import Applied, BatchOutcome, Put, Update
from ledger.testing.clock import ManualClock

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


async def test_units_of_a_batch_are_dynamodbs_own(wire: Wire) -> None:
    """The units of all requests of a batch are added up."""
    half = leave_unprocessed(lambda place: place % 2 == 1, units=7)
    wire.server.play(half, leave_unprocessed(lambda _: False, units=2.5))
    assert (await wire.store.write_batch(PUTS)).write_units == 9.5

    wire.server.play(half, close_connection())
    assert (await wire.store.write_batch(PUTS)).write_units == 7


async def test_batch_left_for_good_is_bounded(wire: Wire) -> None:
    """A part that DynamoDB never gets to is told as unprocessed after so many requests."""
    wire.server.play(otherwise=leave_unprocessed(lambda place: place == 0))

    answer = await wire.store.write_batch(PUTS)

    assert (answer.unprocessed, answer.unknown) == ((0,), ())
    assert len(wire.server.requests) == THROTTLED_TRIES_MAX


@pytest.mark.parametrize("count", [0, 26])
async def test_batch_of_a_wrong_size_is_not_sent(wire: Wire, count: int) -> None:
    """A batch holds 1 to 25 writes of different items; another is refused unsent."""
    puts = [Put({**ITEM, "sk": {"S": f"{n}"}}) for n in range(count)]

    with pytest.raises(RequestRefused):
        await wire.store.write_batch(puts)
    with pytest.raises(RequestRefused, match="must be on different items"):
        await wire.store.write_batch([PUTS[0], PUTS[0]])
    with pytest.raises(RequestRefused):
        await wire.store.transact([*puts, *[PUTS[0]] * 75])
    assert wire.server.requests == []


# Answers


async def test_items_come_and_go_as_they_are(wire: Wire) -> None:
    """Numbers stay text, bytes stay bytes, on the way to the table and back."""
    item: Item = {**ITEM, "change": {"N": "1" * 38}, "merged": {"B": b"\x00\xff"}}
    stored = {**item, "merged": {"B": "AP8="}}
    wire.server.play(done(), done(Item=stored), done(), done(Attributes=stored))

    await wire.store.write(Put(item))
    assert await wire.store.get(Get(("c", "s"), consistent=False)) == item
    assert await wire.store.get(Get(("c", "nothing"))) is None
    updated = await wire.store.write(Update(("c", "s"), add={"change": {"N": "1"}}))

    assert updated == Applied(item)
    assert wire.server.requests[0][1]["Item"] == stored
    assert [body.get("ConsistentRead") for _, body in wire.server.requests[1:3]] == [False, True]


async def test_pages_follow_each_other(wire: Wire) -> None:
    """A page says where the next begins, and a call hands that on."""
    key = {"pk": {"S": "c"}, "sk": {"S": "s"}}
    wire.server.play(done(Items=[ITEM], LastEvaluatedKey=key), EMPTY_PAGE)

    first = await wire.store.query(Query("c", limit=1))
    last = await wire.store.query(Query("c", after=first.after))

    assert (first.items, first.after) == ([ITEM], ("c", "s"))
    assert (last.items, last.after) == ([], None)
    assert wire.server.requests[1][1]["ExclusiveStartKey"] == key


async def test_scan_with_a_projection_tells_dynamodbs_own_units(wire: Wire) -> None:
    """Where what comes back does not tell what was read, DynamoDB's count is taken."""
    wire.server.play(done(ConsumedCapacity={"TableName": "ledger", "CapacityUnits": 12.5}))

    page = await wire.store.scan(Scan(segment=1, segments=2, attributes=("pk",)))

    assert page.read_units == 12.5


async def test_a_caller_that_is_cancelled_stops_waiting(wire: Wire) -> None:
    """Cancelling a call ends it at once, and the store is good for the next one."""
    wire.server.play(hang(), done())

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wire.store.write, PUTS[0])
            while not wire.server.requests:
                await anyio.lowlevel.checkpoint()
            scope.cancel()

    assert scope.cancelled_caught
    assert await SINGLE["put"](wire.store) == Applied()


# The whole way: ledger, writer, store, transport, wire


COUNTER = "c"


class FakeTable:
    """A server-side table that obeys `attribute_not_exists` and loses its first answers."""

    def __init__(self, lost: int, contract: Any) -> None:
        self.lost = lost
        self.contract = contract
        self.items: dict[str, Any] = {}
        self.ids: list[str] = []

    async def __call__(self, request: Any, body: Mapping[str, Any]) -> Any:
        """Put, then lose the answer or give it; a hint, which any entry may leave, is taken."""
        if "Item" not in body:  # the one Query is for the contract
            return await done(Items=[self.contract])(request, body)
        item = body["Item"]
        if item["pk"]["S"] != COUNTER:
            return await done()(request, body)
        self.ids.append(item["sk"]["S"])
        there = self.items.setdefault(item["sk"]["S"], item)
        if len(self.ids) <= self.lost:
            return await close_connection()(request, body)
        if there is item:
            return await done()(request, body)
        return await fault("ConditionalCheckFailedException", Item=there)(request, body)


@pytest.mark.parametrize("lost", [0, 1, 3])
async def test_ledger_over_the_wire_counts_once(transport: str, lost: int) -> None:
    """Of a change whose answers are lost on the wire one item is there, put under one id."""
    async with scripted() as server:
        settings = make_settings(
            home=AWAY,
            regions={AWAY: {"endpoint": server.endpoint}},
            request_timeout=2,
            transport=transport,
        )
        table = FakeTable(lost, contract_item(Contract(terms=settings.terms)))
        server.play(otherwise=table)
        # The SDK signs by the machine's clock.
        now = datetime.now(UTC)
        book = Ledger(
            settings,
            region=AWAY,
            services=Services.of(clock=ManualClock(now, instant=True)),
        )
        async with book:
            entry = await book.record(COUNTER, 5)
            await book.record(COUNTER, 1, key="k", at=now)
            with pytest.raises(KeyConflict):
                await book.record(COUNTER, 2, key="k", at=now)

    assert len(table.items) == 2
    assert table.ids[: lost + 1] == [entry.id] * (lost + 1)
    assert sample(book.metrics, "ledger_writes_total", outcome="unknown") == lost
    assert sample(book.metrics, "ledger_errors_total", kind="KeyConflict") == 1

"""The stream of a table over a client of DynamoDB Streams."""

import logging
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from support.combined import combined

from ledger.core.entry import entry_item
from ledger.core.errors import AccessDenied, FeedBehind, InvalidInput, StoreError, Unreachable
from ledger.core.parts import expanded
from ledger.reads.feed import dynamodb
from ledger.reads.feed.dynamodb import DynamoStream
from ledger.reads.feed.port import FIRST, OLDEST, Shard

ARN = "arn:aws:dynamodb:eu-west-1:1:table/ledger/stream/2026-11-25T16:00:00.000"
ID = "2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887"


def code(name: str) -> ClientError:
    """Return an error of AWS."""
    return ClientError({"Error": {"Code": name, "Message": "m"}}, "GetRecords")


def record(number: int, change: dict[str, str], *, name: str = "INSERT") -> dict[str, Any]:
    """Return a record of an entry."""
    image = {"pk": {"S": "a"}, "sk": {"S": ID}, "change": change}
    fields = {"SequenceNumber": f"{number:021d}", "ApproximateCreationDateTime": AT}
    images = {"NewImage": image} if name == "INSERT" else {"OldImage": image}
    return {"eventName": name, "dynamodb": {**fields, **images}}


AT = datetime(2026, 11, 25, tzinfo=UTC)


class Client:
    """Answers in order, and keeps what was asked."""

    def __init__(self, *pages: Any, shards: Any = ()) -> None:
        self.pages = list(pages)
        self.shards = list(shards)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def list_streams(self, **request: Any) -> Any:
        """Return two streams, the newer one on the second page."""
        if "ExclusiveStartStreamArn" not in request:
            old = {"StreamArn": "old", "StreamLabel": "2025"}
            return {"Streams": [old], "LastEvaluatedStreamArn": "old"}
        return {"Streams": [{"StreamArn": ARN, "StreamLabel": "2026"}]}

    async def describe_stream(self, **request: Any) -> Any:
        """Return a shard a page."""
        assert request["StreamArn"] == ARN
        page = int(request.get("ExclusiveStartShardId", "s0")[1:])
        found: dict[str, Any] = {"Shards": [self.shards[page]]}
        if page + 1 < len(self.shards):
            found["LastEvaluatedShardId"] = f"s{page + 1}"
        return {"StreamDescription": found}

    async def get_shard_iterator(self, **request: Any) -> Any:
        """Return an iterator of its own."""
        self.asked.append(("iterator", request))
        return {"ShardIterator": f"i{len(self.asked)}"}

    async def get_records(self, **request: Any) -> Any:
        """Return the next page, or raise it."""
        self.asked.append(("records", request))
        page = self.pages.pop(0)
        if isinstance(page, Exception):
            raise page
        return page


def stream_of(client: Client) -> DynamoStream:
    """Return the stream of a table."""
    return DynamoStream(client, region="eu-west-1", table="ledger")


async def test_the_newest_stream_is_listed_page_by_page() -> None:
    """With the parents of its shards."""
    shards = [{"ShardId": "s0"}, {"ShardId": "s1", "ParentShardId": "s0"}]
    found = await stream_of(Client(shards=shards)).listing()
    assert found.stream == "eu-west-1/2026-11-25T16:00:00.000"
    assert list(found.shards) == [Shard("s0"), Shard("s1", "s0")]


async def test_entries_come_with_their_numbers_and_reading_goes_on() -> None:
    """An iterator is asked for where none is at hand; what brings no entry still moves the end."""
    client = Client(
        {
            "Records": [record(7, {"N": "2"}), record(9, {"N": "2"}, name="REMOVE")],
            "NextShardIterator": "next",
        },
        {"Records": [], "NextShardIterator": "later"},
        {"Records": []},
    )
    stream = stream_of(client)
    first = await stream.read("s0", OLDEST)
    assert ([arrival.number for arrival in first.arrivals], first.upto) == ([7], 9)
    assert first.arrivals[0].at == AT
    empty = await stream.read("s0", 9)
    assert (empty.arrivals, empty.upto, empty.is_closed) == ([], None, False)
    assert (await stream.read("s0", 9)).is_closed
    assert [what for what, _ in client.asked] == ["iterator", "records", "records", "records"]
    assert client.asked[0][1]["ShardIteratorType"] == "TRIM_HORIZON"
    assert [one["ShardIterator"] for _, one in client.asked[1:]] == ["i1", "next", "later"]


async def test_what_changes_share_is_one_record() -> None:
    """With one number; each of its changes is an entry of a page; what does not add up is none."""
    whole = entry_item(combined(AT, 5, -1, counter="a"))
    records = [record(number, {"N": "2"}) for number in (7, 8, 9)]
    records[1]["dynamodb"]["NewImage"] = whole
    records[2]["dynamodb"]["NewImage"] = {**whole, "parts": {"S": "5 -2"}}
    read = await stream_of(Client({"Records": records})).read("s0", OLDEST)
    assert ([arrival.number for arrival in read.arrivals], read.upto) == ([7, 8], 9)
    assert [part.change for part in expanded(read.arrivals[1].entry)] == [5, -1]


async def test_records_are_looked_at_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of items that many changes share take long: others go on between them."""
    turn, looked = 0, Counter[int]()

    def look(old: Any, new: Any) -> None:
        assert (old, new["change"]) == (None, {"N": "2"})
        looked[turn] += 1

    async def count() -> None:
        nonlocal turn
        while True:
            await anyio.lowlevel.checkpoint()
            turn += 1

    monkeypatch.setattr(dynamodb, "readable_entry_in", look)
    page = {"Records": [record(number, {"N": "2"}) for number in range(dynamodb.RECORDS_MAX)]}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        assert (await stream_of(Client(page)).read("s0", OLDEST)).arrivals == []
        tasks.cancel_scope.cancel()
    assert looked.total() == dynamodb.RECORDS_MAX
    assert max(looked.values()) <= dynamodb.RECORDS_AT_ONCE


async def test_an_iterator_that_expired_is_replaced() -> None:
    """After the number that was had."""
    page = {"Records": [record(7, {"N": "2"})], "NextShardIterator": "next"}
    client = Client(page, code("ExpiredIteratorException"), {"Records": []})
    stream = stream_of(client)
    await stream.read("s0", OLDEST)
    assert (await stream.read("s0", 7)).is_closed
    what, asked = client.asked[-2]
    assert (what, asked["ShardIteratorType"]) == ("iterator", "AFTER_SEQUENCE_NUMBER")
    assert asked["SequenceNumber"] == "0" * 20 + "7"


async def test_a_shard_is_read_from_its_first_record() -> None:
    """By the number with which it was listed, so that a record that has passed out is an error."""
    shard = {"ShardId": "s0", "SequenceNumberRange": {"StartingSequenceNumber": "100"}}
    client = Client(
        code("TrimmedDataAccessException"), {"Records": []}, {"Records": []}, shards=[shard]
    )
    stream = stream_of(client)
    await stream.listing()
    with pytest.raises(FeedBehind):
        await stream.read("s0", FIRST)
    what, asked = client.asked[0]
    assert (what, asked["ShardIteratorType"]) == ("iterator", "AT_SEQUENCE_NUMBER")
    assert asked["SequenceNumber"] == "0" * 18 + "100"
    for name, after in (("s0", OLDEST), ("unlisted", FIRST)):
        await stream.read(name, after)
        assert client.asked[-2][1]["ShardIteratorType"] == "TRIM_HORIZON"


async def test_the_oldest_iterator_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of shards that were read last are kept."""
    monkeypatch.setattr(dynamodb, "ITERATORS_MAX", 2)
    client = Client(*[{"Records": [], "NextShardIterator": f"n{page}"} for page in range(5)])
    stream = stream_of(client)
    for shard in ("s0", "s1", "s2", "s2", "s1"):
        await stream.read(shard, 7)
    asked = [one["ShardIterator"] for what, one in client.asked if what == "records"]
    assert asked[3:] == ["n2", "n1"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (code("TrimmedDataAccessException"), FeedBehind),
        (code("AccessDeniedException"), AccessDenied),
        (EndpointConnectionError(endpoint_url="x"), Unreachable),
    ],
)
async def test_errors_are_ours(error: Exception, kind: type[Exception]) -> None:
    """Each says what to do."""
    with pytest.raises(kind):
        await stream_of(Client(error)).read("s0", OLDEST)


async def test_a_table_without_a_stream_is_an_error() -> None:
    """Which names what turns it on."""

    class Without(Client):
        async def list_streams(self, **_request: Any) -> Any:
            return {"Streams": []}

    with pytest.raises(StoreError, match="no stream to read the feed from"):
        await stream_of(Without()).listing()


async def test_what_cannot_be_read_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """And holds up nothing."""
    page = {"Records": [record(7, {"S": "x"}), record(8, {"N": "2"})], "NextShardIterator": "n"}
    with caplog.at_level(logging.WARNING, "ledger.feed"):
        found = await stream_of(Client(page)).read("s0", OLDEST)
    assert [arrival.number for arrival in found.arrivals] == [8]
    assert "left out of the feed" in caplog.text


async def test_a_number_that_a_shard_does_not_have_is_the_callers() -> None:
    """As a cursor that somebody made has it; of what the stream itself named it is an error."""

    class Refusing(Client):
        async def get_shard_iterator(self, **_request: Any) -> Any:
            raise code("ValidationException")

    stream = stream_of(Refusing())
    with pytest.raises(InvalidInput, match=r"cursor of a page of the feed: shard 's0' has no such"):
        await stream.read("s0", 10**30)
    with pytest.raises(StoreError):
        await stream.read("s0", OLDEST)

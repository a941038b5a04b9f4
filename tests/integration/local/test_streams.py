"""Streams of the local global table, as boto3 and the feed read them."""

from datetime import UTC, datetime
from typing import Any

import anyio.to_thread
import boto3
import pytest
from support.engines import ENGINES

from ledger import Ledger
from ledger.core.errors import FeedBehind, InvalidInput
from ledger.local import LocalGlobalTable
from ledger.reads.feed.cursors import of_text, to_text

pytestmark = pytest.mark.slow

REGIONS = ["us-east-1", "eu-west-1"]
STREAM: Any = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}


def records(endpoint: str, table: str) -> list[Any]:
    """Return all records of a table's stream."""
    client = boto3.client(
        "dynamodbstreams",
        endpoint_url=endpoint,
        region_name="eu-west-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )
    (stream,) = client.list_streams(TableName=table)["Streams"]
    described = client.describe_stream(StreamArn=stream["StreamArn"])["StreamDescription"]
    (shard,) = described["Shards"]
    iterator = client.get_shard_iterator(
        StreamArn=stream["StreamArn"], ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    return list(client.get_records(ShardIterator=iterator)["Records"])


async def test_a_region_shows_what_it_applied_wherever_it_was_written() -> None:
    """To boto3 as records, to a ledger as the feed; a cursor of another region is refused."""
    async with LocalGlobalTable.start(regions=REGIONS, lag=0, jitter=0) as world:
        settings = world.settings()
        async with (
            Ledger.open(settings, region="us-east-1") as home,
            Ledger.open(settings, region="eu-west-1") as away,
        ):
            await home.record("a", 1, note="here")
            await away.record("b", 2)
            await world.wait_replicated()
            page = await away.feed_page()
            assert {entry.counter: entry.change for entry in page.entries} == {"a": 1, "b": 2}
            await home.record_together([("a", 3), ("c", 4)])
            await world.wait_replicated()
            with pytest.raises(FeedBehind):
                await home.feed_page(after=page.cursor)
        async with Ledger.open(settings, region="eu-west-1") as again:
            page = await again.feed_page(after=page.cursor)
            assert sorted(entry.counter for entry in page.entries) == ["a", "c"]
            cursor = of_text(page.cursor)
            (shard,) = cursor.positions
            with pytest.raises(InvalidInput, match="cursor of a page of the feed"):
                await again.feed_page(after=to_text(cursor.moved(shard, 10**30)))
        found = await anyio.to_thread.run_sync(records, world.endpoints["eu-west-1"], world.table)
        shown = [one["dynamodb"].get("NewImage", {}) for one in found]
        assert [one["change"]["N"] for one in shown if one.get("pk", {}).get("S") == "a"] == [
            "1",
            "3",
        ]
        assert {one["eventName"] for one in found} == {"INSERT"}


async def test_one_change_sent_to_two_regions_comes_once() -> None:
    """The record of the one that arrives has the old image, which differs by its region alone."""
    async with LocalGlobalTable.start(regions=REGIONS, lag=0.2, jitter=0) as world:
        settings = world.settings()
        async with (
            Ledger.open(settings, region="us-east-1") as home,
            Ledger.open(settings, region="eu-west-1") as away,
        ):
            first = await home.record("a", 1, key="order-1", at=(at := datetime.now(UTC)))
            again = await away.record("a", 1, key="order-1", at=at)
            assert (first.id, again.repeated) == (again.id, False)
            await world.wait_replicated()
            for ledger in (home, away):
                assert [entry.id for entry in (await ledger.feed_page()).entries] == [first.id]


@pytest.mark.parametrize("engine", ENGINES)
async def test_the_latest_stream_of_a_table_is_one_that_can_be_read(engine: str) -> None:
    """DescribeTable names the stream that ListStreams has; switched off and on it is another."""

    def look(endpoint: str) -> tuple[str, str]:
        options: dict[str, Any] = {
            "endpoint_url": endpoint,
            "region_name": "us-east-1",
            "aws_access_key_id": "local",
            "aws_secret_access_key": "local",
        }
        tables = boto3.client("dynamodb", **options)
        streams = boto3.client("dynamodbstreams", **options)
        found = []
        for is_on in (True, False):
            table = tables.describe_table(TableName="alone")["Table"]
            described = streams.describe_stream(StreamArn=table["LatestStreamArn"])
            assert described["StreamDescription"]["StreamLabel"] == table["LatestStreamLabel"]
            (listed,) = streams.list_streams(TableName="alone")["Streams"]
            assert listed["StreamArn"] == table["LatestStreamArn"]
            found.append(table["LatestStreamArn"])
            if is_on:
                off: Any = {"StreamEnabled": False}
                tables.update_table(TableName="alone", StreamSpecification=off)
                tables.update_table(TableName="alone", StreamSpecification=STREAM)
        return found[0], found[1]

    def make(endpoint: str) -> tuple[str, str]:
        boto3.client(
            "dynamodb",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id="local",
            aws_secret_access_key="local",
        ).create_table(
            TableName="alone",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            StreamSpecification=STREAM,
        )
        return look(endpoint)

    async with LocalGlobalTable.start(regions=REGIONS, lag=0, jitter=0, engine=engine) as world:
        before, after = await anyio.to_thread.run_sync(make, world.endpoints["us-east-1"])
    assert before != after

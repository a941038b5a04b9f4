"""The stream of a table in one region, as DynamoDB Streams has it.

Sources: Amazon DynamoDB Streams API reference (GetShardIterator: AFTER_SEQUENCE_NUMBER,
AT_SEQUENCE_NUMBER and TRIM_HORIZON, "the oldest record in the shard", which is an error never;
TrimmedDataAccessException: "you request a shard iterator with a sequence number older than the trim
point"; SequenceNumberRange: StartingSequenceNumber, "the first sequence number for the stream
records contained within a shard"; GetRecords: up to 1,000 records or 1 MB, a closed shard ends with
no NextShardIterator, an iterator lasts 15 minutes; DescribeStream: shards in pages, ten calls a
second); Developer Guide, "Change data capture for DynamoDB Streams": each record appears
exactly once, those of one item in the order of its changes, for 24 hours, to two readers of a shard
at most.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Container, Generator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, Protocol

from ledger.core.errors import LedgerError, StoreError
from ledger.reads.feed.cursors import behind, unknown_record
from ledger.reads.feed.port import FIRST, Arrival, Shard, ShardListing, ShardRead
from ledger.reads.feed.reader import readable_entry_in
from ledger.runtime.aws_session import open_session
from ledger.runtime.foreign import FOREIGN, error_code
from ledger.runtime.tasks import in_portions
from ledger.settings import Settings
from ledger.store.dynamodb.apart import STREAM, check_apart
from ledger.store.dynamodb.connect import client_options
from ledger.store.dynamodb.errors import from_botocore

PAGES_MAX = 1_000
ITERATORS_MAX = 2_000
RECORDS_MAX = 500
"""Of a page: twice as many, which a page may have, take so long to decode that others wait."""
RECORDS_AT_ONCE = 8
"""Records that are looked at in one turn of the event loop: each may have hundreds of changes, or
transfers, of which it has a millisecond's work."""
SDK_TRIES_MAX = 4
DIGITS_MIN = 21
"""Of a sequence number, by the API reference."""
_EXPIRED = "ExpiredIteratorException"
_INVALID = "ValidationException"
_GONE = frozenset({"TrimmedDataAccessException", "ResourceNotFoundException"})


class StreamsClient(Protocol):
    """What is used of a client of DynamoDB Streams of aiobotocore."""

    async def list_streams(self, **request: Any) -> Mapping[str, Any]:
        """Return a table's streams."""

    async def describe_stream(self, **request: Any) -> Mapping[str, Any]:
        """Return a page of shards."""

    async def get_shard_iterator(self, **request: Any) -> Mapping[str, Any]:
        """Return where to read."""

    async def get_records(self, **request: Any) -> Mapping[str, Any]:
        """Return records, and where to read on."""


class DynamoStream:
    """The newest stream of a table in one region."""

    def __init__(self, client: StreamsClient, *, region: str, table: str) -> None:
        self._client = client
        self._region = region
        self._table = table
        self._arn = ""
        self._iterators: OrderedDict[tuple[str, int], str] = OrderedDict()
        self._first: dict[str, str] = {}
        """The first sequence number of each shard, as it was listed last."""

    async def listing(self, *, is_fresh: bool = False) -> ShardListing:  # noqa: ARG002 (always is)
        """Return the shards.

        Raises:
            StoreError: the table has no stream here, or it cannot be read.
        """
        found: list[Shard] = []
        first: dict[str, str] = {}
        with self._errors():
            self._arn = await self._newest()
            request: dict[str, Any] = {"StreamArn": self._arn}
            for _page in range(PAGES_MAX):
                answer = (await self._client.describe_stream(**request))["StreamDescription"]
                for shard in answer["Shards"]:
                    found.append(Shard(shard["ShardId"], shard.get("ParentShardId")))
                    if number := shard.get("SequenceNumberRange", {}).get("StartingSequenceNumber"):
                        first[shard["ShardId"]] = number
                if not (last := answer.get("LastEvaluatedShardId")):
                    break
                request["ExclusiveStartShardId"] = last
        self._first = first
        return ShardListing(f"{self._region}/{self._arn.rpartition('/')[2]}", found)

    async def read(self, shard: str, after: int) -> ShardRead:
        """Return records of a shard after a number, or from `OLDEST` or `FIRST` on.

        Raises:
            FeedBehind: they have passed out of the stream, or the first has.
            InvalidInput: the shard has no such number.
            StoreError: it cannot be read.
        """
        with self._errors(gone=_GONE):
            kept = self._iterators.pop((shard, after), None)
            try:
                answer = await self._records(kept or await self._iterator(shard, after))
            except FOREIGN as error:
                if kept is None or error_code(error) != _EXPIRED:
                    raise
                answer = await self._records(await self._iterator(shard, after))
        records = answer["Records"]
        arrivals = await in_portions(_arrivals(records))
        upto = int(records[-1]["dynamodb"]["SequenceNumber"]) if records else None
        following = answer.get("NextShardIterator")
        if following:
            self._iterators[shard, after if upto is None else upto] = following
            while len(self._iterators) > ITERATORS_MAX:
                self._iterators.popitem(last=False)
        return ShardRead(arrivals, upto, is_closed=not following)

    async def _newest(self) -> str:
        streams: list[Mapping[str, Any]] = []
        request: dict[str, Any] = {"TableName": self._table}
        for _page in range(PAGES_MAX):
            answer = await self._client.list_streams(**request)
            streams += answer["Streams"]
            if not (last := answer.get("LastEvaluatedStreamArn")):
                break
            request["ExclusiveStartStreamArn"] = last
        if not streams:
            raise StoreError(
                f"{self._region}, table {self._table}: it has no stream to read the feed from:"
                " `ledger table create` turns it on, as replicas need it"
            )
        newest = max(streams, key=lambda one: str(one["StreamLabel"]))
        return str(newest["StreamArn"])

    async def _iterator(self, shard: str, after: int) -> str:
        request = {"StreamArn": self._arn, "ShardId": shard}
        if after >= 0:
            request["ShardIteratorType"] = "AFTER_SEQUENCE_NUMBER"
            request["SequenceNumber"] = f"{after:0{DIGITS_MIN}d}"
        elif after == FIRST and shard in self._first:
            request["ShardIteratorType"] = "AT_SEQUENCE_NUMBER"
            request["SequenceNumber"] = self._first[shard].zfill(DIGITS_MIN)
        else:
            request["ShardIteratorType"] = "TRIM_HORIZON"
        try:
            return str((await self._client.get_shard_iterator(**request))["ShardIterator"])
        except FOREIGN as error:
            if after >= 0 and error_code(error) == _INVALID:  # all else of it is the stream's own
                raise unknown_record(shard) from error
            raise

    async def _records(self, iterator: str) -> Mapping[str, Any]:
        answer = await self._client.get_records(ShardIterator=iterator, Limit=RECORDS_MAX)
        answer["Records"]  # a true answer has them, also where there are none
        return answer

    @contextmanager
    def _errors(self, *, gone: Container[str] = ()) -> Iterator[None]:
        try:
            yield
        except LedgerError:
            raise
        except FOREIGN as error:
            if error_code(error) in gone:
                raise behind() from error
            raise from_botocore(error, region=self._region, table=self._table) from error


def _arrivals(records: Sequence[Mapping[str, Any]]) -> Generator[None, None, list[Arrival]]:
    """Return what records bring; others go on between portions, since to decode them took long."""
    found: list[Arrival] = []
    for place, record in enumerate(records):
        if place % RECORDS_AT_ONCE == 0:
            yield
        fields = record["dynamodb"]
        entry = readable_entry_in(fields.get("OldImage"), fields.get("NewImage"))
        if entry is not None:
            number, at = int(fields["SequenceNumber"]), fields["ApproximateCreationDateTime"]
            found.append(Arrival(number, at, entry))
    return found


@asynccontextmanager
async def open_stream(settings: Settings, region: str) -> AsyncIterator[DynamoStream]:
    """Open the stream of the table in one region.

    Raises:
        SettingsError: the region is not in the settings, or the SDK's configuration names one
            endpoint for several.
        StoreError: the profile does not exist.
    """
    # They take more time to import than all else.
    from aiobotocore.config import AioConfig  # noqa: PLC0415

    described = settings.region(region)
    check_apart(settings, region, service=STREAM)
    config = AioConfig(
        retries={"total_max_attempts": SDK_TRIES_MAX, "mode": "standard"},
        connect_timeout=settings.request_timeout,
        read_timeout=settings.request_timeout,
    )
    async with AsyncExitStack() as stack:
        try:
            session = open_session(described.profile)
            client = await stack.enter_async_context(
                session.create_client(
                    "dynamodbstreams", config=config, **client_options(region, described)
                )
            )
        except FOREIGN as error:
            raise from_botocore(error, region=region, table=settings.table) from error
        yield DynamoStream(client, region=region, table=settings.table)

"""Kinesis Data Streams without Lambda: each shard is a lane, under the same name as in Lambda.

A position is the sequence number, padded with zeroes as in `stream_events`. Reading continues *at*
the position: the record there must come first, and is skipped. If it does not come, it has left the
stream, and later ones may have, too: then the lane continues only if it is known to have had
everything at a time since which the stream has dropped nothing (`Memory`).

Source: API reference of GetShardIterator (AT_SEQUENCE_NUMBER), GetRecords (a closed shard ends with
no NextShardIterator; five calls a second and 10 MB a call for each shard; an iterator lasts five
minutes; MillisBehindLatest is how far an answer is behind the shard's end, in time alone),
ListShards (ParentShardId, AdjacentParentShardId).
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol, Self

from ledger.core.errors import LedgerError, LeftOut, Unreachable
from ledger.pipeline.aws.clients import open_client
from ledger.pipeline.aws.stream_events import delivery_of_kinesis
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.sources.source import NOTHING, LagUnit, Memory, StreamPart
from ledger.runtime.clock import Clock
from ledger.runtime.foreign import FOREIGN, error_code, status_code

READS_SECONDS = 0.25
"""The wait between two calls of GetRecords on one shard: all readers may make five a second."""
PAUSE_SECONDS = 1.0
"""The wait after a call that was throttled."""
RECORDS_MAX = 10_000
NOTE_SECONDS = 600.0
"""Between two notes that an idle lane lacks nothing; a stream keeps records for a day at least."""
MARGIN_SECONDS = 3600.0
"""Of the time that a stream keeps records, for clocks and the notes."""
PAGES_MAX = 1_000
LAG_TRIES_MAX = 3
FOLLOWING_PAGES_MAX = 8
SDK_TRIES_MAX = 3
_EXPIRED = "ExpiredIteratorException"
_THROTTLED = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "LimitExceededException",
        "KMSThrottlingException",
        "ThrottlingException",
    }
)


class KinesisClient(Protocol):
    """The part of aiobotocore's Kinesis client that is used."""

    async def list_shards(self, **request: Any) -> Mapping[str, Any]:
        """Return a page of shards."""

    async def describe_stream_summary(self, **request: Any) -> Mapping[str, Any]:
        """Return how long a stream keeps records."""

    async def get_shard_iterator(self, **request: Any) -> Mapping[str, Any]:
        """Return where to read."""

    async def get_records(self, **request: Any) -> Mapping[str, Any]:
        """Return records, and where to read on."""


class KinesisStream:
    """A stream and its shards."""

    lag_unit: LagUnit = "seconds"

    def __init__(
        self, name: str, client: KinesisClient, clock: Clock, *, skips_lost: bool = False
    ) -> None:
        self._name = name
        self._client = client
        self._clock = clock
        self._skips_lost = skips_lost

    @property
    def name(self) -> str:
        """The stream's name."""
        return self._name

    async def parts(self) -> Sequence[StreamPart]:
        """Return the shards, closed ones too, as long as the stream has records of them.

        Raises:
            LedgerError: the stream does not exist, or cannot be read.
        """
        found: list[StreamPart] = []
        request: dict[str, Any] = {"StreamName": self._name}
        for _page in range(PAGES_MAX):
            with _Errors(self._name):
                answer = await self._client.list_shards(**request)
                found += [self._part(shard) for shard in answer["Shards"]]
            if not (token := answer.get("NextToken")):
                break
            request = {"NextToken": token}
        return found

    async def lag(self, part: StreamPart, position: str) -> float:
        """Return how many seconds a position is behind the end of a shard now.

        Raises:
            LedgerError: the stream cannot be read.
        """
        return await self.source(part, NOTHING).lag_now(position)

    def source(self, part: StreamPart, memory: Memory) -> "ShardSource":
        """Return a shard's records."""
        return ShardSource(
            self._name, part.lane, self._client, memory, self._clock, skips_lost=self._skips_lost
        )

    def _part(self, shard: Mapping[str, Any]) -> StreamPart:
        parents = (shard.get("ParentShardId"), shard.get("AdjacentParentShardId"))
        return StreamPart(
            f"{self._name}/{shard['ShardId']}",
            tuple(f"{self._name}/{parent}" for parent in parents if parent),
        )


class ShardSource:
    """The records of one shard, until it is closed and read to its end."""

    is_live = True
    lag_unit: LagUnit = "seconds"

    def __init__(
        self,
        stream: str,
        lane: str,
        client: KinesisClient,
        memory: Memory,
        clock: Clock,
        *,
        skips_lost: bool = False,
    ) -> None:
        self.is_finished = False
        self._behind_seconds = 0.0
        self._stream = stream
        self._lane = lane
        self._client = client
        self._memory = memory
        self._clock = clock
        self._skips_lost = skips_lost
        self._noted_at = float("-inf")

    async def batches(self, after: str, *, most: int) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield the records after a position.

        Raises:
            LeftOut: records after the position may have left the stream unread.
            LedgerError: the stream cannot be read.
        """
        self.is_finished = False
        position, is_checked = after, not after
        iterator: str | None = await self._iterator(position)
        while iterator is not None:
            answer = await self._records(iterator, position, min(most, RECORDS_MAX))
            if answer is None:
                iterator = await self._iterator(position)
                continue
            self._behind_seconds = answer.get("MillisBehindLatest", 0) / 1000
            found = [delivery_of_kinesis(record) for record in answer["Records"]]
            if not is_checked and (found or not answer.get("NextShardIterator")):
                await self._check(after, found)
                is_checked = True
            found = [delivery for delivery in found if delivery.position > position]
            if found:
                position = found[-1].position
                yield found
            iterator = answer.get("NextShardIterator")
            if iterator is not None:
                await self._rest(answer, found, position if is_checked else "")
        self.is_finished = True

    def lag_after(self, _position: str) -> float:
        """Return how many seconds the last answer was behind the end of the shard."""
        return self._behind_seconds

    async def lag_now(self, position: str) -> float:
        """Return how many seconds a position is behind the end of the shard now.

        Raises:
            LedgerError: the stream cannot be read.
        """
        for _try in range(LAG_TRIES_MAX):
            answer = await self._records(await self._iterator(position), position, 1)
            if answer is not None:
                return float(answer.get("MillisBehindLatest", 0) / 1000)
        raise Unreachable(f"{self._lane}: its iterators were too old {LAG_TRIES_MAX} times")

    async def following(self, position: str) -> str | None:
        """Return the position of the first record after another; None if it is not found soon.

        A shard may answer without records for a while, so a few answers are asked for.

        Raises:
            LedgerError: the stream cannot be read.
        """
        iterator: str | None = await self._iterator(position)
        for _page in range(FOLLOWING_PAGES_MAX):
            if iterator is None:
                break
            answer = await self._records(iterator, position, 1)
            if answer is None:
                break
            found = [delivery_of_kinesis(record).position for record in answer["Records"]]
            if after := [later for later in found if later > position]:
                return after[0]
            if not answer.get("MillisBehindLatest"):
                break
            iterator = answer.get("NextShardIterator")
            await self._clock.sleep(READS_SECONDS)
        return None

    async def _rest(
        self, answer: Mapping[str, Any], found: Sequence[Delivery], position: str
    ) -> None:
        """Wait until the next call; when idle, note now and then that the lane lacks nothing."""
        now = self._clock.monotonic()
        is_last = not found and not answer.get("MillisBehindLatest")
        if is_last and position and now - self._noted_at >= NOTE_SECONDS:
            self._noted_at = now
            await self._memory.note(position)
        if found:
            self._noted_at = float("-inf")
        await self._clock.sleep(READS_SECONDS)

    async def _iterator(self, position: str) -> str:
        request = {"StreamName": self._stream, "ShardId": self._lane.rpartition("/")[2]}
        if position:
            request["ShardIteratorType"] = "AT_SEQUENCE_NUMBER"
            request["StartingSequenceNumber"] = position.lstrip("0") or "0"
        else:
            request["ShardIteratorType"] = "TRIM_HORIZON"
        while True:
            with _Errors(self._lane):
                return str((await self._client.get_shard_iterator(**request))["ShardIterator"])
            await self._clock.sleep(PAUSE_SECONDS)

    async def _records(self, iterator: str, position: str, most: int) -> Mapping[str, Any] | None:
        """Return an answer of GetRecords; None if the iterator is too old."""
        limit = most + bool(position)  # the record at the position may come first
        while True:
            with _Errors(self._lane) as errors:
                answer = await self._client.get_records(
                    ShardIterator=iterator, Limit=min(limit, RECORDS_MAX)
                )
                answer["Records"]  # a true answer has them, also where there are none
            if errors.expired:
                return None
            if not errors.throttled:
                return answer
            await self._clock.sleep(PAUSE_SECONDS)

    async def _check(self, after: str, found: Sequence[Delivery]) -> None:
        """Refuse to continue where records may be missing."""
        if (found and found[0].position == after) or self._skips_lost:
            return
        with _Errors(self._stream):
            answer = await self._client.describe_stream_summary(StreamName=self._stream)
        hours = answer["StreamDescriptionSummary"]["RetentionPeriodHours"]
        noted = await self._memory.caught_up()
        if noted is not None and noted[0] == after:
            age = self._clock.now().timestamp() - noted[1]
            if age < hours * 3600 - MARGIN_SECONDS:
                return
        raise LeftOut(
            f"lane {self._lane}: the last record processed, {after.lstrip('0')}, is not in the"
            f" stream any more, which keeps {hours} hours: others after it may be gone unread."
            " Bring them in from where they came, as a file, then continue with --skip-lost"
        )


@dataclass(slots=True)
class _Errors:
    """Turns the SDK's errors into ours; notes those after which the call is made again."""

    what: str
    throttled: bool = False
    expired: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> bool:
        if isinstance(error, FOREIGN) and (code := error_code(error)):
            self.throttled = code in _THROTTLED
            self.expired = code == _EXPIRED
            if self.throttled or self.expired:
                return True
            is_server = status_code(error) >= HTTPStatus.INTERNAL_SERVER_ERROR
            kind = Unreachable if is_server else LedgerError
            raise kind(f"{self.what}: Kinesis: {error}") from error
        if isinstance(error, FOREIGN):
            raise Unreachable(f"{self.what}: Kinesis: {error}") from error
        return False


@asynccontextmanager
async def open_kinesis(
    *, region: str, profile: str | None, request_timeout: float
) -> AsyncIterator[KinesisClient]:
    """Open a client; credentials and endpoint are found as the SDK finds them.

    Raises:
        LedgerError: the SDK's configuration cannot be read, or names something that does not exist.
    """
    opening = open_client(
        "kinesis",
        region=region,
        profile=profile,
        request_timeout=request_timeout,
        tries_max=SDK_TRIES_MAX,
    )
    async with opening as client:
        yield client

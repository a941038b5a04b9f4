"""Kinesis by recorded answers, in the shape that the API reference gives them.

moto's shards went on delivering after a split, and its sequence numbers begin at 1 in each, so
resharding is tested here.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from ledger.core.errors import LedgerError, LeftOut, Unreachable
from ledger.pipeline.aws.kinesis import KinesisStream, ShardSource
from ledger.pipeline.aws.stream_events import KINESIS_DIGITS
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.sources.source import Memory, StreamPart, ready
from ledger.testing.clock import START, ManualClock

FIRST = 49_590_338_271_490_256_608_559_692_538_361_571_095_921_575_989_136_588_800
"""Sequence numbers have some 56 digits."""


def error(code: str, status: int = 400) -> ClientError:
    """Return an error as the SDK raises it."""
    answer = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "GetRecords")  # type: ignore[arg-type]


class FakeKinesis:
    """A shard: `answers` are given one after the other before what it holds."""

    def __init__(self, numbers: Sequence[int] = (), *, is_closed: bool = True) -> None:
        self.numbers = list(numbers)
        self.is_closed = is_closed
        self.answers: list[Exception] = []
        self.asked: list[Mapping[str, Any]] = []
        self.shards: list[list[Mapping[str, Any]]] = []
        self.page = 2
        self.ends_when: Callable[[], bool] = lambda: False

    async def get_shard_iterator(self, **request: Any) -> Mapping[str, Any]:
        """Return the place that is asked for as the iterator."""
        self.asked.append(request)
        return {"ShardIterator": request.get("StartingSequenceNumber", "0")}

    async def get_records(self, **request: Any) -> Mapping[str, Any]:
        """Return a page, and where to go on unless the shard has ended."""
        if self.answers:
            raise self.answers.pop(0)
        if self.ends_when():
            raise error("ResourceNotFoundException")
        here = [number for number in self.numbers if number >= int(request["ShardIterator"])]
        found = here[: min(self.page, request["Limit"])]
        answer: dict[str, Any] = {
            "Records": [
                {
                    "SequenceNumber": str(one),
                    "Data": b"%d" % one,
                    "ApproximateArrivalTimestamp": START,
                }
                for one in found
            ],
            "MillisBehindLatest": 0 if len(found) == len(here) else 1000,
        }
        if not self.is_closed or len(found) < len(here):
            after = found[-1] + 1 if found else int(request["ShardIterator"])
            answer["NextShardIterator"] = str(after)
        return answer

    async def describe_stream_summary(self, **request: Any) -> Mapping[str, Any]:
        """Return for how long records are kept."""
        assert request == {"StreamName": "trades"}
        return {"StreamDescriptionSummary": {"RetentionPeriodHours": 24}}

    async def list_shards(self, **request: Any) -> Mapping[str, Any]:
        """Return a page of shards."""
        page = int(request.get("NextToken", "0"))
        assert ("StreamName" in request) is (page == 0)
        more = {"NextToken": str(page + 1)} if page + 1 < len(self.shards) else {}
        return {"Shards": self.shards[page], **more}


class Notes:
    """What a lane keeps in the table."""

    def __init__(self) -> None:
        self.noted: tuple[str, float] | None = None

    async def caught_up(self) -> tuple[str, float] | None:
        """Return what was noted last."""
        return self.noted

    async def note(self, position: str) -> None:
        """Note a position."""
        self.noted = position, START.timestamp()

    @property
    def memory(self) -> Memory:
        """Return it as the source has it."""
        return Memory(self.caught_up, self.note)


def source_of(client: FakeKinesis, notes: Notes | None = None, **options: Any) -> ShardSource:
    """Return a shard's source."""
    clock = options.pop("clock", None) or ManualClock(instant=True)
    memory = (notes or Notes()).memory
    return ShardSource("trades", "trades/shard-1", client, memory, clock, **options)


async def read(source: ShardSource, after: str = "", *, batches_max: int = 99) -> list[Delivery]:
    """Read a shard to its end, or so many batches of it."""
    found: list[Delivery] = []
    async with aclosing(source.batches(after, most=10)) as batches:
        async for batch in batches:
            found += batch
            batches_max -= 1
            if not batches_max:
                break
    return found


def position(number: int) -> str:
    """Return a record's position."""
    return str(number).zfill(KINESIS_DIGITS)


NUMBERS = [FIRST, FIRST + 3, FIRST + 4, FIRST + 90]


async def test_a_closed_shard_is_read_to_its_end_from_any_position() -> None:
    """No record twice, none left out, and then it is known to be finished."""
    source = source_of(FakeKinesis(NUMBERS))
    whole = await read(source)
    assert [one.position for one in whole] == [position(number) for number in NUMBERS]
    assert (whole[0].raw, whole[0].at, source.is_finished) == (b"%d" % FIRST, START, True)
    for place, delivery in enumerate(whole):
        assert await read(source, delivery.position) == whole[place + 1 :]


async def test_throttling_and_old_iterators_are_waited_out() -> None:
    """An iterator that is too old is asked for again at the last record."""
    client = FakeKinesis(NUMBERS)
    client.answers = [error("ProvisionedThroughputExceededException"), error("ThrottlingException")]
    source = source_of(client)
    async with aclosing(source.batches("", most=10)) as batches:
        found = list(await anext(batches))
        client.answers = [error("ExpiredIteratorException")]
        found += [delivery async for batch in batches for delivery in batch]
    assert [delivery.position for delivery in found] == [position(number) for number in NUMBERS]
    assert client.asked[-1]["StartingSequenceNumber"] == str(NUMBERS[1])


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (error("ResourceNotFoundException"), LedgerError),
        (error("InternalFailure", 500), Unreachable),
        (EndpointConnectionError(endpoint_url="x"), Unreachable),
        (OSError("reset"), Unreachable),
    ],
)
async def test_errors_are_ours(answer: Exception, kind: type[Exception]) -> None:
    """Those that pass let the lane begin again; the others stop it."""
    client = FakeKinesis(NUMBERS)
    client.answers = [answer]
    with pytest.raises(kind, match="trades/shard-1: Kinesis") as raised:
        await read(source_of(client))
    assert isinstance(raised.value, Unreachable) is (kind is Unreachable)


async def test_a_position_that_passed_out_of_the_stream_stops_the_lane() -> None:
    """The record at the position must be there still, else others may be missing."""
    source = source_of(FakeKinesis(NUMBERS[2:]))
    with pytest.raises(LeftOut, match="keeps 24 hours: others after it may be gone unread"):
        await read(source, position(NUMBERS[0]))
    assert len(await read(source_of(FakeKinesis(NUMBERS[2:]), skips_lost=True), position(1))) == 2


@pytest.mark.parametrize(("hours", "is_exact"), [(22, True), (24, False)])
async def test_an_idle_lane_goes_on_if_it_was_at_the_end_lately(
    hours: int,
    is_exact: bool,  # noqa: FBT001 (a parameter of the test)
) -> None:
    """At rest it notes that it lacks nothing; the stream drops nothing that came since."""
    notes, clock = Notes(), ManualClock(instant=True)
    client = FakeKinesis(NUMBERS[:1], is_closed=False)

    client.ends_when = lambda: notes.noted is not None
    with pytest.raises(LedgerError):
        await read(source_of(client, notes, clock=clock))
    assert notes.noted == (position(NUMBERS[0]), START.timestamp())
    late = ManualClock(START + timedelta(hours=hours), instant=True)
    client = FakeKinesis(NUMBERS[3:])
    source = source_of(client, notes, clock=late)
    if is_exact:
        assert len(await read(source, position(NUMBERS[0]))) == 1
    else:
        with pytest.raises(LeftOut):
            await read(source, position(NUMBERS[0]))


async def test_shards_are_lanes_and_children_wait_for_their_parents() -> None:
    """One that was split, two that were merged: what follows begins when what was before is in."""
    client = FakeKinesis()
    client.shards = [
        [{"ShardId": "s0"}, {"ShardId": "s1", "ParentShardId": "gone"}],
        [
            {"ShardId": "s2", "ParentShardId": "s0"},
            {"ShardId": "s3", "ParentShardId": "s0"},
            {"ShardId": "s4", "ParentShardId": "s2", "AdjacentParentShardId": "s1"},
        ],
    ]
    parts = await KinesisStream("trades", client, ManualClock()).parts()
    assert parts[4] == StreamPart("trades/s4", ("trades/s2", "trades/s1"))

    def now(*finished: str) -> list[str]:
        return [part.lane[-2:] for part in ready(parts, {f"trades/{one}" for one in finished})]

    assert now() == ["s0", "s1"]
    assert now("s0") == ["s1", "s2", "s3"]
    assert now("s0", "s2") == ["s1", "s3"]
    assert now("s0", "s1", "s2") == ["s3", "s4"]
    assert now("s0", "s1", "s2", "s3", "s4") == []


async def test_what_lies_behind_is_time() -> None:
    """Kinesis says by how much an answer is behind the end, whatever the position."""
    kinesis = FakeKinesis([FIRST, FIRST + 1, FIRST + 2])
    source = ShardSource("trades", "trades/s0", kinesis, Notes().memory, ManualClock(instant=True))
    async with aclosing(source.batches("", most=10)) as batches:
        seen = [source.lag_after("") async for _ in batches]
    assert (source.lag_unit, seen) == ("seconds", [1, 0])
    stream = KinesisStream("trades", kinesis, ManualClock(instant=True))
    last = str(FIRST + 2).zfill(KINESIS_DIGITS)
    assert [await stream.lag(StreamPart("trades/s0"), at) for at in ("", last)] == [1, 0]
    kinesis.answers = [error("ExpiredIteratorException")] * 3
    with pytest.raises(Unreachable, match="its iterators were too old 3 times"):
        await stream.lag(StreamPart("trades/s0"), last)


async def test_what_follows_a_position_is_found() -> None:
    """The next record, however many answers are empty before it; none at the end of the shard."""
    kinesis = FakeKinesis([FIRST, FIRST + 5], is_closed=False)
    source = ShardSource("trades", "trades/s0", kinesis, Notes().memory, ManualClock(instant=True))
    positions = [str(FIRST + more).zfill(KINESIS_DIGITS) for more in (0, 5)]
    assert await source.following(positions[0]) == positions[1]
    assert await source.following(positions[1]) is None
    kinesis.page = 1
    assert await source.following(positions[0]) == positions[1]
    kinesis.page = 0
    assert await source.following(positions[0]) is None
    kinesis.answers = [error("ExpiredIteratorException")]
    assert await source.following(positions[0]) is None

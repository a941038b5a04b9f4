from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from ledger.core.errors import LedgerError, LeftOut
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.sources.kafka import (
    TOMBSTONE,
    Consumer,
    KafkaStream,
    Message,
    PartitionSource,
    _access,
    topic_of,
)
from ledger.pipeline.sources.source import StreamPart


@dataclass
class Record:
    """A record of a partition."""

    offset: int
    value: bytes | None
    timestamp: int = 1_000


@dataclass
class FakeTopic:
    """A topic of one partition, with the offsets that are there."""

    records: Sequence[Record] = ()
    first: int = 0
    name: str = "trades"
    numbers: Sequence[int] = (1, 0)
    last: int = field(init=False)
    place: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.last = self.records[-1].offset + 1 if self.records else self.first

    async def partitions(self) -> Sequence[int]:
        """Return the partitions."""
        return self.numbers

    @asynccontextmanager
    async def consumer(self, partition: int) -> AsyncIterator[Consumer]:
        """Open it."""
        assert partition == 0
        yield self

    async def bounds(self) -> tuple[int, int]:
        """Return what is there."""
        return self.first, self.last

    def end(self) -> int | None:
        """Return what the last answer said."""
        return self.last if self.place else None

    async def read_from(self, offset: int) -> None:
        """Go to an offset."""
        self.place = offset

    async def read(self, most: int) -> Sequence[Message]:
        """Return what follows, or end the test where a consumer would wait."""
        found = [record for record in self.records if record.offset >= self.place][:most]
        if not found:
            raise EOFError
        self.place = found[-1].offset + 1
        return found


async def read(topic: FakeTopic, after: str = "", *, skips_lost: bool = False) -> list[Delivery]:
    """Read a partition as far as it goes."""
    found: list[Delivery] = []
    source = PartitionSource("trades/0", topic, skips_lost=skips_lost)
    try:
        async with aclosing(source.batches(after, most=2)) as batches:
            async for batch in batches:
                found += batch
    except EOFError:
        assert not source.is_finished
    return found


RECORDS = [Record(3, b"a"), Record(4, b"b"), Record(7, None), Record(8, b"d", -1)]


async def test_a_position_is_an_offset() -> None:
    """Reading goes on behind any of them; gaps are the topic's; a missing time is none."""
    whole = await read(FakeTopic(RECORDS, first=3))
    assert [int(one.position) for one in whole] == [3, 4, 7, 8]
    assert [one.problem for one in whole] == ["", "", TOMBSTONE, ""]
    assert [one.at for one in whole] == [*[datetime.fromtimestamp(1, UTC)] * 3, None]
    for place, delivery in enumerate(whole):
        topic = FakeTopic(RECORDS, first=3)
        assert await read(topic, delivery.position) == whole[place + 1 :]


async def test_what_lies_behind_is_what_the_broker_said_last() -> None:
    """Offsets up to the end, with gaps; from the first that is there for a lane that is new."""
    topic = FakeTopic(RECORDS, first=3)
    source = PartitionSource("trades/0", topic)
    assert source.lag_after("") == 0  # nothing was said yet
    async with aclosing(source.batches("", most=2)) as batches:
        assert len(await anext(batches)) == 2
        topic.last = 20
        await anext(batches)
    assert [source.lag_after(at) for at in ("", f"{8:020d}", f"{30:020d}")] == [17, 11, 0]
    stream, part = KafkaStream(topic), StreamPart("trades/0")
    assert (stream.lag_unit, await stream.lag(part, f"{8:020d}")) == ("records", 11)
    assert await stream.lag(part, "") == 17


async def test_records_deleted_unread_stop_the_lane() -> None:
    """Retention that overtook the lane is never passed over in silence."""
    topic = FakeTopic(RECORDS, first=3)
    with pytest.raises(LeftOut, match="the offsets from 2 to 2 were deleted unread"):
        await read(topic, f"{1:020d}")
    assert len(await read(topic, f"{2:020d}")) == 4
    assert len(await read(topic, f"{1:020d}", skips_lost=True)) == 4


async def test_a_topic_made_again_stops_the_lane() -> None:
    """Offsets that begin from zero again are another lane's."""
    with pytest.raises(LedgerError, match="it ends before offset 9, and 9 was taken"):
        await read(FakeTopic(RECORDS), f"{9:020d}")


async def test_partitions_are_lanes() -> None:
    """Each by its number; a topic without any does not exist."""
    topic = FakeTopic()
    assert await KafkaStream(topic).parts() == [StreamPart("trades/0"), StreamPart("trades/1")]
    topic.numbers = ()
    with pytest.raises(LedgerError, match="no topic 'trades'"):
        await KafkaStream(topic).parts()


@pytest.mark.parametrize(
    ("is_encrypted", "user", "protocol"),
    [
        (False, "", "PLAINTEXT"),
        (True, "", "SSL"),
        (False, "me", "SASL_PLAINTEXT"),
        (True, "me", "SASL_SSL"),
    ],
)
def test_access_is_by_address_and_environment(
    is_encrypted: bool,  # noqa: FBT001 (a parameter of the test)
    user: str,
    protocol: str,
) -> None:
    """TLS by the address, a name and password by variables."""
    environment = {"KAFKA_USERNAME": user, "KAFKA_PASSWORD": "secret"}
    access = _access("broker:9092", is_encrypted=is_encrypted, environment=environment)
    assert (access["security_protocol"], "ssl_context" in access) == (protocol, is_encrypted)
    assert (access.get("sasl_plain_password") == "secret") is bool(user)


@pytest.mark.tools("kafka")
async def test_it_reads_from_a_broker() -> None:
    """Aiokafka against a broker on a local port: partitions, bounds, offsets."""
    from support.kafka_broker import kafka_broker  # noqa: PLC0415 (its library is a tool)

    with kafka_broker("trades", partitions=2) as broker:
        broker.send("trades", 0, [b"0", b"1", b"2"])
        topic = topic_of(broker.address, "trades", is_encrypted=False)
        assert sorted(await topic.partitions()) == [0, 1]
        assert await topic_of(broker.address, "other", is_encrypted=False).partitions() == []
        source = PartitionSource("trades/0", topic)
        found: list[tuple[int, bytes]] = []
        async with aclosing(source.batches(f"{0:020d}", most=10)) as batches:
            async for batch in batches:  # a broker may answer with the first record alone
                found.extend((int(delivery.position), delivery.raw) for delivery in batch)
                if len(found) >= 2:
                    break
        assert found == [(1, b"1"), (2, b"2")]

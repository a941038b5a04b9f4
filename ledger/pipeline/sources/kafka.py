"""Kafka: each partition of a topic is a lane, and a position is a record's offset.

No consumer group is used: how far a lane is stands in the table, with what it has counted. A topic
that is compacted serves as long as its key is the record's id, since the newest version counts.

Source: Kafka's offsets rise within a partition, with gaps where transactions are marked and records
are compacted; beginning_offsets is the first that retention has left.
"""

import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

from ledger.core.errors import LedgerError, LeftOut, Unreachable
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.sources.source import LagUnit, Memory, StreamPart
from ledger.runtime.output import needing

OFFSET_DIGITS = 20
WAIT_MILLISECONDS = 1_000
"""How long one call waits for records; it returns at the first."""
FETCH_BYTES_MAX = 1 << 22
"""Bytes of one answer of a broker; a longer record comes by itself."""
LINGER_MILLISECONDS = 5
"""How long a record waits for others to be written with."""
TOMBSTONE = "a record without a value: no version of a record"
USERNAME, PASSWORD = "KAFKA_USERNAME", "KAFKA_PASSWORD"


class Message(Protocol):
    """The part of aiokafka's records that is used: their time is in milliseconds since 1970."""

    offset: int
    timestamp: int
    value: bytes | None


class Consumer(Protocol):
    """The part of aiokafka's consumer, of one partition, that is used."""

    async def bounds(self) -> tuple[int, int]:
        """Return the first offset that is there, and the one after the last."""

    def end(self) -> int | None:
        """Return the offset after the last, as the broker said it last; None if it has not."""

    async def read_from(self, offset: int) -> None:
        """Go to an offset."""

    async def read(self, most: int) -> Sequence[Message]:
        """Return what comes next; nothing if nothing came meanwhile."""


class Topic(Protocol):
    """A topic, and what opens consumers of its partitions."""

    @property
    def name(self) -> str:
        """Its name."""

    async def partitions(self) -> Sequence[int]:
        """Return the existing partitions; none if there is no such topic."""

    def consumer(self, partition: int) -> AbstractAsyncContextManager[Consumer]:
        """Open a consumer of one partition."""


class KafkaStream:
    """A topic and its partitions."""

    lag_unit: LagUnit = "records"

    def __init__(self, topic: Topic, *, skips_lost: bool = False) -> None:
        self._topic = topic
        self._skips_lost = skips_lost

    @property
    def name(self) -> str:
        """The topic."""
        return self._topic.name

    async def parts(self) -> Sequence[StreamPart]:
        """Return the partitions.

        Raises:
            LedgerError: there is no such topic.
            Unreachable: no broker answers.
        """
        found = await self._topic.partitions()
        if not found:
            raise LedgerError(f"Kafka has no topic {self.name!r}")
        return [StreamPart(f"{self.name}/{number}") for number in sorted(found)]

    async def lag(self, part: StreamPart, position: str) -> float:
        """Return how many offsets of a partition are after a position by now.

        Raises:
            LedgerError: the topic cannot be read.
        """
        async with self._topic.consumer(int(part.lane.rpartition("/")[2])) as consumer:
            first, last = await consumer.bounds()
        return float(max(0, last - (int(position) + 1 if position else first)))

    def source(self, part: StreamPart, _memory: Memory) -> "PartitionSource":
        """Return a partition's records."""
        return PartitionSource(part.lane, self._topic, skips_lost=self._skips_lost)


class PartitionSource:
    """The records of one partition; they never end."""

    is_finished = False
    is_live = True
    lag_unit: LagUnit = "records"

    def __init__(self, lane: str, topic: Topic, *, skips_lost: bool = False) -> None:
        self._first = self._end = 0
        self._lane = lane
        self._topic = topic
        self._skips_lost = skips_lost

    async def batches(self, after: str, *, most: int) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield the records after a position.

        Raises:
            LeftOut: records after the position were deleted unread.
            LedgerError: the topic is another, or cannot be read.
            Unreachable: no broker answers.
        """
        async with self._topic.consumer(int(self._lane.rpartition("/")[2])) as consumer:
            self._first, self._end = first, last = await consumer.bounds()
            following = int(after) + 1 if after else first
            self._check(after, following, first, last)
            await consumer.read_from(max(following, first))
            while True:
                found = await consumer.read(most)
                self._end = max(self._end, consumer.end() or 0)
                if found:
                    yield [_delivery(message) for message in found]

    def lag_after(self, position: str) -> float:
        """Return how many offsets are after a position, by the last answer of the broker."""
        following = int(position) + 1 if position else self._first
        return float(max(0, self._end - following))

    def _check(self, after: str, following: int, first: int, last: int) -> None:
        if following > last:
            raise LedgerError(
                f"lane {self._lane}: it ends before offset {last:,}, and {int(after):,} was taken:"
                " it is another topic of that name. Take its records in under another name"
            )
        if following < first and not self._skips_lost:
            raise LeftOut(
                f"lane {self._lane}: the offsets from {following:,} to {first - 1:,} were deleted"
                " unread. Bring them in from where they came, as a file, then continue with"
                " --skip-lost"
            )


def _delivery(message: Message) -> Delivery:
    position = f"{message.offset:0{OFFSET_DIGITS}d}"
    at = datetime.fromtimestamp(message.timestamp / 1000, UTC) if message.timestamp >= 0 else None
    if message.value is None:
        return Delivery(position, b"", at, TOMBSTONE)
    return Delivery(position, message.value, at)


class TopicWriter(Protocol):
    """Appends records to a topic."""

    async def write(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Append keys and values, and wait until all replicas in sync have them.

        Raises:
            LedgerError: the topic does not take them.
            Unreachable: no broker answers.
        """


def topic_of(broker: str, topic: str, *, is_encrypted: bool) -> Topic:
    """Return a topic as aiokafka reads it; a user's name and password are in the environment.

    Raises:
        PackageMissing: the extra `kafka` is not installed.
    """
    return _topic_of(broker, topic, is_encrypted=is_encrypted)


def writer_of(
    broker: str, topic: str, *, is_encrypted: bool
) -> AbstractAsyncContextManager[TopicWriter]:
    """Return what opens a topic to be written by aiokafka; access is as that of `topic_of`.

    Raises:
        PackageMissing: the extra `kafka` is not installed.
    """
    return _topic_of(broker, topic, is_encrypted=is_encrypted).writer()


def _topic_of(broker: str, topic: str, *, is_encrypted: bool) -> "_AiokafkaTopic":
    with needing("kafka://"):
        import aiokafka.admin  # noqa: PLC0415 (an extra)
    access = _access(broker, is_encrypted=is_encrypted, environment=os.environ)
    return _AiokafkaTopic(aiokafka, topic, access)


def _access(broker: str, *, is_encrypted: bool, environment: Mapping[str, str]) -> dict[str, Any]:
    access: dict[str, Any] = {"bootstrap_servers": broker}
    protocol = "SSL" if is_encrypted else "PLAINTEXT"
    if user := environment.get(USERNAME):
        protocol = f"SASL_{protocol}"
        access["sasl_mechanism"] = "SCRAM-SHA-512"
        access["sasl_plain_username"] = user
        access["sasl_plain_password"] = environment.get(PASSWORD, "")
    if is_encrypted:
        access["ssl_context"] = ssl.create_default_context()
    return {**access, "security_protocol": protocol}


class _AiokafkaTopic:
    """A topic under our port."""

    def __init__(self, aiokafka: Any, name: str, access: Mapping[str, Any]) -> None:
        self.name = name
        self._aiokafka = aiokafka
        self._access = access

    async def partitions(self) -> Sequence[int]:
        with self._errors():
            admin = self._aiokafka.admin.AIOKafkaAdminClient(**self._access)
            try:
                await admin.start()
                if self.name not in await admin.list_topics():  # to describe one may make it
                    return []
                (described,) = await admin.describe_topics([self.name])
            finally:
                await admin.close()
            return [partition["partition"] for partition in described["partitions"]]

    @asynccontextmanager
    async def consumer(self, partition: int) -> AsyncIterator[Consumer]:
        place = self._aiokafka.TopicPartition(self.name, partition)
        with self._errors():
            consumer = self._aiokafka.AIOKafkaConsumer(
                **self._access,
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="none",
                isolation_level="read_committed",
                fetch_max_bytes=FETCH_BYTES_MAX,
            )
            try:
                await consumer.start()
                consumer.assign([place])
                yield _AiokafkaConsumer(consumer, place)
            finally:
                await consumer.stop()

    @asynccontextmanager
    async def writer(self) -> AsyncIterator[TopicWriter]:
        with self._errors():
            producer = self._aiokafka.AIOKafkaProducer(
                **self._access, acks="all", enable_idempotence=True, linger_ms=LINGER_MILLISECONDS
            )
            try:
                await producer.start()
                yield _AiokafkaWriter(producer, self.name)
            finally:
                await producer.stop()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        errors = self._aiokafka.errors
        try:
            yield
        except errors.OffsetOutOfRangeError as error:
            raise LeftOut(f"{self.name}: offsets were deleted unread: {error}") from error
        except errors.KafkaError as error:
            kind = Unreachable if error.retriable else LedgerError
            raise kind(f"{self.name}: Kafka: {error}") from error


class _AiokafkaWriter:
    """A producer under our port; the client itself repeats what can be repeated."""

    def __init__(self, producer: Any, topic: str) -> None:
        self._producer = producer
        self._topic = topic

    async def write(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        sent = [await self._producer.send(self._topic, value, key=key) for key, value in records]
        for one in sent:
            await one


class _AiokafkaConsumer:
    """A consumer under our port."""

    def __init__(self, consumer: Any, place: Any) -> None:
        self._consumer = consumer
        self._place = place

    async def bounds(self) -> tuple[int, int]:
        first = await self._consumer.beginning_offsets([self._place])
        last = await self._consumer.end_offsets([self._place])
        return first[self._place], last[self._place]

    def end(self) -> int | None:
        found: int | None = self._consumer.highwater(self._place)
        return found

    async def read_from(self, offset: int) -> None:
        self._consumer.seek(self._place, offset)

    async def read(self, most: int) -> Sequence[Message]:
        found: Mapping[Any, Sequence[Message]] = await self._consumer.getmany(
            self._place, timeout_ms=WAIT_MILLISECONDS, max_records=most
        )
        return found.get(self._place, ())

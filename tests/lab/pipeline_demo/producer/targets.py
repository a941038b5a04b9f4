"""Where a producer writes: Kinesis, SQS, Kafka, or a file that `ledger pipeline run` follows.

Source: API references of PutRecords (500 records and 5 MiB; some may be refused in an answer that
is well) and SendMessageBatch (10 messages and 262,144 bytes; likewise).
"""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import anyio.to_thread

from ledger.core.errors import InvalidInput, LedgerError
from ledger.pipeline.aws.clients import open_client
from ledger.pipeline.sources.file_claims import CSV_SUFFIXES
from ledger.pipeline.sources.kafka import TopicWriter, writer_of
from ledger.runtime.foreign import FOREIGN, error_code
from ledger.settings import Settings

KINESIS_RECORDS_MAX, KINESIS_BYTES_MAX = 500, 4 * 1024 * 1024
QUEUE_MESSAGES_MAX, QUEUE_BYTES_MAX = 10, 250_000
TOPIC_RECORDS_MAX, TOPIC_BYTES_MAX = 500, 900_000
LINES_MAX, LINES_BYTES_MAX = 1_000, 1 << 24
THROTTLED = frozenset(
    {
        "InternalFailure",
        "KMSThrottlingException",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestThrottled",
        "ServiceUnavailable",
        "ThrottlingException",
    }
)
"""Answers after which the same is sent again."""
SDK_TRIES_MAX = 3
LOOK_BYTES = 1_024
"""Of a file that is there, to see that it has records."""
OTHER_SUFFIXES = CSV_SUFFIXES | {".gz"}


class Outgoing(NamedTuple):
    """A record to be sent: `key`, of which a shard or partition has all records, and its line."""

    key: str
    line: bytes

    @property
    def size(self) -> int:
        """The bytes that count against a batch's bound."""
        return len(self.key) + len(self.line)


class Target(Protocol):
    """Takes batches of records, of up to so many and so many bytes."""

    records_max: int
    bytes_max: int

    async def send(self, records: Sequence[Outgoing]) -> Sequence[int]:
        """Send records; return the places of those refused for now, to be sent again.

        Raises:
            LedgerError: they cannot be sent.
        """


@dataclass(slots=True)
class StreamTarget:
    """A Kinesis stream."""

    client: Any
    name: str
    records_max: int = KINESIS_RECORDS_MAX
    bytes_max: int = KINESIS_BYTES_MAX

    async def send(self, records: Sequence[Outgoing]) -> Sequence[int]:
        """Put records; those are refused whose shard takes no more, or is not there for now."""
        entries = [
            {"PartitionKey": record.key, "Data": record.line.rstrip(b"\n")} for record in records
        ]
        answer = await _asked(
            self.client.put_records, self.name, StreamName=self.name, Records=entries
        )
        if answer is None:
            return range(len(records))
        return [place for place, one in enumerate(answer["Records"]) if one.get("ErrorCode")]


@dataclass(slots=True)
class QueueTarget:
    """An SQS queue."""

    client: Any
    url: str
    records_max: int = QUEUE_MESSAGES_MAX
    bytes_max: int = QUEUE_BYTES_MAX

    async def send(self, records: Sequence[Outgoing]) -> Sequence[int]:
        """Send messages; those that SQS blames itself for are refused for now."""
        entries = [
            {"Id": str(place), "MessageBody": one.line.decode(errors="replace").rstrip("\n")}
            for place, one in enumerate(records)
        ]
        answer = await _asked(
            self.client.send_message_batch, self.url, QueueUrl=self.url, Entries=entries
        )
        if answer is None:
            return range(len(records))
        failed = answer.get("Failed", ())
        if blamed := [failure for failure in failed if failure.get("SenderFault")]:
            raise LedgerError(f"{self.url} takes no such message: {blamed[0].get('Message')}")
        return [int(failure["Id"]) for failure in failed]


@dataclass(slots=True)
class TopicTarget:
    """A Kafka topic."""

    writer: TopicWriter
    records_max: int = TOPIC_RECORDS_MAX
    bytes_max: int = TOPIC_BYTES_MAX

    async def send(self, records: Sequence[Outgoing]) -> Sequence[int]:
        """Send records; the client itself repeats what is refused."""
        await self.writer.write(
            [(record.key.encode(), record.line.rstrip(b"\n")) for record in records]
        )
        return ()


@dataclass(slots=True)
class FileTarget:
    """A file, which grows; a last line without an end is a line of its own."""

    file: Path
    records_max: int = LINES_MAX
    bytes_max: int = LINES_BYTES_MAX
    is_begun: bool = False

    async def send(self, records: Sequence[Outgoing]) -> Sequence[int]:
        """Append lines."""
        lines = b"".join(record.line.rstrip(b"\n") + b"\n" for record in records)

        def append() -> None:
            with self.file.open("ab+") as file:
                if not self.is_begun and file.tell():
                    file.seek(-1, os.SEEK_END)
                    file.write(b"" if file.read(1) == b"\n" else b"\n")
                file.write(lines)
                self.is_begun = True

        try:
            await anyio.to_thread.run_sync(append)
        except OSError as error:
            raise LedgerError(f"{self.file}: cannot be written: {error.strerror}") from error
        return ()


@asynccontextmanager
async def open_target(address: str, settings: Settings, region: str) -> AsyncIterator[Target]:
    """Open what an address names; credentials and endpoints are found as the SDK finds them.

    Raises:
        InvalidInput: it names none.
        LedgerError: it cannot be reached.
    """
    scheme, mark, place = address.partition("://")
    host, _, topic = place.partition("/")
    if not mark:
        if Path(address).suffix.lower() in OTHER_SUFFIXES:
            raise InvalidInput(
                f"{address!r}: what is written are lines of JSON, and `ledger pipeline run` reads"
                " files of this name otherwise: name it .jsonl"
            )
        _check_lines(Path(address))
        yield FileTarget(Path(address))
    elif scheme == "kinesis" and host and not topic:
        async with _client("kinesis", settings, region) as client:
            yield StreamTarget(client, host)
    elif scheme == "sqs" and place:
        async with _client("sqs", settings, region) as client:
            yield QueueTarget(client, await _url(client, place))
    elif scheme in {"kafka", "kafka+tls"} and host and topic and "/" not in topic:
        async with writer_of(host, topic, is_encrypted=scheme == "kafka+tls") as writer:
            yield TopicTarget(writer)
    else:
        raise InvalidInput(
            f"{address!r} is neither a file nor kinesis://STREAM, sqs://QUEUE,"
            " kafka://BROKER:PORT/TOPIC or kafka+tls://"
        )


def _check_lines(file: Path) -> None:
    """Refuse to append records to a file of something else, such as settings.

    Raises:
        InvalidInput: it begins with what is no JSON object.
        LedgerError: it cannot be read.
    """
    if not file.is_file():
        return
    try:
        with file.open("rb") as lines:
            begins = lines.read(LOOK_BYTES).lstrip()
    except OSError as error:
        raise LedgerError(f"{file}: cannot be read: {error.strerror}") from error
    if begins and not begins.startswith(b"{"):
        raise InvalidInput(
            f"{file}: records are appended to a file of them, and this one begins with"
            f" {begins[:20]!r}: name another file"
        )


def _client(service: str, settings: Settings, region: str) -> AbstractAsyncContextManager[Any]:
    return open_client(
        service,
        region=region,
        profile=settings.region(region).profile,
        request_timeout=settings.request_timeout,
        tries_max=SDK_TRIES_MAX,
    )


async def _url(client: Any, name: str) -> str:
    if "/" in name:
        return f"https://{name}"
    answer = await _asked(client.get_queue_url, name, QueueName=name)
    if answer is None:
        raise LedgerError(f"{name}: SQS takes no request for now")
    return str(answer["QueueUrl"])


async def _asked(call: Any, what: str, **request: Any) -> Mapping[str, Any] | None:
    """Make a request; None if the service takes none for now.

    Raises:
        LedgerError: it is refused, or no answer came.
    """
    try:
        answer: Mapping[str, Any] = await call(**request)
    except FOREIGN as error:
        if error_code(error) in THROTTLED:
            return None
        raise LedgerError(f"{what}: {error}") from error
    return answer

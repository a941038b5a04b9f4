"""Dead letters in an SQS queue, one message each: the same text as a line of the file.

A message is durable once SQS has answered. What SQS did not answer is sent again, by the SDK and by
the lane: a letter may come twice; lane and position identify it.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from ledger.core.errors import LedgerError
from ledger.pipeline.aws.clients import open_client
from ledger.pipeline.sources.dead_letters import DeadRecord, append, line_of
from ledger.runtime.clock import Clock, SystemClock
from ledger.runtime.foreign import FOREIGN

MESSAGE_BYTES_MAX = 262_144
"""Bytes of one message, and of all in one request: what every queue accepts by default."""
KEPT_BYTES = 32_768
"""Bytes kept of a record that is too long for a message; each may take six characters."""
MESSAGES_MAX = 10
WAIT_SECONDS = 2
"""How long SQS searches all its servers before it reports that there are no messages."""
HELD_SECONDS = 300
"""How long a message that was received stays hidden, until it is deleted."""
TRIES_MAX = 3
"""Tries of one message: SQS may accept some of a request and not the others."""
SDK_TRIES_MAX = 5


class QueueClient(Protocol):
    """The part of aiobotocore's SQS client that is used."""

    async def send_message_batch(self, **request: Any) -> Mapping[str, Any]:
        """Send up to ten messages."""

    async def receive_message(self, **request: Any) -> Mapping[str, Any]:
        """Receive up to ten messages, which are then hidden for a while."""

    async def delete_message_batch(self, **request: Any) -> Mapping[str, Any]:
        """Delete up to ten messages by their receipts."""


class DeadLetterQueue:
    """An SQS queue of dead letters."""

    def __init__(self, client: QueueClient, url: str, clock: Clock | None = None) -> None:
        self._client = client
        self._url = url
        self._clock = clock or SystemClock()

    async def add(self, letters: Sequence[DeadRecord]) -> None:
        """Send some, and wait until SQS has them.

        Raises:
            LedgerError: SQS did not accept them all.
        """
        now = self._clock.now()
        for bodies in _requests(body_of(replace(letter, at=now)) for letter in letters):
            await self._send(bodies)

    async def move_to(self, file: Path) -> int:
        """Move the messages of the queue to the end of a file of dead letters; return how many.

        Each is deleted only once it is on the disk: after a crash one may be there twice. It ends
        when SQS shows no more; those that another reader holds at that time stay.

        Raises:
            LedgerError: SQS did not answer, or the file cannot be written; run it again.
        """
        moved = 0
        while messages := await self._receive():
            lines = [message["Body"].rstrip("\n") + "\n" for message in messages]
            await append(file, "".join(lines).encode(errors="surrogateescape"))
            await self._delete([message["ReceiptHandle"] for message in messages])
            moved += len(messages)
        return moved

    async def _receive(self) -> Sequence[Mapping[str, Any]]:
        try:
            answer = await self._client.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=MESSAGES_MAX,
                WaitTimeSeconds=WAIT_SECONDS,
                VisibilityTimeout=HELD_SECONDS,
            )
        except FOREIGN as error:
            raise LedgerError(f"{self._url}: gives no dead letters: {error}") from error
        found: Sequence[Mapping[str, Any]] = answer.get("Messages", ())
        return found

    async def _delete(self, receipts: Sequence[str]) -> None:
        entries = [{"Id": str(at), "ReceiptHandle": each} for at, each in enumerate(receipts)]
        try:
            answer = await self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)
        except FOREIGN as error:
            raise LedgerError(f"{self._url}: deletes no messages: {error}") from error
        check_each(answer, entries, self._url)
        if failed := answer.get("Failed", ()):
            reason = failed[0].get("Message") or failed[0].get("Code")
            raise LedgerError(f"{self._url}: deletes no messages: {reason}")

    async def _send(self, bodies: Sequence[str]) -> None:
        left = dict(enumerate(bodies))
        reason = ""
        for _ in range(TRIES_MAX):
            entries = [{"Id": str(place), "MessageBody": body} for place, body in left.items()]
            try:
                answer = await self._client.send_message_batch(QueueUrl=self._url, Entries=entries)
            except FOREIGN as error:
                raise LedgerError(f"{self._url}: takes no dead letters: {error}") from error
            check_each(answer, entries, self._url)
            failed = {int(failure["Id"]): failure for failure in answer.get("Failed", ())}
            left = {place: body for place, body in left.items() if place in failed}
            if not left:
                return
            reason = next(
                str(failure.get("Message") or failure.get("Code")) for failure in failed.values()
            )
        raise LedgerError(f"{self._url}: takes no dead letters: {reason}")


def check_each(answer: Mapping[str, Any], asked: Sequence[Mapping[str, Any]], url: str) -> None:
    """Make sure that an answer to a batch names each of its messages, as SQS does.

    Source: Amazon SQS API Reference, SendMessageBatch and DeleteMessageBatch: `Successful` and
    `Failed`.

    Raises:
        LedgerError: it does not, so it is not SQS's, and says of no message that it was taken.
    """
    told = {one["Id"] for name in ("Successful", "Failed") for one in answer.get(name) or ()}
    if told != {one["Id"] for one in asked}:
        raise LedgerError(f"{url}: the answer is not that of a queue: check the endpoint")


def body_of(letter: DeadRecord) -> str:
    """Return the message of a letter; of a record that is too long it has the beginning."""
    body = line_of(letter).rstrip("\n")
    if len(body) <= MESSAGE_BYTES_MAX:
        return body
    reason = (
        f"{letter.reason} [here are the first {KEPT_BYTES:,} of its {len(letter.raw):,} bytes: all"
        " of them are in the stream, at its position]"
    )
    return line_of(replace(letter, raw=letter.raw[:KEPT_BYTES], reason=reason)).rstrip("\n")


def _requests(bodies: Iterable[str]) -> Iterator[list[str]]:
    """Group messages into requests."""
    group: list[str] = []
    size = 0
    for body in bodies:
        if group and (len(group) == MESSAGES_MAX or size + len(body) > MESSAGE_BYTES_MAX):
            yield group
            group, size = [], 0
        group.append(body)
        size += len(body)
    if group:
        yield group


@asynccontextmanager
async def open_queue(
    url: str, *, region: str | None, request_timeout: float, clock: Clock | None = None
) -> AsyncIterator[DeadLetterQueue]:
    """Open a queue by its URL; credentials and endpoint are found as the SDK finds them.

    Raises:
        LedgerError: the SDK's configuration cannot be read, or names something that does not exist.
    """
    opening = open_client(
        "sqs",
        region=region,
        request_timeout=request_timeout,
        waits_seconds=WAIT_SECONDS,
        tries_max=SDK_TRIES_MAX,
    )
    async with opening as client:
        yield DeadLetterQueue(client, url, clock)

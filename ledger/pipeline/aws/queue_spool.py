"""Records from an SQS queue: drained into a file, which is the lane.

A queue is not a lane: it has no positions, delivers messages in no order, more than once, and
forgets them once they are deleted. So it is spooled::

    receive ── append to the file, fsync ── delete from the queue
                        |
                        `── the file's lane: positions, claims, as any file that grows

A message that was kept and not deleted, after a crash or a failed delete, comes again, and is then
a second line: the newest version of a record counts once, so nothing changes. Records of one id
may come in any order for the same reason.
"""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import anyio.to_thread

from ledger.core.errors import LedgerError
from ledger.pipeline.aws.clients import open_client
from ledger.pipeline.aws.dead_letter_queue import check_each
from ledger.runtime.foreign import FOREIGN
from ledger.runtime.tasks import run_all

MESSAGES_MAX = 10
"""Messages in one answer: SQS's limit."""
AT_ONCE = 8
"""Concurrent requests; what they return is made durable together."""
WAIT_SECONDS = 5
"""How long a request waits for messages: it then asks all of SQS's servers, so none are left."""
SDK_TRIES_MAX = 5


class ReadQueueClient(Protocol):
    """The part of aiobotocore's SQS client that is used."""

    async def get_queue_url(self, **request: Any) -> Mapping[str, Any]:
        """Return a queue's URL."""

    async def receive_message(self, **request: Any) -> Mapping[str, Any]:
        """Return up to ten messages, which others do not see for a while."""

    async def delete_message_batch(self, **request: Any) -> Mapping[str, Any]:
        """Delete up to ten messages."""


@dataclass(slots=True)
class QueueSpool:
    """A queue on its way into a file, which may have messages of it already.

    It is complete once a round brought no message, or, if it `follows`, never.
    """

    client: ReadQueueClient
    url: str
    file: Path
    follows: bool = False
    is_complete: bool = False

    async def begin(self) -> None:
        """Keep messages until the file has a line, which names the lane.

        Raises:
            LedgerError: the queue has none, or cannot be read, or the file not written.
        """
        await self._in_thread(partial(_end_line, self.file))
        while not await self._in_thread(partial(_has_content, self.file)):
            if not await self._round() and not self.follows:
                raise LedgerError(f"{self.url} has no message")

    async def fill(self) -> None:
        """Keep messages until the queue has none; they are deleted once they are on the disk.

        Raises:
            LedgerError: the queue cannot be read, or the file not written.
        """
        while not self.is_complete:
            self.is_complete = not await self._round() and not self.follows

    async def _round(self) -> bool:
        """Keep the messages that the queue returns now; return whether there were any."""
        found = await run_all([self._receive] * AT_ONCE, at_once=AT_ONCE)
        groups = [group for group in found if group]
        if not groups:
            return False
        lines = b"".join(line_of_message(message["Body"]) for group in groups for message in group)
        await self._in_thread(partial(_append, self.file, lines))
        await run_all([partial(self._delete, group) for group in groups], at_once=AT_ONCE)
        return True

    async def _receive(self) -> Sequence[Mapping[str, Any]]:
        try:
            answer = await self.client.receive_message(
                QueueUrl=self.url, MaxNumberOfMessages=MESSAGES_MAX, WaitTimeSeconds=WAIT_SECONDS
            )
        except FOREIGN as error:
            raise LedgerError(f"{self.url}: cannot be read: {error}") from error
        found: Sequence[Mapping[str, Any]] = answer.get("Messages", ())
        return found

    async def _delete(self, group: Sequence[Mapping[str, Any]]) -> None:
        entries = [
            {"Id": str(place), "ReceiptHandle": message["ReceiptHandle"]}
            for place, message in enumerate(group)
        ]
        try:
            answer = await self.client.delete_message_batch(QueueUrl=self.url, Entries=entries)
        except FOREIGN as error:
            raise LedgerError(f"{self.url}: deletes no message: {error}") from error
        check_each(answer, entries, self.url)

    async def _in_thread(self, step: Any) -> Any:
        try:
            return await anyio.to_thread.run_sync(step)
        except OSError as error:
            raise LedgerError(f"{self.file}: cannot be filled: {error.strerror}") from error


def line_of_message(body: str) -> bytes:
    """Return a message as a line of the file; JSON has line breaks only where spaces may be."""
    text = body.replace("\r", " ").replace("\n", " ").strip()
    return f"{text}\n".encode(errors="surrogateescape")


@asynccontextmanager
async def open_queue_spool(
    name: str,
    file: Path,
    *,
    region: str,
    profile: str | None,
    request_timeout: float,
    follows: bool,
) -> AsyncIterator[QueueSpool]:
    """Open a queue by its name; credentials and endpoint are found as the SDK finds them.

    Raises:
        LedgerError: there is no such queue.
    """
    opening = open_client(
        "sqs",
        region=region,
        profile=profile,
        request_timeout=request_timeout,
        waits_seconds=WAIT_SECONDS,
        tries_max=SDK_TRIES_MAX,
    )
    async with opening as client:
        try:
            url = (await client.get_queue_url(QueueName=name))["QueueUrl"]
        except FOREIGN as error:
            raise LedgerError(f"sqs://{name}: {error}") from error
        yield QueueSpool(client, url, file, follows)


def _has_content(file: Path) -> bool:
    return bool(file.stat().st_size)


def _end_line(file: Path) -> None:
    """Complete a line that a killed process left unfinished; its message comes again."""
    with file.open("ab+") as spool:
        if spool.tell():
            spool.seek(-1, os.SEEK_END)
            if spool.read(1) != b"\n":
                spool.write(b"\n")


def _append(file: Path, lines: bytes) -> None:
    with file.open("ab") as spool:
        spool.write(lines)
        spool.flush()
        os.fsync(spool.fileno())

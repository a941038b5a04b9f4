"""Dead letters in an SQS queue, one message each: the same text as a line of the file.

A message is durable once SQS has answered. What SQS did not answer is sent again, by the SDK and by
the lane: a letter may come twice; lane and position identify it.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from ledger.core.errors import LedgerError
from ledger.pipeline.sources.dead_letters import DeadLetter, line_of

MESSAGE_BYTES_MAX = 262_144
"""Of one message, and of all in one request: what every queue accepts by default."""
KEPT_BYTES = 32_768
"""Of a record that is too long for a message; each byte of it may take six characters."""
MESSAGES_MAX = 10
TRIES_MAX = 3
"""Of one message: SQS may take some of a request and not the others."""
SDK_TRIES_MAX = 5


class QueueClient(Protocol):
    """What is used of an SQS client of aiobotocore."""

    async def send_message_batch(self, **request: Any) -> Mapping[str, Any]:
        """Send up to ten messages."""


class DeadLetterQueue:
    """An SQS queue of dead letters."""

    def __init__(self, client: QueueClient, url: str) -> None:
        self._client = client
        self._url = url

    async def add(self, letters: Sequence[DeadLetter]) -> None:
        """Send some, and wait until SQS has them.

        Raises:
            LedgerError: SQS did not take them all.
        """
        for bodies in _requests(map(body_of, letters)):
            await self._send(bodies)

    async def _send(self, bodies: Sequence[str]) -> None:
        left = dict(enumerate(bodies))
        reason = ""
        for _ in range(TRIES_MAX):
            entries = [{"Id": str(place), "MessageBody": body} for place, body in left.items()]
            try:
                answer = await self._client.send_message_batch(QueueUrl=self._url, Entries=entries)
            except (BotoCoreError, ClientError, OSError) as error:
                raise LedgerError(f"{self._url}: takes no dead letters: {error}") from error
            failed = {int(failure["Id"]): failure for failure in answer.get("Failed", ())}
            left = {place: body for place, body in left.items() if place in failed}
            if not left:
                return
            reason = next(
                str(failure.get("Message") or failure.get("Code")) for failure in failed.values()
            )
        raise LedgerError(f"{self._url}: takes no dead letters: {reason}")


def body_of(letter: DeadLetter) -> str:
    """Return the message that stands for a letter; of too long a record it has the beginning."""
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
    url: str, *, region: str, request_timeout: float
) -> AsyncIterator[DeadLetterQueue]:
    """Open a queue by its URL; credentials and endpoint are found as the SDK finds them."""
    from aiobotocore.config import AioConfig  # noqa: PLC0415 (a second to import)
    from aiobotocore.session import AioSession  # noqa: PLC0415

    config = AioConfig(
        retries={"total_max_attempts": SDK_TRIES_MAX, "mode": "standard"},
        connect_timeout=request_timeout,
        read_timeout=request_timeout,
    )
    async with AioSession().create_client("sqs", region_name=region, config=config) as client:
        yield DeadLetterQueue(client, url)

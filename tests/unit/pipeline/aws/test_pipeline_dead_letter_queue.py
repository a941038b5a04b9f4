from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from ledger.core.errors import LedgerError
from ledger.pipeline.aws.dead_letter_queue import (
    KEPT_BYTES,
    MESSAGE_BYTES_MAX,
    MESSAGES_MAX,
    TRIES_MAX,
    DeadLetterQueue,
    body_of,
)
from ledger.pipeline.sources.dead_letters import DeadLetterFile, DeadRecord, letter_of
from ledger.testing.clock import START, ManualClock

URL = "https://sqs.us-east-1.amazonaws.com/111122223333/dead"


@dataclass
class Queue:
    """An SQS that takes what it is told to take, and notes what it was sent."""

    failures: list[Sequence[str] | Exception] = field(default_factory=list)
    requests: list[list[str]] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    hidden: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)

    async def send_message_batch(self, **request: Any) -> dict[str, Any]:
        """Take the messages but those that are to fail this time."""
        assert request["QueueUrl"] == URL
        entries = {one["Id"]: one["MessageBody"] for one in request["Entries"]}
        assert 0 < len(entries) <= MESSAGES_MAX
        assert sum(map(len, entries.values())) <= MESSAGE_BYTES_MAX
        self.requests.append(list(entries))
        failing = self.failures.pop(0) if self.failures else ()
        if isinstance(failing, Exception):
            raise failing
        self.bodies += [body for name, body in entries.items() if name not in failing]
        return told(request, failing)

    async def receive_message(self, **request: Any) -> dict[str, Any]:
        """Give messages that are not hidden, up to ten."""
        assert request["QueueUrl"] == URL
        shown = [
            (at, body) for at, body in enumerate(self.bodies) if at not in self.hidden | self.gone
        ][: request["MaxNumberOfMessages"]]
        self.hidden |= {at for at, _ in shown}
        messages = [{"Body": body, "ReceiptHandle": str(at)} for at, body in shown]
        return {"Messages": messages} if messages else {}

    async def delete_message_batch(self, **request: Any) -> dict[str, Any]:
        """Delete messages but those that are to fail this time."""
        failing = self.failures.pop(0) if self.failures else ()
        if isinstance(failing, Exception):
            raise failing
        receipts = [one["ReceiptHandle"] for one in request["Entries"]]
        self.gone |= {int(receipt) for receipt in receipts if receipt not in failing}
        of_these = [one["Id"] for one in request["Entries"] if one["ReceiptHandle"] in failing]
        return told(request, of_these)


def told(request: dict[str, Any], failing: Collection[str]) -> dict[str, Any]:
    """Return SQS's answer to a batch: each message, taken or not."""
    names = [one["Id"] for one in request["Entries"]]
    return {
        "Successful": [{"Id": name} for name in names if name not in failing],
        "Failed": [{"Id": name, "Code": "InternalError"} for name in names if name in failing],
    }


@pytest.mark.parametrize("answer", [{}, {"status": "blocked"}, {"Successful": []}], ids=str)
async def test_another_servers_answer_takes_no_letter(answer: dict[str, Any]) -> None:
    """Only an answer that names each message counts them as sent, or as deleted."""

    class Gateway(Queue):
        async def send_message_batch(self, **_request: Any) -> dict[str, Any]:
            return answer

    with pytest.raises(LedgerError, match="not that of a queue"):
        await DeadLetterQueue(Gateway(), URL).add([letter(1)])


def letter(number: int, raw: bytes = b"{}") -> DeadRecord:
    """Return a letter."""
    return DeadRecord("us-east-1/records/shard", f"{number:04d}", "no field Value: “V”", raw)


async def test_each_letter_is_a_message() -> None:
    """They go in requests of up to ten, and are read as lines of the file are."""
    queue = Queue()
    letters = [letter(number) for number in range(23)]
    await DeadLetterQueue(queue, URL).add(letters)
    assert [letter_of(body) for body in queue.bodies] == letters
    assert [len(names) for names in queue.requests] == [10, 10, 3]
    await DeadLetterQueue(queue, URL).add([])
    assert len(queue.requests) == 3


async def test_large_letters_are_spread_over_requests() -> None:
    """What fits in a message is whole, and no request is larger than SQS takes."""
    queue = Queue()
    letters = [letter(number, b"x" * 100_000) for number in range(5)]
    await DeadLetterQueue(queue, URL).add(letters)
    assert [letter_of(body) for body in queue.bodies] == letters
    assert [len(names) for names in queue.requests] == [2, 2, 1]


@pytest.mark.parametrize("raw", [b"x" * 300_000, b"\xff" * 60_000, "ü".encode() * 200_000])
def test_a_record_too_long_for_a_message_says_where_it_is(raw: bytes) -> None:
    """Its beginning is kept, and the place in the stream at which all of it lies."""
    body = body_of(letter(7, raw))
    assert len(body) <= MESSAGE_BYTES_MAX
    kept = letter_of(body)
    assert (kept.lane, kept.position) == (letter(7).lane, "0007")
    assert kept.raw == raw[:KEPT_BYTES]
    assert kept.reason.startswith(letter(7).reason)
    assert f"{len(raw):,} bytes" in kept.reason


async def test_what_sqs_did_not_take_is_sent_again() -> None:
    """Only the messages that failed are repeated, a bounded number of times."""
    queue = Queue(failures=[["1", "3"], ["3"]])
    letters = [letter(number) for number in range(5)]
    await DeadLetterQueue(queue, URL).add(letters)
    assert queue.requests == [["0", "1", "2", "3", "4"], ["1", "3"], ["3"]]
    assert sorted(letter_of(body).position for body in queue.bodies) == [
        one.position for one in letters
    ]


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        ([["0"]] * TRIES_MAX, "InternalError"),
        ([ClientError({"Error": {"Code": "AccessDenied"}}, "SendMessageBatch")], "AccessDenied"),
        ([EndpointConnectionError(endpoint_url=URL)], "Could not connect"),
    ],
)
async def test_letters_that_are_not_taken_are_an_error(
    failures: list[Sequence[str] | Exception], said: str
) -> None:
    """The lane must not go on over a record that is nowhere."""
    with pytest.raises(LedgerError, match=said):
        await DeadLetterQueue(Queue(failures=failures), URL).add([letter(1)])


async def test_letters_move_from_the_queue_to_a_file(tmp_path: Path) -> None:
    """Each is in the file before it leaves the queue; what the file had before stays."""
    queue, file = Queue(), tmp_path / "dead"
    letters = [letter(number) for number in range(23)]
    opened = DeadLetterQueue(queue, URL, ManualClock(START))
    await opened.add(letters)
    await DeadLetterFile(file).add(letters[:1])
    assert await opened.move_to(file) == 23
    assert queue.gone == set(range(23))
    kept = [letter_of(line) for line in file.read_text().splitlines()]
    assert kept == [letters[0], *letters]
    assert {each.at for each in kept[1:]} == {START}


REFUSED = ClientError({"Error": {"Code": "AccessDenied"}}, "DeleteMessageBatch")


@pytest.mark.parametrize("failure", [["0"], REFUSED])
async def test_a_message_that_cannot_be_deleted_comes_again(
    tmp_path: Path, failure: Sequence[str] | Exception
) -> None:
    """It is an error; the letter is kept, and nothing is lost when the command is run again."""
    queue, file = Queue(), tmp_path / "dead"
    opened = DeadLetterQueue(queue, URL)
    await opened.add([letter(0)])
    queue.failures.append(failure)
    with pytest.raises(LedgerError, match="deletes no messages"):
        await opened.move_to(file)
    queue.hidden.clear()  # its time is over
    assert await opened.move_to(file) == 1
    assert [letter_of(line) for line in file.read_text().splitlines()] == [letter(0)] * 2
    assert queue.gone == {0}

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ledger.core.errors import LedgerError
from ledger.pipeline.aws.queue_spool import MESSAGES_MAX, QueueSpool, line_of_message


class FakeQueue:
    """A queue that gives each message until it is deleted; `broken` operations fail."""

    def __init__(self, *bodies: str) -> None:
        self.messages = {str(number): body for number, body in enumerate(bodies)}
        self.hidden: set[str] = set()
        self.broken = ""
        self.kept: list[bytes] = []
        self.file: Path | None = None

    async def get_queue_url(self, **request: Any) -> Mapping[str, Any]:
        """Return the URL."""
        return {"QueueUrl": f"http://{request['QueueName']}"}

    async def receive_message(self, **request: Any) -> Mapping[str, Any]:
        """Return messages that are not hidden, and hide them."""
        self._check("receive")
        assert (request["QueueUrl"], request["MaxNumberOfMessages"]) == ("url", MESSAGES_MAX)
        found = [message for message in self.messages if message not in self.hidden][:MESSAGES_MAX]
        self.hidden.update(found)
        messages = [{"Body": self.messages[one], "ReceiptHandle": one} for one in found]
        return {"Messages": messages} if messages else {}

    async def delete_message_batch(self, **request: Any) -> Mapping[str, Any]:
        """Delete messages, which must be in the file by now."""
        self._check("delete")
        assert self.file is not None
        content = self.file.read_bytes()
        for entry in request["Entries"]:
            assert line_of_message(self.messages.pop(entry["ReceiptHandle"])) in content
        return {"Successful": request["Entries"]}

    def _check(self, operation: str) -> None:
        if operation == self.broken:
            raise ClientError({"Error": {"Code": "InternalError"}}, operation)


def spool_of(queue: FakeQueue, folder: Path, *, follows: bool = False) -> QueueSpool:
    """Return the spool of a queue."""
    queue.file = folder / "spool.jsonl"
    return QueueSpool(queue, "url", queue.file, follows)


async def test_messages_are_deleted_once_they_are_in_the_file(tmp_path: Path) -> None:
    """All of them, a line each, until the queue is empty."""
    bodies = [json.dumps({"id": number}) for number in range(205)]
    queue = FakeQueue(*bodies)
    spool = spool_of(queue, tmp_path)
    await spool.begin()
    await spool.fill()
    assert (spool.is_complete, queue.messages) == (True, {})
    assert spool.file.read_text().splitlines() == bodies


async def test_a_message_that_was_not_deleted_comes_again(tmp_path: Path) -> None:
    """Nothing is lost when a delete fails: the record is in the file twice, and counts once."""
    queue = FakeQueue("1", "2")
    queue.broken = "delete"
    with pytest.raises(LedgerError, match="url: deletes no message"):
        await spool_of(queue, tmp_path).begin()
    queue.broken, queue.hidden = "", set()
    spool = spool_of(queue, tmp_path)
    await spool.begin()
    await spool.fill()
    assert spool.file.read_bytes() == b"1\n2\n1\n2\n"


async def test_a_line_that_a_crash_cut_is_ended(tmp_path: Path) -> None:
    """Its message was not deleted; what follows is a line of its own."""
    queue = FakeQueue("12")
    spool = spool_of(queue, tmp_path)
    spool.file.write_bytes(b"0\n1")
    await spool.begin()
    await spool.fill()
    assert spool.file.read_bytes() == b"0\n1\n12\n"


async def test_an_empty_queue_has_no_lane(tmp_path: Path) -> None:
    """Without a message there is nothing to name it by."""
    with pytest.raises(LedgerError, match="url has no message"):
        await spool_of(FakeQueue(), tmp_path).begin()


async def test_a_followed_queue_is_never_complete(tmp_path: Path) -> None:
    """It waits for messages until it is stopped, here by an error."""
    queue = FakeQueue("1")
    spool = spool_of(queue, tmp_path, follows=True)
    await spool.begin()
    rounds = 0
    receive = queue.receive_message

    async def counted(**request: Any) -> Mapping[str, Any]:
        nonlocal rounds
        rounds += 1
        if rounds > 50:
            queue.broken = "receive"
        return await receive(**request)

    queue.receive_message = counted  # type: ignore[method-assign]
    with pytest.raises(LedgerError, match="url: cannot be read"):
        await spool.fill()
    assert not spool.is_complete


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ('{\n  "a": 1.10\r\n}\n', b'{   "a": 1.10  }\n'),
        ('{"a": "x\\ny"}', b'{"a": "x\\ny"}\n'),
        ("", b"\n"),
    ],
)
def test_a_message_is_one_line(body: str, line: bytes) -> None:
    """Line breaks of JSON become spaces; digits stay as they are."""
    assert line_of_message(body) == line

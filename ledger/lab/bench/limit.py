"""The proof that the stub is not the limit: prepared bytes sent by a minimal client.

The client only sends a request again as soon as its answer is complete. What the stub answers then
is its limit; a measured case uses a small part of it.
"""

import asyncio
import json
from time import perf_counter, process_time
from typing import Any, cast

from ledger.lab.bench.control import StubControl
from ledger.lab.bench.measuring import Measured
from ledger.lab.bench.plain import BATCH, TABLE, plain_item
from ledger.lab.bench.rounds import Round
from ledger.lab.bench.stub_pages import counter_name

_HEAD_END = b"\r\n\r\n"
_LENGTH_NAME = b"content-length:"


class _Sender(asyncio.Protocol):
    """Sends the same request again and again until a deadline."""

    def __init__(self, request: bytes, deadline: float) -> None:
        self._request = request
        self._deadline = deadline
        self._answer_bytes = 0
        self._received = 0
        self._head = b""
        self.answers = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not of asyncio's classes.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if not self._answer_bytes and not self._learn(data):
            return
        if self._received < self._answer_bytes:
            return
        self._received = 0
        self.answers += 1
        if perf_counter() < self._deadline:
            self._transport.write(self._request)
        elif not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the stub hung up"))

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def _learn(self, data: bytes) -> bool:
        """Take the length of every answer from the first: they are all alike."""
        self._head += data
        end = self._head.find(_HEAD_END)
        if end < 0:
            return False
        head = self._head[:end].lower()
        length = head[head.index(_LENGTH_NAME) + len(_LENGTH_NAME) :].split(b"\r\n", 1)[0]
        self._answer_bytes = end + len(_HEAD_END) + int(length)
        return True


async def stub_limit(round_: Round) -> Measured:
    """Send prepared bytes as fast as the stub answers them."""
    stub, options = StubControl(round_.stub.url), round_.options
    name = counter_name(options.get("entries", 0))
    stub.reset()
    request = _request_bytes(options["operation"], _body(options["operation"], name))
    cpu_before, before = process_time(), stub.arrived()
    answers, seconds = await _answers(
        stub, request, connections=options["connections"], seconds=round_.seconds
    )
    after = stub.arrived()
    return Measured(
        work=answers * options["per_request"],
        calls=answers,
        seconds=seconds,
        cpu_seconds=process_time() - cpu_before,
        p50_seconds=seconds * options["connections"] / answers,
        p99_seconds=0.0,
        memory_bytes=0,
        requests=after.requests_total - before.requests_total,
        stub_cpu_seconds=after.cpu_seconds - before.cpu_seconds,
    )


async def _answers(
    stub: StubControl, request: bytes, *, connections: int, seconds: float
) -> tuple[int, float]:
    """Return the number of answers, and the seconds that they took."""
    loop = asyncio.get_running_loop()
    started = perf_counter()
    senders: list[_Sender] = []
    for _ in range(connections):
        _, sender = await loop.create_connection(
            lambda: _Sender(request, started + seconds), stub.host, stub.port
        )
        senders.append(sender)
    await asyncio.gather(*(sender.done for sender in senders))
    spent = perf_counter() - started
    for sender in senders:
        sender.close()
    return sum(sender.answers for sender in senders), spent


def _body(operation: str, name: str) -> bytes:
    """Return the body of such a request, as clients send it."""
    bodies: dict[str, Any] = {
        "PutItem": {"TableName": TABLE, "Item": plain_item(0)},
        "BatchWriteItem": {
            "RequestItems": {
                TABLE: [{"PutRequest": {"Item": plain_item(one)}} for one in range(BATCH)]
            }
        },
        "Query": {
            "TableName": TABLE,
            "KeyConditionExpression": "#0 = :0",
            "ExpressionAttributeNames": {"#0": "pk"},
            "ExpressionAttributeValues": {":0": {"S": name}},
        },
    }
    return json.dumps(bodies[operation]).encode()


def _request_bytes(operation: str, body: bytes) -> bytes:
    """Return a whole request of about the size that a signed one has."""
    head = (
        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"X-Amz-Target: DynamoDB_20120810.{operation}\r\n"
        "Content-Type: application/x-amz-json-1.0\r\n"
        "X-Amz-Date: 20261121T000000Z\r\n"
        f"Authorization: AWS4-HMAC-SHA256 {'x' * 180}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body

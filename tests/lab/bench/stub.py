"""A stub endpoint in a process of its own: DynamoDB's answers, as fast as bytes can be sent.

It keeps nothing but counts: requests, items, and the sum of their `change`, so that the
acknowledged sum can be compared with what arrived. Queries show prepared collections
(`stub_pages`). Each answer may be held back for a fixed service time. Chosen by measurement: a
protocol with a parser of its own for the few bytes that matter, on uvloop where installed.

    python -m lab.bench.stub     # prints its address; ends when its input ends
"""

import asyncio
import json
import re
import sys
from email.utils import formatdate
from functools import cache, lru_cache
from time import process_time, time
from typing import cast

from lab.bench.stub_pages import NO_DATE, answer, page_of
from ledger.runtime.loops import run_on_loop

HOST = "127.0.0.1"
BACKLOG_CONNECTIONS = 1024
PAGES_MAX = 2_000
"""Answers to queries that are kept: clients repeat the same request."""
_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"content-length: *(\d+)")
_TARGET = re.compile(rb"x-amz-target: *\w+\.(\w+)")
_CHANGE = re.compile(rb'"change": ?\{"N": ?"(-?\d+)"')
_PUT = b'"PutRequest"'
_SAID_CHANGE = re.compile(rb'"Parameters": ?\[(?:\{"S": ?"[^"]*"\},? ?)*\{"N": ?"(-?\d+)"')
"""The first number among the parameters of a statement: entries have their change there."""

_EMPTY = answer(b"{}")
_UNITS = b'{"TableName":"ledger","CapacityUnits":1.0}'
_ONE_DONE = answer(b'{"ConsumedCapacity":%s}' % _UNITS)
_TRANSACTION_DONE = answer(b'{"ConsumedCapacity":[%s]}' % _UNITS)
_BATCH_DONE = answer(b'{"UnprocessedItems":{}}')


@lru_cache(1)
def _date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()


@cache
def _batch_done(items: int) -> bytes:
    """Answer a batch of so many items, each under a KB, to a client that asked for the units."""
    units = json.dumps([{"TableName": "ledger", "CapacityUnits": float(items)}]).encode()
    return answer(b'{"UnprocessedItems":{},"ConsumedCapacity":%s}' % units)


@cache
def _each_done(statements: int) -> bytes:
    """Answer so many statements, each of an item under a KB."""
    units = {"TableName": "ledger", "CapacityUnits": float(statements)}
    told = {"Responses": [{"TableName": "ledger"}] * statements, "ConsumedCapacity": [units]}
    return answer(json.dumps(told).encode())


@lru_cache(PAGES_MAX)
def _page(body: bytes) -> bytes:
    return page_of(json.loads(body))


class Endpoint:
    """State that all connections share: counts, and the service time."""

    def __init__(self) -> None:
        self.requests = self.items = self.sum = 0
        self.service_seconds = 0.0

    def respond(self, operation: bytes, body: bytes) -> bytes:  # noqa: PLR0911 (one a kind)
        """Return the answer to one request, and count it; names as in lower-case headers."""
        match operation:
            case b"reset":
                self.requests = self.items = self.sum = 0
                self.service_seconds = json.loads(body).get("service_seconds", 0.0)
                return _EMPTY
            case b"state":
                return self._state()
        self.requests += 1
        if operation == b"query":
            return _page(body)
        said = operation == b"batchexecutestatement"
        changes = (_SAID_CHANGE if said else _CHANGE).findall(body)
        self.items += len(changes)
        self.sum += sum(map(int, changes))
        if said:
            return _each_done(len(changes))
        is_batch = operation == b"batchwriteitem"
        if b"ReturnConsumedCapacity" not in body:
            return _BATCH_DONE if is_batch else _EMPTY
        if is_batch:
            return _batch_done(body.count(_PUT))
        return _TRANSACTION_DONE if operation == b"transactwriteitems" else _ONE_DONE

    def _state(self) -> bytes:
        state = {
            "requests": self.requests,
            "items": self.items,
            "sum": self.sum,
            "cpu_seconds": process_time(),
        }
        return answer(json.dumps(state).encode())


class Connection(asyncio.Protocol):
    """One client's connection: requests one after the other, as HTTP/1.1 keeps it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where answers go."""
        # uvloop's transports are not of asyncio's classes.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer every complete request."""
        buffer = self._buffer + data if self._buffer else data
        while (end := buffer.find(_HEAD_END)) >= 0:
            head = buffer[:end].lower()
            length, target = _LENGTH.search(head), _TARGET.search(head)
            total = end + len(_HEAD_END) + (int(length[1]) if length else 0)
            if len(buffer) < total:
                break
            body = buffer[end + len(_HEAD_END) : total]
            self._answer(self._endpoint.respond(target[1] if target else b"", body))
            buffer = buffer[total:]
        self._buffer = buffer

    def _answer(self, response: bytes) -> None:
        seconds = self._endpoint.service_seconds
        if seconds:
            asyncio.get_running_loop().call_later(seconds, self._write, response)
        else:
            self._write(response)

    def _write(self, response: bytes) -> None:
        # The client may have gone while its answer was held back.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(response.replace(NO_DATE, _date(int(time())), 1))


async def serve() -> None:
    """Answer until standard input ends; the first line of output is the address."""
    loop = asyncio.get_running_loop()
    endpoint = Endpoint()
    server = await loop.create_server(
        lambda: Connection(endpoint), HOST, 0, backlog=BACKLOG_CONNECTIONS
    )
    port = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"http://{HOST}:{port}\n")
    sys.stdout.flush()
    async with server:
        await loop.run_in_executor(None, sys.stdin.buffer.read)


if __name__ == "__main__":
    run_on_loop(serve())

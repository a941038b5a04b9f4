"""Clients of the service in a process of their own, as little as a client can be: bytes on sockets.

python -m lab.bench.clients '{"port": 8080, ...}'
"""

import asyncio
import os
import sys
from dataclasses import dataclass
from time import perf_counter
from typing import Literal

from pydantic import TypeAdapter

from lab.bench.stub_pages import merged_name
from lab.harness.child import send_value
from lab.harness.latency import LatencyRecorder
from ledger.runtime.loops import run_on_loop

Kind = Literal["write", "read", "cached"]
BODY = b'{"change":"1"}'
_END = b"\r\n\r\n"
_LENGTH = b"content-length: "
_DONE = b"HTTP/1.1 20"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be sent: by so many connections, one request after another, for so long."""

    port: int
    token: str
    kind: Kind
    callers: int
    counters: int
    seconds: float
    core: int | None


@dataclass(frozen=True, slots=True)
class Offered:
    """What was answered."""

    calls: int
    seconds: float
    p50_seconds: float
    p99_seconds: float


def request_of(asked: Asked, number: int) -> bytes:
    """Return the bytes of a request."""
    head = f"Host: 127.0.0.1:{asked.port}\r\nAuthorization: Bearer {asked.token}\r\n"
    if asked.kind != "write":
        name, age = merged_name(number % asked.counters), 0 if asked.kind == "read" else 3_600
        return f"GET /v1/counters/{name}?max_age={age} HTTP/1.1\r\n{head}\r\n".encode()
    path = f"/v1/counters/counter-{number % asked.counters}/entries"
    body = f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
    return f"POST {path} HTTP/1.1\r\n{head}".encode() + body + BODY


async def offer(asked: Asked) -> Offered:
    """Send requests until the time is over.

    Raises:
        ConnectionError: one was not answered 200 or 201.
    """
    requests = [request_of(asked, number) for number in range(asked.counters)]
    latencies, began = LatencyRecorder(), perf_counter()
    end = began + asked.seconds

    async def caller(first: int) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", asked.port)
        number = first
        while (sent := perf_counter()) < end:
            writer.write(requests[number % len(requests)])
            head = await reader.readuntil(_END)
            if not head.startswith(_DONE):
                raise ConnectionError(f"answered {head[:60]!r}")
            length = int(head.lower().split(_LENGTH)[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            latencies.add(perf_counter() - sent)
            number += asked.callers
        writer.close()
        return (number - first) // asked.callers

    calls = await asyncio.gather(*(caller(first) for first in range(asked.callers)))
    seconds = perf_counter() - began
    return Offered(sum(calls), seconds, latencies.p50, latencies.p99)


if __name__ == "__main__":
    task = TypeAdapter(Asked).validate_json(sys.argv[1])
    if task.core is not None:
        os.sched_setaffinity(0, {task.core})
    send_value(run_on_loop(offer(task)))

"""A DynamoDB on 127.0.0.1 that answers as a test tells it to, or does not."""

import json
import socket
import ssl
import zlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from aiohttp import web

Body = Mapping[str, Any]
DRIP_SECONDS = 0.02
REQUEST_ID = {"x-amzn-RequestId": "4KBNVRGD25RG1KEO9UT4V3FQDJVV4KQNSO5AEMVJF66Q9ASUAAJG"}

Step = Callable[[web.Request, Body], Awaitable[web.StreamResponse]]


@dataclass
class Scripted:
    """Takes the steps of its script one a request, then `otherwise` for good."""

    endpoint: str = ""
    script: deque[Step] = field(default_factory=deque)
    otherwise: Step | None = None
    requests: list[tuple[str, Body]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    connections: set[Any] = field(default_factory=set)

    def play(self, *steps: Step, otherwise: Step | None = None) -> None:
        """Set the script."""
        self.script = deque(steps)
        self.otherwise = otherwise
        self.requests.clear()
        self.headers.clear()
        self.connections.clear()

    @property
    def operations(self) -> list[str]:
        """The operations that were asked for."""
        return [operation for operation, _ in self.requests]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Read a request whole, note it, and take the next step."""
        body = json.loads(await request.read())
        self.requests.append((request.headers["X-Amz-Target"].partition(".")[2], body))
        self.headers.append(request.headers.copy())
        self.connections.add(request.transport)
        step = self.script.popleft() if self.script else self.otherwise
        assert step is not None, "a request that the script does not know"
        return await step(request, body)


@asynccontextmanager
async def scripted(*, tls: ssl.SSLContext | None = None) -> AsyncIterator[Scripted]:
    """Run a scripted server on any free port."""
    server = Scripted()
    app = web.Application()
    app.router.add_post("/", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        host, port = runner.addresses[0][:2]
        server.endpoint = f"{'https' if tls else 'http'}://{host}:{port}"
        yield server
    finally:
        await runner.cleanup()


def ok(body: Body | None = None, status: int = 200) -> Step:
    """Answer with this body, under the headers of DynamoDB."""
    return text_as_json(json.dumps(body or {}), status)


def done(**fields: Any) -> Step:
    """Answer any request as DynamoDB does, with these fields."""

    async def step(request: web.Request, body: Body) -> web.StreamResponse:
        operation = request.headers["X-Amz-Target"].partition(".")[2]
        answer = {**true_answer(operation, body), **fields}
        if "Items" in answer:
            answer["Count"] = len(answer["Items"])
        return await ok(answer)(request, body)

    return step


def true_answer(operation: str, body: Body) -> dict[str, Any]:
    """Return the least that DynamoDB answers to a request; of items it has none."""
    known: dict[str, dict[str, Any]] = {
        "UpdateItem": {"Attributes": body.get("Key")},
        "Query": {"Items": [], "Count": 0},
        "Scan": {"Items": [], "Count": 0},
        "BatchWriteItem": {"UnprocessedItems": {}},
        "BatchGetItem": {"Responses": {}, "UnprocessedKeys": {}},
        "BatchExecuteStatement": {"Responses": [{} for _ in body.get("Statements", ())]},
        "ExecuteTransaction": {"Responses": [{} for _ in body.get("TransactStatements", ())]},
        "DescribeTable": {
            "Table": {"TableName": body.get("TableName"), "TableStatus": "ACTIVE"},
        },
    }
    answer = known.get(operation, {})
    if operation.startswith("Describe"):
        return answer
    consumed = {"TableName": body.get("TableName", "ledger"), "CapacityUnits": 1.0}
    is_list = operation.startswith(("Batch", "Transact", "Execute"))
    return {**answer, "ConsumedCapacity": [consumed] if is_list else consumed}


def of_a_gateway(body: Any, status: int = 200) -> Step:
    """Answer with JSON that no DynamoDB wrote: it has none of its headers."""

    async def step(_request: web.Request, _body: Body) -> web.StreamResponse:
        return web.json_response(body, status=status)

    return step


def fault(code: str, *, status: int = 400, **more: Any) -> Step:
    """Answer with one of DynamoDB's errors."""
    kind = f"com.amazonaws.dynamodb.v20120810#{code}"
    return ok({"__type": kind, "message": f"{code} it is", **more}, status)


def ask_to_wait(milliseconds: str) -> Step:
    """Throttle a request, and say when the next one may come."""

    async def step(_request: web.Request, _body: Body) -> web.StreamResponse:
        body = {"__type": "com.amazonaws.dynamodb.v20120810#ThrottlingException", "message": "slow"}
        headers = {"x-amz-retry-after": milliseconds, **REQUEST_ID}
        return web.json_response(body, status=400, headers=headers)

    return step


def with_checksum(body: Body, *, status: int = 200, off_by: int = 0) -> Step:
    """Answer with this body and DynamoDB's checksum, off by so much."""

    async def step(_request: web.Request, _body: Body) -> web.StreamResponse:
        checksum = zlib.crc32(json.dumps(body).encode()) + off_by
        headers = {"x-amz-crc32": str(checksum), **REQUEST_ID}
        return web.json_response(body, status=status, headers=headers)

    return step


def text_as_json(text: str, status: int = 200) -> Step:
    """Answer with a text that calls itself JSON, under the headers of DynamoDB."""

    async def step(_request: web.Request, _body: Body) -> web.StreamResponse:
        headers = {"x-amz-crc32": str(zlib.crc32(text.encode())), **REQUEST_ID}
        kind = "application/x-amz-json-1.0"
        return web.Response(text=text, status=status, headers=headers, content_type=kind)

    return step


def page_of_a_proxy(status: int) -> Step:
    """Answer with a page that no DynamoDB wrote."""

    async def step(_request: web.Request, _body: Body) -> web.StreamResponse:
        return web.Response(text="<html>Bad gateway</html>", status=status)

    return step


def close_connection() -> Step:
    """Close the connection, having read the request."""

    async def step(request: web.Request, _body: Body) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    return step


def reset_connection() -> Step:
    """Reset the connection, having read the request."""

    async def step(request: web.Request, _body: Body) -> web.StreamResponse:
        assert request.transport is not None
        raw = request.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        request.transport.abort()
        return web.Response()

    return step


def half_an_answer() -> Step:
    """Begin an answer and close the connection in the middle of it."""

    async def step(request: web.Request, _body: Body) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"Attributes"')
        assert request.transport is not None
        request.transport.close()
        return response

    return step


def drip() -> Step:
    """Answer a byte at a time, without end."""

    async def step(request: web.Request, _body: Body) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await anyio.sleep(DRIP_SECONDS)

    return step


def hang() -> Step:
    """Never answer."""

    async def step(_request: web.Request, _body: Body) -> web.StreamResponse:
        await anyio.sleep_forever()
        raise AssertionError

    return step


def leave_unprocessed(
    keep: Callable[[int], bool], table: str = "ledger", units: float | None = None
) -> Step:
    """Answer a batch, leaving the parts at these positions unprocessed."""
    capacity = [] if units is None else [{"TableName": table, "CapacityUnits": units}]

    async def step(request: web.Request, body: Body) -> web.StreamResponse:
        parts = body["RequestItems"][table]
        left = [part for place, part in enumerate(parts) if keep(place)]
        answer: dict[str, Any] = {"UnprocessedItems": {table: left} if left else {}}
        return await ok({**answer, "ConsumedCapacity": capacity})(request, body)

    return step

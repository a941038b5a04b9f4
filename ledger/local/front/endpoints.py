"""The ports of the local global table: DynamoDB's JSON protocol per region, and the control port.

A port stands for a region. Of signatures only the region in their scope is checked: one for another
region is refused, as AWS does.
"""

import asyncio
import base64
import json
import logging
import re
import time
import uuid
import zlib
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from typing import Any

from aiohttp import web

from ledger.core.errors import LocalTableError
from ledger.local.engines.port import ApiError
from ledger.local.front.dispatch import ConnectionDropped, Front, OtherServer

_LOG = logging.getLogger(__name__)

JSON_TYPE = "application/x-amz-json-1.0"
ERROR_TYPE = "com.amazonaws.dynamodb.v20120810#"
VERSIONS = frozenset({"DynamoDB_20120810", "DynamoDBStreams_20120810"})
"""The protocol's service names: for items and tables, and for streams."""
BODY_BYTES_MAX = 17 * 1024 * 1024
"""DynamoDB takes requests of up to 16 MB."""
KEEP_ALIVE_SECONDS = 300.0
_SCOPE = re.compile(r"Credential=[^/,]*/[^/,]*/([^/,]*)/")
HOLD_CHECK_SECONDS = 0.02
STOP_SECONDS_MAX = 1.0

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Control = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]


def _dump(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, default=_binary, separators=(",", ":"), ensure_ascii=False).encode()


def _binary(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _answer(body: Mapping[str, Any], status: int = 200) -> web.Response:
    content = _dump(body)
    # A random identifier serves only to distinguish requests in logs.
    headers = {
        "x-amzn-RequestId": uuid.uuid4().hex.upper(),
        "x-amz-crc32": str(zlib.crc32(content)),
    }
    return web.Response(body=content, status=status, content_type=JSON_TYPE, headers=headers)


def _error(error: ApiError) -> web.Response:
    body = {"__type": ERROR_TYPE + error.kind, "message": error.message, **error.extra}
    if error.kind == "TransactionCanceledException":
        body["Message"] = body.pop("message")  # the one error that DynamoDB spells this way
    return _answer(body, error.status)


def region_handler(front: Front, region: str, clocks: Mapping[str, float]) -> Handler:
    """Return what answers the requests that come to the port of a region.

    `clocks` are the seconds by which the clocks of regions are ahead of this machine's.
    """

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = await answer(request)
        if seconds := clocks.get(region):
            response.headers["Date"] = formatdate(time.time() + seconds, usegmt=True)
        return response

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        try:
            front.check_there(region)
            operation, body = await _request(request)
            _check_scope(request.headers.get("Authorization", ""), region)
            _check_present(request)
            return _answer(await front.call(region, operation, body))
        except ApiError as error:
            return _error(error)
        except ConnectionDropped as silence:
            await _close(request, hold=silence.hold)
            return web.Response(status=500)
        except OtherServer:
            return web.json_response({})
        except Exception as error:  # noqa: BLE001 (the server has to answer)
            _LOG.exception("request to %s failed", region)
            return _error(ApiError("InternalServerError", repr(error), status=500))

    return handle


async def _request(request: web.BaseRequest) -> tuple[str, dict[str, Any]]:
    if request.method == "GET":
        raise ApiError(
            "MissingAuthenticationTokenException",
            "healthy: this is a DynamoDB endpoint of the local global table",
            status=200,
        )
    version, _, operation = request.headers.get("X-Amz-Target", "").partition(".")
    if version not in VERSIONS or not operation:
        raise ApiError(
            "UnknownOperationException", "X-Amz-Target names no operation of DynamoDB here"
        )
    try:
        body = json.loads(await request.read() or b"{}")
    except (ValueError, RecursionError, web.HTTPRequestEntityTooLarge) as error:
        raise ApiError("SerializationException", f"the body cannot be read: {error}") from None
    if not isinstance(body, dict):
        raise ApiError("SerializationException", "the body is not a JSON object")
    return operation, body


def _check_scope(authorization: str, region: str) -> None:
    """Refuse a request that was signed for another region; one without a signature passes.

    Source: AWS General Reference, "Create a signed AWS API request", the credential scope
    (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html).

    Raises:
        ApiError: InvalidSignatureException.
    """
    signed_for = _SCOPE.search(authorization)
    if signed_for is not None and signed_for[1] != region:
        raise ApiError(
            "InvalidSignatureException",
            f"Credential should be scoped to a valid region: this is {region},"
            f" not {signed_for[1]!r:.60}",
        )


def _check_present(request: web.BaseRequest) -> None:
    """Drop a request whose client has given up meanwhile, as the end of a signature would on AWS.

    A busy machine must not carry out a write long after `signature_lifetime`, when the ledger takes
    it for dead.

    Raises:
        NoAnswer: the client has gone.
    """
    if request.transport is None or request.transport.is_closing():
        raise ConnectionDropped(hold=False)


async def _close(request: web.BaseRequest, *, hold: bool) -> None:
    transport = request.transport
    # aiohttp reports a client's leaving only by cancelling handlers, and ours must finish.
    while hold and transport is not None and not transport.is_closing():  # noqa: ASYNC110
        await asyncio.sleep(HOLD_CHECK_SECONDS)
    if transport is not None:
        transport.abort()


def control_handler(control: Control) -> Handler:
    """Return what answers the control port: GET /status, POST /pause, /heal, /lag, /clock, ..."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        name = request.path.strip("/") or "status"
        if (request.method == "GET") != (name == "status"):
            return _answer({"error": f"{request.method} {request.path} is not offered"}, 405)
        try:
            body = json.loads(await request.read() or b"{}")
            return _answer(await control(name, body))
        except (LocalTableError, ValueError, KeyError, TypeError) as error:
            return _answer({"error": str(error)}, 400)

    return handle


class Listeners:
    """Open ports on 127.0.0.1, each with its own handler."""

    def __init__(self) -> None:
        self._open: list[tuple[asyncio.Server, web.Server]] = []

    async def listen(self, port: int, handler: Handler) -> str:
        """Open a port, 0 for a free one, and return its URL.

        Raises:
            LocalTableError: the port is taken.
        """
        loop = asyncio.get_running_loop()
        web_server = web.Server(
            handler,
            request_factory=lambda message, payload, protocol, writer, task: web.BaseRequest(
                message, payload, protocol, writer, task, loop, client_max_size=BODY_BYTES_MAX
            ),
            access_log=None,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
        )
        try:
            server = await loop.create_server(web_server, "127.0.0.1", port)
        except OSError as error:
            raise LocalTableError(
                f"port {port} of 127.0.0.1 cannot be opened: {error.strerror}"
            ) from None
        self._open.append((server, web_server))
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """Close all ports and drop unfinished answers."""
        for server, _ in self._open:
            server.close()
        await asyncio.gather(
            *(web_server.shutdown(STOP_SECONDS_MAX) for _, web_server in self._open)
        )
        self._open.clear()

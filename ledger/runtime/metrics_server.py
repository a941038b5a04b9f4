"""The metrics page of a process, and `/healthz`: whether its loop and its work make progress.

A separate thread answers, so an answer alone says nothing about the process: `/healthz` checks the
heartbeat that the event loop leaves, and how long the current work has taken.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

import anyio

from ledger.core.errors import LedgerError
from ledger.runtime.connections import (
    HEAD_BYTES_MAX,
    HEAD_SECONDS_MAX,
    HEADERS_MAX,
    STALL_SECONDS_MAX,
    Bounds,
    Connections,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

CLOSE_SECONDS_MAX = 5.0
CONNECTIONS = Bounds(in_all=64, of_address=16)
"""How many may ask at a time: a probe and a scraper every few seconds."""
BEAT_SECONDS = 1.0
"""How often a loop leaves its heartbeat."""
LOOP_SECONDS_MAX = 15.0
WORK_SECONDS_MAX = 3600.0
"""The maximum age of a healthy process's heartbeat, and the longest duration of its work."""


class Liveness:
    """Whether a process makes progress, by traces its event loop leaves; read from any thread.

    Times are seconds of `monotonic`, a clock that only goes forward.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._beat = clock()
        self._began: float | None = None
        self._ended: float | None = None

    def beat(self) -> None:
        """Leave a heartbeat: the loop runs."""
        self._beat = self._clock()

    def begin(self) -> None:
        """Note that work has begun, such as a pass."""
        self._began = self._clock()

    def end(self) -> None:
        """Note that it has ended, with or without an error."""
        self._began, self._ended = None, self._clock()

    def ages(self) -> dict[str, float | None]:
        """Return the age of the heartbeat, the age of current work, and when work last ended."""
        return {
            "loop_age_seconds": self._since(self._beat),
            "work_seconds": self._since(self._began),
            "last_work_age_seconds": self._since(self._ended),
        }

    def trouble(self) -> str:
        """Return why the process must be restarted; empty if it need not be."""
        now, began = self._clock(), self._began
        if now - self._beat > LOOP_SECONDS_MAX:
            return f"the event loop has left no heartbeat for {LOOP_SECONDS_MAX:g} s"
        if began is not None and now - began > WORK_SECONDS_MAX:
            return f"work has not ended in {WORK_SECONDS_MAX:g} s"
        return ""

    def _since(self, moment: float | None) -> float | None:
        return None if moment is None else self._clock() - moment


async def keep_beating(health: Liveness) -> None:
    """Leave a heartbeat of this loop each second, until cancelled."""
    while True:
        health.beat()
        await anyio.sleep(BEAT_SECONDS)


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """A running metrics page; `port` is the one in use. Closing it again does nothing."""

    host: str
    port: int
    close: Callable[[], None]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve_metrics(
    port: int,
    registry: "CollectorRegistry",
    host: str = "127.0.0.1",
    *,
    health: Liveness | None = None,
) -> MetricsServer:
    """Serve a registry's metrics over HTTP in a daemon thread; port 0 takes any free one.

    With `health` `/healthz` answers in JSON: 200 while the process makes progress, else 503 and
    why.

    Raises:
        LedgerError: the port is taken or not allowed, or the host is not an address of this
            machine.
    """
    # Imported here: not every program needs the client library.
    from prometheus_client import make_wsgi_app  # noqa: PLC0415

    listener = _Listener(_with_health(make_wsgi_app(registry), health), host, port)
    thread = threading.Thread(
        target=asyncio.run, args=(listener.run(),), name="metrics", daemon=True
    )
    thread.start()
    try:
        in_use = listener.port.result()
    except (OSError, OverflowError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise LedgerError(
            f"metrics cannot be served on {host} port {port}: {reason.lower()}; choose another port"
        ) from error

    def close() -> None:
        listener.end()
        thread.join(CLOSE_SECONDS_MAX)

    return MetricsServer(host, in_use, close)


_LONG_HEAD = "431 Request Header Fields Too Large"


class _Listener:
    """Answers one request on each connection, of which there are few, each for a short time."""

    def __init__(self, app: Any, host: str, port: int) -> None:
        self._app = app
        self._place = host, port
        self._connections = Connections[asyncio.StreamWriter](CONNECTIONS)
        self.port = Future[int]()

    async def run(self) -> None:
        """Listen until the end; `port` has the port, or why there is none."""
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        host, port = self._place
        try:
            server = await asyncio.start_server(self._answer, host, port, limit=HEAD_BYTES_MAX)
        except (OSError, OverflowError) as error:
            self.port.set_exception(error)
            return
        self.port.set_result(server.sockets[0].getsockname()[1])
        await self._ended.wait()
        server.close()

    def end(self) -> None:
        """End, from another thread; nothing happens if it has."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._ended.set)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        for leaving in self._connections.enter(writer, peer[0] if peer else None):
            leaving.transport.abort()
        try:
            async with asyncio.timeout(HEAD_SECONDS_MAX):
                writer.write(await self._answer_of(reader))
            async with asyncio.timeout(STALL_SECONDS_MAX):
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # it left, or was late (a TimeoutError is an OSError), or all ends
        finally:
            writer.transport.abort()
            self._connections.leave(writer)

    async def _answer_of(self, reader: asyncio.StreamReader) -> bytes:
        """Read the head of a request; return the answer."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _message(_LONG_HEAD, (), b"")
        request, *lines = head.decode("latin-1").split("\r\n")
        if len(lines) > HEADERS_MAX + 2:
            return _message(_LONG_HEAD, (), b"")
        method, _, target = request.partition(" ")
        path, _, query = target.partition(" ")[0].partition("?")
        if method not in {"GET", "HEAD"}:
            return _message("400 Bad Request", (), b"")
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "QUERY_STRING": query}
        for line in lines:
            name, _, value = line.partition(":")
            environ[f"HTTP_{name.strip().upper().replace('-', '_')}"] = value.strip()
        started: list[Any] = []
        body = b"".join(self._app(environ, lambda *start: started.extend(start)))
        return _message(started[0], started[1], body if method == "GET" else b"")


def _message(status: str, headers: Iterable[tuple[str, str]], body: bytes) -> bytes:
    named = {name.lower(): value for name, value in headers}
    named |= {"content-length": str(len(body)), "connection": "close", "cache-control": "no-store"}
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _with_health(metrics: Any, health: Liveness | None) -> Any:
    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if health is None or environ.get("PATH_INFO") != "/healthz":
            answered: Iterable[bytes] = metrics(environ, start_response)
            return answered
        trouble = health.trouble()
        body = json.dumps({"status": trouble or "ok", **health.ages()}).encode() + b"\n"
        status = "503 Service Unavailable" if trouble else "200 OK"
        start_response(status, [("Content-Type", "application/json")])
        return [body]

    return answer

"""The metrics page of a process, and `/healthz`: whether its loop and its work make progress.

A separate thread answers, so an answer alone says nothing about the process: `/healthz` checks the
heartbeat that the event loop leaves, and how long the current work has taken.
"""

import json
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from time import monotonic
from typing import TYPE_CHECKING, Any, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import anyio

from ledger.core.errors import LedgerError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

CLOSE_SECONDS_MAX = 5.0
BEAT_SECONDS = 1.0
"""How often a loop leaves its heartbeat."""
LOOP_SECONDS_MAX = 15.0
WORK_SECONDS_MAX = 3600.0
"""The maximum age of a healthy process's heartbeat, and the longest duration of its work."""


class Health:
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


async def keep_beating(health: Health) -> None:
    """Leave a heartbeat of this loop each second, until cancelled."""
    while True:
        health.beat()
        await anyio.sleep(BEAT_SECONDS)


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """A running metrics page; `port` is the one in use."""

    host: str
    port: int
    close: Callable[[], None]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Log nothing: probes and scrapes come every few seconds."""


def serve(
    port: int,
    registry: "CollectorRegistry",
    host: str = "127.0.0.1",
    *,
    health: Health | None = None,
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

    try:
        server = make_server(
            host,
            port,
            _with_health(make_wsgi_app(registry), health),
            server_class=_server_class(host, port),
            handler_class=_Handler,
        )
    except (OSError, OverflowError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise LedgerError(
            f"metrics cannot be served on {host} port {port}: {reason.lower()}; choose another port"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    return MetricsServer(host, server.server_port, _closer(server, thread))


def _server_class(host: str, port: int) -> type[WSGIServer]:
    """Return a server of the host's address family.

    Raises:
        OSError: the name cannot be resolved.
    """
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    return type("_FamilyServer", (_Server,), {"address_family": family})


def _with_health(metrics: Any, health: Health | None) -> Any:
    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if health is None or environ.get("PATH_INFO") != "/healthz":
            answered: Iterable[bytes] = metrics(environ, start_response)
            return answered
        trouble = health.trouble()
        body = json.dumps({"status": trouble or "ok", **health.ages()}).encode() + b"\n"
        status = "503 Service Unavailable" if trouble else "200 OK"
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response(status, headers)
        return [body]

    return answer


def _closer(server: WSGIServer, thread: threading.Thread) -> Callable[[], None]:
    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join(CLOSE_SECONDS_MAX)

    return close

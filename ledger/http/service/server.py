"""One process of the service: uvicorn around the application, and how it shuts down.

::

    SIGTERM ── /readyz answers 503 ── drain_seconds ── no new connections ── requests end ── exit
               answers close their connections        idle ones are closed   stop_seconds at most
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from random import Random
from typing import Any

import anyio
import uvicorn
from prometheus_client import CollectorRegistry

from ledger.core.errors import LedgerError
from ledger.http.service.access.access import Access
from ledger.http.service.app import instance_app
from ledger.http.service.context import Context
from ledger.http.service.metrics import ServiceMetrics
from ledger.http.service.options import ServiceOptions
from ledger.http.service.protocol import BoundedProtocol
from ledger.http.service.transports import PORTION_BYTES
from ledger.http.service.turns import ConnectionTurns
from ledger.http.wire.problems import Kind
from ledger.runtime.clock import Clock
from ledger.runtime.connections import Bounds, Connections
from ledger.runtime.gc import give_memory_back, is_gc_tuned, keep_young_few, tune_gc
from ledger.runtime.signals import stopped_by_signals
from ledger.runtime.tasks import background_tasks, run_all
from ledger.session.ledger import Ledger

STOP_SECONDS_MAX = 30
"""How long requests under way may take once no new ones come."""
KEEP_ALIVE_SECONDS = 75
"""How long an idle connection is kept: longer than load balancers (60 s) and clients do, so that
they close it, and none is closed here with a request on the way to it."""
BACKLOG = 2_048
LOOK_SECONDS = 1.0
"""How often connections are looked at for being late."""


@dataclass(frozen=True, slots=True)
class ServerInstance:
    """One region's service: a ledger that is not open yet, and where it listens."""

    ledger: Ledger
    options: ServiceOptions
    registry: CollectorRegistry
    on_listening: Callable[[int], None]


async def serve(
    instances: Sequence[ServerInstance], *, access: Access, clock: Clock, randomness: Random
) -> None:
    """Serve until a signal, then shut down in order; a second signal changes nothing.

    Several instances are for trials: a process serves one region.

    Raises:
        LedgerError: a ledger cannot be opened, a port is taken, or a TLS file is no such file.
    """
    running = [Running(instance, access, clock, randomness) for instance in instances]

    def leave(_: object) -> None:
        for service in running:
            service.context.leave()

    async with stopped_by_signals(leave, lambda _: None), background_tasks() as tasks:
        tasks.start_soon(access.keep)
        tasks.start_soon(keep_young_few)
        tasks.start_soon(give_memory_back)
        await run_all([service.run for service in running], at_once=len(running))


class Running:
    """An instance while it runs."""

    def __init__(
        self, instance: ServerInstance, access: Access, clock: Clock, randomness: Random
    ) -> None:
        app, self.context = instance_app(
            instance.ledger,
            registry=instance.registry,
            access=access,
            clock=clock,
            randomness=randomness,
            options=instance.options,
        )
        self._ledger = instance.ledger
        self._options = instance.options
        bounds = Bounds(instance.options.connections, instance.options.of_address)
        self._server = _Server(
            _config(app, instance.options),
            bounds,
            instance.on_listening,
            ServiceMetrics.of(instance.registry).refused,
        )

    async def run(self) -> None:
        """Serve until the instance has left.

        Raises:
            LedgerError: as `serve`.
        """
        host, port = self._options.host, self._options.port
        async with self._ledger, self.context.fleet, background_tasks() as tasks:
            tasks.start_soon(_shut_down, self.context, self._server, self._options.drain_seconds)
            tasks.start_soon(self._server.end_late_connections)
            try:
                await self._server.serve()
            except OSError:
                raise LedgerError(
                    f"cannot listen on {host} port {port}: it is taken or not allowed; choose"
                    " another port"
                ) from None
            finally:
                self._server.close()


async def _shut_down(context: Context, server: uvicorn.Server, drain_seconds: float) -> None:
    """Wait until the instance leaves, then let it drain."""
    await context.left()
    await anyio.sleep(drain_seconds)
    context.drain()
    server.should_exit = True


class _Server(uvicorn.Server):
    """uvicorn's server with bounded connections; it says when it listens, and takes no signals."""

    def __init__(
        self,
        config: uvicorn.Config,
        bounds: Bounds,
        on_listening: Callable[[int], None],
        on_refused: Callable[[Kind], None],
    ) -> None:
        super().__init__(config)
        self.servers = []
        self._connections = Connections[BoundedProtocol](bounds)
        self._on_listening = on_listening
        self._on_refused = on_refused

    async def startup(self, sockets: Any = None) -> None:  # noqa: ARG002 (as uvicorn calls it)
        """Listen.

        Raises:
            OSError: the port is taken or not allowed.
        """
        if is_gc_tuned():  # a collection, at each client that is opened, passes over what is there
            tune_gc()
        loop = asyncio.get_running_loop()
        self._turns = ConnectionTurns.of(loop.call_soon)
        listener = await loop.create_server(
            self._connection, self.config.host, self.config.port, backlog=BACKLOG
        )
        for one in listener.sockets:  # connections have its options
            _hold_little(one)
        self.servers = [listener]
        self.started = True
        self._on_listening(listener.sockets[0].getsockname()[1])

    def _connection(self) -> BoundedProtocol:
        return BoundedProtocol(
            self.config,
            self.server_state,
            connections=self._connections,
            turns=self._turns,
            on_refused=self._on_refused,
        )

    async def end_late_connections(self) -> None:
        """End connections whose callers let them wait for too long, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            await anyio.sleep(LOOK_SECONDS)
            for connection in self._connections.all():
                connection.end_if_late(clock())

    def close(self) -> None:
        """Listen no more, and cut off what is left, also where serving was cancelled."""
        for listener in self.servers:
            listener.close()
        for connection in self._connections.all():
            connection.end()

    def capture_signals(self) -> Any:
        """Take no signals: `stopped_by_signals` does."""
        return nullcontext()


def _hold_little(listener: socket.socket) -> None:
    """Let the system say that a caller takes nothing before it holds megabytes of an answer.

    What the caller has been sent and has room for is not bounded by it, so no answer is slower
    (https://www.kernel.org/doc/html/latest/networking/ip-sysctl.html, tcp_notsent_lowat).
    """
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, PORTION_BYTES)


def _config(app: Any, options: ServiceOptions) -> uvicorn.Config:
    """Return how uvicorn runs.

    Raises:
        LedgerError: a TLS file cannot be used.
    """
    tls: dict[str, Any] = {}
    if options.tls is not None:
        tls = {"ssl_certfile": str(options.tls.certificate), "ssl_keyfile": str(options.tls.key)}
        if options.tls.client_authority is not None:
            tls["ssl_ca_certs"] = str(options.tls.client_authority)
            tls["ssl_cert_reqs"] = ssl.CERT_REQUIRED
    config = uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        lifespan="off",
        log_config=None,
        log_level="error",  # its warnings are of requests, which anybody may send
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        ws="none",
        http="httptools",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS_MAX,
        **tls,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise LedgerError(f"TLS cannot be used: {error.strerror or error}") from None
    return config

"""One process of the service: uvicorn around the application, and how it shuts down.

::

    SIGTERM ── /readyz answers 503 ── drain_seconds ── no new connections ── requests end ── exit
               answers close their connections        idle ones are closed   stop_seconds at most
"""

import logging
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
from ledger.ledger import Ledger
from ledger.runtime.clock import Clock
from ledger.runtime.signals import stopped_by_signals
from ledger.runtime.tasks import background_tasks, run_all
from ledger.service.access.port import Access
from ledger.service.context import Context
from ledger.service.instance import instance_app
from ledger.service.options import ServiceOptions

STOP_SECONDS_MAX = 30
"""How long requests under way may take once no new ones come."""
KEEP_ALIVE_SECONDS = 75
"""How long an idle connection is kept: longer than load balancers (60 s) and clients do, so that
they close it, and none is closed here with a request on the way to it."""
BACKLOG = 2_048
CONNECTIONS_MAX = 4_096
"""Connections and tasks of one process; further ones are answered 503 by uvicorn."""

uvicorn_log = logging.getLogger("uvicorn.error")


@dataclass(frozen=True, slots=True)
class Instance:
    """One region's service: a ledger that is not open yet, and where it listens."""

    ledger: Ledger
    options: ServiceOptions
    registry: CollectorRegistry
    on_listening: Callable[[int], None]


async def serve(
    instances: Sequence[Instance], *, access: Access, clock: Clock, randomness: Random
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

    async with stopped_by_signals(leave, lambda _: None):
        await run_all([service.run for service in running], at_once=len(running))


class Running:
    """An instance while it runs."""

    def __init__(
        self, instance: Instance, access: Access, clock: Clock, randomness: Random
    ) -> None:
        app, self.context = instance_app(
            instance.ledger,
            registry=instance.registry,
            access=access,
            clock=clock,
            randomness=randomness,
            body_max=instance.options.body_max,
            loopback_only=instance.options.loopback_only,
        )
        self._ledger = instance.ledger
        self._options = instance.options
        self._server = _Server(_config(app, instance.options), instance.on_listening)

    async def run(self) -> None:
        """Serve until the instance has left.

        Raises:
            LedgerError: as `serve`.
        """
        host, port = self._options.host, self._options.port
        async with self._ledger, self.context.fleet, background_tasks() as tasks:
            tasks.start_soon(_shut_down, self.context, self._server, self._options.drain_seconds)
            try:
                await self._server.serve()
            except SystemExit:  # as uvicorn ends where it cannot listen
                raise LedgerError(
                    f"cannot listen on {host} port {port}: it is taken or not allowed; choose"
                    " another port"
                ) from None


async def _shut_down(context: Context, server: uvicorn.Server, drain_seconds: float) -> None:
    """Wait until the instance leaves, then let it drain."""
    await context.left()
    await anyio.sleep(drain_seconds)
    context.drain()
    server.should_exit = True


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it listens, and leaves signals to us."""

    def __init__(self, config: uvicorn.Config, on_listening: Callable[[int], None]) -> None:
        super().__init__(config)
        self._on_listening = on_listening

    async def startup(self, sockets: Any = None) -> None:
        """Listen; why that fails is told by the program that runs it, not by a log's line."""
        uvicorn_log.addFilter(_is_no_failure)
        try:
            await super().startup(sockets)
        finally:
            uvicorn_log.removeFilter(_is_no_failure)
        if self.started:
            self._on_listening(self.servers[0].sockets[0].getsockname()[1])

    def capture_signals(self) -> Any:
        """Take no signals: `stopped_by_signals` does."""
        return nullcontext()


def _is_no_failure(record: logging.LogRecord) -> bool:
    return not isinstance(record.msg, OSError)


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
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        ws="none",
        http="httptools",
        backlog=BACKLOG,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS_MAX,
        **tls,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise LedgerError(f"TLS cannot be used: {error.strerror or error}") from None
    return config

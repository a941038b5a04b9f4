"""An application behind uvicorn on a port of this machine, in the test's own event loop."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import uvicorn

from ledger.runtime.tasks import background_tasks


class _Server(uvicorn.Server):
    """uvicorn's server, which leaves signals alone and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_listening = anyio.Event()
        self.has_ended = anyio.Event()

    async def startup(self, sockets: Any = None) -> None:
        """Listen."""
        await super().startup(sockets)
        self.is_listening.set()

    async def serve_on(self, listener: socket.socket) -> None:
        """Serve until `should_exit`."""
        sockets = [listener]
        config = self.config
        config.load()
        self.lifespan = config.lifespan_class(config)
        await self.startup(sockets)
        await self.main_loop()
        await self.shutdown(sockets)
        self.has_ended.set()


@asynccontextmanager
async def listening(app: Any) -> AsyncIterator[str]:
    """Serve an application, and yield its URL."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    config = uvicorn.Config(
        app, lifespan="off", log_config=None, access_log=False, ws="none",
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = _Server(config)
    with listener:
        async with background_tasks() as tasks:
            tasks.start_soon(server.serve_on, listener)
            await server.is_listening.wait()
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            server.should_exit = True
            await server.has_ended.wait()

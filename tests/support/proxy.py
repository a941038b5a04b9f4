"""A small HTTP proxy on 127.0.0.1: tunnels by CONNECT, and forwards what names its target whole."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

HEAD_BYTES_MAX = 64 * 1024
CHUNK_BYTES = 64 * 1024


@dataclass
class Proxy:
    """Notes the first line and the credentials of each connection; `refuses` answers 407."""

    port: int = 0
    refuses: bool = False
    asked: list[str] = field(default_factory=list)
    credentials: list[str] = field(default_factory=list)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._serve(reader, writer)
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.asked.append(first)
        self.credentials += [line for line in lines if line.startswith("Proxy-Authorization")]
        if self.refuses:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return
        method, target, _ = first.split(" ")
        tunnel = method == "CONNECT"
        host = urlsplit(f"//{target}" if tunnel else target)
        far_reader, far_writer = await asyncio.open_connection(host.hostname, host.port)
        if tunnel:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            far_writer.write(head.replace(target.encode(), (host.path or "/").encode(), 1))
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    finally:
        writer.close()


@asynccontextmanager
async def running(
    *, refuses: bool = False, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Proxy]:
    """Run a proxy on any free port."""
    proxy = Proxy(refuses=refuses)
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0, limit=HEAD_BYTES_MAX, ssl=tls)
    proxy.port = server.sockets[0].getsockname()[1]
    async with server:
        yield proxy

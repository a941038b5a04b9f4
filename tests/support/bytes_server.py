"""A server on 127.0.0.1 that answers each request with bytes that a test wrote by hand."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
CLOSE = b""
"""Instead of an answer: the connection is closed."""


@dataclass
class BytesServer:
    """Gives its answers one a request, over any connections; notes which connection asked."""

    answers: list[bytes]
    port: int = 0
    asked: list[int] = field(default_factory=list)
    connections: int = 0
    early_until: asyncio.Event | None = None
    """If set, the first request is answered by its head alone; its body is read after this."""

    @property
    def endpoint(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends, or the answers do."""
        self.connections += 1
        number = self.connections
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while self.answers:
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = _LENGTH.search(head)
                    early = self.early_until if not self.asked else None
                    if early is None:
                        await reader.readexactly(int(length[1]) if length else 0)
                    self.asked.append(number)
                    answer = self.answers.pop(0)
                    if answer == CLOSE:
                        return
                    writer.write(answer)
                    await writer.drain()
                    if early is not None:
                        await early.wait()
                        await reader.readexactly(int(length[1]) if length else 0)
        finally:
            writer.close()


@asynccontextmanager
async def answering_bytes(
    answers: Sequence[bytes], tls: ssl.SSLContext | None = None
) -> AsyncIterator[BytesServer]:
    """Run such a server on any free port, by TLS if a context is given."""
    server = BytesServer([*answers])
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield server

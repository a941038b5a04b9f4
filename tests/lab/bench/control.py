"""The stub endpoint as seen by the bench: start it, reset it, ask what arrived."""

import http.client
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from lab.harness.processes import ManagedProcess, module_words
from ledger.core.errors import LedgerError

ANSWER_SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Arrived:
    """What the stub has answered since it was reset, and its processor time since its start."""

    requests: int
    items: int
    sum: int
    cpu_seconds: float


class StubControl:
    """Controls a running stub."""

    def __init__(self, url: str) -> None:
        self.url = url

    def reset(self, *, service_seconds: float = 0.0) -> None:
        """Forget what has arrived; from now on answer after this time."""
        self._ask("Reset", {"service_seconds": service_seconds})

    def arrived(self) -> Arrived:
        """Return what has arrived."""
        return Arrived(**self._ask("State", {}))

    def _ask(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        address = urlsplit(self.url).netloc
        connection = http.client.HTTPConnection(address, timeout=ANSWER_SECONDS_MAX)
        try:
            headers = {"X-Amz-Target": f"Stub.{name}"}
            connection.request("POST", "/", json.dumps(body), headers)
            found: dict[str, Any] = json.loads(connection.getresponse().read())
        except OSError as error:
            raise LedgerError(f"the stub endpoint at {self.url} does not answer: {error}") from None
        finally:
            connection.close()
        return found


@asynccontextmanager
async def running_stub(*, core: int | None = None) -> AsyncIterator[StubControl]:
    """Run a stub in a process of its own until the block ends.

    Raises:
        LedgerError: it did not start.
    """
    with TemporaryDirectory(prefix="ledger-stub-") as folder:
        words = module_words("lab.bench.stub")
        process = ManagedProcess("stub", words, log=Path(folder) / "stub.log", core=core)
        async with process.started():
            url = await anext(process.lines(), b"")
            if not url:
                raise LedgerError(f"the stub endpoint did not start: {process.last_words()}")
            yield StubControl(url.decode())

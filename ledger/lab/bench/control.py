"""The stub endpoint as the bench holds it: start it, reset it, ask what arrived."""

import http.client
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ledger.core.errors import LedgerError
from ledger.lab.bench.processes import start, stop

ANSWER_SECONDS_MAX = 120.0
"""Preparing a million entries takes a while."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """What the stub has answered since it was reset, and the processor time it ever took."""

    requests: dict[str, int]
    items: int
    sum: int
    cpu_seconds: float
    partitions: dict[str, int] = field(default_factory=dict)
    """Items by partition, where the stub was asked to count them."""

    @property
    def requests_total(self) -> int:
        """All requests of the API."""
        return sum(count for name, count in self.requests.items() if name not in {"state", "reset"})


class StubControl:
    """Tells a running stub what to do."""

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "", parts.port or 0

    def reset(self, *, service_seconds: float = 0.0, counts_partitions: bool = False) -> None:
        """Forget everything; from now on answer after this time, counting by partition or not."""
        wanted = {"service_seconds": service_seconds, "counts_partitions": counts_partitions}
        self._ask("Reset", wanted)

    def arrived(self) -> Arrived:
        """Return what has arrived."""
        return Arrived(**self._ask("State", {}))

    def _ask(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=ANSWER_SECONDS_MAX)
        try:
            headers = {"X-Amz-Target": f"Stub.{name}"}
            connection.request("POST", "/", json.dumps(body), headers)
            found: dict[str, Any] = json.loads(connection.getresponse().read())
        except OSError as error:
            raise LedgerError(f"the stub endpoint at {self.url} does not answer: {error}") from None
        finally:
            connection.close()
        return found


@contextmanager
def running_stub(*, core: int | None = None) -> Iterator[StubControl]:
    """Run a stub in a process of its own until the block ends.

    Raises:
        LedgerError: it did not start.
    """
    process = start("ledger.lab.bench.stub", core=core)
    try:
        url = _first_line(process)
        yield StubControl(url)
    finally:
        stop(process)


def _first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None  # noqa: S101 (it was asked for as a pipe)
    line = process.stdout.readline().strip()
    if not line.startswith("http"):
        raise LedgerError("the stub endpoint did not start")
    return line

"""The demo's workers as the session holds them: a process for each lane, and how far it is."""

import json
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from subprocess import PIPE
from typing import Any, NamedTuple

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

import ledger
from ledger.core.errors import LedgerError
from ledger.lab.demos.pipeline.latency import Latencies
from ledger.lab.demos.pipeline.worker import Job

LINE_BYTES_MAX = 1 << 16
STOP_SECONDS_MAX = 20.0


class Sent(NamedTuple):
    """Messages that were appended to a lane at once: up to where, how many, and when."""

    upto: int
    messages: int
    at: float


class Member:
    """One lane: its file, its worker's process, and what the worker has said."""

    def __init__(self, job: Job, process: Process, latencies: Latencies) -> None:
        self.job = job
        self.sent = 0
        self.counted = 0
        self.counted_at = 0.0
        self.told: dict[str, Any] = {}
        self._process = process
        self._latencies = latencies
        self._waiting: deque[Sent] = deque()
        self._file = Path(job.file).open("ab", buffering=0)  # noqa: SIM115 (see `close`)
        self._bytes = 0

    def append(self, lines: Sequence[bytes], at: float) -> None:
        """Append messages to the lane."""
        content = b"".join(lines)
        self._bytes += len(content)
        self.sent += len(lines)
        self._waiting.append(Sent(self._bytes, len(lines), at))
        self._file.write(content)

    def close(self) -> None:
        """Close the lane's file."""
        self._file.close()

    async def complete(self) -> None:
        """Say that no more will come."""
        self.close()
        if self._process.stdin is not None:
            await self._process.stdin.send(b"end\n")

    async def listen(self, changed: Callable[[], None]) -> None:
        """Follow what the worker says until it has ended.

        Raises:
            LedgerError: it ended before it was through.
        """
        if self._process.stdout is None:
            raise AssertionError("it was asked for as a pipe")
        lines = BufferedByteReceiveStream(self._process.stdout)
        while not self.told:
            try:
                said = json.loads(await lines.receive_until(b"\n", LINE_BYTES_MAX))
            except (anyio.IncompleteRead, anyio.EndOfStream):
                said = {"failed": "it ended without a word"}
            if "failed" in said:
                raise LedgerError(
                    f"the worker of {self.job.region}/{self.job.lane}: {said['failed']}"
                )
            if "counted" in said:
                self._count(said["counted"], said["at"])
            self.told = said.get("ended", {})
            changed()

    def _count(self, upto: int, at: float) -> None:
        """Take note that the totals show the lane up to here."""
        while self._waiting and self._waiting[0].upto <= upto:
            sent = self._waiting.popleft()
            self.counted += sent.messages
            self._latencies.add(at - sent.at, sent.messages)
        self.counted_at = at


@asynccontextmanager
async def open_crew(jobs: Sequence[Job], latencies: Latencies) -> AsyncIterator[list[Member]]:
    """Start a worker for each job; they end with the block."""
    parent = str(Path(ledger.__file__).parent.parent)
    search = os.pathsep.join(filter(None, (parent, os.environ.get("PYTHONPATH"))))
    async with AsyncExitStack() as stack:
        members = []
        for job in jobs:
            words = [
                sys.executable,
                "-m",
                "ledger.lab.demos.pipeline.worker",
                json.dumps(asdict(job)),
            ]
            process = await anyio.open_process(
                words,
                stdin=PIPE,
                stdout=PIPE,
                stderr=None,
                env={**os.environ, "PYTHONPATH": search},
            )
            stack.push_async_callback(_end, process)
            members.append(Member(job, process, latencies))
            stack.callback(members[-1].close)
        yield members


async def _end(process: Process) -> None:
    with anyio.CancelScope(shield=True):
        if process.stdin is not None:
            await process.stdin.aclose()
        with anyio.move_on_after(STOP_SECONDS_MAX) as waiting:
            await process.wait()
        if waiting.cancelled_caught:
            process.kill()
            await process.wait()
        if process.stdout is not None:
            await process.stdout.aclose()
